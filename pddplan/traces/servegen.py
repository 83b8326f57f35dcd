"""ServeGen client profiles: rates per window and length distributions instead of requests.

A client is two files, ``chunk-N-trace.csv`` (window start, rate, CV, pattern, two parameters; no header) and
``chunk-N-dataset.json`` (per window, token count -> probability, written as Python dictionaries inside strings).
A folder holds several clients; they are added up.
"""

from __future__ import annotations

import csv
import hashlib
import itertools
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pddplan.domain.workload import Array
from pddplan.errors import InputError, Problem
from pddplan.files import home_path, is_folder
from pddplan.traces.arrival_pattern import PICTURE_WINDOWS
from pddplan.traces.arrivals import ArrivalPattern
from pddplan.traces.formats import SERVEGEN
from pddplan.traces.rows import Ints
from pddplan.traces.scratch import RowStore
from pddplan.traces.source import open_source
from pddplan.traces.trace import COLUMNS, Trace
from pddplan.units import HOURS_PER_DAY, MIB, SECONDS_PER_DAY, SECONDS_PER_HOUR

SAMPLE_REQUESTS = 40_000
"""Requests drawn evenly from the distributions to stand for them."""
GOLDEN = (math.sqrt(5) - 1) / 2
LARGEST_FILE_BYTES = 256 * MIB
_PAIR = re.compile(r"\s*['\"]?(\d{1,12})['\"]?\s*:\s*([0-9.eE+-]{1,40})\s*")


@dataclass(frozen=True, slots=True, eq=False)
class Client:
    """One client: rate and CV of each window, lengths of each (longer) window."""

    start_s: Array
    rate_rps: Array
    cv: Array
    lengths: tuple[tuple[float, dict[int, float], dict[int, float]], ...]
    """(window start, input distribution, output distribution), windows without requests left out."""


def is_profile(path: Path) -> bool:
    """Whether a folder holds client profiles."""
    return is_folder(path) and any(path.glob("chunk-*-trace.csv"))


def read_profile(path: str | Path) -> Trace:
    """A client, given by either of its files, or all clients of a folder.

    Raises:  InputError naming file and line.
    """
    place = home_path(path)
    traces = sorted(place.glob("chunk-*-trace.csv")) if is_folder(place) else [_sibling(place, "trace.csv")]
    digest = hashlib.sha256()
    clients = [_client(trace, _sibling(trace, "dataset.json"), digest) for trace in traces]
    if not any(float(client.rate_rps.sum()) > 0 and client.lengths for client in clients):
        raise InputError(
            Problem(what="no client sends any request", fix="give clients with rates above 0", where=str(path))
        )
    inputs, outputs = _sample(clients)
    rows = RowStore(COLUMNS)
    rows.append(input=inputs, output=outputs)
    notes = (
        "lengths drawn evenly from the distributions of the profile; input and output are independent in it",
        "SCV is the rate-weighted mean over clients and windows (an upper bound when there are many clients)",
    )
    return Trace(
        file=place.name,
        sha256=digest.hexdigest(),
        format=SERVEGEN,
        how_recognised=f"{len(clients)} client profile{'s' if len(clients) > 1 else ''}",
        rows=rows,
        has_time=False,
        has_session=False,
        has_hits=False,
        oddities=_oddities(clients),
        notes=notes,
        given_arrival=_pattern(clients),
    )


def _sibling(path: Path, ending: str) -> Path:
    match = re.fullmatch(r"(.*chunk-[^/\\]*?)-(trace\.csv|dataset\.json)", path.name)
    if match is None:
        raise InputError(
            Problem(
                what="a client profile is a pair chunk-N-trace.csv and chunk-N-dataset.json",
                fix="keep these names, both files in one folder",
                where=str(path),
            )
        )
    return path.with_name(f"{match[1]}-{ending}")


def _client(trace: Path, dataset: Path, digest: hashlib._Hash) -> Client:
    rows = _windows(trace, digest)
    return Client(start_s=rows[:, 0], rate_rps=rows[:, 1], cv=rows[:, 2], lengths=_lengths(dataset, digest))


def _windows(path: Path, digest: hashlib._Hash) -> Array:
    with open_source(path) as source:
        data = source.read_all(limit=LARGEST_FILE_BYTES)
    digest.update(data)
    rows = []
    for line, cells in enumerate(csv.reader(data.decode("utf-8-sig", errors="replace").splitlines()), start=1):
        if not cells:
            continue
        try:
            start, rate, cv = (float(cell) for cell in cells[:3])
            good = len(cells) == 6 and all(math.isfinite(v) and v >= 0 for v in (start, rate, cv)) and rate < 1e7
        except ValueError:
            good = False
        if not good:
            raise InputError(
                Problem(
                    what="must be: window start, rate, CV, pattern, parameter, parameter",
                    fix="correct this line; numbers are finite and not negative",
                    where=f"{path}:{line}",
                )
            )
        rows.append((start, rate, cv))
    if len(rows) < 2 or any(b[0] <= a[0] for a, b in itertools.pairwise(rows)):
        raise InputError(
            Problem(what="needs at least two windows in order of time", fix="check the file", where=str(path))
        )
    return np.array(rows)


def _lengths(path: Path, digest: hashlib._Hash) -> tuple[tuple[float, dict[int, float], dict[int, float]], ...]:
    with open_source(path) as source:
        data = source.read_all(limit=LARGEST_FILE_BYTES)
    digest.update(data)
    try:
        windows = json.loads(data)
    except (ValueError, RecursionError) as error:
        where = f"{path}:{getattr(error, 'lineno', 1)}"
        raise InputError(Problem(what="is not whole JSON", fix="check the file", where=where)) from None
    found = []
    for key, window in windows.items() if isinstance(windows, dict) else ():
        try:
            start = float(key)
            inputs = parse_distribution(window["input_tokens"])
            outputs = parse_distribution(window["output_tokens"])
        except (ValueError, TypeError, KeyError) as error:
            raise InputError(
                Problem(
                    what=f"window {str(key)[:40]!r}: {error if isinstance(error, ValueError) else 'keys are missing'}",
                    fix="give input_tokens and output_tokens as '{tokens: probability, ...}'",
                    where=str(path),
                )
            ) from None
        if inputs and outputs:
            found.append((start, inputs, outputs))
    return tuple(sorted(found, key=lambda window: window[0]))


def parse_distribution(text: object) -> dict[int, float]:
    """Token count -> probability from ``{81: 0.0015, ...}``: JSON, or a Python dictionary as text (never executed)."""
    inner = str(text).strip()
    if not (inner.startswith("{") and inner.endswith("}")):
        raise ValueError("a distribution must stand in braces")
    found: dict[int, float] = {}
    for part in filter(str.strip, inner[1:-1].split(",")):
        match = _PAIR.fullmatch(part)
        if match is None:
            raise ValueError(f"cannot read {part.strip()[:40]!r}")
        share = float(match[2])
        if not (math.isfinite(share) and share >= 0):
            raise ValueError(f"cannot use the probability {match[2]}")
        found[int(match[1])] = found.get(int(match[1]), 0.0) + share
    return found if sum(found.values()) > 0 else {}


def _sample(clients: Sequence[Client]) -> tuple[Ints, Ints]:
    """Requests spread evenly over the distributions of all clients and windows, by the requests each sends."""
    parts = [(weight, inputs, outputs) for client in clients for weight, inputs, outputs in _weighted(client)]
    total = sum(weight for weight, _, _ in parts)
    all_inputs, all_outputs = [], []
    for weight, inputs, outputs in parts:
        count = round(SAMPLE_REQUESTS * weight / total)
        even = (np.arange(count, dtype=np.float64) + 0.5) / max(count, 1)
        all_inputs.append(_inverse(inputs, even))
        all_outputs.append(_inverse(outputs, (np.arange(count) * GOLDEN + 0.5) % 1.0))
    return np.maximum(np.concatenate(all_inputs), 1), np.maximum(np.concatenate(all_outputs), 1)


def _weighted(client: Client) -> list[tuple[float, dict[int, float], dict[int, float]]]:
    """Requests sent under each length distribution; a window without one uses the nearest before it."""
    if not client.lengths:
        return []
    starts = np.array([start for start, _, _ in client.lengths])
    place = np.clip(np.searchsorted(starts, client.start_s, side="right") - 1, 0, None)
    sent = np.bincount(place, weights=client.rate_rps * _durations(client), minlength=starts.size)
    return [(float(sent[k]), inputs, outputs) for k, (_, inputs, outputs) in enumerate(client.lengths) if sent[k] > 0]


def _inverse(distribution: Mapping[int, float], share: NDArray[Any]) -> Ints:
    tokens = np.array(sorted(distribution), dtype=np.int64)
    reached = np.cumsum([distribution[t] for t in tokens.tolist()])
    place = np.searchsorted(reached, share * reached[-1])
    return np.asarray(tokens[np.minimum(place, tokens.size - 1)])


def _durations(client: Client) -> Array:
    steps = np.diff(client.start_s)
    return np.append(steps, steps[-1])


def _pattern(clients: Sequence[Client]) -> ArrivalPattern:
    grid = np.unique(np.concatenate([client.start_s for client in clients]))
    steps = np.append(np.diff(grid), np.diff(grid)[-1])
    total, squares = np.zeros(grid.size), np.zeros(grid.size)
    for client in clients:
        place = np.clip(np.searchsorted(client.start_s, grid, side="right") - 1, 0, None)
        rate = np.where(grid < client.start_s[0], 0.0, client.rate_rps[place])
        rate = np.where(grid >= client.start_s[-1] + _durations(client)[-1], 0.0, rate)
        total += rate
        squares += rate * client.cv[place] ** 2
    span = float(steps.sum())
    requests = float((total * steps).sum())
    mean = requests / span
    scv = float((squares * steps).sum() / requests)
    hourly = None
    if span >= SECONDS_PER_DAY:
        hour = (grid // SECONDS_PER_HOUR).astype(np.int64) % HOURS_PER_DAY
        sent = np.bincount(hour, weights=total * steps, minlength=HOURS_PER_DAY)
        covered = np.bincount(hour, weights=steps, minlength=HOURS_PER_DAY)
        rates = sent / np.maximum(covered, 1e-9)
        hourly = tuple(float(r / rates.mean()) for r in rates)
    picture = span / PICTURE_WINDOWS
    slot = np.minimum(((grid - grid[0]) / picture).astype(np.int64), PICTURE_WINDOWS - 1)
    return ArrivalPattern(
        requests=int(requests),
        span_s=span,
        trace_rate_rps=mean,
        raw_scv=scv,
        scv=scv,
        factor=1.0,
        grid_s=None,
        dispersion={},
        raw_dispersion={},
        peak_to_mean=float(total.max() / mean),
        peak_window_s=float(steps[int(np.argmax(total))]),
        hourly_profile=hourly,
        counts=tuple(int(n) for n in np.bincount(slot, weights=total * steps, minlength=PICTURE_WINDOWS)),
        counts_window_s=picture,
    )


def _oddities(clients: Sequence[Client]) -> dict[str, int]:
    idle = sum(int((client.rate_rps == 0).sum()) for client in clients)
    return {"idle windows": idle} if idle else {}
