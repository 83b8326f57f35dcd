"""Workload files: from YAML to ``domain.Workload`` and back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pddplan.domain.provenance import Basis, Provenance
from pddplan.domain.workload import PROMISE_KINDS, Arrival, OddTraffic, Promises, RequestClasses, Workload
from pddplan.errors import DomainError, InputError, ProblemList
from pddplan.profiles import lookup, workload_forms, yaml_source
from pddplan.profiles.lookup import Kind
from pddplan.profiles.schema import Sourced, provenance, read
from pddplan.profiles.workload_schema import (
    CURVE_COLUMNS,
    TABLE_COLUMNS,
    ClassPromises,
    Form,
    HitBins,
    Lognormal,
    Mix,
    Table,
    Uniform,
    WorkloadFile,
    forms,
)

SIGNIFICANT_DIGITS = 7
"""Digits that written tables keep; token counts below ten million stay exact."""


def load_workload(name: str | Path) -> Workload:
    """A workload by id (bundled or the user's) or by file name.

    Raises:  InputError with file, line and fix for each fault.
    """
    return parse_workload(lookup.load(Kind.WORKLOAD, name))


def parse_workload(document: yaml_source.SourceDocument) -> Workload:
    """A workload from a document already in memory."""
    file = read(document, WorkloadFile)
    try:
        classes = _classes(file, document)
    except DomainError as error:
        raise InputError(
            document.problem(("requests",), f"{error.name} {error.rule}, got {error.got!r}", fix="correct this value")
        ) from None
    arrival = file.arrival
    return Workload(
        name=file.name,
        llm=file.llm,
        classes=classes,
        arrival=Arrival(
            rate_rps=arrival.rate_rps.value,
            scv=arrival.scv.value,
            peak_to_mean=_value(arrival.peak_to_mean, 1.0),
            dispersion=dict(arrival.dispersion.value) if arrival.dispersion else {},
            hourly_profile=tuple(arrival.hourly_profile.value) if arrival.hourly_profile else None,
        ),
        promises=replace(
            _promises(file.promises), by_class={name: _promises(p) for name, p in file.promises.by_class.items()}
        ),
        odd_traffic=OddTraffic(
            min_transfer_tokens=file.odd_traffic.min_transfer_tokens.value,
            max_output_tokens=file.odd_traffic.max_output_tokens.value,
        )
        if file.odd_traffic
        else OddTraffic(),
        provenance=_provenance(file),
        cache_curve=tuple((row[0], row[1]) for row in file.cache_curve.value) if file.cache_curve else None,
    )


def dump_workload(workload: Workload) -> str:
    """YAML text of a workload with its classes written out as a table; ``load_workload`` reads it back.

    Sources, the trace record and notes come from ``workload.provenance``; numbers without a known source
    are marked as given by the user.
    """
    record = workload.provenance
    numbers: Mapping[str, Provenance] = record.get("numbers", {})
    sources: dict[str, dict[str, Any]] = {}
    data: dict[str, Any] = {"schema": WorkloadFile.schema_name, "name": workload.name}
    if record.get("description"):
        data["description"] = record["description"]
    data["llm"] = workload.llm
    data["sources"] = sources

    def sourced(value: Any, key: str) -> dict[str, Any]:
        return _sourced(value, numbers.get(key), sources)

    arrival = workload.arrival
    data["arrival"] = {
        "rate_rps": sourced(arrival.rate_rps, "arrival.rate_rps"),
        "scv": sourced(arrival.scv, "arrival.scv"),
        "peak_to_mean": sourced(arrival.peak_to_mean, "arrival.peak_to_mean"),
    }
    if arrival.dispersion:
        windows = {f"{window:g}": rounded(value) for window, value in arrival.dispersion.items()}
        data["arrival"]["dispersion"] = sourced(windows, "arrival.dispersion")
    if arrival.hourly_profile:
        factors = [rounded(factor) for factor in arrival.hourly_profile]
        data["arrival"]["hourly_profile"] = sourced(factors, "arrival.hourly_profile")
    data["promises"] = {}
    for promise in workload.promises.made():
        name = promise.kind.field
        if promise.group:
            part = data["promises"].setdefault("by_class", {}).setdefault(promise.group, {})
            part[name] = sourced(promise.limit_s, f"promises.by_class.{promise.group}.{name}")
        else:
            data["promises"][name] = sourced(promise.limit_s, f"promises.{name}")
    data["odd_traffic"] = {
        name: sourced(getattr(workload.odd_traffic, name), f"odd_traffic.{name}")
        for name in ("min_transfer_tokens", "max_output_tokens")
    }
    for key in ("trace", "notes"):
        if record.get(key):
            data[key] = record[key]
    data["requests"] = {"kind": "table", **_table(workload, numbers, sources)}
    if workload.cache_curve:
        rows = [[rounded(a), rounded(b)] for a, b in workload.cache_curve]
        table = _sourced(rows, numbers.get("cache_curve"), sources, key="rows")
        data["cache_curve"] = {"columns": list(CURVE_COLUMNS), **table}
    return yaml_source.dump(data, compact=True)


def assumptions(workload: Workload) -> dict[str, Provenance]:
    """Numbers of a workload that somebody assumed, by key path."""
    numbers: Mapping[str, Provenance] = workload.provenance.get("numbers", {})
    return {key: origin for key, origin in numbers.items() if origin.basis >= Basis.CALIBRATED}


def rounded(value: float, digits: int = SIGNIFICANT_DIGITS) -> float:
    """A number as written tables carry it: plain digits, integers without a point."""
    short = float(f"{value:.{digits}g}")
    return int(short) if short.is_integer() and abs(short) < 10**digits else short


# -- reading -------------------------------------------------------------------------------------------------


def _value(number: Sourced | None, default: float | None) -> Any:
    return default if number is None else number.value


def _promises(part: ClassPromises) -> Promises:
    return Promises(**{kind.field: _value(getattr(part, kind.field), None) for kind in PROMISE_KINDS})


def _classes(file: WorkloadFile, document: yaml_source.SourceDocument) -> RequestClasses:
    found = {path: _classes_of(form, document, path) for path, form in forms(file).items()}
    if isinstance(file.requests, Mix):
        parts = zip(file.requests.parts.items(), found.values(), strict=True)
        return workload_forms.mixed({name: (part.share.value, classes) for (name, part), classes in parts})
    return found[()]


def _classes_of(form: Form, document: yaml_source.SourceDocument, path: tuple[str, ...]) -> RequestClasses:
    match form:
        case HitBins():
            bins = form.bins
            return workload_forms.from_hit_bins(
                [bins[0].hit_from, *(b.hit_to for b in bins)],
                [b.share.value for b in bins],
                input_tokens=form.input_tokens.value,
                output_tokens=form.output_tokens.value,
                decode_extra_tokens=_value(form.decode_extra_tokens, 0.0),
            )
        case Lognormal():
            return workload_forms.from_lognormal(
                form.mu.value,
                form.sigma.value,
                low_tokens=form.low_tokens.value,
                high_tokens=form.high_tokens.value,
                output_tokens=form.output_tokens.value,
                hit_rate=form.hit_rate.value,
                decode_hit_rate=_value(form.decode_hit_rate, None),
                classes=form.classes,
            )
        case Uniform():
            return workload_forms.from_uniform(
                (form.input_tokens.value[0], form.input_tokens.value[1]),
                (form.output_tokens.value[0], form.output_tokens.value[1]),
                hit_rate=form.hit_rate.value,
                decode_hit_rate=_value(form.decode_hit_rate, None),
            )
        case Table():
            return _table_classes(form, document, path)


def _table_classes(form: Table, document: yaml_source.SourceDocument, path: tuple[str, ...]) -> RequestClasses:
    problems = ProblemList()
    place = {name: form.columns.index(name) for name in TABLE_COLUMNS}

    def complain(row: int, what: str, fix: str) -> None:
        problems.add(what, fix=fix, where=document.where(("requests", *path, "rows", row)))

    for index, row in enumerate(form.value):
        if len(row) != len(TABLE_COLUMNS):
            complain(index, f"the row has {len(row)} numbers", f"give one number per column, {len(TABLE_COLUMNS)}")
            continue
        length, output = row[place["input_tokens"]], row[place["output_tokens"]]
        if length <= 0:
            complain(index, "input_tokens must be greater than 0", "give a positive input length")
        if output <= 0:
            complain(index, "output_tokens must be greater than 0", "a request gives at least one token")
        for name in ("miss_prefill_tokens", "miss_decode_tokens"):
            if row[place[name]] > length:
                complain(index, f"{name} exceeds input_tokens", "no more tokens can be missing than there are")
    if not problems.problems and sum(row[place["weight"]] for row in form.value) <= 0:
        problems.add(
            "the weights sum to 0", fix="give weights above 0", where=document.where(("requests", *path, "rows"))
        )
    problems.raise_if_any()
    columns = np.array(form.value, dtype=np.float64)
    weight, inputs, miss, transfer, outputs = (columns[:, place[name]] for name in TABLE_COLUMNS)
    return workload_forms.request_classes(
        weight=weight,
        input_tokens=inputs,
        miss_prefill_tokens=miss,
        miss_decode_tokens=transfer,
        output_tokens=outputs,
        group=tuple(form.groups or ()),
    )


def _provenance(file: WorkloadFile) -> dict[str, Any]:
    record: dict[str, Any] = {"numbers": provenance(file), "form": file.requests.kind}
    if file.description:
        record["description"] = file.description
    if file.notes:
        record["notes"] = list(file.notes)
    if file.trace:
        record["trace"] = file.trace.model_dump(exclude_none=True)
    return record


# -- writing -------------------------------------------------------------------------------------------------


def _table(workload: Workload, numbers: Mapping[str, Provenance], sources: dict[str, dict[str, Any]]) -> dict[str, Any]:
    classes = workload.classes
    columns = [getattr(classes, name) for name in TABLE_COLUMNS]
    rows = [[rounded(float(value)) for value in row] for row in zip(*columns, strict=True)]
    # weights add up to one also when rounded: read back they are scaled so, which would change other digits
    weights = [row[0] for row in rows]
    heaviest = weights.index(max(weights))
    rows[heaviest][0] = rounded(1.0 - math.fsum(weights[:heaviest] + weights[heaviest + 1 :]))
    origin = numbers.get("requests")
    if origin is None:  # classes of a parametric form: say what they were computed from
        parts = sorted({p.source for key, p in numbers.items() if key.startswith("requests.")})
        if parts:
            weakest = max(p.basis for key, p in numbers.items() if key.startswith("requests."))
            origin = Provenance(basis=weakest, source="classes computed from: " + "; ".join(parts))
    groups = {"groups": list(workload.classes.group)} if workload.classes.group else {}
    return {"columns": list(TABLE_COLUMNS), **_sourced(rows, origin, sources, key="rows"), **groups}


def _sourced(
    value: Any, origin: Provenance | None, sources: dict[str, dict[str, Any]], *, key: str = "value"
) -> dict[str, Any]:
    """One number with its source; the source is entered under a key of its own."""
    if origin is None:
        origin = Provenance(basis=Basis.PUBLISHED, source="given by the user")
    kind = "assumption" if origin.basis is Basis.ASSUMED else origin.basis.label
    entry: dict[str, Any] = {"kind": kind, "title": origin.source}
    if origin.date:
        entry["date"] = origin.date
    name = next((known for known, other in sources.items() if other == entry), None)
    if name is None:
        name = _source_key(kind, sources)
        sources[name] = entry
    shown = rounded(value) if isinstance(value, (int, float)) else value
    number: dict[str, Any] = {"source": name, key: shown} if key == "rows" else {key: shown, "source": name}
    for extra in ("note", "low", "high"):
        if getattr(origin, extra) is not None:
            number[extra] = getattr(origin, extra)
    if origin.doubtful:
        number["doubtful"] = True
    if origin.basis is Basis.ASSUMED and (origin.low is None or origin.high is None) and key == "value":
        number.setdefault("low", shown)
        number.setdefault("high", shown)
    return number


def _source_key(kind: str, sources: Mapping[str, Any]) -> str:
    if kind not in sources:
        return kind
    return next(f"{kind}-{k}" for k in range(2, len(sources) + 3) if f"{kind}-{k}" not in sources)
