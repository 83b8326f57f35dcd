"""Every reader of the program as a target: sound files to start from, ways to spoil them, and what reading means.

Reading goes a step further than parsing: what was accepted is used once, because a file that is taken and breaks the
next step is a fault of the reader. Samples are the bundled profiles, small texts written here, and, where the folder
of outside data is given, the heads of real traces and benchmark results.
"""

from __future__ import annotations

import gzip
import io
import json
import random
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import fuzz_mutations as spoil
from benchmarks.fuzz_mutations import Mutator
from pddplan.domain.plan import Shape
from pddplan.studies.sweep import Sweep

ROOT = Path(__file__).resolve().parent.parent
HEAD_BYTES = 20_000


@dataclass(frozen=True, slots=True)
class Target:
    """One kind of reader."""

    name: str
    suffix: str
    read: Callable[[Path], Any]
    seeds: tuple[bytes, ...]
    mutators: tuple[Mutator, ...]
    weight: float = 1.0
    """Share of the cases, next to the others."""

    def case(self, rng: random.Random) -> bytes:
        """A spoiled file."""
        return self.spoiled(rng.choice(self.seeds), rng)

    def spoiled(self, data: bytes, rng: random.Random) -> bytes:
        """A file spoiled further, in one or a few ways."""
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            try:
                data = rng.choice(self.mutators)(data, rng)
            except (ValueError, RecursionError):  # no longer what this mutation understands
                data = spoil.spoil_bytes(data, rng)
        return data


class NotFinite(AssertionError):
    """A reader let a number through that no formula can use."""


def check_finite(value: Any, where: str = "") -> None:
    """Refuse NaN anywhere in a record, and infinity outside of promises and limits."""
    if isinstance(value, (float, np.floating)):
        if not np.isfinite(value):
            raise NotFinite(f"{where} is {value}")
    elif isinstance(value, np.ndarray):
        if value.dtype.kind == "f" and not np.isfinite(value).all():
            raise NotFinite(f"{where} holds a number that is not finite")
    elif is_dataclass(value) and not isinstance(value, type):
        for spec in fields(value):
            check_finite(getattr(value, spec.name), f"{where}.{spec.name}")
    elif isinstance(value, dict):
        for key, item in value.items():
            check_finite(item, f"{where}.{key}")
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            check_finite(item, f"{where}[{index}]")


# -- what reading means ----------------------------------------------------------------------------------------------


def _document(path: Path) -> Any:
    from pddplan.profiles.yaml_source import load

    return load(path)


@cache
def _stock() -> tuple[Any, Any, Any]:
    """A chip, a model and an efficiency that are sound."""
    from pddplan.profiles.chip_profile import load_chip
    from pddplan.profiles.efficiency_profile import load_efficiency
    from pddplan.profiles.llm_profile import load_llm

    chip = load_chip("h200-sxm")
    return chip, load_llm("llama-3.1-8b"), load_efficiency(None, chip)


def _try_instance(chip: Any, llm: Any, efficiency: Any, shape: Shape) -> None:
    """Times of one instance: finite and positive wherever the formulas are asked."""
    from pddplan.performance.instance import instance_performance

    instance = instance_performance(chip=chip, llm=llm, shape=shape, efficiency=efficiency)
    tokens = np.array([1.0, 1000.0, 1e6])
    times = instance.prefill_time_s(new_tokens=tokens, cached_tokens=tokens)
    steps = instance.decode_step_s(batch=np.array([1.0, 64.0]), context_tokens=np.array([10.0, 1e5]))
    for seconds in (times, steps):
        check_finite(seconds, "time")
        if not (np.asarray(seconds) > 0).all():
            raise NotFinite(f"a time that is not positive: {seconds}")


def read_chip(path: Path) -> None:
    from pddplan.profiles.chip_profile import chip_of

    chip = chip_of(_document(path), chip_id="fuzzed")
    check_finite(chip, "chip")
    _, llm, efficiency = _stock()
    _try_instance(chip, llm, efficiency, Shape(tp=1))


def read_model(path: Path) -> None:
    from pddplan.performance.kv import kv_size
    from pddplan.performance.parameters import active_parameters, total_parameters, weight_bytes
    from pddplan.profiles.llm_profile import llm_of

    llm = llm_of(_document(path), llm_id="fuzzed")
    check_finite(llm, "llm")
    for number in (total_parameters(llm), active_parameters(llm)):
        check_finite(float(number), "parameters")
    weight_bytes(llm)
    check_finite(kv_size(llm).sequence_bytes(np.array([1.0, 1e6])), "KV bytes")
    chip, _, efficiency = _stock()
    _try_instance(chip, llm, efficiency, Shape(tp=8))


def read_workload(path: Path) -> None:
    from pddplan.profiles.workload_profile import dump_workload, parse_workload
    from pddplan.profiles.yaml_source import loads

    workload = parse_workload(_document(path))
    check_finite((workload.classes, workload.arrival, workload.promises, workload.odd_traffic), "workload")
    parse_workload(loads(dump_workload(workload)))


def read_sites(path: Path) -> None:
    from pddplan.economics.unit_costs import line_monthly_cost
    from pddplan.profiles.sites_profile import sites_of

    sites = sites_of(_document(path))
    check_finite((sites.sites, sites.lines, sites.finance), "sites")
    for line in sites.lines.values():
        for tier in line.tiers:
            check_finite(line_monthly_cost(line, tier.gbps, sites=sites), "cost of a line")


def read_finance(path: Path) -> None:
    from pddplan.profiles.sites_profile import finance_of

    check_finite(finance_of(_document(path))[0], "finance")


def read_efficiency(path: Path) -> None:
    from pddplan.performance.efficiency import Efficiency
    from pddplan.profiles.efficiency_profile import efficiency_of, lay

    layer = efficiency_of(_document(path), layer_id="fuzzed")
    laid = lay([layer], Efficiency(), name="fuzzed")
    chip, llm, _ = _stock()
    _try_instance(chip, llm, laid, Shape(tp=1))


def read_latency_table(path: Path) -> None:
    from pddplan.profiles.latency_table import table_of

    table = table_of(_document(path), table_id="fuzzed")
    chip, llm, efficiency = _stock()
    instance = table.instance(chip=chip, llm=llm, efficiency=efficiency, weights_dtype=None, kv_dtype=None)
    tokens = np.array([1.0, 1000.0, 1e6])
    check_finite(instance.prefill_time_s(new_tokens=tokens, cached_tokens=tokens), "prefill")
    check_finite(instance.decode_step_s(batch=tokens, context_tokens=tokens), "step")


def read_token_prices(path: Path) -> None:
    from pddplan.profiles.token_prices import load_token_prices

    check_finite(load_token_prices(path), "prices")


def read_any_yaml(path: Path) -> None:
    """What ``pddplan validate`` does."""
    from pddplan.api import check_file

    check_file(path)


def read_plan(path: Path) -> None:
    from pddplan import api
    from pddplan.records import to_plain
    from pddplan.report.json_plan import dump_json

    inputs, plan = api.load_plan_inputs(path)
    outcome = api.evaluate_plan(inputs, plan)
    dump_json(to_plain(outcome))


def read_config(path: Path) -> None:
    from pddplan.performance.kv import kv_size
    from pddplan.performance.parameters import total_parameters
    from pddplan.profiles.hf_config import import_config

    llm = import_config(path, model_id="fuzzed").llm
    check_finite(llm, "llm")
    check_finite(float(total_parameters(llm)), "parameters")
    check_finite(kv_size(llm).sequence_bytes(np.array([1.0, 1e6])), "KV bytes")


def read_trace_file(path: Path) -> None:
    from pddplan.profiles.workload_profile import dump_workload, parse_workload
    from pddplan.profiles.yaml_source import loads
    from pddplan.traces.importer import ImportSettings, import_trace
    from pddplan.traces.misses import HitAssumption
    from pddplan.traces.reading import ReadOptions, read_trace

    trace = read_trace(path, ReadOptions(max_skip_fraction=0.5))
    assumed = HitAssumption(0.5, 0.5) if trace.blocks is None and trace.hit_tokens is None else None
    settings = ImportSettings(llm="llama-3.1-8b", name="fuzzed", assumed=assumed, rate_rps=1.0)
    workload = import_trace(trace, settings).workload
    check_finite((workload.classes, workload.arrival), "workload")
    parse_workload(loads(dump_workload(workload)))


def read_sweep(path: Path) -> None:
    """What ``pddplan sweep --resume`` does with the rows of an earlier run."""
    from pddplan.report.sweep_file import RowWriter, done_before

    asked = _two_rates()
    earlier = done_before(path, asked)
    RowWriter(path.with_name("copy.csv"), asked.axes, earlier).finish(asked.points())


def _two_rates() -> Sweep:
    """A sweep whose files are read without sizing anything."""
    from pddplan.optimize import Limits
    from pddplan.studies.axes import parse_axis
    from pddplan.studies.sweep import Sweep

    return Sweep((parse_axis("rps=1,2"),), Limits(), fingerprints={(): "0123456789ab"})


def read_benchmark_file(path: Path) -> None:
    from pddplan.performance.benchmark_files import measurements_of, read_benchmark

    for run in read_benchmark(path):
        check_finite(run, "run")
        for measured in measurements_of(
            run, chip="h100-sxm", llm="llama-3.1-8b", shape=Shape(), framework="vllm", weights_dtype=None, kv_dtype=None
        ):
            check_finite(measured, "measurement")


def read_predict_table(path: Path) -> None:
    from pddplan.performance.measurement import read_measurements
    from pddplan.performance.predict import predict_rows

    for prediction in predict_rows(read_measurements(path)[:4], _catalog()):
        check_finite((prediction.value, list(prediction.terms.values())), "prediction")


@cache
def _catalog() -> Any:
    from pddplan.profiles.catalog import ProfileCatalog

    return ProfileCatalog()


def read_chip_and_model_tables(path: Path) -> None:
    from pddplan.errors import InputError
    from pddplan.performance.parameters import total_parameters
    from pddplan.profiles.catalog import ProfileCatalog

    catalog = ProfileCatalog(dirs=(path.parent,))
    chip, _, efficiency = _stock()
    refused: InputError | None = None
    for name in (*list(catalog.index.chips)[:3], *list(catalog.index.llms)[:3]):
        try:
            if name in catalog.index.chips:
                check_finite(catalog.chip(name), "chip")
            else:
                llm = catalog.llm(name)
                check_finite(float(total_parameters(llm)), "parameters")
                _try_instance(chip, llm, efficiency, Shape(tp=8))
        except InputError as error:
            refused = error
    if refused is not None:
        raise refused


# -- samples ---------------------------------------------------------------------------------------------------------


def _files(*patterns: str, most: int = 12, limit: int = 60_000) -> tuple[bytes, ...]:
    found = [path for pattern in patterns for path in sorted(ROOT.glob(pattern))]
    step = max(len(found) // most, 1)
    return tuple(path.read_bytes() for path in found[::step][:most] if path.stat().st_size < limit)


def _heads(shared: Path | None, *patterns: str, size: int = HEAD_BYTES) -> tuple[bytes, ...]:
    """Starts of outside files, whole lines, unpacked."""
    found: list[bytes] = []
    for path in (p for pattern in patterns for p in sorted(shared.glob(pattern))) if shared else ():
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
            data = stream.read(200_000)
        if len(data) > size:
            data = data[: data.rfind(b"\n", 0, size) + 1] or data[: data.find(b"\n") + 1] or data
        found.append(data)
    return tuple(found)


def _whole(shared: Path | None, *patterns: str, limit: int = 30_000) -> tuple[bytes, ...]:
    """Small outside files as they are."""
    paths = [p for pattern in patterns for p in sorted(shared.glob(pattern))] if shared else []
    return tuple(p.read_bytes() for p in paths if p.stat().st_size <= limit)


def _lines(rows: list[dict[str, Any]]) -> bytes:
    return "\n".join(json.dumps(row) for row in rows).encode() + b"\n"


def _mooncake() -> bytes:
    ids = [[0, 1, 2], [0, 1, 3, 4], [0, 1, 2, 5], [6, 7], [0, 1, 3, 4, 8]] * 4
    return _lines(
        [
            {"timestamp": 700 * n, "input_length": 512 * len(row) - 7, "output_length": 20 + n, "hash_ids": row}
            for n, row in enumerate(ids)
        ]
    )


def _chats() -> bytes:
    rows = []
    for n in range(20):
        parent = n - 2 if n > 3 else -1
        ids = list(range(20 + n // 2))
        rows.append(
            {
                "chat_id": n, "parent_chat_id": parent, "timestamp": 0.7 * n, "input_length": 16 * len(ids),
                "output_length": 9, "type": "text", "turn": 1 + n // 4, "hash_ids": ids,
            }
        )  # fmt: skip
    return _lines(rows)


def _azure() -> bytes:
    rows = [f"2023-11-16 18:17:{n:02d}.97996,{480 + n},{10 + n}" for n in range(20)]
    return ("TIMESTAMP,ContextTokens,GeneratedTokens\n" + "\n".join(rows)).encode()


def _parquet() -> tuple[bytes, ...]:
    """The same columns as a table of another program would hold them, packed and not."""
    import polars

    frame = polars.DataFrame(
        {
            "timestamp": [0.7 * n for n in range(40)],
            "input_length": [512 + n for n in range(40)],
            "output_length": [20 + n for n in range(40)],
            "hash_ids": [[n // 8, n] for n in range(40)],
        }
    )
    written: list[bytes] = []
    for table, packing in ((frame, "uncompressed"), (frame, "zstd"), (frame.drop("hash_ids"), "snappy")):
        file = io.BytesIO()
        table.write_parquet(file, compression=packing)
        written.append(file.getvalue())
    return tuple(written)


def _sweep() -> bytes:
    from pddplan.report.sweep_file import header, table
    from pddplan.studies.sweep import WORDS

    asked = _two_rates()
    known = {"rps": "1", "status": "plan", "question": asked.fingerprint((1.0,))}
    row = [known.get(name, "" if name in WORDS else "1.5") for name in header(asked.axes)]
    return table([row, ["2", "no plan", "too slow"]], asked.axes).encode()


def _burst() -> bytes:
    rows = [f"{5 * n},ChatGPT,{472 + n},{18 + n},{490 + 2 * n},Conversation log" for n in range(20)]
    return ("Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n" + "\n".join(rows) + "\n").encode()


def _usage() -> bytes:
    head = "timestamp,session_id,role,model,status,prompt_tokens,completion_tokens,total_tokens,cost_usd\n"
    rows = [
        f"2026-04-23T17:36:{n:02d}.775440+00:00,s{n % 3},agent,m,success,{90 + n},4,{94 + n},1e-5" for n in range(20)
    ]
    return (head + "\n".join(rows) + "\n").encode()


def _lengths() -> bytes:
    return b"num_prefill_tokens,num_decode_tokens,num_total_tokens,pd_ratio\n" + b"3772,54,3826,69.8\n" * 20


def _sessions() -> bytes:
    rows = []
    for n in range(4):
        requests: list[dict[str, Any]] = [
            {"t": 1.5 * k, "type": "n", "model": "m", "in": 64 * (k + 3), "out": 30, "hash_ids": list(range(1, k + 4))}
            for k in range(5)
        ]
        inner = {"t": 0.0, "type": "n", "model": "m", "in": 128, "out": 7, "hash_ids": [1, 2]}
        requests.append({"t": 9.0, "type": "nested", "requests": [inner]})
        rows.append({"id": f"s{n}", "models": ["m"], "block_size": 64, "hash_id_scope": "local", "requests": requests})
    return _lines(rows)


def _rounds() -> bytes:
    rows = [
        {
            "provider": "p", "session_id": f"s{n % 3}", "round_index": n, "round_id": f"r{n}", "model": "m",
            "input_tokens_total": 3000 + n, "prefix_tokens": 2500, "newly_append_tokens": 500 + n, "output_tokens": 40,
            "timing_events": [{"name": "start", "timestamp": f"2026-07-01T10:00:{n:02d}.5Z"}],
        }
        for n in range(20)
    ]  # fmt: skip
    return _lines(rows)


def _client_results() -> tuple[bytes, ...]:
    vllm = {
        "date": "20260101-120000", "backend": "vllm", "model_id": "m", "num_prompts": 10, "request_rate": "inf",
        "max_concurrency": 4, "completed": 10, "total_input_tokens": 5000, "total_output_tokens": 1000,
        "request_throughput": 2.0, "mean_ttft_ms": 80.0, "mean_tpot_ms": 15.0, "mean_e2el_ms": 1600.0,
        "input_lens": [500] * 10, "output_lens": [100] * 10,
    }  # fmt: skip
    metric = {"unit": "ms", "avg": 80.0, "p50": 70.0}
    aiperf = {
        "request_latency": metric, "time_to_first_token": metric, "inter_token_latency": {"unit": "ms", "avg": 9.0},
        "input_sequence_length": {"unit": "tokens", "avg": 500.0}, "request_count": {"avg": 10},
        "output_sequence_length": {"unit": "tokens", "avg": 90.0}, "request_throughput": {"avg": 2.0},
    }  # fmt: skip
    mean = {"successful": {"mean": 50.0}}
    guidellm = {
        "metadata": {"version": 2},
        "benchmarks": [
            {
                "metrics": {
                    "request_totals": {"successful": 9}, "prompt_token_count": mean, "output_token_count": mean,
                    "inter_token_latency_ms": mean, "time_to_first_token_ms": mean, "requests_per_second": mean,
                    "request_latency": mean, "request_concurrency": mean,
                }
            }
        ],
    }  # fmt: skip
    stage = {
        "load_summary": {"count": 9, "requested_rate": 2.0, "achieved_rate": 1.95},
        "successes": {
            "count": 9, "throughput": {"requests_per_sec": 1.9}, "prompt_len": {"mean": 500.0},
            "output_len": {"mean": 100.0},
            "latency": {
                "request_latency": {"mean": 1.6}, "time_to_first_token": {"mean": 0.1},
                "time_per_output_token": {"mean": 0.015},
            },
        },
    }  # fmt: skip
    genai = {
        "_time_unit": "s",
        "aggregated_metrics": {
            "requests_per_second": 2.0, "num_concurrency": 4, "num_completed_requests": 9,
            "stats": {k: {"mean": 1.5} for k in ("num_input_tokens", "num_output_tokens", "tpot", "ttft")},
        },
    }  # fmt: skip
    request = {"input_toks": 500, "output_toks": 90, "queued_ts": 1.0, "first_token_ts": 1.5, "last_token_ts": 3.0}
    per_request = {
        "metadata": {"benchmark_phase": "profiling", "request_start_ns": 10**18},
        "metrics": {
            "request_latency": {"value": 90.0, "unit": "ms"}, "ttft": {"value": 20.0, "unit": "ms"},
            "isl": {"value": 500, "unit": "tokens"}, "osl": {"value": 90, "unit": "tokens"},
        },
    }  # fmt: skip
    return (*(json.dumps(x).encode() for x in (vllm, aiperf, guidellm, stage, genai)), _lines([request] * 5),
            _lines([per_request] * 5))  # fmt: skip


_AIPERF_CSV = (
    b"Metric,avg,min,max,p99,std\nTime to First Token (ms),80,1,100,99,2\nRequest Latency (ms),800,1,1000,990,20\n"
    b"Input Sequence Length (tokens),500,500,500,500,0\nOutput Sequence Length (tokens),90,90,90,90,0\n\n"
    b"Metric,Value\nRequest Throughput (requests/sec),2.5\nRequest Count,10\n"
)


def _measurements() -> bytes:
    from pddplan.performance.measurement import COLUMNS

    row = {
        "source": "s", "date": "2025-03-01", "kind": "tpot", "model": "llama-3.1-8b", "chip": "h100-sxm", "tp": "1",
        "n_chips": "1", "weights_dtype": "bf16", "kv_dtype": "bf16", "framework": "vllm 0.7", "isl_tokens": "1000",
        "osl_tokens": "200", "batch_or_concurrency": "16", "value": "12.5", "unit": "ms", "note": "mode=closed_loop",
    }  # fmt: skip
    prefill = {**row, "kind": "prefill_latency", "note": "mode=static", "batch_or_concurrency": "1"}
    through = {**row, "kind": "throughput_e2e", "unit": "out_tok/s", "value": "900"}
    rows = [",".join(r.get(c, "") for c in COLUMNS) for r in (row, prefill, through)]
    return "\n".join([",".join(COLUMNS), *rows]).encode() + b"\n"


_CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
    "num_attention_heads": 32, "num_key_value_heads": 8, "num_hidden_layers": 32, "vocab_size": 128256,
    "torch_dtype": "bfloat16", "tie_word_embeddings": False, "max_position_embeddings": 8192, "hidden_act": "silu",
}  # fmt: skip
_MOE_CONFIG = {
    **_CONFIG, "model_type": "deepseek_v3", "architectures": ["DeepseekV3ForCausalLM"], "kv_lora_rank": 512,
    "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "n_routed_experts": 256,
    "num_experts_per_tok": 8, "moe_intermediate_size": 2048, "n_shared_experts": 1, "first_k_dense_replace": 3,
    "num_nextn_predict_layers": 1, "moe_layer_freq": 1,
    "quantization_config": {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128]},
}  # fmt: skip
_MIXED_CONFIG = {
    **_CONFIG, "model_type": "gemma3_text", "architectures": ["Gemma3ForCausalLM"], "sliding_window": 1024,
    "sliding_window_pattern": 6, "head_dim": 256, "layer_types": ["sliding_attention"] * 5 + ["full_attention"],
    "num_hidden_layers": 6,
}  # fmt: skip


@cache
def plan_file() -> bytes:
    """A plan file of the hand-made sample."""
    from pddplan.report.json_plan import plan_file_text
    from tests import samples

    return plan_file_text(samples.sizing()).encode()


# -- all targets -----------------------------------------------------------------------------------------------------


def targets(shared: Path | None = None) -> tuple[Target, ...]:
    """Every reader; ``shared`` is a folder of real traces and results to spoil, too."""
    yaml, tree = spoil.TEXT, (spoil.spoil_json, spoil.spoil_json, spoil.spoil_json, *spoil.TEXT)
    rows = (spoil.spoil_json_lines, spoil.spoil_json_lines, spoil.spoil_json_lines, *spoil.TEXT)
    cells = (spoil.spoil_cells, spoil.spoil_cells, spoil.spoil_cells, *spoil.TEXT)
    either = (*rows[:3], *cells[:3], *spoil.TEXT)
    tables = (b"chip,vendor,mem_gb,mem_bw_gbs,bf16_tflops,tdp_w\nx1,v,80,3350,989,700\n",
              b"model,n_layers,hidden,n_heads,n_kv_heads,head_dim,ffn_inter,vocab\nm1,32,4096,32,8,128,14336,32000\n",
              *_whole(shared, "validation/chips.csv", "validation/models.csv"))  # fmt: skip
    text_traces = (_azure(), _burst(), _usage(), _lengths())
    json_traces = (_mooncake(), _chats(), _sessions(), _rounds())
    configs = tuple(json.dumps(config).encode() for config in (_CONFIG, _MOE_CONFIG, _MIXED_CONFIG))
    bench = _client_results()
    return (
        Target("chip.yaml", ".yaml", read_chip, _files("hardware_profiles/*.yaml"), yaml, 1.5),
        Target("model.yaml", ".yaml", read_model, _files("workloads/models/*.yaml"), yaml, 1.5),
        Target("workload.yaml", ".yaml", read_workload, _files("workloads/*.yaml"), yaml, 1.5),
        Target(
            "sites.yaml",
            ".yaml",
            read_sites,
            _files("workloads/sites/*.yaml", "workloads/published/*/workloads/sites/*.yaml"),
            yaml,
            1.5,
        ),
        Target("finance.yaml", ".yaml", read_finance, _files("workloads/finance/[!t]*.yaml"), yaml),
        Target(
            "token-prices.yaml", ".yaml", read_token_prices, _files("workloads/finance/token-prices.yaml"), yaml, 0.5
        ),
        Target("efficiency.yaml", ".yaml", read_efficiency, _files("hardware_profiles/efficiency/*.yaml"), yaml),
        Target(
            "latency-table.yaml",
            ".yaml",
            read_latency_table,
            _files("hardware_profiles/measured/*.yaml", "workloads/published/*/hardware_profiles/measured/*.yaml"),
            yaml,
        ),
        Target(
            "validate",
            ".yaml",
            read_any_yaml,
            _files("workloads/*.yaml", "hardware_profiles/*.yaml", "workloads/finance/*.yaml"),
            yaml,
            0.5,
        ),
        Target(
            "config.json", ".json", read_config, (*configs, *_whole(shared, "reference/**/config*.json")), tree, 2.0
        ),
        Target("plan.json", ".json", read_plan, (plan_file(),), tree, 1.5),
        Target(
            "trace.jsonl",
            ".jsonl",
            read_trace_file,
            (
                *json_traces,
                *_heads(
                    shared,
                    "traces/mooncake/*",
                    "traces/qwen*/*",
                    "traces/weka*/*.gz",
                    "traces/tracelab/*.jsonl",
                    size=6000,
                ),
            ),
            rows,
            0.7,
        ),
        Target(
            "trace.csv",
            ".csv",
            read_trace_file,
            (*text_traces, *_heads(shared, "traces/*/*.csv", size=2000)),
            cells,
            2.0,
        ),
        Target(
            "trace.json",
            ".json",
            read_trace_file,
            (_sessions().split(b"\n")[0], *_whole(shared, "traces/weka*/original_files/*.json")),
            tree,
            0.7,
        ),
        Target("trace.parquet", ".parquet", read_trace_file, _parquet(), (spoil.spoil_bytes, spoil.truncate), 1.0),
        Target("sweep.csv", ".csv", read_sweep, (_sweep(),), cells, 0.5),
        Target("trace.gz", ".jsonl.gz", read_trace_file, (*text_traces, *json_traces), (spoil.spoil_packed,), 1.0),
        Target(
            "benchmark.json",
            ".json",
            read_benchmark_file,
            (*bench, *_whole(shared, "bench_results/**/*.json", limit=12_000)),
            tree,
            2.0,
        ),
        Target(
            "benchmark.jsonl",
            ".jsonl",
            read_benchmark_file,
            (*bench[-2:], *_heads(shared, "bench_results/**/*.jsonl")),
            rows,
            1.0,
        ),
        Target(
            "benchmark.txt",
            ".csv",
            read_benchmark_file,
            (
                _AIPERF_CSV,
                *_whole(shared, "bench_results/**/*.csv", "bench_results/**/*.txt", "bench_results/**/*.yaml"),
            ),
            either,
            1.0,
        ),
        Target(
            "predict.csv",
            ".csv",
            read_predict_table,
            (_measurements(), *_heads(shared, "validation/*_*.csv", size=1500)),
            cells,
            1.0,
        ),
        Target("chips-and-models.csv", ".csv", read_chip_and_model_tables, tables, cells, 1.0),
    )
