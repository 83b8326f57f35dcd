"""Fit the bundled efficiencies to public measurements, and judge the closed form on what it has not seen.

    python benchmarks/fit_efficiency.py DATA                                  # fit, print the numbers and their errors
    python benchmarks/fit_efficiency.py DATA --write-profiles                 # and write hardware_profiles/efficiency
    python benchmarks/fit_efficiency.py DATA --report docs/validation.md      # leave out chips, models, files (minutes)

DATA is a folder of tables in the schema that docs/validation.md describes, with chips.csv and models.csv.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from pddplan.domain.workload import Array
from pddplan.errors import InputError
from pddplan.files import write_atomically
from pddplan.performance.calibration import Deviation, Fit, Observations, Parameter, fit
from pddplan.performance.measurement import Measurement, read_measurements
from pddplan.performance.predict import run_of, subject_of
from pddplan.performance.scores import phase_of
from pddplan.performance.serving import RunLoad, stack_runs
from pddplan.profiles.catalog import ProfileCatalog
from pddplan.profiles.efficiency_profile import VALIDATION_FILE, load_layers, resolve_stack

PROFILES = Path(__file__).resolve().parent.parent / "hardware_profiles" / "efficiency"
NOT_MEASUREMENTS = {"chips.csv", "models.csv", "collectives.csv"}
OPERATOR_SAMPLE = 0.12
"""Share of operator sums used in a fit: they are many, smooth and alike."""
OPERATOR_WEIGHT = 0.65
SPLIT_WEIGHT = 0.7
PRIOR_WEIGHT = 3.0
"""Rows of one source err together: thousands of them are worth far fewer, so priors count six times as usual."""
SEED = 20261130
CHIP_GROUPS: Mapping[str, tuple[str, ...]] = {
    "a100-80g": ("a100-80g", "a100-40g", "a800-80g", "a100_sxm_40", "a100_sxm_80"),
    "h100-sxm": ("h100-sxm", "h800-sxm"),
}
"""Chips that share silicon are fitted and left out together."""
OLD_HOSTS = 1.4
"""Time of one thread's work on hosts of A100 systems (EPYC 7002) relative to those of H100 systems (Xeon 8480)."""
OLD_KERNELS = ("eager-2023", "graphs-2024")
"""Eras whose attention and matrix kernels may differ from today's."""
ERAS = ("eager-2023", "graphs-2024", "graphs-2025", "operators")


AMD: Mapping[str, float] = {
    "gemm_mfu_bf16": 0.55,
    "gemm_mfu_fp8": 0.60,
    "gemm_mfu_fp4": 0.60,
    "attention_mfu": 0.60,
    "weights_mbu": 0.90,
    "kv_mbu": 0.90,
    "experts_mbu": 0.90,
    "gemm_overhead_s": 1.5,
    "attention_overhead_s": 1.5,
    "experts_overhead_s": 3.0,
}
"""What MI300X is known to reach relative to the general default, before any row of it is seen.

Rates: 45 % of the matrix peak in bf16 and fp8 and 81 % of memory bandwidth, where NVIDIA reaches up to 93 % and 90 %
(arXiv 2510.27583). Times: one stream of a dense 8B model is as fast as on H200, of a mixture 2.7 times slower
(github.com/alpharomercoma/MI300X-vs-H200, vLLM 0.26): launches cost more, those of experts most.
"""


def design() -> list[Parameter]:
    """What is fitted, from which start, and at which levels it may differ.

    Starts are those of performance_terms, of publications and round numbers; none comes from an earlier fit. Kernels
    are held close to them; what engines add may move far, because it does so between eras and releases.
    """

    def chip(name: str, *, spread: float = 0.10, vendor: float = 0.10) -> tuple[Deviation, ...]:
        return (Deviation("chip", spread), Deviation("vendor", vendor, {"AMD": AMD.get(name, 1.0)}))

    def kernels(name: str, *, eager: float, graphs: float = 1.0) -> tuple[Deviation, ...]:
        return (*chip(name), Deviation("kernels", 0.15, {"eager-2023": eager, "graphs-2024": graphs}))

    def experts(name: str) -> tuple[Deviation, ...]:
        return (*chip(name, spread=0.2), Deviation("stack", 0.10))

    def launch(name: str) -> tuple[Deviation, ...]:
        return (Deviation("vendor", 0.7, {"AMD": AMD[name]}), measure(0.3))

    def measure(spread: float, *, operators: float = 1.0, runs: float = 1.0) -> Deviation:
        return Deviation("measure", spread, {"operators": operators, "runs": runs})

    def stack(*, eager: float, graphs: float, operators: float = 1.0) -> tuple[Deviation, ...]:
        means = {"eager-2023": eager, "graphs-2024": graphs, "graphs-2025": 1.0, "operators": operators}
        # hosts of A100 systems (Zen 2 of 2019) are slower in one thread than those of later ones
        hosts = Deviation("chip", 0.15, {"a100-80g": OLD_HOSTS})
        return (Deviation("era", 1.4, means), Deviation("stack", 0.7), hosts)

    # an interpreted scheduler touches every sequence every step; a compiled one hardly
    host = Deviation("engine", 1.0, {"vllm": 2.0, "sglang": 2.0, "trtllm": 0.4, "compiled": 0.4})
    # vLLM's driver pickled its inputs for the other workers: 0.4 ms per broadcast of several (vllm-project/vllm#4844)
    workers = Deviation("engine", 0.7, {"vllm": 3.0, "sglang": 1.0, "trtllm": 0.3, "compiled": 0.3})
    scheduler = Deviation("compiled", 0.7, {"compiled": 0.3})
    launches = Deviation("compiled", 0.7, {"compiled": 0.4})
    # engines had NCCL alone before they brought all-reduces of their own for small messages
    collectives = Deviation("era", 0.5, {"eager-2023": 4.0, "graphs-2024": 3.0, "graphs-2025": 1.0, "operators": 1.0})
    # engines send tokens straight to their experts, more or less; operator databases price a gathering of all on all
    exchange = Deviation("engine", 1.0)

    def pair(spread: float) -> Deviation:
        """What is peculiar to the runs of a stack on a chip; it keeps them from passing for the stack itself."""
        return Deviation("pair", spread)

    return [
        Parameter("gemm_mfu_bf16", 0.75, 0.1, kernels("gemm_mfu_bf16", eager=0.85)),
        Parameter("gemm_mfu_fp8", 0.60, 0.1, kernels("gemm_mfu_fp8", eager=0.85)),
        Parameter("gemm_mfu_fp4", 0.45, 0.15, chip("gemm_mfu_fp4")),
        Parameter("gemm_padding_tokens", 50.0, 0.7),
        Parameter("weights_mbu", 0.80, 0.1, chip("weights_mbu")),
        Parameter("roofline_sharpness", 3.0, 0.4),
        Parameter("attention_mfu", 0.58, 0.1, (*kernels("attention_mfu", eager=0.7, graphs=0.9), measure(0.15))),
        Parameter("latent_decode_mfu", 0.60, 0.3),
        Parameter("kv_mbu", 0.85, 0.1, kernels("kv_mbu", eager=0.7, graphs=0.9)),
        Parameter("elementwise_mbu", 0.75, 0.2),
        Parameter("experts_mfu", 0.80, 0.3, experts("experts_mfu")),
        Parameter("experts_padding_tokens", 50.0, 0.7),
        Parameter("experts_mbu", 0.75, 0.2, experts("experts_mbu")),
        Parameter("experts_8bit_rate", 0.9, 0.1, (Deviation("stack", 0.4, {"vllm-2025": 0.6, "operators-vllm": 0.5}),)),
        Parameter("experts_visits", 8.0, 0.5),
        # as uneven as SGLang's team found experts without EPLB: prefill (EP32) 1.49 times longer, decoding (EP72) 2.54
        Parameter("experts_load_cv", 1.6, 0.12, (measure(0.3),)),
        Parameter("gemm_overhead_s", 6e-6, 0.5, launch("gemm_overhead_s")),
        # a database times the kernel that packs activations by itself; engines fuse it with norms where they can
        Parameter("quantise_overhead_s", 3e-6, 0.5, (measure(0.3, operators=1.5, runs=0.75),)),
        Parameter("attention_overhead_s", 11e-6, 0.5, launch("attention_overhead_s")),
        Parameter("attention_prefill_overhead_s", 35e-6, 0.5),
        Parameter("experts_overhead_s", 25e-6, 0.5, launch("experts_overhead_s")),
        Parameter("elementwise_overhead_s", 3e-6, 0.5),
        Parameter("layer_gap_s", 4e-6, 1.0, (*stack(eager=30.0, graphs=10.0, operators=4.0), launches)),
        Parameter("prefill_gap_s", 4e-6, 1.0, stack(eager=10.0, graphs=3.0, operators=4.0)),
        Parameter("step_overhead_s", 3e-4, 1.0, (*stack(eager=10.0, graphs=2.0), scheduler, pair(0.3))),
        Parameter("sequence_overhead_s", 1.5e-5, 1.0, (*stack(eager=3.0, graphs=2.0), host, pair(0.4))),
        Parameter("prefill_overhead_s", 3e-3, 1.0, (*stack(eager=5.0, graphs=2.0), scheduler)),
        Parameter("worker_overhead_s", 1e-4, 1.0, (*stack(eager=5.0, graphs=4.0), workers)),
        Parameter("query_norm_overhead_s", 1e-5, 0.15),
        Parameter("allreduce_latency_s", 4e-6, 0.3, (collectives,)),
        Parameter("allreduce_ring_latency_s", 18e-6, 0.3),
        Parameter("allreduce_efficiency", 0.70, 0.15),
        Parameter("alltoall_latency_s", 16e-6, 0.4, (measure(0.7),)),
        Parameter("alltoall_efficiency", 0.70, 0.2, (measure(0.3),)),
        Parameter("exchange_gather", 0.02, 0.04, (exchange, measure(0.04, operators=100.0))),
        Parameter("nic_latency_s", 4e-5, 0.5, (measure(0.7),)),
        Parameter("nic_efficiency", 0.65, 0.2, (measure(0.3),)),
        Parameter("prefill_interference", 0.95, 0.10, (Deviation("stack", 0.15), pair(0.15))),
        Parameter("prefill_mixing", 0.5, 0.28, (Deviation("stack", 0.35, {"sglang-2025": 0.05}),)),
    ]


@dataclass(frozen=True, slots=True, eq=False)
class Data:
    """Measurements in the order of the observations."""

    measurements: tuple[Measurement, ...]
    files: Array
    observations: Observations
    moe: Array
    skipped: tuple[str, ...]

    def column(self, name: str) -> Array:
        return np.array([getattr(m, name) for m in self.measurements])


@dataclass(frozen=True, slots=True, eq=False)
class _Known:
    """A measurement that is understood, with the levels that its numbers are inherited through."""

    measurement: Measurement
    file: str
    run: RunLoad
    moe: bool
    keys: Mapping[str, str]

    @property
    def weight(self) -> float:
        if self.keys["measure"] == "operators":
            return OPERATOR_WEIGHT
        return SPLIT_WEIGHT if self.measurement.disaggregated else 1.0


def load(folder: Path) -> tuple[Data, Data]:
    """Read all tables of a folder and turn their rows into runs: those that count, and TTFT in closed loops apart."""
    catalog = ProfileCatalog(dirs=(folder,))
    known: list[_Known] = []
    skipped: list[str] = []
    for path in sorted(folder.glob("*.csv")):
        if path.name in NOT_MEASUREMENTS:
            continue
        rows = read_measurements(path)
        skipped += [f"{r.where}: {r.reason}" for r in rows if r.measurement is None]
        for m in _with_split_steps([r.measurement for r in rows if r.measurement is not None]):
            if m.mode == "fleet_24h" or m.value is None or m.low_quality or (m.kind == "ttft" and m.disaggregated):
                continue
            try:
                known.append(_known(m, path.stem, catalog))
            except InputError as fault:
                skipped.append(f"{m.where}: {fault}")
    return (
        _data([k for k in known if k.measurement.kind != "ttft"], skipped),
        _data([k for k in known if k.measurement.kind == "ttft"], []),
    )


def _known(m: Measurement, file: str, catalog: ProfileCatalog) -> _Known:
    subject = subject_of(m, catalog)
    operators = m.mode == "op_composed"
    stack = resolve_stack(m.framework, m.date, operators=operators)
    era = _era_of(stack.id)
    keys = {
        "chip": chip_group(subject.chip.id),
        "vendor": subject.chip.vendor,
        "engine": stack.engine or "other",
        "compiled": "compiled" if stack.engine == "compiled" else "",
        "era": era,
        "kernels": era if era in OLD_KERNELS else "",
        "stack": stack.id,
        "measure": "operators" if operators else "runs",
        "pair": "" if operators else f"{chip_group(subject.chip.id)} {stack.id}",
    }
    return _Known(m, file, run_of(subject)[0], subject.llm.is_moe, keys)


def _data(known: Sequence[_Known], skipped: Sequence[str]) -> Data:
    measurements = [k.measurement for k in known]
    return Data(
        measurements=tuple(measurements),
        files=np.array([k.file for k in known]),
        observations=Observations(
            runs=stack_runs([k.run for k in known]),
            values=np.array([m.value for m in measurements], dtype=float),
            weights=np.array([k.weight for k in known]),
            keys={level: np.array([k.keys[level] for k in known]) for level in known[0].keys},
            parts=_parts(measurements),
        ),
        moe=np.array([k.moe for k in known]),
        skipped=tuple(skipped),
    )


def chip_group(chip_id: str) -> str:
    """Key of a chip at the level of chips."""
    return next((group for group, members in CHIP_GROUPS.items() if chip_id in members), chip_id)


def _era_of(stack_id: str) -> str:
    layers = load_layers()
    while stack_id not in ERAS:
        parent = layers[stack_id].file.based_on
        if parent is None:
            return stack_id
        stack_id = parent
    return stack_id


def _with_split_steps(measured: Sequence[Measurement]) -> Iterable[Measurement]:
    """Split systems enter a fit by their decoding step: batch per worker by Little's law from their own rows."""
    rate: dict[tuple[object, ...], float] = {}

    def run_key(m: Measurement) -> tuple[object, ...]:
        return (
            m.source,
            m.date,
            m.chip,
            m.weights_dtype,
            m.framework,
            m.note.split(";per chip")[0],
            m.batch,
            m.input_tokens,
            m.output_tokens,
        )

    for m in measured:
        if m.disaggregated and m.kind == "throughput_e2e" and m.value is not None:
            rate[run_key(m)] = m.value * (m.chips if m.per_chip else 1)
    for m in measured:
        if not m.disaggregated:
            yield m
        elif m.kind == "tpot" and m.value is not None and m.decode_pool is not None:
            tokens_per_s = rate.get(run_key(m))
            if tokens_per_s is None or m.batch is None:
                continue
            batch = min(tokens_per_s * m.value, m.batch) / m.decode_pool.workers
            context = m.input_tokens + m.output_tokens / 2
            yield replace(m, kind="decode_step", mode="static", batch=max(batch, 1.0), input_tokens=context)


def _parts(measurements: Sequence[Measurement]) -> dict[str, Array]:
    """Measured parts; where a source does not divide them as we do, their sum."""

    def column(*names: str, where: Array) -> Array:
        total = np.array([sum(m.parts_s.get(n, 0.0) for n in names) for m in measurements])
        return np.where(where, total, 0.0)

    latent = np.array([m.model.startswith("deepseek") for m in measurements])
    exchanging = np.array([m.shape.dp > 1 for m in measurements])
    return {
        "gemm": column("gemm", where=~latent),
        "attn": column("attn", where=~latent),
        "gemm+attn": column("gemm", "attn", where=latent),
        "moe": column("moe", where=~exchanging),
        "moe+comm": column("moe", "comm", where=exchanging),
        "comm": column("comm", where=~exchanging),
    }


def sample(data: Data, index: Array) -> Array:
    """Thin out the operator sums of a fit."""
    draw = np.random.default_rng(SEED).random(data.observations.count)
    operators = data.observations.keys["measure"] == "operators"
    return index[~operators[index] | (draw[index] < OPERATOR_SAMPLE)]


def fitted(data: Data, rows: Array, *, max_evaluations: int) -> Fit:
    """Fit to some rows. What belongs to one stack on one chip is taken out of the result: profiles do not carry it."""
    result = fit(data.observations.take(rows), design(), max_evaluations=max_evaluations, prior_weight=PRIOR_WEIGHT)
    return result.without("pair")


def held_out(data: Data, by: str) -> Array:
    """Predictions of every row by a fit that has not seen its chip, model or file."""
    column = {"chip": data.observations.keys["chip"], "model": data.column("model"), "file": data.files}[by]
    predicted = np.full(data.observations.count, np.nan)
    everything = np.arange(data.observations.count)
    for key in sorted(set(column)):
        out = everything[column == key]
        seen = sample(data, everything[column != key])
        started = time.monotonic()
        result = fitted(data, seen, max_evaluations=25)
        predicted[out] = result.predict(data.observations.take(out))
        error = predicted[out] / data.observations.values[out] - 1
        print(
            f"left out {by} {key}: {out.size} rows, MAPE {100 * np.mean(np.abs(error)):.1f} %, "
            f"bias {100 * np.mean(error):+.1f} %  ({time.monotonic() - started:.0f} s)",
            file=sys.stderr,
            flush=True,
        )
    return predicted


def line(name: str, errors: Array) -> str:
    """One row of an error table."""
    size = np.abs(errors)
    return (
        f"| {name} | {errors.size:,} | {100 * size.mean():.1f} | {100 * np.median(size):.1f} | "
        f"{100 * errors.mean():+.1f} | {100 * np.percentile(size, 90):.0f} | {100 * errors[np.argmax(size)]:+.0f} |"
    )


HEAD = "| {} | rows | MAPE % | median % | bias % | P90 % | worst % |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: |"


def table(title: str, errors: Array, groups: Array) -> list[str]:
    """Error table by group."""
    return [HEAD.format(title), *(line(str(key), errors[groups == key]) for key in sorted(set(groups)))]


def group_columns(data: Data) -> dict[str, Array]:
    """What reports are grouped by."""
    obs = data.observations
    kinds = np.array([f"{m.kind} ({m.mode}{', split system' if m.disaggregated else ''})" for m in data.measurements])
    return {
        "dense / MoE": np.where(data.moe, "MoE", "dense"),
        "operators / runs": np.char.add(np.char.add(obs.keys["measure"], " "), np.where(data.moe, "MoE", "dense")),
        "kind and mode": kinds,
        "phase": np.array([phase_of(m) for m in data.measurements]),
        "weights": data.column("weights_dtype"),
        "model": data.column("model"),
        "chip and stack": np.array([f"{c} / {s}" for c, s in zip(obs.keys["chip"], obs.keys["stack"], strict=True)]),
        "file": data.files,
    }


def write_profiles(result: Fit, folder: Path) -> None:
    """Lay the fitted numbers out as efficiency profiles, one file per layer."""
    from fit_efficiency_profiles import write_layers

    write_layers(result, folder)


def write_validated(data: Data, predictions: Mapping[str, Array], path: Path) -> None:
    """Mean error on what was left out, the worst of the ways of leaving out: how sure planned times are."""
    sizes = [np.abs(predicted / data.observations.values - 1) for predicted in predictions.values()]
    worst = {
        name: round(max(float(size[rows].mean()) for size in sizes), 3)
        for name, rows in (("dense", ~data.moe), ("moe", data.moe))
    }
    write_atomically(path, json.dumps(worst) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--write-profiles", action="store_true")
    parser.add_argument("--report", type=Path)
    parser.add_argument("--only", default="chip,model,file")
    args = parser.parse_args()
    started = time.monotonic()
    data, apart = load(args.data)
    everything = np.arange(data.observations.count)
    print(
        f"{data.observations.count} rows, {len(data.skipped)} skipped ({time.monotonic() - started:.0f} s)",
        file=sys.stderr,
    )
    result = fitted(data, sample(data, everything), max_evaluations=40)
    errors = result.predict(data.observations) / data.observations.values - 1
    print(
        f"fit: cost {result.cost:.0f}, {result.evaluations} evaluations ({time.monotonic() - started:.0f} s)",
        file=sys.stderr,
    )
    for p in result.parameters:
        low, high = result.interval(p.name)
        levels = [
            f"{level} "
            + " ".join(
                f"{k} {result.factor(p.name, level, k):.2f}" for n, v, k in result.slots if (n, v) == (p.name, level)
            )
            for level in dict.fromkeys(v for n, v, _ in result.slots if n == p.name and v)
        ]
        print(f"{p.name:30} {result.value(p.name):10.4g} [{low:.4g}, {high:.4g}]  " + " | ".join(levels))
    print("\n".join([HEAD.format("in sample"), line("all", errors)]))
    for title, groups in group_columns(data).items():
        print("\n".join(table(title, errors, groups)))
    if args.write_profiles:
        write_profiles(result, PROFILES)
    if args.report is not None or args.only != "chip,model,file":
        predictions = {by: held_out(data, by) for by in args.only.split(",")}
        for by, predicted in predictions.items():
            e = predicted / data.observations.values - 1
            print("\n".join(["", HEAD.format(f"left out by {by}"), line("all", e)]))
            for title, groups in group_columns(data).items():
                print("\n".join(table(title, e, groups)))
        if args.report is not None:
            from fit_efficiency_report import report, table_of_ttft

            ttft = result.predict(apart.observations) / apart.observations.values - 1
            write_atomically(args.report, report(data, errors, predictions, ttft=table_of_ttft(apart, ttft)))
            write_validated(data, predictions, PROFILES / VALIDATION_FILE)


if __name__ == "__main__":
    main()
