"""Traces whose lines are not plain requests: WEKA coding-agent sessions, TraceLab rounds."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from pddplan.traces.json_rows import Objects, json_objects, number_of, whole_json
from pddplan.traces.keys import Names, prints_of
from pddplan.traces.recognise import Recognised
from pddplan.traces.rows import BadRow, Rows
from pddplan.traces.source import BLOCK_BYTES, Source
from pddplan.traces.table_reader import short_text
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
"""Of sessions that do not say how many tokens a block holds."""
_BLOCK_SIZE = re.compile(rb'"block_size"\s*:\s*(\d{1,7})\b')
ROUND_KEYS = ("input_tokens_total", "output_tokens", "prefix_tokens")
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


def weka_block_tokens(source: Source) -> int:
    """Tokens per block, as the first session says."""
    found = _BLOCK_SIZE.search(source.head())
    return max(int(found[1]), 1) if found else WEKA_BLOCK_TOKENS


def weka_rows(source: Source, found: Recognised, *, block_tokens: int) -> Iterator[Rows]:
    """Requests of coding-agent sessions, sub-agents included.

    Block ids are local to a session, so each session gets a range of its own. Requests of a sub-agent run from
    the sub-agent's own start. A sub-agent counts as a conversation of its own.
    """
    starts, conversations, next_id = SessionStarts(), itertools.count(), 0
    shared_words: dict[str, int] = {}
    for line, session in itertools.chain.from_iterable(_objects(source, found)):
        batch = _SessionBatch(line, next_id)
        if isinstance(session, BadRow):
            yield batch.rows([session])
            continue
        if session.get("block_size", block_tokens) != block_tokens:
            what = f"its blocks hold {short_text(session.get('block_size'))} tokens, those of the first {block_tokens}"
            yield batch.rows([BadRow(line, what)])
            continue
        if session.get("hash_id_scope", "local") != "local":
            batch.base, batch.words = 0, shared_words
        name = next(conversations)
        requests = session.get("requests")
        if not isinstance(requests, list):
            yield batch.rows([BadRow(line, "the session has no list of requests")])
            continue
        bad = batch.add(requests, start_s=starts.next_s(), conversation=name, names=conversations, depth=0)
        next_id = max(next_id, batch.top)
        yield batch.rows(bad)


def tracelab_rows(source: Source, found: Recognised, *, block_bytes: int) -> Iterator[Rows]:
    """LLM rounds with cache reads as the provider reported them."""
    sessions = Names()
    timed = any("timing_events" in row for row in found.sample)
    for objects in _objects(source, found, block_bytes=block_bytes):
        lines: list[int] = []
        bad: list[BadRow] = []
        values: list[tuple[float, float, float]] = []
        names: list[Any] = []
        times: list[str | None] = []
        for line, row in objects:
            if isinstance(row, BadRow):
                bad.append(row)
                continue
            numbers = tuple(number_of(row.get(key)) for key in ROUND_KEYS)
            time = _first_time(row.get("timing_events"))
            lacking = [key for key, n in zip(ROUND_KEYS, numbers, strict=True) if math.isnan(n)]
            if timed and time is None:
                lacking.append("timing_events")
            if lacking:
                bad.append(BadRow(line, f"{', '.join(lacking)} is missing"))
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
            time_s=None if not timed else parse_times(times)[0] if times else np.empty(0),
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
        self.words: dict[str, int] = {}
        """Numbers of block ids that are texts."""

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
            time = number_of(request.get("t"))
            if "agent_id" in request or "requests" in request:
                inner = request.get("requests")
                if isinstance(inner, list) and depth < DEEPEST_NESTING and not math.isnan(time):
                    own = next(names)
                    bad += self.add(inner, start_s=start_s + time, conversation=own, names=names, depth=depth + 1)
                elif isinstance(inner, list):
                    bad.append(BadRow(self.line, f"{where}: a sub-agent without start, or nested too deeply"))
                continue
            ids = self._numbered(request.get("hash_ids"))
            if math.isnan(time):
                bad.append(BadRow(self.line, f"{where}: t must be a number"))
            elif ids is None:
                bad.append(BadRow(self.line, f"{where}: hash_ids must be a list of whole numbers, or of texts"))
            else:
                self.numbers.append((start_s + time, number_of(request.get("in")), number_of(request.get("out"))))
                self.conversation.append(conversation)
                self.ids.append(ids)
                self.top = max(self.top, self.base + max(ids, default=0) + 1)
        return bad

    def _numbered(self, ids: Any) -> list[int] | None:
        """Block ids of a request as numbers; None where they are none, or of another kind than those before."""
        if not isinstance(ids, list):
            return None
        if ids and all(type(i) is str for i in ids) and bool(self.words) >= any(self.ids):
            return [self.words.setdefault(i, len(self.words)) for i in ids]
        whole = all(type(i) is int and 0 <= i < LARGEST_LOCAL_ID for i in ids)
        return ids if whole and not (ids and self.words) else None

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


def _objects(source: Source, found: Recognised, *, block_bytes: int = BLOCK_BYTES) -> Iterator[Objects]:
    """Objects of the file, block by block."""
    if found.container == "json":
        yield whole_json(source, limit=LARGEST_OBJECT_BYTES)
        return
    for block in source.blocks(block_bytes=block_bytes):
        yield json_objects(block)


def _first_time(events: Any) -> str | None:
    """When a round began: the earliest of its events."""
    if not isinstance(events, list):
        return None
    times = [event.get("timestamp") for event in events if isinstance(event, Mapping)]
    return min((time for time in times if isinstance(time, str)), default=None)
