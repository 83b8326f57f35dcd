"""Folders of profiles as people have them: tables and configs under many names, at any depth."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pddplan.errors import InputError
from pddplan.performance.parameters import total_parameters
from pddplan.profiles import folder_index
from pddplan.profiles.catalog import ProfileCatalog

CHIPS = (
    "chip,vendor,bf16_tflops,fp8_tflops,mem_gb,mem_bw_gbs,scaleup_gbs_uni,scaleup_domain\n"
    "foo_x1,Foo,400,800,96,4000,300,8\n"
)
LLMS = (
    "model,reference_config,n_layers,hidden,n_heads,n_kv_heads,head_dim,ffn_inter,vocab\n"
    "bar-9b,,32,4096,32,8,128,14336,128256\n"
)
CONFIG = {
    "model_type": "llama", "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 8, "vocab_size": 32000,
    "num_attention_heads": 16, "num_key_value_heads": 4, "torch_dtype": "bfloat16", "tie_word_embeddings": False,
}  # fmt: skip


def catalog(tmp_path: Path, files: dict[str, str]) -> ProfileCatalog:
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return ProfileCatalog(dirs=(tmp_path,))


@pytest.mark.parametrize("change", [str, str.upper, lambda text: text.replace(",", ";"), lambda text: "\ufeff" + text])
@pytest.mark.parametrize("folder", ["", "deep/down/"])
def test_tables_of_any_layout_and_place(tmp_path: Path, change: object, folder: str) -> None:
    assert callable(change)
    found = catalog(tmp_path, {f"{folder}chips.csv": change(CHIPS), f"{folder}my_llms.CSV": change(LLMS)})
    for name in ("foo_x1", "Foo X1", "NVIDIA foo-x1"):
        assert found.chip(name).memory_bandwidth_bytes_per_s == 4e12
    for name in ("bar-9b", "Org/BAR_9B", "bar-9b-instruct"):
        assert found.llm(name).layer_count == 32


def test_cells_that_say_nothing_and_units(tmp_path: Path) -> None:
    chips = "chip,reference_id,bf16_tflops,fp8_tflops,mem_gb,mem_bw_gbs\nfoo,n/a,0.4 PFLOPS,-,96 GB,4 TB/s\n"
    chip = catalog(tmp_path, {"chips.csv": chips}).chip("foo")
    assert (chip.id, chip.peak_flop_per_s, chip.memory_bandwidth_bytes_per_s) == ("foo", {"bf16": 4e14}, 4e12)


def test_a_row_that_stands_twice_with_other_numbers_is_refused(tmp_path: Path) -> None:
    row = CHIPS.splitlines()[1]
    same = catalog(tmp_path, {"chips.csv": CHIPS + row + "\n"})
    assert same.chip("foo_x1").memory_bytes == 96e9
    other = catalog(tmp_path, {"chips.csv": CHIPS + row.replace("4000", "2000") + "\n"})
    with pytest.raises(InputError) as caught:
        other.chip("foo_x1")
    assert "stands twice" in caught.value.problems[0].what


@pytest.mark.parametrize(
    "place",
    [
        "gem-x.json", "Gem_X.json", "gem-x/config.json", "models/gem-x/config.json", "org/Gem-X-Instruct/config.json",
        "hub/models--org--gem-x/snapshots/0a1b2c/config.json", "gem-x.config.json", "configs/gem-x_config.json",
    ],
)  # fmt: skip
@pytest.mark.parametrize("asked", ["gem-x", "Org/Gem-X-it"])
def test_configs_wherever_hubs_and_people_put_them(tmp_path: Path, place: str, asked: str) -> None:
    assert catalog(tmp_path, {place: json.dumps(CONFIG)}).llm(asked).layer_count == 8


def test_a_lone_config_may_name_itself(tmp_path: Path) -> None:
    named = {**CONFIG, "_name_or_path": "org/gem-x"}
    assert catalog(tmp_path, {"config.json": json.dumps(named)}).llm("gem-x").layer_count == 8


def test_a_row_may_name_a_config_that_says_more(tmp_path: Path) -> None:
    """The config counts where it is the same model, the row where it is not or has nothing to say."""
    row = "mine,configs/gem-x.json,8,1024,16,4,64,4096,32000\n"
    files = {"models.csv": LLMS.splitlines()[0] + "\n" + row, "configs/gem-x.json": json.dumps(CONFIG)}
    assert catalog(tmp_path, files).llm("mine").family == "llama"
    files["models.csv"] = files["models.csv"].replace("mine,configs/gem-x.json,8,", "mine,configs/gem-x.json,80,")
    assert catalog(tmp_path, files).llm("mine").layer_count == 80
    files["models.csv"] = files["models.csv"].replace(",80,", ",,")
    assert catalog(tmp_path, files).llm("mine").family == "llama"


def test_hybrid_stacks_are_not_taken_for_full_attention(tmp_path: Path) -> None:
    head, row = (
        LLMS.replace("vocab\n", "vocab,full_attn_layers,sliding_window\n")
        .replace("128256\n", "128256,8,\n")
        .splitlines()
    )
    with pytest.raises(InputError) as caught:
        catalog(tmp_path, {"models.csv": f"{head}\n{row}\n"}).llm("bar-9b")
    assert "only 8 of 32 layers" in caught.value.problems[0].what
    windowed = catalog(tmp_path, {"models.csv": f"{head}\n{row}1024\n"}).llm("bar-9b")
    assert sorted(g.count for g in windowed.layers) == [8, 24]


@pytest.mark.parametrize(("attn", "kv_heads"), [("mha", 32), ("mqa", 1)])
def test_key_value_heads_follow_from_the_kind_of_attention(tmp_path: Path, attn: str, kv_heads: int) -> None:
    text = LLMS.replace("vocab\n", "vocab,attn\n").replace("32,8,128,14336,128256", f"32,,128,14336,128256,{attn}")
    (group,) = catalog(tmp_path, {"models.csv": text}).llm("bar-9b").layers
    assert getattr(group.attention, "kv_heads", None) == kv_heads


def test_latent_attention_needs_no_key_value_heads(tmp_path: Path) -> None:
    text = LLMS.replace("vocab\n", "vocab,attn,kv_lora_rank,qk_rope_dim,qk_nope_dim,v_head_dim\n")
    text = text.replace("32,8,128,14336,128256", "32,,128,14336,128256,mla,512,64,128,128")
    assert total_parameters(catalog(tmp_path, {"models.csv": text}).llm("bar-9b")) > 6e9


def test_a_table_that_cannot_be_read_is_named_where_a_name_is_not_found(tmp_path: Path) -> None:
    found = catalog(tmp_path, {"chips.csv": "device,speed\nfoo,3\n", "models.csv": 'model,n_layers,hidden\n"bar,1,2\n'})
    for kind, table in ((found.chip, "chips.csv"), (found.llm, "models.csv")):
        with pytest.raises(InputError) as caught:
            kind("foo")
        assert f"not read: {table}" in caught.value.problems[0].what or table in caught.value.problems[0].what


def test_folders_that_hold_too_much_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_index, "MOST_FILES", 3)
    with pytest.raises(InputError):
        catalog(tmp_path, {f"{n}.txt": "" for n in range(5)})


def test_an_unknown_stack_is_refused_once_not_row_by_row() -> None:
    with pytest.raises(InputError) as caught:
        ProfileCatalog(stack="vllm-2052")
    assert "did you mean 'vllm-2025'" in caught.value.problems[0].what
