"""Simulate a plan on a real trace: its own arrival times, lengths and cache state, instead of drawn requests."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pddplan.domain.plan import PathKind, Plan
from pddplan.domain.workload import Array, RequestClasses
from pddplan.errors import InputError
from pddplan.errors import Problem as Fault
from pddplan.evaluate.problem import Problem
from pddplan.simulate.build import Kinds, build_scenario
from pddplan.simulate.cache_state import BlockLists, DecodeCache, EndlessCache, LruCache, bytes_saved
from pddplan.simulate.measure import measure, steady_part
from pddplan.simulate.replay import Progress, replay
from pddplan.simulate.result import SimulationResult
from pddplan.simulate.scenario import Index, Requests, Scenario, choose_ways

_ROWS_AT_A_TIME = 65_536
LEAST_TRACE_REQUESTS = 2
MOST_TRACE_REQUESTS = 5_000_000
MOST_BLOCKS_PER_REQUEST = 4_000_000
_MOST_SQUEEZE = 1.5
"""Beyond this factor on the rate, conversations are overlaid instead of squeezed in time."""


@dataclass(frozen=True, slots=True, eq=False)
class TraceTraffic:
    """Requests of a trace in order of arrival; all arrays have shape (requests,)."""

    name: str
    arrival_s: Array
    input_tokens: NDArray[np.int64]
    output_tokens: NDArray[np.int64]
    miss_prefill_tokens: NDArray[np.int64]
    """Not in the prefill-side cache."""
    miss_decode_tokens: NDArray[np.int64]
    """Not in the decode-side cache if every transfer took no time; the simulation finds the rest."""
    blocks: BlockLists | None = None
    """None: payloads are taken from miss_decode_tokens, without lag."""
    generated_from: NDArray[np.int64] | None = None
    """Earlier request whose input and answer this request continues; -1 = none."""
    assumed_held_tokens: NDArray[np.int64] | None = None
    """Tokens taken to be at the decode side from before the start; None = nothing."""
    notes: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        return int(self.arrival_s.size)

    @property
    def rate_rps(self) -> float:
        span = float(self.arrival_s[-1] - self.arrival_s[0])
        return (self.count - 1) / span if span > 0 else float("inf")

    def at_rate(self, rate_rps: float, *, seed: int = 0) -> TraceTraffic:
        """The same conversations at another rate.

        Up to half as fast again, and below, all times are stretched by one factor. Beyond, the trace is overlaid
        with copies of itself, each conversation starting at a random time and running over from the end to the
        beginning: squeezing time would make users answer faster than they can read. Hits within a copy stay;
        copies share nothing.
        """
        copies = max(round(min(rate_rps / self.rate_rps, 1e15)), 1)
        if rate_rps > _MOST_SQUEEZE * self.rate_rps and copies * self.count > MOST_TRACE_REQUESTS:
            raise InputError(
                Fault(
                    what=f"{rate_rps:g} requests per second would take {copies:,} copies of {self.count:,} requests",
                    fix=f"ask for at most {self.rate_rps * MOST_TRACE_REQUESTS / self.count:.3g} requests per second",
                    where=self.name,
                )
            )
        if rate_rps <= _MOST_SQUEEZE * self.rate_rps or copies < 2:
            first = float(self.arrival_s[0])
            return replace(self, arrival_s=(self.arrival_s - first) * (self.rate_rps / rate_rps))
        overlaid = self._overlaid(copies, seed=seed)
        stretched = overlaid.arrival_s * (copies * self.rate_rps / rate_rps)
        note = f"{copies} copies of the trace are overlaid, conversations starting at random, to reach {rate_rps:.3g}/s"
        return replace(overlaid, arrival_s=stretched, notes=(*self.notes, note))

    def _overlaid(self, copies: int, *, seed: int) -> TraceTraffic:
        begun = self._conversation_start_s()
        first = float(self.arrival_s[0])
        span = float(self.arrival_s[-1]) - first
        starts, conversation = np.unique(begun, return_inverse=True)
        rng = np.random.default_rng(seed)
        original = np.tile(np.arange(self.count), copies)
        copy = np.repeat(np.arange(copies), self.count)
        fresh = rng.uniform(0.0, span, size=(copies, starts.size))
        unwrapped = self.arrival_s[original] - begun[original] + fresh[copy, conversation[original]]
        turn = np.floor(unwrapped / span).astype(np.int64)
        arrival = unwrapped - turn * span
        copy_of = copy + turn * copies  # else a first turn would find what its own later turns left at the beginning
        order = np.argsort(arrival, kind="stable")
        place = np.empty(order.size, dtype=np.int64)
        place[order] = np.arange(order.size)
        parents, held = None, None
        if self.generated_from is not None:
            parent = self.generated_from[original]
            there = np.maximum(parent, 0) + copy * self.count
            # a conversation that runs over the end goes on at the beginning as if its earlier turns had landed
            cut = (parent >= 0) & (turn[there] != turn)
            parents = np.where((parent >= 0) & ~cut, place[there], -1)[order]
            held = np.where(cut, (self.input_tokens - self.miss_decode_tokens)[original], 0)[order]
        blocks = None
        if self.blocks is not None:
            blocks = replace(
                self.blocks, original=original[order], copy=copy_of[order], stride=self.blocks.block_numbers
            )
        source = original[order]
        return replace(
            self,
            arrival_s=arrival[order],
            input_tokens=self.input_tokens[source],
            output_tokens=self.output_tokens[source],
            miss_prefill_tokens=self.miss_prefill_tokens[source],
            miss_decode_tokens=self.miss_decode_tokens[source],
            blocks=blocks,
            generated_from=parents,
            assumed_held_tokens=held,
        )

    def _conversation_start_s(self) -> Array:
        """When the conversation of each request began."""
        begun = self.arrival_s.copy()
        if self.generated_from is not None:
            for request, parent in enumerate(self.generated_from.tolist()):
                if parent >= 0:
                    begun[request] = begun[parent]
        return begun


def simulate_trace(
    problem: Problem,
    plan: Plan,
    traffic: TraceTraffic,
    *,
    seed: int = 0,
    decode_cache_tokens: int | None = None,
    chunk_tokens: float | None = None,
    progress: Progress | None = None,
) -> SimulationResult:
    """Discrete-event simulation of a plan on the requests of a trace.

    Each request follows the routing of the class that is nearest to it. Where the trace has block ids, the
    decode-side cache is replayed with lag: a block is a hit once its transfer is complete.

    Parameters:  problem, plan: as for evaluate(); traffic; seed: of routing, noise and step boundaries;
                 decode_cache_tokens: capacity at the decode side per line, None = nothing is evicted;
                 chunk_tokens and progress as for simulate()
    Returns:     SimulationResult; every request counts (a trace has no warm-up to leave out)
    Raises:      InputError for a plan that does not fit, or a trace without arrival times or with one request
    """
    _check(traffic)
    begun = time.perf_counter()
    rows = RequestClasses(
        weight=np.full(traffic.count, 1.0 / traffic.count),
        input_tokens=traffic.input_tokens.astype(float),
        miss_prefill_tokens=traffic.miss_prefill_tokens.astype(float),
        miss_decode_tokens=traffic.miss_decode_tokens.astype(float),
        output_tokens=traffic.output_tokens.astype(float),
    )
    class_of = nearest_class(rows, problem.workload.classes)
    at_rate = replace(plan, rate_rps=traffic.rate_rps)
    scenario = build_scenario(problem, at_rate, kinds=Kinds(rows, class_of), chunk_tokens=chunk_tokens)
    way_rng, stage_rng = (np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(2))
    requests = Requests(
        arrival_s=traffic.arrival_s,
        kind=np.arange(traffic.count),
        request_class=class_of,
        way=choose_ways(class_of, scenario.share, way_rng),
        output_tokens=rows.output_tokens,
    )
    states = _line_states(problem, plan, traffic, scenario, requests, decode_cache_tokens=decode_cache_tokens)
    journeys = replay(scenario, requests, rng=stage_rng, line_states=states, progress=progress)
    run = steady_part(journeys, everything=True)
    elapsed = time.perf_counter() - begun
    group = problem.workload.classes.group
    result = measure(scenario, [run], seeds=(seed,), elapsed_s=elapsed, notes=traffic.notes, group=group)
    return replace(result, extra=_cache_figures(traffic, states))


def _check(traffic: TraceTraffic) -> None:
    if traffic.count < LEAST_TRACE_REQUESTS:
        raise InputError(
            Fault(
                what=f"a simulation needs at least {LEAST_TRACE_REQUESTS} requests, the trace has {traffic.count}",
                fix="give a longer trace, or draw requests with --requests",
                where=traffic.name,
            )
        )
    if not np.isfinite(traffic.rate_rps):
        raise InputError(
            Fault(
                what="all requests arrive at the same moment",
                fix="give a trace with arrival times, or draw requests with --requests",
                where=traffic.name,
            )
        )


def nearest_class(rows: RequestClasses, classes: RequestClasses) -> Index:
    """Class of the workload that is most like each request.

    Formula:     argmin over classes of the squared distance of square roots of (m, s, c, O), each over its mean
    Parameters:  rows of requests; classes of the workload
    Returns:     shape (requests,)
    Raises:      nothing
    Holds when:  the routing of the plan depends on these four quantities only.
    References:  elementary
    """
    centre = np.stack(
        [
            classes.miss_prefill_tokens,
            classes.miss_decode_tokens,
            classes.cached_prefill_tokens,
            classes.output_tokens,
        ]
    )
    scale = np.sqrt(np.maximum((centre * classes.weight).sum(axis=1, keepdims=True), 1.0))
    centre = np.sqrt(np.maximum(centre, 0.0)) / scale
    wanted = np.stack(
        [rows.miss_prefill_tokens, rows.miss_decode_tokens, rows.cached_prefill_tokens, rows.output_tokens]
    )
    wanted = np.sqrt(np.maximum(wanted, 0.0)) / scale
    nearest = np.empty(rows.count, dtype=np.intp)
    for start in range(0, rows.count, _ROWS_AT_A_TIME):
        part = wanted[:, start : start + _ROWS_AT_A_TIME]
        distance = ((part[:, :, None] - centre[:, None, :]) ** 2).sum(axis=0)
        nearest[start : start + _ROWS_AT_A_TIME] = distance.argmin(axis=1)
    return nearest


def _line_states(
    problem: Problem,
    plan: Plan,
    traffic: TraceTraffic,
    scenario: Scenario,
    requests: Requests,
    *,
    decode_cache_tokens: int | None,
) -> Mapping[str, DecodeCache]:
    if traffic.blocks is None:
        return {}
    size = traffic.blocks.block_tokens
    if int(traffic.input_tokens.max()) // size > MOST_BLOCKS_PER_REQUEST:
        raise InputError(
            Fault(
                what=f"a request has {int(traffic.input_tokens.max()):,} input tokens, more than can be replayed",
                fix="leave such rows out of the trace",
                where=traffic.name,
            )
        )
    capacity = None if decode_cache_tokens is None else max(decode_cache_tokens // size, 1)
    cached = np.array([way.decode_cache for way in scenario.ways])[requests.way]
    nothing = np.zeros(traffic.count, dtype=np.int64)
    held = traffic.assumed_held_tokens if traffic.assumed_held_tokens is not None else nothing
    landing_first = np.array([way.kind is PathKind.P_MD for way in scenario.ways])[requests.way]
    parents = traffic.generated_from if traffic.generated_from is not None else np.full(traffic.count, -1)
    states = {}
    for line in scenario.lines:
        path = next(path for path in plan.paths if path.line == line.line)
        kv = problem.instance_of(plan.pool(path.prefill)).kv
        total = traffic.input_tokens.astype(float)
        states[line.line] = DecodeCache(
            blocks=traffic.blocks,
            cache=EndlessCache(traffic.blocks.block_numbers) if capacity is None else LruCache(capacity),
            input_tokens=traffic.input_tokens,
            whole_bytes=np.asarray(kv.increment_bytes(total_tokens=total, missing_tokens=total), dtype=float),
            skipped_bytes=bytes_saved(kv, longest_tokens=int(total.max()), block_tokens=size),
            uses_cache=cached,
            generated_from=parents,
            output_tokens=traffic.output_tokens,
            answered_after_landing=landing_first,
            assumed_held_tokens=held,
        )
    return states


def _cache_figures(traffic: TraceTraffic, states: Mapping[str, DecodeCache]) -> dict[str, float]:
    """Token-weighted hit rates of the trace: at prefill, and at the decode side without and with lag."""
    total = float(traffic.input_tokens.sum())
    figures = {
        "rate_rps": traffic.rate_rps,
        "prefill_hit_fraction": 1.0 - float(traffic.miss_prefill_tokens.sum()) / total,
    }
    for line, state in states.items():
        crossed = np.isfinite(state.missing_tokens)
        tokens = float(traffic.input_tokens[crossed].sum())
        least = 0.5 * state.blocks.block_tokens  # less is rounding to whole blocks
        if tokens > 0:
            figures[f"{line}: decode_hit_fraction_without_lag"] = (
                1.0 - float(traffic.miss_decode_tokens[crossed].sum()) / tokens
            )
            figures[f"{line}: decode_hit_fraction"] = 1.0 - float(state.missing_tokens[crossed].sum()) / tokens
            figures[f"{line}: lagging_requests_fraction"] = float(
                (state.missing_tokens[crossed] > traffic.miss_decode_tokens[crossed] + least).mean()
            )
    return figures
