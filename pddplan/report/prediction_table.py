"""Predictions of a measurement table as CSV, JSON and a summary for people."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

from pddplan.performance.predict import Prediction
from pddplan.performance.scores import GROUPINGS, Score, score_of, scores_by, section_of
from pddplan.units import MS_PER_S

_PER_SECOND = {"ms": MS_PER_S, "us": MS_PER_S * MS_PER_S}
"""Units of time in a second; rates and seconds stay as they are."""
ADDED_COLUMNS = ("predicted", "error_percent", "terms_ms", "stack", "remark")


def predictions_csv(predictions: Sequence[Prediction]) -> str:
    """The table as read, with predicted value (in the row's unit), error, main terms, stack and remark added."""
    header: list[str] = []
    for p in predictions:
        header += [name for name in p.row.text if name not in header]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    kept = [name for name in header if name not in ADDED_COLUMNS]
    writer.writerow([*kept, *ADDED_COLUMNS])
    for p in predictions:
        added = _added(p)
        writer.writerow([p.row.text.get(name, "") for name in kept] + [added[name] for name in ADDED_COLUMNS])
    return out.getvalue()


def predictions_data(predictions: Sequence[Prediction]) -> dict[str, Any]:
    """The same as plain data, with the summary."""
    return {
        "rows": [{**p.row.text, **_added(p)} for p in predictions],
        "summary": summary_data(predictions),
    }


def summary_data(predictions: Sequence[Prediction]) -> dict[str, Any]:
    """Counts, and scores of all groupings for the scored section."""
    predicted = [p for p in predictions if p.value is not None]
    parts: dict[str, list[Prediction]] = {}
    for p in predicted:
        m = p.row.measurement
        if m is not None and m.value is not None:
            parts.setdefault(section_of(m), []).append(p)
    data: dict[str, Any] = {
        "rows": len(predictions),
        "predicted": len(predicted),
        "not_predicted": len(predictions) - len(predicted),
        "reasons": _reasons(predictions),
        "sections": {name: _score_data(_score(parts[name])) for name in sorted(parts)},
    }
    scored = parts.get("scored", [])
    data["by"] = {
        title: {name: _score_data(s) for name, s in scores_by(scored, key).items()} for title, key in GROUPINGS.items()
    }
    return data


def summary_text(predictions: Sequence[Prediction]) -> str:
    """Error summary for a terminal."""
    data = summary_data(predictions)
    lines = [f"{data['rows']} rows, {data['predicted']} predicted, {data['not_predicted']} not predicted"]
    for reason, count in data["reasons"].items():
        lines.append(f"  not predicted: {count} x {reason}")
    if data["sections"]:
        lines += ["", _head("errors, predicted against measured")]
        for name in ("scored", "TTFT", "low quality", "fleet"):
            if name in data["sections"]:
                lines.append(_line(name, data["sections"][name]))
        lines += _KEY
        for title, groups in data["by"].items():
            if groups:
                lines += ["", _head(f"by {title} (scored rows)")]
                lines += [_line(name, score) for name, score in groups.items()]
    return "\n".join(lines)


_KEY = (
    "  MAPE: mean of the errors without their sign; bias: with it; P90: nine of ten rows are closer; worst: one row",
    "  scored: latencies and throughputs of single instances; the others are told apart, for they say less",
)


def _head(title: str) -> str:
    return f"{title:<52} {'rows':>6} {'MAPE':>7} {'median':>7} {'bias':>7} {'P90':>7} {'worst':>8}"


def _line(name: str, s: dict[str, Any]) -> str:
    return (
        f"  {name[:50]:<50} {s['rows']:>6} {s['mape_percent']:>6.1f}% {s['median_percent']:>6.1f}% "
        f"{s['bias_percent']:>+6.1f}% {s['p90_percent']:>6.1f}% {s['worst_percent']:>+7.0f}%"
    )


def _added(p: Prediction) -> dict[str, str]:
    m = p.row.measurement
    error = ""
    shown = ""
    if p.value is not None and m is not None:
        shown = f"{p.value * _PER_SECOND.get(m.unit, 1.0):.6g}"
        if m.value is not None:
            error = f"{100 * (p.value / m.value - 1):.2f}"
    terms = ";".join(f"{name}={value * MS_PER_S:.4g}" for name, value in p.terms.items() if value > 0)
    return {"predicted": shown, "error_percent": error, "terms_ms": terms, "stack": p.stack, "remark": p.remark}


def _reasons(predictions: Sequence[Prediction]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for p in predictions:
        if p.value is None:
            counts[p.remark] = counts.get(p.remark, 0) + 1
    return dict(sorted(counts.items(), key=lambda item: -item[1])[:20])


def _score(predictions: Sequence[Prediction]) -> Score:
    triples = [
        (p.value, p.row.measurement.value, p.row.where)
        for p in predictions
        if p.value is not None and p.row.measurement is not None and p.row.measurement.value is not None
    ]
    found = score_of(triples)
    if found is None:
        raise TypeError("a section has at least one row")
    return found


def _score_data(s: Score) -> dict[str, Any]:
    return {
        "rows": s.rows,
        "mape_percent": round(100 * s.mape, 2),
        "median_percent": round(100 * s.median, 2),
        "bias_percent": round(100 * s.bias, 2),
        "p90_percent": round(100 * s.p90, 2),
        "worst_percent": round(100 * s.worst, 1),
        "worst_at": s.worst_where,
    }
