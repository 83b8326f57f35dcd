"""Layers of efficiency, the stack behind a framework's name, latency tables, and names in measurement tables."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pddplan.domain.chip import Fabric
from pddplan.domain.provenance import Basis
from pddplan.errors import InputError, ProblemList
from pddplan.performance.efficiency import HIGHEST_SHARE, NUMBERS, SHARES, Efficiency
from pddplan.performance.parameters import total_parameters
from pddplan.profiles.catalog import ProfileCatalog
from pddplan.profiles.chip_profile import load_chip
from pddplan.profiles.efficiency_profile import (
    dump_overlay,
    efficiency_of,
    lay,
    load_efficiency,
    load_layers,
    resolve_stack,
    stack_ids,
    validated_error,
)
from pddplan.profiles.latency_table import load_tables, table_of
from pddplan.profiles.llm_profile import load_llm
from pddplan.profiles.lookup import use_profiles
from pddplan.profiles.tables import chip_from_row, llm_from_row
from pddplan.profiles.yaml_source import loads

H100 = load_chip("h100-sxm")


@pytest.mark.parametrize(
    ("framework", "date", "stack"),
    [
        ("vllm 0.12.0", "2026-03", "vllm-2025"),
        ("vllm nan", "2025-10-29", "vllm-2025"),
        ("vLLM", "2024-07", "vllm-2024"),
        ("vllm", "2024-05", "eager-vllm"),
        ("vllm (2023) MS Azure DGX", "2023-11", "eager-vllm"),
        ("distserve", "2024-05", "eager-compiled"),
        ("Deepspeed-MII", "2024-07", "eager-generic"),
        ("TensorRT-LLM", "2024-07", "trtllm-2024"),
        ("dynamo-trt", "2026-02-12", "trtllm-2025"),
        ("dynamo-sglang", "2026-02-11", "sglang-2025"),
        ("vllm-ascend", "2025-12", "vllm-2025"),
        ("DeepSeek in-house", "2025-02", "graphs-2025"),
        ("unheard of", "2024-05", "graphs-2024"),
        ("unheard of", "2022-05", "eager-2023"),
        ("unheard of", "", "graphs-2025"),
        ("", "not a date", "graphs-2025"),
    ],
)
def test_frameworks_are_known_by_name_and_time(framework: str, date: str, stack: str) -> None:
    assert resolve_stack(framework, date).id == stack


def test_sums_of_operators_are_told_apart() -> None:
    assert resolve_stack("trtllm 1.3.0rc20", "2026-08", operators=True).id == "operators-trtllm"
    assert resolve_stack("unheard of", "2026-08", operators=True).id == "operators"


def test_all_bundled_stacks_give_sane_numbers_on_all_kinds_of_chips() -> None:
    assert len(stack_ids()) >= 12
    for chip in (H100, load_chip("mi325x"), load_chip("ascend-910b3"), load_chip("l40s")):
        for stack in stack_ids():
            found = load_efficiency(stack, chip)
            assert found.name == stack
            for name in NUMBERS:
                value = getattr(found, name)
                assert np.isfinite(value)
                assert value >= 0
                if name in SHARES:
                    assert 0.02 < value <= HIGHEST_SHARE, (stack, chip.id, name, value)


def test_default_holds_every_number() -> None:
    assert set(load_layers()["default"].file.efficiency) == set(NUMBERS)


def test_errors_of_validation_are_told_and_a_damaged_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert 0.02 < validated_error(moe=False) < validated_error(moe=True) < 0.5
    folder = tmp_path / "hardware_profiles" / "efficiency"
    folder.mkdir(parents=True)
    monkeypatch.setattr("pddplan.profiles.lookup.bundled_root", lambda: tmp_path)
    for text in ("", "[]", '{"dense": 0}', '{"dense": "x"}', '{"dense": NaN}'):
        (folder / "validation.json").write_text(text)
        with pytest.raises(InputError, match="between 0 and 1"):
            validated_error(moe=False)


def test_layers_replace_and_multiply_in_order() -> None:
    def layer(text: str, layer_id: str):  # type: ignore[no-untyped-def]
        return efficiency_of(loads(f"schema: efficiency/1\nname: {layer_id}\n{text}", name=layer_id), layer_id=layer_id)

    source = "sources: {s: {kind: measured, title: bench}}\n"
    low = layer(f"layer: default\n{source}efficiency: {{kv_mbu: {{value: 0.8, source: s}}}}", "low")
    high = layer(f"layer: chip\n{source}efficiency: {{kv_mbu: {{factor: 0.5, source: s}}}}", "high")
    laid = lay([low, high], Efficiency(), name="x")
    assert laid.kv_mbu == pytest.approx(0.4)
    assert laid.sources["kv_mbu"] == "high: bench"
    assert laid.basis is Basis.MEASURED


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("layer: chip\nefficiency: {kv_mbuu: {value: 1, source: given}}", "did you mean 'kv_mbu'"),
        ("layer: chip\nefficiency: {kv_mbu: {value: 0.5, factor: 2, source: given}}", "either a value or a factor"),
        ("layer: chip\nefficiency: {kv_mbu: {source: given}}", "either a value or a factor"),
        ("layer: chip\nefficiency: {kv_mbu: {value: -1, source: given}}", "at least 0"),
        ("layer: somewhere\nefficiency: {}", "must be"),
        ("layer: chip\nefficiency: {tail_packing: {value: 5, source: given}}", "tail_packing must lie between 0 and 1"),
        ("layer: chip\nefficiency: {speculation_acceptance: {value: 1.5, source: given}}", "between 0 and 1"),
    ],
)
def test_faulty_layers_are_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        efficiency_of(loads(f"schema: efficiency/1\nname: x\n{text}\n", name="x.yaml"), layer_id="x")


def test_unknown_stacks_name_the_nearest() -> None:
    with pytest.raises(InputError, match="did you mean 'graphs-2025'"):
        load_efficiency("graphs-2026", H100)


def test_an_overlay_counts_by_path_and_in_a_folder(tmp_path: Path) -> None:
    text = dump_overlay(
        {"kv_mbu": (0.5, 0.4, 0.6)},
        title="own runs",
        chip="h100-sxm",
        stack="vllm-2025",
        engine="vllm",
        date="2026-11-30",
    )
    path = tmp_path / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    laid = load_efficiency(str(path), H100)
    assert laid.kv_mbu == 0.5
    assert laid.step_overhead_s == load_efficiency("vllm-2025", H100).step_overhead_s
    with use_profiles([tmp_path]):
        assert load_efficiency("vllm-2025", H100).kv_mbu == 0.5
        assert load_efficiency("sglang-2025", H100).kv_mbu != 0.5
        assert load_efficiency("vllm-2025", load_chip("h200-sxm")).kv_mbu != 0.5


TABLE = """
schema: latency-table/1
name: published
sources: {paper: {kind: published, title: a paper}}
table:
  chip: h200-sxm
  model: llama-3.1-70b
  shape: {tp: 8}
  prefill: {value: [[1000, 0.1], [2000, 0.2]], source: paper}
  batch_cap: {value: 7, source: paper}
"""


def test_latency_tables_are_found_and_stand_in(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(TABLE, encoding="utf-8")
    chip, llm = load_chip("h200-sxm"), load_llm("llama-3.1-70b")
    with use_profiles([tmp_path]):
        (table,) = load_tables(chip, llm)
        assert load_tables(H100, llm) == ()
    assert table.basis is Basis.PUBLISHED
    instance = table.instance(chip=chip, llm=llm, efficiency=load_efficiency(None, chip))
    assert instance.prefill_time_s(new_tokens=np.array([1500.0]), cached_tokens=np.array([0.0])) == pytest.approx(
        [0.15]
    )
    assert instance.max_batch(context_tokens=100) == (7, "stack")


def test_falling_tables_are_refused() -> None:
    with pytest.raises(InputError, match="must rise"):
        table_of(loads(TABLE.replace("[2000, 0.2]", "[500, 0.2]"), name="t.yaml"), table_id="t")


CHIP_ROW = {
    "chip": "new_gpu", "vendor": "Acme", "bf16_tflops": "500", "fp8_tflops": "1000", "mem_gb": "64",
    "mem_bw_gbs": "2000",
    "scaleup_gbs_uni": "200", "scaleup_domain": "8", "note": "full mesh",
}  # fmt: skip
LLM_ROW = {
    "model": "tiny", "n_layers": "4", "hidden": "256", "n_heads": "8", "n_kv_heads": "2", "head_dim": "32",
    "ffn_inter": "1024", "vocab": "1000", "gated_mlp": "1", "tied_embed": "0", "attn": "gqa", "full_attn_layers": "1",
    "sliding_window": "128",
}  # fmt: skip


def test_rows_of_tables_become_chips_and_models() -> None:
    problems = ProblemList()
    chip = chip_from_row(CHIP_ROW, where="chips.csv:2", problems=problems)
    llm = llm_from_row(LLM_ROW, where="models.csv:2", problems=problems)
    problems.raise_if_any()
    assert (chip.fabric, chip.peak_flop_per_s) == (Fabric.MESH, {"bf16": 5e14, "fp8": 1e15})
    assert [(g.count, g.attention.window) for g in llm.layers] == [(1, None), (3, 128)]  # type: ignore[union-attr]
    by_hand = 4 * (256 * (8 * 32 * 2 + 2 * 2 * 32) + 3 * 256 * 1024 + 2 * 256) + 2 * 1000 * 256 + 256
    assert total_parameters(llm) == by_hand


def test_faults_in_rows_are_all_told() -> None:
    problems = ProblemList()
    chip_from_row({**CHIP_ROW, "bf16_tflops": "fast", "mem_gb": ""}, where="c.csv:2", problems=problems)
    llm_from_row({**LLM_ROW, "attn": "magic", "hidden": "-1"}, where="m.csv:3", problems=problems)
    text = " ".join(str(p) for p in problems.problems)
    for part in ("bf16_tflops", "mem_gb", "magic", "hidden", "c.csv:2", "m.csv:3"):
        assert part in text


def test_a_folder_of_tables_serves_names(tmp_path: Path) -> None:
    for name, row in (("chips.csv", CHIP_ROW), ("models.csv", LLM_ROW)):
        (tmp_path / name).write_text(",".join(row) + "\n" + ",".join(row.values()) + "\n", encoding="utf-8")
    catalog = ProfileCatalog(dirs=(tmp_path,))
    assert catalog.chip("new_gpu").vendor == "Acme"
    assert catalog.chip("new-gpu") is not catalog.chip("h100_sxm")
    assert catalog.llm("tiny").layer_count == 4
    assert catalog.llm("llama-3.1-8b").id == "llama-3.1-8b"
    with pytest.raises(InputError, match="did you mean 'new-gpu'"):
        catalog.chip("new_gpus")


def test_a_table_row_stands_for_its_profile_where_they_agree(tmp_path: Path) -> None:
    header = {**LLM_ROW, "model": "mine", "reference_config": "llama-3.1-8b"}
    (tmp_path / "models.csv").write_text(",".join(header) + "\n" + ",".join(header.values()) + "\n", encoding="utf-8")
    assert ProfileCatalog(dirs=(tmp_path,)).llm("mine").layer_count == 4  # sizes differ: the row is taken at its word


@pytest.mark.parametrize("stack", ["vllmm", "xvllm", "wide-epp", "sglangs"])
def test_a_misspelt_engine_is_no_stack(stack: str) -> None:
    with pytest.raises(InputError, match="unknown serving stack"):
        load_efficiency(stack, H100)


@pytest.mark.parametrize("stack", ["vllm", "vLLM 0.12", "vllm-0.9", "SGLang v0.5", "TensorRT-LLM"])
def test_an_engine_may_carry_a_version(stack: str) -> None:
    assert load_efficiency(stack, H100).step_overhead_s > 0
