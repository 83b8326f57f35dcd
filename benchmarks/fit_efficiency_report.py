"""Write docs/validation.md: how right times are on what a fit has not seen (called by fit_efficiency.py)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from fit_efficiency import HEAD, Data, group_columns, line, table
from fit_efficiency_scatter import section

from pddplan.domain.workload import Array
from pddplan.performance.measurement import COLUMNS, KINDS, MODES, UNITS

GOALS = (
    ("dense", 12.0),
    ("MoE", 25.0),
    ("all rows", 18.0),
    ("median of all", 12.0),
)
WORST_ROWS = 15


def report(data: Data, in_sample: Array, held_out: Mapping[str, Array], *, ttft: str) -> str:
    """The whole page; ``ttft``: what table_of_ttft gives."""
    errors = {by: predicted / data.observations.values - 1 for by, predicted in held_out.items()}
    parts = [
        _head(data),
        _goals(data, errors),
        *(_left_out(data, by, e) for by, e in errors.items()),
        _bias(data, in_sample, errors),
        section(data, errors),
        _in_sample(data, in_sample),
        ttft,
        _where_it_fails(data, errors),
        _schema(),
    ]
    return "\n\n".join(parts) + "\n"


def _head(data: Data) -> str:
    return f"""# Validation of prefill and decode times

<!-- Written by: python benchmarks/fit_efficiency.py DATA --report docs/validation.md -->

The closed form of `docs/formulas.md` has one set of numbers for all models: efficiencies and overheads that are
inherited from a default, by vendor, by chip, and by serving stack (engine and era). They are fitted by robust least
squares on logarithms to {data.observations.count:,} public measurements (sums of operators are thinned out).

What counts here is the error on rows **left out of the fit**: every chip in turn (chips that share silicon together),
every model in turn, and every file (source) in turn. Each fit starts from the same published and round numbers, not
from an earlier fit, and leans on them: rows of one source err together, so thousands of them count for far fewer.
Left out of all scores: rows flagged as low quality, TTFT under load (queueing and host), production averages.
Split systems enter by their decoding step, with the batch that Little's law gives from their own throughput.

Errors are predicted / measured - 1; bias is their mean, P90 and worst are of their size.

Which terms the closed form has, from which engines' habits its priors come and how strong they are, was decided with
these tables in sight. No number was fitted to a row it is scored on, but those choices were: expect somewhat larger
errors on sources that nobody looked at."""


def _goals(data: Data, errors: Mapping[str, Array]) -> str:
    lines = ["## Goals", "", "| left out by | " + " | ".join(f"{n} (goal {g:g} %)" for n, g in GOALS) + " |"]
    lines.append("| --- |" + " ---: |" * len(GOALS))
    for by, e in errors.items():
        size = 100 * np.abs(e)
        values = (size[~data.moe].mean(), size[data.moe].mean(), size.mean(), np.median(size))
        cells = [f"{v:.1f}{'' if v <= goal else ' (missed)'}" for v, (_, goal) in zip(values, GOALS, strict=True)]
        lines.append(f"| {by} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _left_out(data: Data, by: str, e: Array) -> str:
    column = {"chip": data.observations.keys["chip"], "model": data.column("model"), "file": data.files}[by]
    groups = group_columns(data)
    lines = [f"## Left out by {by}", "", HEAD.format("all"), line("all", e)]
    for title in ("dense / MoE", "operators / runs", "phase", "kind and mode", "weights"):
        lines += ["", *table(title, e, groups[title])]
    lines += ["", *table(f"{by} left out", e, column)]
    return "\n".join(lines)


def _bias(data: Data, in_sample: Array, errors: Mapping[str, Array]) -> str:
    groups = group_columns(data)["chip and stack"]
    lines = [
        "## Bias per chip and stack",
        "",
        "Goal: at most 10 %. `known` is the fit that the package brings; the others had not seen the rows.",
        "",
        "| chip / stack | rows | known | " + " | ".join(f"left out by {by}" for by in errors) + " |",
        "| --- | ---: | ---: |" + " ---: |" * len(errors),
    ]
    for key in sorted(set(groups)):
        mask = groups == key
        cells = [f"{100 * e[mask].mean():+.1f}" for e in (in_sample, *errors.values())]
        lines.append(f"| {key} | {mask.sum():,} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _in_sample(data: Data, e: Array) -> str:
    lines = ["## The fit that the package brings (in sample)", "", HEAD.format("all"), line("all", e)]
    for title, groups in group_columns(data).items():
        lines += ["", *table(title, e, groups)]
    return "\n".join(lines)


def table_of_ttft(apart: Data, e: Array) -> str:
    """Section on times to the first token in closed loops, which no fit sees."""
    stacks = np.array([f"{f} / {s}" for f, s in zip(apart.files, apart.observations.keys["stack"], strict=True)])
    return "\n".join(["## TTFT in closed loops (not scored)", "", _TTFT, "", *table("file and stack", e, stacks)])


_TTFT = """No fit sees these rows. Predicted is host time, prefill, the wait for prompts in progress, half a running
step, and the wait within the first wave: a client starts by sending all prompts at once, and usually sends ten per slot
in all, so that one prompt in ten waits for half of the others (medians do without). That explains TensorRT-LLM and vLLM
where lengths are mixed. Equal requests on an engine that prefills first (SGLang) stay in step: every wave waits
like the first one, and the wait is that of its earlier passes. What stays too low: queues where memory is short, slow
hosts, and SGLang with mixed lengths (DeepSeek), where requests still arrive in clumps. Split systems are left out:
their TTFT near the limit of prefill is a queue that no row describes."""


def _where_it_fails(data: Data, errors: Mapping[str, Array]) -> str:
    e = errors.get("file", next(iter(errors.values())))
    kinds: dict[tuple[str, ...], list[int]] = {}
    for index, m in enumerate(data.measurements):
        stack = str(data.observations.keys["stack"][index])
        kinds.setdefault((m.chip, m.model, m.weights_dtype or "", str(m.shape), stack, m.kind), []).append(index)
    ranked = sorted(kinds.items(), key=lambda item: -float(np.mean(np.abs(e[item[1]]))))
    lines = [
        "## Where it fails",
        "",
        "The configurations with the largest errors when their file is left out (five or more rows):",
        "",
        "| chip | model | weights | layout | stack | kind | rows | MAPE % | bias % |",
        "| --- | --- | --- | --- | --- | --- | ---: | ---: | ---: |",
    ]
    shown = [(key, rows) for key, rows in ranked if len(rows) >= 5][:WORST_ROWS]
    for key, rows in shown:
        lines.append(
            "| "
            + " | ".join(key)
            + f" | {len(rows)} | {100 * np.mean(np.abs(e[rows])):.0f} | {100 * np.mean(e[rows]):+.0f} |"
        )
    return "\n".join([*lines, "", _REASONS])


_REASONS = """Why, as far as we can see:

- **A stack nobody else measured.** Engine overheads (layer gaps, host time per step and per sequence) differ tenfold
  between eras and twofold between releases of one engine. A file that is the only witness of its era (Splitwise
  for interpreted eager engines, LLM-Inference-Bench for vLLM of 2024) is predicted from the era's prior.
  `pddplan calibrate` on a handful of own runs removes most of this.
- **Clients that keep requests in step.** With prompts and answers of one length, an engine that prefills first (SGLang)
  serves whole waves, and only the later half of a wave interrupts an answer; with mixed lengths all others do. Rows are
  read as equal lengths unless they say otherwise (`lengths=mixed` in the note) or come from a client that mixes
  (InferenceX). Runs of Llama-3.1-8B on H200 with SGLang 0.5.6 do not follow: their TTFT is a third of what waves make,
  their TPOT what unrelated requests make, and no column says why; Qwen3-235B there decodes batches of two no faster
  than batches of four. They are most of the bias of H200 with SGLang.
- **Layouts that a row leaves open.** Split systems of GB200 state one rank of everything for workers of 4 to 48 chips,
  or no workers at all. They are read as tensor parallel below 16 requests a chip and 8 chips a worker, else as data
  parallel attention: later runs of the same sizes state just that, at the same speed.
- **Hosts.** One thread of an A100's host (EPYC 7002) takes 1.4 times that of later ones, which engines without captured
  graphs feel in every layer; vLLM of 2024 also sends its inputs to every worker in each step. Both are priors.
- **Releases of one engine.** A release candidate run months later carries the date of the run: `trtllm 1.0.0rc3` is
  slower than the engines of its date.
- **A vendor with one chip.** MI300X is the only AMD chip with runs of good quality. Without them AMD rests on what is
  published of its matrix and memory rates and of its launch costs, which more than halves the error that the general
  default would make. Two software releases here differ by a factor of 1.7 on one configuration. Other vendors have no
  rows at all: they inherit the general default. It suits the matrix rates published of Gaudi 2 (arXiv 2501.00210);
  the rest is a guess.
- **4-bit Mixtral in sums of operators.** With TP2 and TP4 on B200 and GB200 the measured experts of a decoding step
  take less time than reading all their weights once at full memory bandwidth (at 16 requests 57 % of it): either the
  database hits fewer of the eight experts than chance does, or weights come from cache. Ours stays above that bound.
- **Mixtures of experts in unusual layouts.** Kernels switch between back ends at certain batch sizes (twofold steps
  within one layout), narrow expert slices lose efficiency, and load among experts is anybody's guess.
- **Sums of operators over nodes.** Operator databases price the exchange of tokens among experts as a gathering of all
  tokens on all chips; engines send each token to the nodes of its experts. The two are told apart
  (`exchange_gather`), but rates over NICs are loosely known.
- **Throughput of split systems near the limit of prefill** depends on ramp-up and scheduling that no row states.
- **TTFT in closed loops** is mostly queueing behind a client's own waves: see above."""


def _schema() -> str:
    return f"""## Checking your own benchmarks

    pddplan predict my_table.csv --out predicted.csv --profiles my_profiles/
    pddplan calibrate --chip h100-sxm --model llama-3.1-8b --stack "vllm 0.11" results/*.json --out mine.yaml

A table has the columns `{", ".join(COLUMNS)}`.
`kind` is one of {_words(KINDS)}; `note` starts with `mode=` and one of {_words(MODES)};
`unit` is one of {_words(UNITS)}.
Times are per step, pass or request; `isl_tokens` includes `prefix_tokens`. `lengths=equal` or `lengths=mixed` in the
note says whether all requests of a closed loop are alike. Rows that cannot be predicted say why."""


def _words(words: Any) -> str:
    return ", ".join(f"`{w}`" for w in words)
