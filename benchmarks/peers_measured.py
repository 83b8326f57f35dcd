"""Both planners' formulas on configurations that somebody measured: which of them is closer?

Neither side is blind to these rows. Ours were fitted with them among many others (docs/validation.md has the errors on
rows left out); the peer ships most of them as its own regression sample. Its database is of a newer engine release.
"""

from __future__ import annotations

import csv
import io
import json
import statistics
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pddplan.units import MS_PER_S

PEER_LLMS: Mapping[tuple[str, str], str] = {
    ("llama-3.1-70b", "bf16"): "meta-llama/Meta-Llama-3.1-70B",
    ("llama-3.1-70b", "fp8"): "nvidia/Llama-3.1-70B-Instruct-FP8",
    ("qwen3-32b", "bf16"): "Qwen/Qwen3-32B",
    ("qwen3-32b", "fp8"): "Qwen/Qwen3-32B-FP8",
    ("qwen3-235b-a22b", "bf16"): "Qwen/Qwen3-235B-A22B",
    ("qwen3-235b-a22b", "fp8"): "Qwen/Qwen3-235B-A22B-FP8",
    ("deepseek-v3", "fp8"): "deepseek-ai/DeepSeek-V3",
}
"""The peer takes the number format from the name of a checkpoint."""
ENGINES = ("trtllm", "sglang", "vllm")
CALM_SEQUENCES = 16
"""With more requests in flight per instance, TTFT of a closed loop is mostly waiting for one another."""
FILES = ("nvidia_closed_loop.csv", "inferencex_closed_loop.csv", "inferencex_dsr1_closed_loop.csv")
CONFIGURATION = (
    *("model", "chip", "weights_dtype", "kv_dtype", "n_chips", "tp", "pp", "dp", "ep", "framework"),
    *("isl_tokens", "osl_tokens", "batch_or_concurrency"),
)

ASK = """
import contextlib, json, sys
with contextlib.redirect_stdout(sys.stderr):
    from aiconfigurator.cli.api import cli_estimate
    answers = []
    for question in json.load(sys.stdin):
        try:
            found = cli_estimate(mode="agg", **question)
            answers.append({"ttft": float(found.ttft), "tpot": float(found.tpot)})
        except Exception as error:
            answers.append({"refused": f"{type(error).__name__}: {error}"})
json.dump(answers, sys.stdout)
"""


@dataclass(frozen=True, slots=True)
class Score:
    """Errors of both on the same rows: (ours, the peer's)."""

    rows: int
    mape: tuple[float, float]
    bias: tuple[float, float]


def configurations(data: Path, *, per_group: int) -> list[dict[str, dict[str, str]]]:
    """Measured configurations that both can be asked for, spread evenly over each (model, chip, number format).

    One entry holds the rows of one configuration by kind (ttft, tpot). Left out: split systems, attention data
    parallelism, rows of low quality, engines and number formats that the peer has no data for.
    """
    found: dict[tuple[str, ...], dict[str, dict[str, str]]] = defaultdict(dict)
    for name in FILES:
        if not (data / name).exists():
            continue
        with (data / name).open(encoding="utf-8", newline="") as lines:
            for row in csv.DictReader(lines):
                if row["kind"] in ("ttft", "tpot") and _comparable(row):
                    found[tuple(row[c] for c in CONFIGURATION)][row["kind"]] = row
    groups: dict[tuple[str, ...], list[dict[str, dict[str, str]]]] = defaultdict(list)
    for key in sorted(found):
        if len(found[key]) == 2:
            groups[key[:3]].append(found[key])
    return [group[i * len(group) // per_group] for group in groups.values() for i in range(min(per_group, len(group)))]


def _comparable(row: Mapping[str, str]) -> bool:
    note = row["note"]
    return (
        (row["model"], row["weights_dtype"]) in PEER_LLMS
        and row["chip"] in ("h100_sxm", "h200_sxm", "b200_sxm")
        and row["framework"].split(" ")[0] in ENGINES
        and row["dp"] in ("", "1")
        and "disagg" not in note
        and "attention_dp" not in note
        and "quality=low" not in note
        and bool(row["batch_or_concurrency"])
    )


def peer_question(row: Mapping[str, str]) -> dict[str, Any]:
    """A measured row as arguments of the peer's estimate."""
    tp, ep = int(row["tp"]), int(row["ep"] or 1)
    asked: dict[str, Any] = {
        "model_path": PEER_LLMS[row["model"], row["weights_dtype"]],
        "system_name": row["chip"],
        "backend_name": row["framework"].split(" ")[0],
        "isl": int(row["isl_tokens"]),
        "osl": int(row["osl_tokens"]),
        "batch_size": int(row["batch_or_concurrency"]),
        "tp_size": tp,
        "pp_size": int(row["pp"] or 1),
    }
    if row["model"] in ("qwen3-235b-a22b", "deepseek-v3"):
        asked |= {"moe_ep_size": ep, "moe_tp_size": max(tp // ep, 1)}
    return asked


def peer_estimates(python: Path, asked: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Ask the peer for all configurations in one process of its own."""
    done = subprocess.run(
        [str(python), "-c", ASK], input=json.dumps(asked), capture_output=True, text=True, check=False
    )
    if done.returncode:
        return [{"refused": done.stderr.strip().splitlines()[-1] if done.stderr else "no answer"}] * len(asked)
    answers: list[dict[str, Any]] = json.loads(done.stdout)
    return answers


def our_estimates(rows: Iterable[Mapping[str, str]]) -> list[float | None]:
    """Our predictions of measured rows [s]."""
    from pddplan.api import predict_table

    listed = list(rows)
    text = io.StringIO()
    table = csv.DictWriter(text, fieldnames=list(listed[0]))
    table.writeheader()
    table.writerows(listed)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.csv"
        path.write_text(text.getvalue(), encoding="utf-8")
        return [p.value for p in predict_table(path)]


def scores(
    measured: Sequence[dict[str, dict[str, str]]], peers: Sequence[dict[str, Any]]
) -> dict[tuple[str, str, str, str], Score]:
    """Errors by (model, chip, number format, kind), over the rows that both answer."""
    errors: dict[tuple[str, str, str, str], list[tuple[float, float]]] = defaultdict(list)
    for kind in ("ttft", "tpot"):
        rows = [both[kind] for both in measured]
        for row, ours, theirs in zip(rows, our_estimates(rows), peers, strict=True):
            calm = int(row["batch_or_concurrency"]) <= CALM_SEQUENCES
            if ours is None or kind not in theirs or (kind == "ttft" and not calm):
                continue
            value = float(row["value"])
            pair = (ours * MS_PER_S / value - 1.0, theirs[kind] / value - 1.0)
            errors[row["model"], row["chip"], row["weights_dtype"], kind].append(pair)
            errors["all", "", "", kind].append(pair)
    return {key: _score(pairs) for key, pairs in sorted(errors.items())}


def _score(pairs: Sequence[tuple[float, float]]) -> Score:
    ours, theirs = zip(*pairs, strict=True)
    return Score(
        rows=len(pairs),
        mape=(statistics.fmean(map(abs, ours)), statistics.fmean(map(abs, theirs))),
        bias=(statistics.fmean(ours), statistics.fmean(theirs)),
    )
