"""Rows of measurement tables: read, predicted by the right formula, scored; never a crash, never a silent skip."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pddplan.domain.plan import Shape
from pddplan.errors import InputError
from pddplan.performance.forward_pass import pass_time
from pddplan.performance.measurement import Measurement, parse_note, parse_row, read_measurements
from pddplan.performance.predict import predict_row, run_of, subject_of
from pddplan.performance.scores import score_of, section_of
from pddplan.performance.serving import RAMP_SHARE, Quantity, prefill_run, run_times, split_system
from pddplan.profiles.catalog import ProfileCatalog

CATALOG = ProfileCatalog()
BASE = {
    "source": "test", "kind": "tpot", "model": "llama-3.1-8b", "weights_dtype": "bf16", "kv_dtype": "bf16",
    "chip": "h100_sxm", "n_chips": "1", "tp": "1", "pp": "1", "dp": "1", "ep": "1", "framework": "vllm 0.12.0",
    "date": "2025-10", "isl_tokens": "1024", "prefix_tokens": "0", "osl_tokens": "512",
    "batch_or_concurrency": "32", "value": "12", "unit": "ms", "note": "mode=closed_loop",
}  # fmt: skip


def row(**changes: str) -> Any:
    return parse_row({**BASE, **changes}, where="t.csv:2")


def measured(**changes: str) -> Measurement:
    found = row(**changes)
    assert found.measurement is not None, found.reason
    return found.measurement  # type: ignore[no-any-return]


def test_a_row_is_read_in_base_units() -> None:
    m = measured(note="mode=op_composed;gemm=2.5;attn=1;batch_is_per_dp_rank", dp="4", tp="1", n_chips="4")
    assert m.value == pytest.approx(0.012)
    assert m.parts_s == {"gemm": 0.0025, "attn": 0.001}
    assert m.batch == 128
    assert m.shape == Shape(tp=1, dp=4, ep=1)


def test_blanks_are_filled_by_what_the_chips_allow() -> None:
    assert measured(dp="", ep="", tp="8", n_chips="8").shape == Shape(tp=8)
    assert measured(dp="", ep="", tp="1", n_chips="16", note="mode=closed_loop;attention_dp=1").shape == Shape(
        dp=16, ep=16
    )
    note = (
        "mode=closed_loop;disagg;prefill_workers=2;prefill_gpus=16;prefill_tp=8;"
        "decode_workers=1;decode_gpus=8;attention_dp=1"
    )
    split = measured(n_chips="24", tp="1", dp="", ep="8", note=note)
    assert (split.shape, split.prefill_shape) == (Shape(dp=8, ep=8), Shape(tp=8))
    assert (split.prefill_pool.workers, split.decode_pool.chips) == (2, 8)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"kind": "speed"}, "kind 'speed'"),
        ({"unit": "furlong"}, "unit 'furlong'"),
        ({"unit": "out_tok/s"}, "does not suit"),
        ({"isl_tokens": ""}, "isl_tokens is missing"),
        ({"isl_tokens": "lots"}, "not a number"),
        ({"prefix_tokens": "2000"}, "exceeds isl_tokens"),
        ({"isl_tokens": "-3"}, "not negative"),
        ({"tp": "0.5"}, "whole number"),
        ({"batch_or_concurrency": "1e308"}, "finite"),
        ({"batch_or_concurrency": "max"}, "not a number"),
        ({"note": "mode=closed_loop;disagg"}, "without prefill_workers"),
        ({"model": ""}, "must be named"),
    ],
)
def test_a_bad_row_says_why(changes: dict[str, str], reason: str) -> None:
    bad = row(**changes)
    assert bad.measurement is None
    assert reason in bad.reason
    prediction = predict_row(bad, CATALOG)
    assert prediction.value is None
    assert prediction.remark == bad.reason


@pytest.mark.parametrize(
    ("changes", "remark"),
    [
        ({"chip": "h1000"}, "unknown chip 'h1000'; did you mean"),
        ({"model": "llama-9"}, "unknown model"),
        ({"weights_dtype": "fp3"}, "unknown weights dtype"),
        ({"kv_dtype": "fp3"}, "unknown KV dtype"),
    ],
)
def test_what_cannot_be_predicted_says_why(changes: dict[str, str], remark: str) -> None:
    prediction = predict_row(row(**changes), CATALOG)
    assert prediction.value is None
    assert remark in prediction.remark


@pytest.mark.parametrize(
    ("changes", "remark"),
    [
        ({"note": "mode=magic"}, "mode 'magic' is not one of"),
        ({"value": "-3"}, "not compared: value must be"),
        ({"value": "0"}, "not compared: value must be positive"),
        ({"note": "mode=op_composed;gemm=lots", "kind": "decode_step"}, "gemm= in the note"),
        ({"batch_or_concurrency": "0"}, "read as not stated"),
        ({"model": "llama-3.1-405b"}, "weights leave no room in 80 GB"),
        ({"chip": "dgx-spark"}, "half of its 8-bit peak assumed"),
    ],
)
def test_what_is_assumed_is_said(changes: dict[str, str], remark: str) -> None:
    prediction = predict_row(row(**changes), CATALOG)
    assert prediction.value is not None
    assert remark in prediction.remark


@pytest.mark.parametrize(
    ("changes", "plain"),
    [
        ({"model": "meta-llama/Llama-3.1-8B-Instruct"}, {}),
        ({"model": "Qwen/Qwen3-32B-FP8"}, {"model": "qwen3-32b"}),
        ({"model": "deepseek-ai/DeepSeek-R1-0528"}, {"model": "deepseek-r1"}),
        ({"chip": "NVIDIA H100 80GB HBM3"}, {}),
        ({"chip": "A100-SXM4-80GB"}, {"chip": "a100-80g"}),
        ({"weights_dtype": "FP16", "kv_dtype": "bfloat16"}, {}),
        ({"weights_dtype": "NVFP4"}, {"weights_dtype": "fp4"}),
        ({"kv_dtype": "fp8_e4m3"}, {"kv_dtype": "fp8"}),
        ({"tp": "", "pp": "", "dp": "0", "ep": "0"}, {}),
        ({"isl_tokens": "1,024"}, {}),
        ({"kind": "TPOT", "unit": "ms/token"}, {}),
        ({"note": "mode=Closed_Loop"}, {}),
        ({"note": ""}, {}),
    ],
)
def test_other_words_mean_the_same(changes: dict[str, str], plain: dict[str, str]) -> None:
    prediction = predict_row(row(**changes), CATALOG)
    expected = predict_row(row(**plain), CATALOG)
    assert prediction.value == expected.value
    assert prediction.remark == expected.remark


def test_split_rows_without_requests_in_flight_fill_their_memory() -> None:
    note = "mode=closed_loop;disagg;prefill_workers=1;prefill_gpus=8;decode_workers=1;decode_gpus=8"
    prediction = predict_row(row(n_chips="16", tp="8", note=note, batch_or_concurrency=""), CATALOG)
    assert prediction.value is not None
    assert "requests in flight assumed" in prediction.remark


def test_tables_with_blank_cells_are_read(tmp_path: Path) -> None:
    (tmp_path / "chips.csv").write_text(
        "chip,reference_id,vendor,bf16_tflops,fp8_tflops,fp4_tflops,int8_tops,mem_gb,mem_bw_gbs,scaleup_gbs_uni,"
        "scaleup_domain,note\nnovel,,ACME,,1000,,,96,4000,n/a,-,\nempty,,,,,,,,,,,\n"
    )
    (tmp_path / "models.csv").write_text(
        "model,reference_config,n_layers,hidden,n_heads,n_kv_heads,head_dim,ffn_inter,vocab,gated_mlp,n_experts\n"
        "fresh,,40,5120,40,8,,13824,152064,,\nhollow,,,,,,,,,,\n"
    )
    catalog = ProfileCatalog(dirs=(tmp_path,))
    good = predict_row(row(chip="novel", model="fresh", n_chips="4", tp="4"), catalog)
    assert good.value is not None
    assert catalog.llm("fresh").layers[0].attention.head_dim == 128  # type: ignore[union-attr]
    for changes in ({"chip": "empty"}, {"model": "hollow"}):
        bad = predict_row(row(**changes), catalog)
        assert bad.value is None
        assert bad.remark


@given(
    text=st.dictionaries(st.sampled_from(sorted(BASE)), st.text(max_size=12), max_size=6),
)
def test_no_row_crashes(text: dict[str, str]) -> None:
    prediction = predict_row(parse_row({**BASE, **text}, where="x"), CATALOG)
    assert (prediction.value is None) == (bool(prediction.remark) and prediction.value is None)
    assert prediction.value is None or (np.isfinite(prediction.value) and prediction.value > 0)


def test_closed_loop_tpot_is_a_step_plus_the_others_prefills() -> None:
    m = measured()
    subject = subject_of(m, CATALOG)
    run, _ = run_of(subject)
    value, prefill, decode = run_times(run, subject.efficiency)
    alone = replace(subject.efficiency, prefill_interference=0.0)
    assert float(run_times(run, alone)[0]) == pytest.approx(float(decode.total))
    unmixed = replace(subject.efficiency, prefill_interference=1.0, prefill_mixing=0.0)
    by_hand = float(decode.total) + 31 * float(prefill.total) * float(run.prefill_passes) / 512
    assert float(run_times(run, unmixed)[0]) == pytest.approx(by_hand, rel=1e-6)
    assert float(decode.total) < float(value) < by_hand


@pytest.mark.parametrize(("prompt", "requests"), [(1024, 32), (4096, 12), (8192, 5), (2048, 3)])
def test_equal_requests_on_an_engine_that_prefills_first_wait_in_waves(prompt: int, requests: int) -> None:
    """Against a count request by request: passes of whole prompts, then all decode until all end together."""
    changes = {"framework": "sglang 0.5.1", "isl_tokens": str(prompt), "batch_or_concurrency": str(requests)}
    subject = subject_of(measured(**changes), CATALOG)
    run, _ = run_of(subject)
    efficiency = replace(subject.efficiency, prefill_interference=1.0, host_overhead_s=0.0)
    value, prefill, decode = run_times(run, efficiency)
    together = min(8192 // prompt, requests)
    passes = -(-requests // together)
    seconds = float(prefill.total * run.prefill_passes) * requests / passes
    first = [seconds * (1 + i // together) for i in range(requests)]
    end = seconds * passes + 512 * float(decode.total)
    by_hand = np.mean([(end - at) / 512 for at in first])
    full_passes = requests % together == 0
    assert float(value) == pytest.approx(by_hand, rel=1e-9 if full_passes else 0.02)
    waits = run_of(subject_of(measured(kind="ttft", **changes), CATALOG))[0]
    assert float(run_times(waits, efficiency)[0]) == pytest.approx(np.mean(first), rel=1e-9 if full_passes else 0.35)


@pytest.mark.parametrize(
    ("changes", "equal"),
    [
        ({}, True),
        ({"note": "mode=closed_loop;lengths=mixed"}, False),
        ({"source": "inferencex_dsr1"}, False),
        ({"source": "inferencex_dsr1", "note": "mode=closed_loop;lengths=equal"}, True),
    ],
)
def test_lengths_are_equal_unless_the_note_or_the_client_mixes_them(changes: dict[str, str], equal: bool) -> None:
    assert measured(**changes).equal_lengths is equal
    run, _ = run_of(subject_of(measured(framework="sglang 0.5.1", **changes), CATALOG))
    assert bool(run.in_step) is equal
    mixing, _ = run_of(subject_of(measured(framework="vllm 0.12", **changes), CATALOG))
    assert not bool(mixing.in_step)  # prompts ride in decoding passes: requests drift apart


@pytest.mark.parametrize(
    ("pools", "in_flight", "shape"),
    [
        ("decode_workers=2;decode_gpus=8", 4, Shape(tp=4)),
        ("decode_workers=1;decode_gpus=4", 512, Shape(dp=4, ep=4)),
        ("decode_workers=1;decode_gpus=32", 64, Shape(dp=32, ep=32)),  # too many chips to split tensors
        ("decode_workers=0;decode_gpus=72", 8192, Shape(dp=72, ep=72)),
        ("decode_workers=0;decode_gpus=28", 100, Shape(tp=4)),
    ],
)
def test_workers_without_a_layout_take_the_usual_one(pools: str, in_flight: int, shape: Shape) -> None:
    note = f"mode=closed_loop;attention_dp=1;disagg;prefill_workers=1;prefill_gpus=4;{pools}"
    m = measured(tp="1", dp="", ep="1", n_chips="100", batch_or_concurrency=str(in_flight), note=note)
    assert m.shape == shape
    assert "layout of decode workers not stated" in m.remark


def test_static_throughput_is_tokens_over_latency() -> None:
    m = measured(kind="throughput_e2e", unit="out_tok/s", note="mode=static", batch_or_concurrency="8")
    subject = subject_of(m, CATALOG)
    run, _ = run_of(subject)
    value, prefill, decode = run_times(run, subject.efficiency)
    latency = float(run.prefill_passes * prefill.total) + 511 * float(decode.total)
    assert float(value) == pytest.approx(8 * 512 / latency)


def test_batches_beyond_memory_are_cut_and_said() -> None:
    prediction = predict_row(row(isl_tokens="100000", batch_or_concurrency="64"), CATALOG)
    assert "memory holds" in prediction.remark
    offline = predict_row(
        row(kind="throughput_e2e", unit="out_tok/s/chip", batch_or_concurrency="", note="mode=offline_max"), CATALOG
    )
    assert "from memory" in offline.remark


def test_offline_mixtures_without_layout_use_attention_ranks() -> None:
    m = measured(
        model="qwen3-235b-a22b", n_chips="8", tp="8", ep="", kind="throughput_e2e", unit="out_tok/s/chip",
        weights_dtype="fp8", kv_dtype="fp8", batch_or_concurrency="", note="mode=offline_max", chip="h200_sxm",
    )  # fmt: skip
    assert subject_of(m, CATALOG).model.shape == Shape(tp=1, dp=8, ep=8)


def test_sums_of_operators_know_no_engine() -> None:
    m = measured(kind="decode_step", note="mode=op_composed", framework="vllm 0.24.0")
    subject = subject_of(m, CATALOG)
    assert subject.efficiency.name == "operators-vllm"
    assert subject.efficiency.step_overhead_s == subject.efficiency.sequence_overhead_s == 0.0


def test_passes_hold_several_short_prompts_or_part_of_a_long_one() -> None:
    model = subject_of(measured(), CATALOG).model
    _, passes = prefill_run(model, requests=16, new_tokens=1024, cached_tokens=0, chunk_tokens=8192)
    assert passes == pytest.approx(2)
    load, passes = prefill_run(model, requests=1, new_tokens=20_480, cached_tokens=1000, chunk_tokens=8192)
    assert passes == pytest.approx(2.5)
    assert float(load.rows) == 8192


def test_split_system_balances_its_sides() -> None:
    def run(servers: float) -> Any:
        return split_system(
            in_flight=100, output_tokens=1000, prefill_servers=servers, prefill_s=1.0, decode_workers=2,
            batch_cap=1000, step_s=lambda b: 0.01 + 1e-4 * b, fixed_s=0.0,
        )  # fmt: skip

    free, starved = run(100.0), run(1.0)
    assert free.bound == "concurrency"
    assert 2 * free.batch_per_worker + free.rate_rps * 1.0 == pytest.approx(100, rel=1e-3)
    assert starved.bound == "prefill"
    assert starved.rate_rps == pytest.approx(1.0, rel=1e-3)
    assert starved.tpot_s < free.tpot_s
    assert starved.ttft_s > 50  # Little: most of the hundred wait


def test_split_rows_predict_all_kinds() -> None:
    note = (
        "mode=closed_loop;disagg;attention_dp=1;prefill_workers=1;prefill_tp=8;prefill_ep=8;prefill_dpa=1;"
        "prefill_gpus=8;decode_workers=1;decode_gpus=8"
    )
    common = {
        "model": "deepseek-v3", "chip": "h200_sxm", "weights_dtype": "fp8", "kv_dtype": "fp8", "n_chips": "16",
        "tp": "1", "dp": "", "ep": "8", "isl_tokens": "8192", "osl_tokens": "1024", "batch_or_concurrency": "128",
        "note": note, "framework": "dynamo-trt",
    }  # fmt: skip
    tpot = predict_row(row(**common), CATALOG)
    rate = predict_row(row(**common, kind="throughput_e2e", unit="out_tok/s/chip"), CATALOG)
    assert tpot.value is not None
    assert rate.value is not None
    assert rate.value * 16 * RAMP_SHARE * tpot.value <= 128 * 1.01  # no more tokens in flight than requests
    assert "per decode worker" in tpot.remark


def test_production_averages_state_what_was_assumed() -> None:
    prediction = predict_row(
        row(
            kind="throughput_e2e", unit="in_tok/s/chip", isl_tokens="", osl_tokens="", batch_or_concurrency="",
            note="mode=fleet_24h;input tokens incl. 56.3% cache hits", model="deepseek-v3", weights_dtype="fp8",
            n_chips="32", tp="1", dp="32", ep="32", chip="h800-sxm",
        ),
        CATALOG,
    )  # fmt: skip
    assert prediction.value is not None
    assert "assumed" in prediction.remark
    assert "56.3 %" in prediction.remark


def test_every_quantity_has_a_formula() -> None:
    m = measured()
    subject = subject_of(m, CATALOG)
    run, _ = run_of(subject)
    for quantity in Quantity:
        value = run_times(replace(run, quantity=np.asarray(float(quantity))), subject.efficiency)[0]
        assert float(value) > 0, quantity


def test_scores_by_hand() -> None:
    score = score_of([(11.0, 10.0, "a"), (8.0, 10.0, "b"), (10.0, 10.0, "c")])
    assert score is not None
    assert (score.mape, score.bias, score.median) == pytest.approx((0.1, -1 / 30, 0.1))
    assert (score.worst, score.worst_where) == (pytest.approx(-0.2), "b")
    assert score_of([]) is None
    assert section_of(measured(kind="ttft")) == "TTFT"
    assert section_of(measured(note="mode=static;quality=low (early)")) == "low quality"


def test_tables_that_are_no_tables(tmp_path: Path) -> None:
    for name, content in (("empty.csv", b""), ("other.csv", b"a,b\n1,2\n"), ("binary.csv", bytes(range(256)))):
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(InputError):
            read_measurements(path)
    with pytest.raises(InputError):
        read_measurements(tmp_path / "missing.csv")


def test_notes() -> None:
    assert parse_note("mode=static; disagg ;a=b=c;;=x") == {"mode": "static", "disagg": "", "a": "b=c"}


def test_pass_time_of_the_catalogue_is_finite_for_prefill() -> None:
    subject = subject_of(measured(), CATALOG)
    load = subject.model.load(sequences=1.0, new_tokens=10.0, cached_tokens=0.0, decode=False)
    assert float(pass_time(load, subject.efficiency).total) > 0


def test_terms_of_a_tpot_add_up_to_it() -> None:
    prediction = predict_row(row(), CATALOG)
    assert prediction.value == pytest.approx(sum(prediction.terms.values()), rel=1e-6)
    prefill = predict_row(row(kind="prefill_latency", note="mode=static", batch_or_concurrency="1"), CATALOG)
    assert prefill.value == pytest.approx(sum(prefill.terms.values()), rel=1e-6)


def test_one_prompt_in_ten_waits_for_half_of_its_wave() -> None:
    def seconds(batch: int, note: str) -> float:
        found = predict_row(row(kind="ttft", batch_or_concurrency=str(batch), note=note, osl_tokens="4096"), CATALOG)
        assert found.value is not None
        return found.value

    mean, median = "mode=closed_loop;stat=mean", "mode=closed_loop;stat=median"
    waits = [seconds(b, mean) - seconds(b, median) for b in (1, 21, 41)]
    assert waits[0] == pytest.approx(0.0, abs=1e-12)
    assert waits[2] == pytest.approx(2 * waits[1])
    prefill = predict_row(row(kind="prefill_latency", batch_or_concurrency="1", note="mode=static"), CATALOG)
    assert prefill.value is not None
    assert 0.3 * prefill.value < waits[1] < 1.0 * prefill.value  # 20 others / 2 / 10 prompts, weights read once


def test_a_prefill_without_a_stated_batch_is_one_prompt() -> None:
    blank, one = (
        predict_row(row(kind="prefill_latency", batch_or_concurrency=b, note="mode=static"), CATALOG) for b in ("", "1")
    )
    assert blank.value == one.value
    assert "one prompt assumed" in blank.remark


def test_many_chips_without_a_layout_split_attention_by_requests() -> None:
    assert measured(model="deepseek-v3", n_chips="32", tp="", dp="", ep="").shape == Shape(dp=32, ep=32)
    assert measured(model="deepseek-v3", n_chips="16", tp="", dp="", ep="").shape == Shape(tp=16)
