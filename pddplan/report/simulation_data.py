"""A simulation for programs: JSON record and CSV of the time series."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from typing import Any

from pddplan.domain.outcome import Outcome
from pddplan.domain.workload import Promises
from pddplan.simulate.compare import comparison, promise_checks
from pddplan.simulate.result import Estimates, Series, SimulationResult
from pddplan.simulate.statistics import CONFIDENCE, Estimate

_TIME_DIGITS = 3


def json_record(outcome: Outcome, result: SimulationResult, *, promises: Promises | None = None) -> dict[str, Any]:
    """The same as the terminal shows, as plain data; unknown and infinite numbers are null."""
    return {
        "seeds": list(result.seeds),
        "requests_per_seed": result.requests,
        "measured_requests": result.measured,
        "simulated_s": _plain(result.span_s),
        "confidence": CONFIDENCE,
        "stable": not result.unstable,
        "unstable": list(result.unstable),
        "notes": list(result.notes),
        "path_share": dict(result.path_share),
        "promises": [
            {
                "limit": check.limit,
                "promised_s": _plain(check.promised_s),
                "closed_form_s": _plain(check.closed_form_s),
                "simulated_s": _plain(check.simulated.value),
                "margin_s": _plain(check.simulated.half_width),
                "verdict": check.verdict,
            }
            for check in promise_checks(promises or Promises(), outcome, result)
        ],
        "comparison": [
            {
                "group": row.group,
                "quantity": row.quantity,
                "unit": row.unit,
                "closed_form": _plain(row.closed_form),
                "simulated": _plain(row.simulated.value),
                "margin": _plain(row.simulated.half_width),
                "relative_error": _plain(row.relative_error),
                "mark": row.mark,
            }
            for row in comparison(outcome, result)
        ],
        "ttft_s": _estimates(result.ttft),
        "tpot_s": _estimates(result.tpot),
        "e2e_s": _estimates(result.e2e),
        "worst_itl_s": _estimates(result.worst_itl),
        "trace": {name: _plain(value) for name, value in result.extra.items()},
        "series": [
            {
                "name": series.name,
                "unit": series.unit,
                "time_s": [round(moment, _TIME_DIGITS) for moment in series.time_s.tolist()],
                "values": series.values.tolist(),
            }
            for series in result.series
        ],
    }


def _estimates(values: Estimates) -> dict[str, dict[str, float | None]]:
    return {name: _estimate(getattr(values, name)) for name in ("p50", "p90", "p99", "mean")}


def _estimate(value: Estimate) -> dict[str, float | None]:
    return {"value": _plain(value.value), "margin": _plain(value.half_width)}


def _plain(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def series_csv(series: Sequence[Series]) -> str:
    """One row per moment, one column per series."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["time_s", *(f"{one.name} [{one.unit}]" for one in series)])
    if series:
        for i, moment in enumerate(series[0].time_s.tolist()):
            writer.writerow([f"{moment:.{_TIME_DIGITS}f}", *(f"{one.values[i]:g}" for one in series)])
    return out.getvalue()
