"""The same question to pddplan and to its peers, and what each answers, in one set of words.

A question: one kind of request, one kind of chip in one place, so many chips; how much can be served in time with
prefill and decode apart? That is all the peer can be asked. It knows no second site, line, relay, mix or percentile.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from peers_spent import Spent, run

from pddplan.units import MS_PER_S

INPUT_TOKENS, OUTPUT_TOKENS = 4000, 500
CHIPS = {"h100-sxm": "h100_sxm", "h200-sxm": "h200_sxm", "b200-sxm": "b200_sxm"}
"""Our name of a chip and the peer's."""


@dataclass(frozen=True, slots=True)
class Question:
    """One model on so many chips of one kind, under two promises."""

    llm: str
    peer_llm: str
    chip: str
    chips: int
    ttft_s: float
    tpot_s: float
    dtype: str

    @property
    def name(self) -> str:
        return f"{self.llm}-{self.chip}"


def questions() -> list[Question]:
    """Four models on three chips: dense on 16 chips, mixtures of experts on 32."""
    models = (
        ("llama-3.1-70b", "meta-llama/Meta-Llama-3.1-70B", 16, 2.0, 0.030, "bf16"),
        ("qwen3-32b", "Qwen/Qwen3-32B", 16, 1.0, 0.020, "bf16"),
        ("qwen3-235b-a22b", "Qwen/Qwen3-235B-A22B", 32, 2.0, 0.030, "bf16"),
        ("deepseek-v3", "deepseek-ai/DeepSeek-V3", 32, 2.0, 0.040, "fp8"),
    )
    return [
        Question(llm, peer_llm, chip, count, ttft_s, tpot_s, dtype)
        for llm, peer_llm, count, ttft_s, tpot_s, dtype in models
        for chip in CHIPS
    ]


HEADLINE = "qwen3-32b-h200-sxm"
"""The question that is timed."""


def our_command(
    pddplan: Path, question: Question, folder: Path, *, topology: str = "pd", kv_dtype: str = "bf16"
) -> list[str]:
    """Write the question as files and say how to ask it."""
    workload, sites = folder / f"{question.name}.workload.yaml", folder / f"{question.name}.sites.yaml"
    row = [1, INPUT_TOKENS, INPUT_TOKENS, INPUT_TOKENS, OUTPUT_TOKENS]
    workload.write_text(
        "schema: workload/1\nname: peer-question\n"
        f"llm: {question.llm}\narrival: {{rate_rps: 1.0, scv: 1.0}}\n"
        f"promises: {{ttft_p50_s: {question.ttft_s}, tpot_s: {question.tpot_s}}}\n"
        "requests:\n  kind: table\n"
        "  columns: [weight, input_tokens, miss_prefill_tokens, miss_decode_tokens, output_tokens]\n"
        f"  rows: [{row}]\n",
        encoding="utf-8",
    )
    sites.write_text(
        "schema: sites/1\nname: one place\n"
        f"sites:\n  here: {{chips: {{{question.chip}: {{max_chips: {question.chips}}}}}}}\n",
        encoding="utf-8",
    )
    return [
        *(str(pddplan), "size", "--workload", str(workload), "--sites", str(sites), "--topology", topology),
        *("--inventory", "--weights", question.dtype, "--kv", kv_dtype, "--json"),
    ]


def peer_command(peer: Path, question: Question, *, save: Path | None = None) -> list[str]:
    """The peer's search over layouts, aggregated and disaggregated, as its own documentation asks it."""
    command = [
        *(str(peer), "cli", "default", "--model-path", question.peer_llm, "--system", CHIPS[question.chip]),
        *("--total-gpus", str(question.chips), "--isl", str(INPUT_TOKENS), "--osl", str(OUTPUT_TOKENS)),
        *("--ttft", f"{question.ttft_s * MS_PER_S:g}", "--tpot", f"{question.tpot_s * MS_PER_S:g}", "--no-color"),
    ]
    return [*command, "--save-dir", str(save)] if save else command


@dataclass(frozen=True, slots=True)
class Answer:
    """A plan in the words both sides share."""

    tokens_per_s_per_chip: float
    """Output tokens over all chips asked for, idle ones too."""
    ttft_s: float
    """Median of ours; the peer's one number."""
    ttft_p90_s: float | None
    tpot_s: float
    layout: str


def our_answer(spent: Spent, question: Question) -> Answer | None:
    """Read what ``--json`` printed; None where no plan keeps the promises."""
    if spent.code:
        return None
    plan = json.loads(spent.output)
    pools = [f"{p['role']} {p['instances']} x {p['shape']}" for p in plan["pools"]]
    return Answer(
        tokens_per_s_per_chip=plan["goodput_rps"] * OUTPUT_TOKENS / question.chips,
        ttft_s=plan["ttft_s"]["p50"],
        ttft_p90_s=plan["ttft_s"]["p90"],
        tpot_s=plan["tpot_s"],
        layout=", ".join(pools),
    )


def peer_rows(folder: Path, mode: str) -> list[dict[str, str]]:
    """The peer's best configurations of a mode (agg, disagg), best first; none where it found nothing."""
    found = sorted(folder.glob(f"**/{mode}/best_config_topn.csv"))
    if not found:
        return []
    with found[-1].open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def ask_peer(peer: Path | None, question: Question, folder: Path) -> Path | None:
    """Folder with the peer's answer: kept from an earlier run, or asked now; None without peer or answer."""
    kept = folder / question.name
    if not any(kept.glob("**/best_config_topn.csv")):
        if peer is None:
            return None
        kept.mkdir(parents=True, exist_ok=True)
        run(peer_command(peer, question, save=kept), environment={"HF_HUB_OFFLINE": "1"})
    return kept


def peer_answer(row: dict[str, str], question: Question) -> Answer:
    """A row of the peer's table of disaggregated configurations."""
    replicas = question.chips // int(float(row["num_total_gpus"]))
    return Answer(
        tokens_per_s_per_chip=float(row["tokens/s"]) * replicas / question.chips,
        ttft_s=float(row["ttft"]) / MS_PER_S,
        ttft_p90_s=None,
        tpot_s=float(row["tpot"]) / MS_PER_S,
        layout=", ".join(
            f"{role} {int(float(row[f'({key})workers'])) * replicas} x {shape_of(row, key)}"
            for role, key in (("P", "p"), ("MD", "d"))
        ),
    )


def peer_agg_tokens_per_s_per_chip(rows: Sequence[dict[str, str]]) -> float | None:
    """Output tokens per chip of the peer's best aggregated configuration."""
    return max((float(row["tokens/s/gpu_cluster"]) for row in rows), default=None)


def shape_of(row: dict[str, str], key: str) -> Any:
    """Layout of one side of the peer's answer: ``p``, ``d``, or nothing for an aggregated one."""
    from pddplan.domain.plan import Shape

    side = f"({key})" if key else ""
    tp, pp, dp, ep = (int(float(row[f"{side}{name}"])) for name in ("tp", "pp", "dp", "moe_ep"))
    return Shape(tp=tp, pp=pp, dp=dp, ep=ep)


@dataclass(frozen=True, slots=True)
class SameLayout:
    """The peer's own instances, timed by both: what remains is the model of speed, not the search."""

    prefill_rps: tuple[float, float]
    """Requests per second that one prefill instance can take, idle waits left out: (ours, the peer's)."""
    step_s: tuple[float, float]
    """Decode step at the peer's batch: (ours, the peer's)."""
    batch: int


def same_layout(row: dict[str, str], question: Question) -> SameLayout:
    """Our formulas on the peer's layout.

    Raises:  InputError where our memory formula says that it does not fit.
    """
    import numpy as np

    from pddplan.performance.instance import instance_performance
    from pddplan.profiles.chip_profile import load_chip
    from pddplan.profiles.efficiency_profile import load_efficiency
    from pddplan.profiles.llm_profile import load_llm

    def instance(key: str) -> Any:
        return instance_performance(
            chip=load_chip(question.chip),
            llm=load_llm(question.llm),
            shape=shape_of(row, key),
            efficiency=load_efficiency(None, load_chip(question.chip)),
            weights_dtype=question.dtype,
            kv_dtype=kv_dtype_of(row),
        )

    prefill, decode = instance("p"), instance("d")
    time_s = float(prefill.prefill_time_s(new_tokens=np.array([INPUT_TOKENS]), cached_tokens=np.array([0.0]))[0])
    batch = int(float(row["(d)global_bs"]))
    context = np.array([INPUT_TOKENS + OUTPUT_TOKENS / 2])
    step_s = float(decode.decode_step_s(batch=np.array([float(batch)]), context_tokens=context)[0])
    return SameLayout(
        prefill_rps=(prefill.prefill_servers / time_s, float(row["(p)seq/s/worker"])),
        step_s=(step_s, float(row["tpot"]) / MS_PER_S),
        batch=batch,
    )


def kv_dtype_of(row: dict[str, str], key: str = "d") -> str:
    """Number format of the KV cache that the peer chose, by our name."""
    return "fp8" if row[f"({key})kvcache" if key else "kvcache"].startswith("fp8") else "bf16"
