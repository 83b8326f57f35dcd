"""Model files: round trips, faults, and where a model is looked for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pddplan.errors import InputError
from pddplan.performance.parameters import total_parameters
from pddplan.profiles import lookup
from pddplan.profiles.hf_config import Import, config_to_llm
from pddplan.profiles.llm_profile import dump_llm, llm_ids, llm_of, load_llm
from pddplan.profiles.yaml_source import loads

CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "vocab_size": 1000,
    "torch_dtype": "bfloat16",
}
PROFILE = """\
schema: model/1
name: Mine
sources:
  me: {kind: derived, title: my own design}
model:
  architecture:
    value: llama
    source: me
    hidden: 64
    vocab: 1000
    layers:
      - count: 2
        attention: {kind: grouped, heads: 8, kv_heads: 2, head_dim: 16, v_head_dim: 16}
        feed_forward: {kind: moe, experts: 8, top_k: 2, expert_width: 32}
      - count: 1
        attention: {kind: kda, heads: 4, key_dim: 8, value_dim: 8, key_heads: 4}
    weights: {experts: fp8, dense: {dtype: int4, bytes_per_value: 0.52, compute_dtype: bf16}}
"""


def faults(text: str) -> str:
    with pytest.raises(InputError) as caught:
        llm_of(loads(text, name="my.yaml"), llm_id="my")
    return str(caught.value)


def test_a_profile_by_hand() -> None:
    llm = llm_of(loads(PROFILE, name="my.yaml"), llm_id="my")
    assert llm.layer_count == 3
    assert llm.is_moe
    assert llm.weights.experts.dtype == "fp8"
    assert llm.weights.dense.bytes_per_value == 0.52
    assert llm.weights.attention.dtype == "bf16"
    assert total_parameters(llm) > 0


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("kv_heads: 2", "kv_heads: 3"), "heads must be a multiple of kv_heads"),
        (("top_k: 2", "top_k: 9"), "top_k must not be larger than experts"),
        (("v_head_dim: 16}", "v_head_dim: 16, window: 8, chunk: 8}"), "a window and a chunk at once"),
        (("kind: grouped", "kind: groped"), "my.yaml:13: model.architecture.layers[0].attention"),
        (("heads: 8", "heads: eight"), "must be a whole number, got text 'eight'"),
        (("expert_width: 32", "width: 32"), "unknown key 'width'"),
        (("experts: fp8", "experts: fp9"), "weights.experts"),
        (("source: me", "source: you"), "unknown source 'you'"),
        (("    hidden: 64\n", ""), "model.architecture.hidden"),
    ],
)
def test_faults_name_file_line_and_key(change: tuple[str, str], says: str) -> None:
    assert says in faults(PROFILE.replace(*change))


def test_an_import_reads_back_as_the_same_record() -> None:
    imported = config_to_llm(CONFIG, source="config.json", model_id="mine")
    text = dump_llm(imported, source_title="t", published={"published_parameters": (7e7, "card")})
    again = llm_of(loads(text, name="mine.yaml"), llm_id="mine")
    assert again.layers == imported.llm.layers
    assert again.weights == imported.llm.weights
    assert again.published_parameters == 7e7


def test_every_bundled_model_is_named_and_loads() -> None:
    ids = llm_ids()
    assert len(ids) >= 60
    for name in ids:
        llm = load_llm(name)
        assert llm.id == name
        assert llm.name
        assert llm.provenance


def test_every_bundled_model_survives_being_written_and_read() -> None:
    for name in llm_ids():
        llm = load_llm(name)
        keys = ("published_parameters", "published_active_parameters")
        text = dump_llm(
            Import(llm, assumed={"head_dim": 64}, notes=("as bundled",)),
            source_title="t",
            read_on="2026-11-30",
            published={key: (getattr(llm, key), "card") for key in keys if getattr(llm, key) is not None},
        )
        assert llm_of(loads(text, name=f"{name}.yaml"), llm_id=name) == llm, name


@pytest.mark.parametrize(
    ("asked", "found"),
    [("DeepSeek-V3", "deepseek-v3"), ("kimi-k2.6", "kimi-k2.5"), ("llama-3.3-70b", "llama-3.1-70b"),
     ("Qwen/Qwen3-32B", "qwen3-32b")],
)  # fmt: skip
def test_other_names(asked: str, found: str) -> None:
    assert load_llm(asked).id == found


def test_unknown_model_names_the_nearest() -> None:
    with pytest.raises(InputError, match="did you mean 'deepseek-v3'"):
        load_llm("depseek-v3")


def test_configs_in_a_users_folder(tmp_path: Path) -> None:
    (tmp_path / "flat.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    (tmp_path / "nested").mkdir()
    (tmp_path / "nested" / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    (tmp_path / "mine.yaml").write_text(PROFILE, encoding="utf-8")
    with lookup.use_profiles([tmp_path]):
        assert load_llm("flat").hidden == 1024
        assert load_llm("nested").id == "nested"
        assert load_llm("mine").hidden == 64
    assert load_llm(tmp_path / "flat.json").hidden == 1024
    assert load_llm(tmp_path / "mine.yaml").hidden == 64
