"""The words of docs/peers.md around its numbers: what each side models, and why answers differ."""

from __future__ import annotations

HEAD = (
    "# Beside peers",
    "",
    "<!-- Written by: python benchmarks/peers.py --peer AICONFIGURATOR --measured DATA --write docs/peers.md -->",
    "",
    "The same question to pddplan and to [aiconfigurator](https://github.com/ai-dynamo/aiconfigurator) (0.12.0, its",
    "default engine TensorRT-LLM). Read the ratios; the seconds belong to a machine that had other work, too, so",
    "processor time says more than wall time.",
)

SPEED_READ = (
    "",
    "What is compared is not equal in everything: the peer walks a grid of layouts and batches over tables of measured",
    "kernels (its data is loaded for each run); ours evaluates closed forms on a pruned grid and leaves the choice to",
    "an integer programme. The peer also writes deployment files, which is not part of the timing; ours also holds",
    "percentiles of TTFT, cost, and the plan without cache.",
)

ANSWERS_READ = (
    "",
    "### Why the answers differ",
    "",
    "- **TTFT.** The peer's is the time of one prefill batch times a fixed 1.8, whatever the load. Ours is a",
    "  distribution: wait in the queue at the planned load (up to 95 % busy), prefill, KV transfer, first step. The",
    "  promise is put on P50 here, because the peer's number is nearest to a typical one; P90 stands beside it.",
    "- **TPOT.** The peer's promise is on the mean, ours on P90. In aggregated serving, where prefills",
    "  interrupt decoding, this may be part of why our mixtures of experts serve less; not yet isolated.",
    "- **Margins.** The peer takes 10 % off the rate of prefill workers and 8 % off decode workers when it matches",
    "  them. Ours takes no flat margin: pools may be 95 % busy, and what that does to waits is computed. Where prefill",
    "  limits a plan, its throughput therefore differs by 0.95 / 0.90 before any difference in speed.",
    "- **Speed of chips.** The peer adds up measured kernels of one engine release. Ours is one closed form for all",
    "  chips and models, fitted to measurements of several engines and releases; [validation.md](validation.md) has",
    "  its errors on what was left out of the fit. The second table shows this alone, without search and margins.",
    "- **Memory.** Where a row says that a layout is not possible, our memory formula leaves a share of each chip to",
    "  the engine, activations and graphs, and the peer fills it nearer to the brim (70B at 16 bits on one H200).",
    "- **Transfer.** The peer moves the KV cache for free. Ours pays the wire between the pools; it is part of TTFT.",
    "- **Rounding of layouts.** The peer repeats one replica (so many prefill and decode workers) as a whole; ours",
    "  chooses both counts freely, so chips left over by whole replicas can work.",
    "- **What only one of them models.** Peer: kernels by engine release, wide expert parallelism with its own load",
    "  balance, deployment files. Ours: several kinds of requests, percentiles, caches, second sites and lines, relay",
    "  decoding, prices, proof of the optimum.",
)

FLEET_TOKENS_PER_S_PER_CHIP = 9212.5 * (1 - 0.563)
"""DeepSeek open-infra-index, day 6: input tokens per second and chip of a day's average, cached ones taken out."""


def expert_prefill_read(ours: float, theirs: float) -> tuple[str, ...]:
    """The one prefill of the table that production numbers stand beside; both in input tokens per second and chip."""
    fleet = FLEET_TOKENS_PER_S_PER_CHIP
    closer = "the peer" if abs(theirs - fleet) < abs(ours - fleet) else "ours"
    return (
        "",
        f"For deepseek-v3 on h100-sxm the prefill rates above are {ours:,.0f} (ours) and {theirs:,.0f} (the peer's)",
        "input tokens per second and chip. DeepSeek's own daily average (32 H800, EP32, cached tokens left out) is",
        f"about {fleet:,.0f}: {closer} is closer there.",
    )


MEASURED_READ = (
    "",
    "Neither side is blind here. Ours was fitted with these rows among thousands of others; the peer ships most of",
    "them as its own regression sample, and its database is of a newer engine release than the runs. Read errors of",
    "TTFT with care: tokenising and the path of the client (20 to 150 ms) are in the measured value, and a prompt may",
    "wait for others.",
)
