"""What a lost line does to a plan, in words and as plain data."""

from __future__ import annotations

from typing import Any

from pddplan.evaluate.line_loss import LineLoss
from pddplan.report.numbers import percent, seconds
from pddplan.sizing import Sizing

ALL = 1.0 - 1e-6
"""Shares from here on are all requests."""


def said(sizing: Sizing) -> list[str]:
    """One sentence for each bundle of lines that requests use."""
    return [_sentence(lost) for lost in sizing.line_losses]


def _sentence(lost: LineLoss) -> str:
    left = f"{lost.left} line{'' if lost.left == 1 else 's'} left"
    head = f"{lost.line}, {left}: " if lost.left else f"{lost.line}, no line left: "
    if not lost.passes and lost.share >= ALL:
        return f"{head}nothing is served (--survive-line-loss pays for one line more)"
    crossing = f"the {percent(lost.share)} of requests that cross it"
    stop = [] if lost.passes else [f"{'too thin for' if lost.left else 'nothing carries'} {crossing}"]
    if lost.passes and lost.kept and not lost.broken:
        times = " / ".join(seconds(value) for value in (lost.ttft.p50, lost.ttft.p90, lost.ttft.p99))
        return f"{head}all promises hold, TTFT P50 / P90 / P99 {times}"
    broken = [f"{_names(lost.broken, 'break')}"] if lost.broken else []
    kept = [f"{_names(lost.kept, 'hold')}"] if lost.kept else []
    return head + ("; ".join([*stop, *broken, *kept]) or "what is left carries all requests")


def _names(promises: tuple[str, ...], verb: str) -> str:
    return f"{', '.join(promises)} {verb}{'s' if len(promises) == 1 else ''}"


def line_loss_json(sizing: Sizing) -> list[dict[str, Any]]:
    """The same for programs."""
    return [
        {
            "line": lost.line,
            "lines_left": lost.left,
            "share": lost.share,
            "carried": lost.passes,
            "kept": list(lost.kept),
            "broken": list(lost.broken),
            "ttft_s": {"p50": lost.ttft.p50, "p90": lost.ttft.p90, "p99": lost.ttft.p99, "mean": lost.ttft.mean},
        }
        for lost in sizing.line_losses
    ]
