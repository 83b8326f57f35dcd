"""A calibration for people and for programs."""

from __future__ import annotations

from typing import Any

from pddplan.performance.scores import Score
from pddplan.profiles.calibrating import Calibration

MOST_LINES = 12


def calibration_text(found: Calibration) -> str:
    """What was read, what changed, how the error changed."""
    fit = found.fit
    lines = [f"read for {found.chip} under {found.stack}:"]
    lines += _some(found.read)
    if fit.left_out:
        lines += ["", "left out of the fit:", *_some(fit.left_out)]
    if fit.doubts:
        lines += ["", "used, with a doubt:", *_some(fit.doubts)]
    lines += ["", f"{'number':<24} {'before':>11} {'after':>11}   95 % interval"]
    for n in fit.numbers:
        interval = f"{n.low:.4g} to {n.high:.4g}" if n.told else "not told by these runs, kept as before"
        after = f"{n.after:.4g}" if n.told else "-"
        lines.append(f"{n.name:<24} {n.before:>11.4g} {after:>11}   {interval}")
    lines += [
        "",
        f"{fit.after.rows} measurements: MAPE {_error(fit.before)} before, {_error(fit.after)} after",
        "these are errors on the runs that were fitted; keep some runs back and check them with pddplan predict",
    ]
    return "\n".join(lines)


def calibration_data(found: Calibration) -> dict[str, Any]:
    """The same as plain data."""
    fit = found.fit
    return {
        "chip": found.chip,
        "stack": found.stack,
        "read": list(found.read),
        "left_out": list(fit.left_out),
        "doubts": list(fit.doubts),
        "numbers": [
            {
                "name": n.name,
                "before": n.before,
                "after": n.after if n.told else None,
                "low": n.low if n.told else None,
                "high": n.high if n.told else None,
                "told": n.told,
            }
            for n in fit.numbers
        ],
        "measurements": fit.after.rows,
        "mape_before_percent": round(100 * fit.before.mape, 2),
        "mape_after_percent": round(100 * fit.after.mape, 2),
        "bias_after_percent": round(100 * fit.after.bias, 2),
    }


def _error(score: Score) -> str:
    return f"{100 * score.mape:.1f} % (bias {100 * score.bias:+.1f} %)"


def _some(lines: tuple[str, ...]) -> list[str]:
    shown = [f"  {line}" for line in lines[:MOST_LINES]]
    if len(lines) > MOST_LINES:
        shown.append(f"  ... and {len(lines) - MOST_LINES} more")
    return shown
