"""The words of docs/peers.md around its numbers: what each side models, and why answers differ."""

from __future__ import annotations

HEAD = (
    "# Beside peers",
    "",
    "<!-- Written by: python benchmarks/peers.py --peer AICONFIGURATOR --measured DATA --write docs/peers.md -->",
    "",
    "The same question to pddplan and to [aiconfigurator](https://github.com/ai-dynamo/aiconfigurator) (0.12.0, its",
    "default engine TensorRT-LLM). Read the ratios; the seconds belong to one machine on one evening, so",
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
    "- **TPOT.** The peer's promise is on the mean, ours on P90, which in aggregated serving, where prefills",
    "  interrupt decoding, costs up to a tenth of the throughput.",
    "- **Mixtures of experts over nodes.** The peer's tables have no exchange over NICs for these engines: its own",
    "  provenance file says that times of one node stand in for two. See the next section.",
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

EXPERTS_HEAD = (
    "",
    "## Mixtures of experts, term by term",
    "",
    "Prefill of DeepSeek-V3 (fp8) on H100, one prompt of 4,000 tokens on every attention rank, our terms in ms:",
    "",
)

EXPERTS_PREFILL_READ = (
    "",
    "What makes the difference:",
    "",
    "- **The wire.** The peer's 3,760 input tokens per second and chip for EP16 come with exchange times of EP8 inside",
    "  one node (its `moe_comm_fallbacks.json`: requested two nodes, measured one). The second line of each layout",
    "  shows what that assumption is worth in our terms.",
    "- **The engine.** Ours by default is a usual one. A tuned one sends a token over the NIC once per remote node",
    "  (DeepEP), hides most of the exchange behind the other half of the batch, and balances experts by copying the",
    "  busy ones. All of this is in the stack `wide-ep` (`--stack wide-ep`), whose numbers are taken from publications",
    "  and marked so. Others are slower than ours: those that gather every token on every chip (`exchange_gather`,",
    "  as the peer's tables of kernels do), or the measured one above, whose waits say that a pool is full: decoding",
    "  at prompts of 1,024 (engines stop near 256 requests a chip), rather prefill at 8,192, where a first token",
    "  takes 6 s even with nine requests in flight. Systems so far apart are no matter of a fit: say which engine",
    "  you have.",
    "- **The fleet.** DeepSeek's average of a day includes the quiet hours; its own profile of the same kernels is",
    "  twice as fast.",
    "",
    "The tuned stack against what is published, tokens per second and chip on H100 or H800. No number was fitted to",
    "these rows except two: the spread of experts (from the gain of a perfect balance) and the share of the exchange",
    "that is hidden.",
    "",
)

EXPERTS_AGGREGATED_HEAD = (
    "",
    "Aggregated serving on the peer's best layout, with as many requests in flight, ours : the peer's. TPOT is the",
    "mean: a step, and what the prefills of the others add. *Ours in time*: tok/s per chip with as many in flight as",
    "keep the promised TPOT in the mean.",
    "",
)

EXPERTS_AGGREGATED_READ = (
    "",
    "Our aggregated mixtures of experts used to serve half of what the peer's do. Causes, by size: attention ranks",
    "were charged a whole stop of decoding for each prefill, though they prefill in the same passes (measured rows",
    "agree with the shared stop, and so does the closed loop that our numbers were fitted to); and the peer prices",
    "NICs as NVLink where the table says so. What is left is speed, and a promise on TPOT magnifies it: the answer to",
    "a step that is 15 to 30 % slower is half as many requests in flight (last but one column), not 30 % fewer tokens.",
    "That our promise is on P90 costs up to a tenth. On speed, measurements (next section) lie on either side: the",
    "peer is too fast for Qwen3-235B and too slow for DeepSeek-V3 on H200.",
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
