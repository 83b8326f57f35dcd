"""Traces whose lines are not plain requests: WEKA coding-agent sessions, TraceLab rounds."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from pddplan.errors import InputError, Problem
from pddplan.traces.keys import Names, prints_of
from pddplan.traces.recognise import Recognised
from pddplan.traces.rows import BadRow, Rows
from pddplan.traces.source import Source
from pddplan.traces.table_reader import json_objects
from pddplan.traces.times import parse_times
from pddplan.units import MIB

MEAN_SESSION_GAP_S = 60.0
"""WEKA sessions have no start time; they are placed as a Poisson process with this mean gap, in file order."""
SESSION_SEED = 1
HOW_STARTS_ARE_DRAWN = (
    f"sessions have no start in the file; starts drawn as Poisson, one every {MEAN_SESSION_GAP_S:g} s on average: the "
    "arrival rate is not measured, state yours with --scale-to-rps"
)
WEKA_BLOCK_TOKENS = 64
LARGEST_OBJECT_BYTES = 512 * MIB
DEEPEST_NESTING = 16
LARGEST_LOCAL_ID = 2**40


class SessionStarts:
    """Start times drawn for sessions that have none."""

    def __init__(self) -> None:
        self._draw = np.random.default_rng(SESSION_SEED)
        self._next_s = 0.0

    def next_s(self) -> float:
        start = self._next_s
        self._next_s += float(self._draw.exponential(MEAN_SESSION_GAP_S))
        return start


def weka_rows(source: Source, found: Recognised) -> Iterator[Rows]:
    """Requests of coding-agent sessions, sub-agents included.

    Block ids are local to a session, so each session gets a range of its own. Requests of a sub-agent run from
    the sub-agent's own start. A sub-agent counts as a conversation of its own.
    """
    starts, conversations, next_id = SessionStarts(), itertools.count(), 0
    for line, session in _sessions(source, found):
        batch = _SessionBatch(line, next_id)
        if isinstance(session, str):
            yield batch.rows([BadRow(line, session)])
            continue
        if session.get("hash_id_scope", "local") != "local":
            batch.base = 0
        name = next(conversations)
        requests = session.get("requests")
        if not isinstance(requests, list):
            yield batch.rows([BadRow(line, "the session has no list of requests")])
            continue
        bad = batch.add(requests, start_s=starts.next_s(), conversation=name, names=conversations, depth=0)
        next_id = max(next_id, batch.top)
        yield batch.rows(bad)


def tracelab_rows(source: Source, *, block_bytes: int) -> Iterator[Rows]:
    """LLM rounds with cache reads as the provider reported them."""
    sessions = Names()
    for block in source.blocks(block_bytes=block_bytes):
        lines: list[int] = []
        bad: list[BadRow] = []
        values: list[tuple[float, float, float]] = []
        names: list[Any] = []
        times: list[str | None] = []
        for line, row in json_objects(block):
            if isinstance(row, str):
                bad.append(BadRow(line, row))
                continue
            numbers = tuple(_number(row.get(key)) for key in ("input_tokens_total", "output_tokens", "prefix_tokens"))
            time = _first_time(row.get("timing_events"))
            if any(math.isnan(n) for n in numbers) or time is None:
                bad.append(BadRow(line, "input_tokens_total, output_tokens, prefix_tokens or timing_events is missing"))
                continue
            lines.append(line)
            values.append(numbers)  # type: ignore[arg-type]
            names.append(row.get("session_id"))
            times.append(time)
        table = np.array(values, dtype=np.float64).reshape(-1, 3)
        yield Rows(
            line=np.array(lines, dtype=np.int64),
            input_tokens=table[:, 0].copy(),
            output_tokens=table[:, 1].copy(),
            hit_tokens=table[:, 2].copy(),
            time_s=parse_times(times)[0] if times else np.empty(0),
            session=sessions.many(*prints_of(names)),
            bad=bad,
        )


class _SessionBatch:
    """Requests of one session, flattened."""

    def __init__(self, line: int, base: int) -> None:
        self.line, self.base, self.top = line, base, base
        self.numbers: list[tuple[float, float, float]] = []
        self.conversation: list[int] = []
        self.ids: list[list[int]] = []

    def add(
        self, requests: Sequence[Any], *, start_s: float, conversation: int, names: Iterator[int], depth: int
    ) -> list[BadRow]:
        """Take the requests of a session or sub-agent; returns what could not be used."""
        bad: list[BadRow] = []
        for place, request in enumerate(requests):
            where = f"request {place}"
            if not isinstance(request, Mapping):
                bad.append(BadRow(self.line, f"{where} is not an object"))
                continue
            time = _number(request.get("t"))
            if "agent_id" in request or "requests" in request:
                inner = request.get("requests")
                if isinstance(inner, list) and depth < DEEPEST_NESTING and not math.isnan(time):
                    own = next(names)
                    bad += self.add(inner, start_s=start_s + time, conversation=own, names=names, depth=depth + 1)
                elif isinstance(inner, list):
                    bad.append(BadRow(self.line, f"{where}: a sub-agent without start, or nested too deeply"))
                continue
            ids = request.get("hash_ids")
            if math.isnan(time):
                bad.append(BadRow(self.line, f"{where}: t must be a number"))
            elif not isinstance(ids, list) or not all(type(i) is int and 0 <= i < LARGEST_LOCAL_ID for i in ids):
                bad.append(BadRow(self.line, f"{where}: hash_ids must be a list of whole numbers"))
            else:
                self.numbers.append((start_s + time, _number(request.get("in")), _number(request.get("out"))))
                self.conversation.append(conversation)
                self.ids.append(ids)
                self.top = max(self.top, self.base + max(ids, default=0) + 1)
        return bad

    def rows(self, bad: list[BadRow]) -> Rows:
        table = np.array(self.numbers, dtype=np.float64).reshape(-1, 3)
        lengths = np.array([len(ids) for ids in self.ids], dtype=np.int64)
        flat = np.array([i for ids in self.ids for i in ids], dtype=np.int64) + self.base
        return Rows(
            line=np.full(table.shape[0], self.line, dtype=np.int64),
            time_s=table[:, 0].copy(),
            input_tokens=table[:, 1].copy(),
            output_tokens=table[:, 2].copy(),
            session=np.array(self.conversation, dtype=np.int64),
            offsets=np.concatenate(([0], np.cumsum(lengths))),
            ids=flat,
            bad=bad,
        )


def _sessions(source: Source, found: Recognised) -> Iterator[tuple[int, Mapping[str, Any] | str]]:
    if found.container == "jsonl":
        for block in source.blocks():
            yield from json_objects(block)
        return
    data = source.read_all(limit=LARGEST_OBJECT_BYTES)
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", 1)
        raise InputError(
            Problem(what="is not whole JSON (cut off?)", fix="check the end of the file", where=f"{source.name}:{line}")
        ) from None
    objects = value if isinstance(value, list) else [value]
    for place, item in enumerate(objects, start=1):
        yield place, item if isinstance(item, dict) else "is not a session object"


def _first_time(events: Any) -> str | None:
    """When a round began: the earliest of its events."""
    if not isinstance(events, list):
        return None
    times = [event.get("timestamp") for event in events if isinstance(event, Mapping)]
    return min((time for time in times if isinstance(time, str)), default=None)


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.nan
