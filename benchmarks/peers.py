"""pddplan beside peers, in one run: what the same question costs, how the cost grows, and whether the answers agree.

    python benchmarks/peers.py                                     # whatever is installed
    python benchmarks/peers.py --peer VENV/bin/aiconfigurator      # the peer in an environment of its own
    python benchmarks/peers.py --peer ... --measured DATA --results DIR --write docs/peers.md

The peer is aiconfigurator (pip install aiconfigurator, into an environment of its own: some 850 MB). Without it our
part is printed and the rest is said to be missing. DATA is a folder of measurement tables (schema: docs/validation.md).
DIR keeps the peer's answers, so that a second run need not wait for them; the timed question is always asked anew.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from peers_questions import (
    HEADLINE,
    INPUT_TOKENS,
    Question,
    ask_peer,
    kv_dtype_of,
    our_answer,
    our_command,
    peer_agg_tokens_per_s_per_chip,
    peer_answer,
    peer_command,
    peer_rows,
    questions,
    same_layout,
)
from peers_spent import Growth, Spent, median_run, run
from peers_text import (
    ANSWERS_READ,
    EXPERTS_AGGREGATED_HEAD,
    EXPERTS_AGGREGATED_READ,
    EXPERTS_HEAD,
    EXPERTS_PREFILL_READ,
    HEAD,
    MEASURED_READ,
    SPEED_READ,
    expert_prefill_read,
)

from pddplan.errors import InputError
from pddplan.units import KILO, MS_PER_S

PARTS = ("speed", "volume", "answers", "experts", "measured", "growth")
ROWS = (10_000, 30_000, 100_000, 300_000)
REPLAYED = (100_000, 1_000_000)
MISSING = "The peer is not installed here, so only our side is given."
Lines = Iterator[str]


def main() -> None:
    """Measure, print, and on demand write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", type=Path, help="the peer's command; else the one on PATH")
    parser.add_argument("--results", type=Path, help="folder that keeps the peer's answers")
    parser.add_argument("--measured", type=Path, help="folder of measurement tables")
    parser.add_argument("--repeats", type=int, default=5, help="our runs per median (default 5)")
    parser.add_argument("--peer-repeats", type=int, default=1, help="the peer's runs per median (default 1)")
    parser.add_argument("--per-group", type=int, default=6, help="measured configurations per model, chip and format")
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of the trace that is imported whole")
    parser.add_argument("--parts", nargs="*", default=PARTS, choices=PARTS, help="measure these; others as kept")
    parser.add_argument("--kept-only", action="store_true", help="do not ask the peer what --results does not hold")
    parser.add_argument("--write", type=Path, help="write the page here, too")
    asked = parser.parse_args()
    found = asked.peer or shutil.which("aiconfigurator")
    peer = Path(found) if found and Path(found).exists() else None
    asker = None if asked.kept_only else peer
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        results = asked.results or folder / "results"
        results.mkdir(parents=True, exist_ok=True)
        # whole programs first, while this process is small: a child's peak counts its parent's
        parts = {
            "speed": lambda: _speed(peer, folder, asked),
            "volume": lambda: _volume(folder, asked.rows),
            "answers": lambda: _answers(asker, results, folder),
            "experts": lambda: _experts(results, asked.measured),
            "measured": lambda: _measured(asker, results, asked),
            "growth": lambda: _growth(folder),
        }
        page: list[str] = []
        for name, measure in parts.items():
            kept = results / f"{name}.md"
            if name in asked.parts:
                kept.write_text("\n".join(measure()), encoding="utf-8")
            page += kept.read_text(encoding="utf-8").split("\n") if kept.exists() else []
    text = "\n".join([*HEAD, *page]) + "\n"
    print(text)
    if asked.write:
        from pddplan.files import write_atomically

        write_atomically(asked.write, text)


def _worded(q: Question) -> str:
    return (
        f"{q.llm}, {q.chips} x {q.chip}, 4,000 input and 500 output tokens, TTFT {q.ttft_s:g} s, "
        f"TPOT {q.tpot_s * MS_PER_S:g} ms"
    )


def _pddplan() -> Path:
    return Path(sys.executable).parent / "pddplan"


def _speed(peer: Path | None, folder: Path, asked: argparse.Namespace) -> Lines:
    """The same question to both, as whole programs."""
    question = next(q for q in questions() if q.name == HEADLINE)
    yield from (
        "",
        "## Speed and memory",
        "",
        f"The question: {_worded(question)}. Both answer it as a whole program and compare with aggregated serving.",
        "",
        "| program | processor time, s | wall, s | peak memory, MB |",
        "| --- | ---: | ---: | ---: |",
    )
    pairs = {
        "size": (our_command(_pddplan(), question, folder), peer and peer_command(peer, question)),
        "help": ([str(_pddplan()), "--help"], peer and [str(peer), "--help"]),
    }
    ratios: dict[str, tuple[Spent, Spent]] = {}
    for name, (our, their) in pairs.items():
        mine = median_run(our, asked.repeats)
        yield _spent(f"pddplan {name}", mine)
        if their:
            other = median_run(their, asked.peer_repeats, environment={"HF_HUB_OFFLINE": "1"})
            yield _spent(f"aiconfigurator {'cli default' if name == 'size' else 'help'}", other)
            ratios[name] = (mine, other)
    yield _spent("pddplan size (bundled question)", median_run([str(_pddplan()), "size"], asked.repeats))
    yield _spent("python -c 'import pddplan'", median_run([sys.executable, "-c", "import pddplan"], asked.repeats))
    yield ""
    if not ratios:
        yield MISSING
    for name, (mine, other) in ratios.items():
        yield (
            f"- {name}: the peer takes **{other.cpu_s / mine.cpu_s:.0f} times** our processor time, "
            f"{other.wall_s / mine.wall_s:.0f} times our wall time and {other.peak_mb / mine.peak_mb:.1f} times "
            "our memory."
        )
    yield from SPEED_READ


def _spent(name: str, spent: Spent) -> str:
    failed = "" if spent.code == 0 else f" (exit {spent.code})"
    return f"| {name}{failed} | {spent.cpu_s:.2f} | {spent.wall_s:.2f} | {spent.peak_mb:.0f} |"


def _volume(folder: Path, rows: int) -> Lines:
    """Whole-program cost of a large trace, and requests per second of the simulator."""
    from peers_growth import write_trace

    trace, plan = folder / "large.jsonl", folder / "plan.json"
    write_trace(trace, rows)
    imported = run([_pddplan(), "workload", "import", trace, "--model", "qwen3-32b", "--out", folder / "large.yaml"])
    size_mb = trace.stat().st_size / KILO / KILO
    trace.unlink()
    run([_pddplan(), "size", "--no-compare", "--out", plan])
    few, many = (run([_pddplan(), "simulate", plan, "--requests", str(n)]) for n in REPLAYED)
    rate = (REPLAYED[1] - REPLAYED[0]) / (many.cpu_s - few.cpu_s)
    yield from (
        "",
        "## Large inputs",
        "",
        "| program | processor time, s | wall, s | peak memory, MB |",
        "| --- | ---: | ---: | ---: |",
        _spent(f"pddplan workload import, {rows:,} rows with block ids ({size_mb:.0f} MB)", imported),
        _spent(f"pddplan simulate, {REPLAYED[0]:,} requests", few),
        _spent(f"pddplan simulate, {REPLAYED[1]:,} requests", many),
        "",
        f"Simulated requests per second of processor time: {REPLAYED[1] / many.cpu_s:,.0f} with start-up, "
        f"{rate:,.0f} without.",
    )


def _growth(folder: Path) -> Lines:
    """Exponents, and the Mélange-style programme."""
    from peers_growth import ILP_SECONDS, SLICES, ilp_beside_size, import_growth, size_growth

    found: list[Growth] = [*size_growth(), import_growth(folder, ROWS)]
    yield from (
        "",
        "## How our cost grows",
        "",
        "Processor time of the Python API, medians over drawn questions (2 sites, 4 kinds of chips, 16 classes,",
        "any topology) with one axis growing; time ~ size^p. The second exponent is that of the last doubling or so,",
        "where start-up weighs least. Small questions are searched until the proof over all shapes closes or their",
        "time is over; large ones go without that proof, so more classes may take less time.",
        "",
        "| axis | size: seconds | p, all points | p, last two |",
        "| --- | --- | ---: | ---: |",
    )
    for g in (g for g in found if g.points):
        points = ", ".join(f"{n:,}: {s:.2f}" for n, s in g.points)
        yield f"| {g.axis} | {points} | {g.exponent:.2f} | {g.last_exponent:.2f} |"
    yield from (
        "",
        "## Beside a Mélange-style programme",
        "",
        f"One place, aggregated serving, one binary per slice ({SLICES} per bucket) and kind of chip, as Mélange's",
        "paper has it; written anew from the paper, because its authors' code is no installable package. Same solver,",
        f"same questions, at most {ILP_SECONDS} s. It chooses chips for mean loads only; ours also holds the promises.",
        "",
        "| classes x chips | ours, s | Mélange-style, s | ratio | its status |",
        "| --- | ---: | ---: | ---: | --- |",
    )
    for classes, chips in ((16, 4), (32, 8)):
        ours, theirs, status = ilp_beside_size(classes=classes, chips=chips)
        yield f"| {classes} x {chips} | {ours:.2f} | {theirs:.2f} | {theirs / ours:.1f} | {status} |"


def _answers(peer: Path | None, results: Path, folder: Path) -> Lines:
    """Plans side by side, and both speed models on the peer's own layout."""
    plans: list[str] = []
    layouts: list[str] = []
    experts: tuple[str, ...] = ()
    for q in questions():
        kept = ask_peer(peer, q, results)
        rows = peer_rows(kept, "disagg") if kept else []
        kv = kv_dtype_of(rows[0]) if rows else "bf16"
        mine = our_answer(run(our_command(_pddplan(), q, folder, kv_dtype=kv)), q)
        together = our_answer(run(our_command(_pddplan(), q, folder, topology="colocated", kv_dtype=kv)), q)
        theirs = peer_answer(rows[0], q) if rows else None
        agg = peer_agg_tokens_per_s_per_chip(peer_rows(kept, "agg")) if kept else None
        plans.append(_plan_row(q, "pddplan", mine, together.tokens_per_s_per_chip if together else None))
        if kept:
            plans.append(_plan_row(q, "peer", theirs, agg))
        else:
            plans.append("| | peer | not asked | | | | |")
        if rows:
            layouts.append(_layout_row(q, rows[0]))
        if rows and q.name == "deepseek-v3-h100-sxm":
            experts = _expert_prefill(q, rows[0])
    yield from (
        "",
        "## The same questions, side by side",
        "",
        "4,000 input and 500 output tokens, nothing cached, all chips of one kind in one place. Weights have 8 bits",
        "for DeepSeek-V3 and 16 bits elsewhere, the KV cache what the peer gives it.",
        "",
        "| model, chips (promises) | planner | output tok/s per chip | TTFT, s | TPOT, ms | layout "
        "| aggregated, tok/s per chip |",
        "| --- | --- | ---: | ---: | ---: | --- | ---: |",
        *plans,
        "",
    )
    if not layouts:
        yield MISSING
        return
    yield from (
        "With the peer's layout and batch, both speed models, ours over the peer's:",
        "",
        "| model, chips | prefill requests/s per instance | ratio | batch | decode step, ms | ratio |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
        *layouts,
        *experts,
        *ANSWERS_READ,
    )


def _plan_row(q: Question, planner: str, answer: object, together: float | None) -> str:
    from peers_questions import Answer

    promises = f"TTFT {q.ttft_s:g} s, TPOT {q.tpot_s * MS_PER_S:g} ms"
    label = f"{q.llm}, {q.chips} x {q.chip} ({promises})" if planner == "pddplan" else ""
    aggregated = "none" if together is None else f"{together:.0f}"
    if not isinstance(answer, Answer):
        return f"| {label} | {planner} | none found | | | | {aggregated} |"
    ttft = f"{answer.ttft_s:.2f}"
    if answer.ttft_p90_s is not None:
        ttft = f"P50 {ttft}, P90 {answer.ttft_p90_s:.2f}"
    return (
        f"| {label} | {planner} | {answer.tokens_per_s_per_chip:.0f} | {ttft} | {answer.tpot_s * MS_PER_S:.1f} "
        f"| {answer.layout} | {aggregated} |"
    )


def _layout_row(q: Question, row: dict[str, str]) -> str:
    try:
        both = same_layout(row, q)
    except InputError as error:
        return f"| {q.llm}, {q.chip} | not possible by our formulas: {str(error).splitlines()[0]} | | | | |"
    rps, step = both.prefill_rps, both.step_s
    return (
        f"| {q.llm}, {q.chip} | {rps[0]:.2f} : {rps[1]:.2f} | {rps[0] / rps[1]:.2f} | {both.batch} "
        f"| {step[0] * MS_PER_S:.1f} : {step[1] * MS_PER_S:.1f} | {step[0] / step[1]:.2f} |"
    )


def _expert_prefill(q: Question, row: dict[str, str]) -> tuple[str, ...]:
    try:
        both = same_layout(row, q)
    except InputError:
        return ()
    chips = float(row["(p)tp"]) * float(row["(p)pp"]) * float(row["(p)dp"])
    ours, theirs = (rate * INPUT_TOKENS / chips for rate in both.prefill_rps)
    return expert_prefill_read(ours, theirs)


def _experts(results: Path, data: Path | None) -> Lines:
    """Mixtures of experts, term by term."""
    from peers_experts import aggregated_lines, measured_prefill, published_lines, term_lines

    yield from EXPERTS_HEAD
    yield from term_lines()
    yield ""
    for full in measured_prefill(data) if data else ():
        yield (
            f"- Measured ({full.what}): at least **{full.prefill_tokens_per_s_per_chip:,.0f}** input tokens per second "
            f"and chip, at a TTFT of {full.ttft_s:.0f} s and {full.decoding_per_chip:.0f} requests decoding on a chip."
        )
    yield from EXPERTS_PREFILL_READ
    yield from published_lines()
    yield from EXPERTS_AGGREGATED_HEAD
    yield from aggregated_lines(results)
    yield from EXPERTS_AGGREGATED_READ


def _measured(peer: Path | None, results: Path, asked: argparse.Namespace) -> Lines:
    """Errors of both against measured configurations."""
    from peers_measured import configurations, peer_estimates, peer_question, scores

    yield from ("", "## Both beside measurements", "")
    if asked.measured is None:
        yield "No measurement tables were given (--measured)."
        return
    measured = configurations(asked.measured, per_group=asked.per_group)
    wanted = [peer_question(rows["tpot"]) for rows in measured]
    kept = results / "measured.json"
    answers = None
    if kept.exists():
        before = json.loads(kept.read_text(encoding="utf-8"))
        answers = before["answers"] if before["asked"] == wanted else None
    if answers is None:
        if peer is None:
            yield MISSING
            return
        answers = peer_estimates(peer.parent / "python", wanted)
        results.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps({"asked": wanted, "answers": answers}), encoding="utf-8")
    refused = sum("refused" in a for a in answers)
    yield from (
        f"{len(measured)} closed-loop configurations (aggregated serving), at most {asked.per_group} per model, chip",
        f"and number format, spread evenly; the peer answers {len(measured) - refused} of them. TTFT only up to 16",
        "requests in flight. Errors are predicted / measured - 1; bias is their mean.",
        "",
        "| model, chip, weights | number | rows | MAPE ours, % | MAPE peer, % | bias ours, % | bias peer, % |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: |",
    )
    for (llm, chip, dtype, kind), score in scores(measured, answers).items():
        label = ", ".join(part for part in (llm, chip.replace("_", "-"), dtype) if part)
        mape, bias = score.mape, score.bias
        yield (
            f"| {label} | {kind.upper()} | {score.rows} | {mape[0]:.0%} | {mape[1]:.0%} | {bias[0]:+.0%} "
            f"| {bias[1]:+.0%} |".replace("%", "")
        )
    yield from MEASURED_READ


if __name__ == "__main__":
    main()
