"""The kernel: sends requests through all stages of a scenario, one whole stage after the other.

Requests only ever move forward (prefill, line, relay, decode), so each stage can be replayed over all its
requests before the next begins; nothing is approximated by that. What does flow back, the state of the cache
at the decode side, lives inside the line stage (see cache_state).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from pddplan.domain.plan import PathKind
from pddplan.domain.workload import Array
from pddplan.simulate.decoding import decode_batch
from pddplan.simulate.fifo import multi_server_fifo, multi_server_shortest_first
from pddplan.simulate.mixed import mixed_batch
from pddplan.simulate.relay import Handover, relay_batch
from pddplan.simulate.scenario import Index, Requests, Scenario, Way
from pddplan.simulate.sharing import LineState, processor_sharing

NEVER = np.inf

Progress = Callable[[float], None]
"""Called with the share of the work that is done."""


@dataclass(frozen=True, slots=True, eq=False)
class Journeys:
    """When each request passed each stage; shape (requests,), NaN where it did not come by."""

    requests: Requests
    prefill_start_s: Array
    prefill_end_s: Array
    line_start_s: Array
    line_end_s: Array
    landed_s: Array
    """KV complete at the pool that decodes the rest of the answer."""
    payload_bytes: Array
    relay_ready_s: Array
    relay_start_s: Array
    relay_end_s: Array
    relayed_tokens: Array
    decode_ready_s: Array
    decode_start_s: Array
    first_token_s: Array
    finish_s: Array
    gap_s: Array
    """Longest silence at the hand-over; 0 without one."""


class _Columns:
    """The columns of Journeys while they fill up."""

    def __init__(self, count: int) -> None:
        for name in Journeys.__dataclass_fields__:
            if name != "requests":
                setattr(self, name, np.full(count, np.nan))
        self.relayed_tokens = np.zeros(count)
        self.payload_bytes = np.zeros(count)
        self.gap_s = np.zeros(count)
        self.silent_s = np.full(count, np.nan)

    prefill_start_s: Array
    prefill_end_s: Array
    line_start_s: Array
    line_end_s: Array
    landed_s: Array
    relay_ready_s: Array
    relay_start_s: Array
    relay_end_s: Array
    decode_ready_s: Array
    decode_start_s: Array
    first_token_s: Array
    finish_s: Array


def replay(
    scenario: Scenario,
    requests: Requests,
    *,
    rng: np.random.Generator,
    line_states: Mapping[str, LineState] | None = None,
    progress: Progress | None = None,
) -> Journeys:
    """Replay requests through a scenario.

    Parameters:  scenario; requests in order of arrival; rng for line noise and step boundaries;
                 line_states: per line id, payloads that depend on what has arrived before (traces);
                 progress: called with the share of stages that are done
    Returns:     Journeys
    Raises:      DomainError when a stage refuses its input
    """
    columns = _Columns(requests.count)
    output = requests.output_tokens
    by_way = [np.flatnonzero(requests.way == number) for number in range(len(scenario.ways))]
    boundary = rng.random(requests.count)
    stages: tuple[Callable[[], None], ...] = (
        lambda: _prefill(scenario, requests, columns, by_way=by_way),
        lambda: _lines(scenario, requests, columns, by_way=by_way, rng=rng, states=line_states or {}),
        lambda: _relays(scenario, requests, columns, by_way=by_way, output=output, boundary=boundary),
        lambda: _decodes(scenario, requests, columns, by_way=by_way, output=output, boundary=boundary),
        lambda: _mixed(scenario, requests, columns, by_way=by_way, output=output),
    )
    for done, stage in enumerate(stages, start=1):
        stage()
        if progress is not None:
            progress(done / len(stages))
    fields = {name: getattr(columns, name) for name in Journeys.__dataclass_fields__ if name != "requests"}
    return Journeys(requests=requests, **fields)


def _members(ways: tuple[Way, ...], by_way: list[Index], wanted: list[bool]) -> Index:
    """Requests of the wanted ways, in order of arrival."""
    parts = [rows for rows, take in zip(by_way, wanted, strict=True) if take]
    return np.sort(np.concatenate(parts)) if parts else np.empty(0, dtype=np.intp)


def _per_request(ways: tuple[Way, ...], requests: Requests, rows: Index, name: str) -> Array:
    """A quantity of (way, kind), for some requests."""
    table: Array = np.stack([getattr(way, name) for way in ways])
    found: Array = table[requests.way[rows], requests.kind[rows]]
    return found


def _prefill(scenario: Scenario, requests: Requests, columns: _Columns, *, by_way: list[Index]) -> None:
    for stage in scenario.prefill:
        rows = _members(scenario.ways, by_way, [way.prefill == stage.pool for way in scenario.ways])
        service = stage.service_s[requests.kind[rows]]
        discipline = multi_server_shortest_first if stage.shortest_first else multi_server_fifo
        start = discipline(requests.arrival_s[rows], service, servers=stage.servers)
        columns.prefill_start_s[rows] = start
        columns.prefill_end_s[rows] = start + service


def _lines(
    scenario: Scenario,
    requests: Requests,
    columns: _Columns,
    *,
    by_way: list[Index],
    rng: np.random.Generator,
    states: Mapping[str, LineState],
) -> None:
    ways = scenario.ways
    inside = _members(ways, by_way, [way.line is None and way.decode is not None for way in ways])
    inside = inside[np.isfinite(columns.prefill_end_s[inside])]
    if inside.size:
        columns.landed_s[inside] = columns.prefill_end_s[inside] + _per_request(ways, requests, inside, "local_s")
    for stage in scenario.lines:
        rows = _members(ways, by_way, [way.line == stage.line for way in ways])
        if not rows.size:
            continue
        fraction = np.array([way.pipelined_fraction for way in ways])[requests.way[rows]]
        end = columns.prefill_end_s[rows]
        begin = end - fraction * (end - columns.prefill_start_s[rows])
        order = np.argsort(begin, kind="stable")
        payload = _per_request(ways, requests, rows, "payload_bytes")
        state = states.get(stage.line)
        done = np.empty_like(begin)
        if state is not None:
            state.expect(rows[order])
        done[order] = processor_sharing(
            begin[order],
            payload[order],
            rate_bytes_per_s=stage.rate_bytes_per_s,
            transfer_limit_bytes_per_s=stage.transfer_limit_bytes_per_s,
            state=state,
        )
        if state is not None:
            payload[order] = state.sent_bytes
        sent = payload > 0
        # Layer by layer, the last layer cannot leave before prefill has ended.
        alone = min(stage.rate_bytes_per_s, stage.transfer_limit_bytes_per_s)
        last_layer = np.where(fraction > 0, end + (1 - fraction) * payload / alone, done)
        done = np.where(sent, np.maximum(done, last_layer), end)
        noise = rng.exponential(stage.noise_mean_s, rows.size) if stage.noise_mean_s > 0 else np.zeros(rows.size)
        columns.line_start_s[rows] = np.where(sent, begin, np.nan)
        columns.line_end_s[rows] = np.where(sent, done, np.nan)
        columns.payload_bytes[rows] = payload
        columns.landed_s[rows] = done + np.where(sent, stage.delay_s + noise, 0.0)


def _relays(
    scenario: Scenario,
    requests: Requests,
    columns: _Columns,
    *,
    by_way: list[Index],
    output: Array,
    boundary: Array,
) -> None:
    ways = scenario.ways
    columns.decode_ready_s[:] = columns.landed_s
    for stage in scenario.relay:
        rows = _members(ways, by_way, [way.relay == stage.pool for way in ways])
        if not rows.size:
            continue
        ready = columns.prefill_end_s[rows] + _per_request(ways, requests, rows, "local_s")
        landed = np.where(np.isnan(columns.landed_s[rows]), NEVER, columns.landed_s[rows])
        landed = np.maximum(landed, ready)
        order = np.argsort(ready, kind="stable")
        sorted_rows = rows[order]
        run = relay_batch(
            ready[order],
            output[sorted_rows],
            landed_s=landed[order],
            second_per_token=stage.second_per_token,
            handover=_handover(ways, requests.way[sorted_rows].tolist()),
            boundary=boundary[sorted_rows],
        )
        columns.relay_ready_s[sorted_rows] = ready[order]
        columns.relay_start_s[sorted_rows] = run.start_s
        columns.relay_end_s[sorted_rows] = np.where(np.isnan(run.start_s), np.nan, run.leave_s)
        columns.relayed_tokens[sorted_rows] = run.made_tokens
        columns.first_token_s[sorted_rows] = run.first_token_s
        columns.silent_s[sorted_rows] = run.silent_s
        columns.finish_s[sorted_rows] = np.where(run.complete, run.leave_s, np.nan)
        columns.decode_ready_s[sorted_rows] = np.where(run.complete, np.nan, run.leave_s)


def _handover(ways: tuple[Way, ...], way_of: list[int]) -> Handover:
    rules = [way.handover for way in ways]
    return lambda k, made, token_s: rules[way_of[k]](made, token_s)


def _decodes(
    scenario: Scenario,
    requests: Requests,
    columns: _Columns,
    *,
    by_way: list[Index],
    output: Array,
    boundary: Array,
) -> None:
    for stage in scenario.decode:
        rows = _members(scenario.ways, by_way, [way.decode == stage.pool for way in scenario.ways])
        rows = rows[np.isfinite(columns.decode_ready_s[rows])]
        rows = rows[np.argsort(columns.decode_ready_s[rows], kind="stable")]
        if not rows.size:
            continue
        relayed = columns.relayed_tokens[rows]
        run = decode_batch(
            columns.decode_ready_s[rows],
            output[rows] - relayed,
            second_per_token=stage.second_per_token,
            boundary=boundary[rows],
        )
        columns.decode_start_s[rows] = run.start_s
        columns.finish_s[rows] = np.maximum(run.finish_s, run.first_token_s)
        taken_over = relayed > 0
        columns.first_token_s[rows] = np.where(taken_over, columns.first_token_s[rows], run.first_token_s)
        # the step that takes over the relayed tokens makes the next one too: it ends when decoding starts
        columns.gap_s[rows] = np.where(taken_over, run.start_s - columns.silent_s[rows], 0.0)


def _mixed(scenario: Scenario, requests: Requests, columns: _Columns, *, by_way: list[Index], output: Array) -> None:
    for stage in scenario.mixed:
        rows = _members(
            scenario.ways,
            by_way,
            [way.kind is PathKind.AGGREGATED and way.prefill == stage.pool for way in scenario.ways],
        )
        if not rows.size:
            continue
        begun, ended, run = mixed_batch(
            requests.arrival_s[rows],
            stage.service_s[requests.kind[rows]],
            tokens=output[rows],
            instances=stage.instances,
            second_per_token=stage.second_per_token,
            chunk_s=stage.chunk_s,
            side_by_side=stage.side_by_side,
            stop_share=None if stage.stop_share is None else stage.stop_share[requests.kind[rows]],
            longest_pass_s=(stage.pass_alone_s[requests.kind[rows]], stage.pass_added_s[requests.kind[rows]]),
        )
        columns.gap_s[rows] = run.gap_s
        columns.prefill_start_s[rows] = begun
        columns.prefill_end_s[rows] = ended
        columns.decode_ready_s[rows] = ended
        columns.decode_start_s[rows] = run.start_s
        columns.first_token_s[rows] = run.first_token_s
        columns.finish_s[rows] = np.maximum(run.finish_s, run.first_token_s)
