"""From a plan to the states of its pools and lines: who sends how much to whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from pddplan.domain.plan import Path, PathKind, Plan, Pool, Role
from pddplan.domain.workload import Array
from pddplan.errors import InputError
from pddplan.errors import Problem as Fault
from pddplan.evaluate.path_result import PathResult, States, path_result, transfer_of
from pddplan.evaluate.problem import DecodeWork, Problem
from pddplan.evaluate.stages import (
    LineState,
    PrefillState,
    decode_state,
    feed_of,
    line_state,
    passed_scv,
    pool_arrival_scv,
    prefill_servers,
    prefill_state,
)
from pddplan.network.feed import Feed
from pddplan.paths.decoding import DecodePoint
from pddplan.queueing.waves import slow_wave

_ROUNDS = 40
"""Most rounds of the fixed point between relay, line and main decode."""
_FREE_ROUNDS = 4
"""From then on a round goes only part of the way: a relay that waits longer holds shorter, and could swing for ever."""
_LEAST_OVERLAP = 1e-3
_STILL = 1e-4
"""Relative change of batch and time per token below which they have been found."""


@dataclass(frozen=True, slots=True, eq=False)
class System:
    """A plan under load."""

    flow_rps: Array
    """Requests per second, shape (paths, classes)."""
    states: States
    results: tuple[PathResult, ...]
    """Aligned with ``plan.paths``."""
    works: Mapping[str, DecodeWork]
    """What the mean request asks of each decoding pool."""


def system(problem: Problem, plan: Plan) -> System:
    """Solve the flows: prefill feeds lines, lines set relay occupancy, relay tokens relieve main decode."""
    flow = flows(problem, plan)
    prefill = {
        pool.id: _prefill(problem, plan, pool, flow)
        for pool in plan.pools
        if pool.role in (Role.PREFILL, Role.AGGREGATED)
    }
    lines = {
        line_plan.line: _line(problem, plan, line_plan.line, flow, prefill, ids_bytes_per_s=0.0)
        for line_plan in plan.lines
        if line_plan.count > 0
    }
    relays = any(path.kind is PathKind.P_RLD_MD for path in plan.paths)
    works = _first_works(problem, plan, flow)
    points = _decode(problem, plan, flow, works)
    results: dict[str, PathResult] = {}
    first = True
    for turn in range(_ROUNDS):
        states = States(prefill, lines, points)
        for path in plan.paths:
            # only a relay's tokens depend on the states; what other paths ask of the pools is the same in each round
            if path.kind is PathKind.P_RLD_MD or path.id not in results:
                results[path.id] = path_result(problem, plan, path, states)
        found = tuple(results[path.id] for path in plan.paths)
        asked = decode_works(problem, plan, flow, found)
        step = 1.0 if turn < _FREE_ROUNDS else 2.0 / (turn - _FREE_ROUNDS + 4)
        known, works = (
            works,
            {pool_id: work if first else _between(works[pool_id], work, step=step) for pool_id, work in asked.items()},
        )
        first = False
        before, points = points, _decode(problem, plan, flow, works, known=known, points=points)
        if not relays and all(points[pool_id] is before[pool_id] for pool_id in points):
            return System(flow, states, found, works)
        lines = {
            line_id: _line(
                problem, plan, line_id, flow, prefill, ids_bytes_per_s=_ids(problem, plan, line_id, flow, found)
            )
            for line_id in lines
        }
        if not _moved(before, points):
            break
    states = States(prefill, lines, points)
    return System(flow, states, tuple(path_result(problem, plan, path, states) for path in plan.paths), works)


def _between(before: DecodeWork, after: DecodeWork, *, step: float) -> DecodeWork:
    """Part of the way from one round's demand on a pool to the next one's."""
    if step == 1.0 or before == after:
        return after
    names = [field.name for field in fields(DecodeWork)]
    return replace(
        after, **{name: (1.0 - step) * getattr(before, name) + step * getattr(after, name) for name in names}
    )


def _moved(before: dict[str, DecodePoint], after: dict[str, DecodePoint]) -> bool:
    """Whether a round still changed what the pools are asked for."""
    return any(
        abs(after[key].token_s - before[key].token_s) > _STILL * after[key].token_s
        or abs(after[key].batch - before[key].batch) > _STILL * max(after[key].batch, _STILL)
        for key in after
    )


def flows(problem: Problem, plan: Plan) -> Array:
    """Requests per second of each (path, class): rate x class weight x share."""
    classes = problem.workload.classes
    share = np.asarray(plan.share, dtype=float)
    if share.shape != (len(plan.paths), classes.count):
        raise InputError(
            Fault(
                what=f"plan.share has shape {share.shape}, but the plan has {len(plan.paths)} paths "
                f"and the workload {classes.count} classes",
                fix="give one row per path and one column per class",
                where="plan.share",
            )
        )
    return np.asarray(plan.rate_rps * classes.weight * share)


def _prefill(problem: Problem, plan: Plan, pool: Pool, flow: Array) -> PrefillState:
    mine = flow[[path.prefill == pool.id for path in plan.paths]].sum(axis=0)
    total = float(flow.sum())
    part = float(mine.sum()) / total if total > 0 else 0.0
    return prefill_state(
        problem, pool, class_rate_rps=mine, arrival_scv=pool_arrival_scv(problem, pool, mine, part=part)
    )


def _line(
    problem: Problem,
    plan: Plan,
    line_id: str,
    flow: Array,
    prefill: dict[str, PrefillState],
    *,
    ids_bytes_per_s: float,
) -> LineState:
    taken = next(item for item in plan.lines if item.line == line_id)
    on_line = [path.line == line_id and path.kind is not PathKind.P_RLD for path in plan.paths]
    size = problem.workload.classes.count
    sent = flow[on_line] if any(on_line) else np.zeros((1, size))
    payload = np.array(
        [
            problem.payload_bytes(plan.pool(path.prefill), decode_cache=path.decode_cache)
            for path, on in zip(plan.paths, on_line, strict=True)
            if on
        ]
        or [np.zeros(size)]
    )
    senders = tuple(path.prefill for path, on in zip(plan.paths, on_line, strict=True) if on)
    feeds = sender_feeds(problem, plan, flow, prefill, senders=senders, sent_rate_rps=sent, payload_bytes=payload)
    scvs = []
    for pool_id in feeds:
        onto = float(sent[[sender == pool_id for sender in senders]].sum())
        scvs.append((onto, passed_scv(prefill[pool_id], part=onto / float(_through(plan, flow, pool_id).sum()))))
    weight = sum(rate for rate, _ in scvs)
    return line_state(
        problem.sites.lines[line_id],
        taken.gbps,
        count=taken.count,
        transfer_rate_rps=sent,
        payload_bytes=payload,
        extra_bytes_per_s=ids_bytes_per_s,
        arrival_scv=sum(rate * scv for rate, scv in scvs) / weight if weight > 0 else 1.0,
        feeds=list(feeds.values()),
        wave=slow_wave(problem.workload.arrival),
    )


def sender_feeds(
    problem: Problem,
    plan: Plan,
    flow: Array,
    prefill: Mapping[str, PrefillState],
    *,
    senders: Sequence[str],
    sent_rate_rps: Array,
    payload_bytes: Array,
) -> dict[str, Feed]:
    """What each prefill pool that sends over a line does to the flow; rows are the paths on the line."""
    feeds = {}
    for pool_id, state in prefill.items():
        mine = np.array([sender == pool_id for sender in senders])
        if mine.any() and sent_rate_rps[mine].sum() > 0:
            feeds[pool_id] = feed_of(
                state,
                servers=prefill_servers(problem, plan.pool(pool_id)),
                class_rate_rps=_through(plan, flow, pool_id),
                sent_rate_rps=sent_rate_rps[mine],
                payload_bytes=payload_bytes[mine],
            )
    return feeds


def _through(plan: Plan, flow: Array, pool_id: str) -> Array:
    """Requests per second of each class that a prefill pool serves."""
    return np.asarray(flow[[path.prefill == pool_id for path in plan.paths]].sum(axis=0))


def _ids(problem: Problem, plan: Plan, line_id: str, flow: Array, results: tuple[PathResult, ...]) -> float:
    """Bytes per second of token ids on a line."""
    total = 0.0
    for path, requests, result in zip(plan.paths, flow, results, strict=True):
        if path.line == line_id and path.kind is PathKind.P_RLD_MD:
            total += float(np.dot(requests, result.relay_tokens)) * problem.settings.token_id_bytes
    return total


def decode_users(plan: Plan, pool: Pool) -> list[tuple[int, Path]]:
    """Paths that decode in a pool, with their index."""
    own = []
    for index, path in enumerate(plan.paths):
        decoders = {path.relay, path.decode} if path.kind is not PathKind.AGGREGATED else {path.prefill, path.decode}
        if pool.id in decoders:
            own.append((index, path))
    return own


def _first_works(problem: Problem, plan: Plan, flow: Array) -> dict[str, DecodeWork]:
    """What is asked of decoding pools as if each request made all its tokens in each of them."""
    works = {}
    output = problem.workload.classes.output_tokens
    for pool in plan.pools:
        if pool.role is Role.PREFILL:
            continue
        mine = [index for index, _ in decode_users(plan, pool)]
        requests = flow[mine] if mine else np.zeros((1, output.size))
        tokens = np.broadcast_to(1.0 + 0.0 * output if pool.role is Role.RELAY else output, requests.shape)
        stops = np.broadcast_to(problem.prefill_stop_s(pool), requests.shape) if pool.role is Role.AGGREGATED else None
        works[pool.id] = decode_work(problem, requests, tokens, np.zeros_like(tokens), prefill_s=0.0, stops_s=stops)
    return works


def _decode(
    problem: Problem,
    plan: Plan,
    flow: Array,
    works: Mapping[str, DecodeWork],
    *,
    known: Mapping[str, DecodeWork] | None = None,
    points: Mapping[str, DecodePoint] | None = None,
) -> dict[str, DecodePoint]:
    """States of the decoding pools; a pool that is asked for the same as in ``known`` keeps its point."""
    found = {}
    for pool in plan.pools:
        if pool.id not in works:
            continue
        if known is not None and points is not None and known.get(pool.id) == works[pool.id]:
            found[pool.id] = points[pool.id]
            continue
        rate = float(flow[[index for index, _ in decode_users(plan, pool)]].sum())
        found[pool.id] = decode_state(problem, pool, works[pool.id], request_rate_rps=rate)
    return found


def decode_works(problem: Problem, plan: Plan, flow: Array, results: tuple[PathResult, ...]) -> dict[str, DecodeWork]:
    """What the mean request asks of each decoding pool of a plan under these flows (paths, classes)."""
    works = {}
    output = problem.workload.classes.output_tokens
    for pool in plan.pools:
        if pool.role is Role.PREFILL:
            continue
        users = decode_users(plan, pool)
        rows = [index for index, _ in users]
        if not rows:
            nothing = np.zeros((1, output.size))
            works[pool.id] = decode_work(problem, nothing, output[None], nothing, prefill_s=0.0)
            continue
        requests = flow[rows]
        total = max(float(requests.sum()), 1e-300)
        if pool.role is Role.RELAY:
            relayed = np.array([path.kind is PathKind.P_RLD_MD for _, path in users])[:, None]
            tokens = np.where(relayed, 0.0, output)
            held = np.where(relayed, np.array([results[i].relay_hold_s for i in rows]), 0.0)
            works[pool.id] = decode_work(problem, requests, tokens, held, prefill_s=0.0)
        else:
            tokens = np.array([results[i].main_tokens for i in rows])
            stop = float((requests * np.array([results[i].main_extend_s for i in rows])).sum()) / total
            stops = np.zeros_like(requests)
            if pool.role is Role.AGGREGATED:
                mine = [path.prefill == pool.id for _, path in users]
                # one prefill stops decoding on its whole instance: ranks step together, and a token meets a prefill in
                # every stage of a pipeline; a balancer spreads prefills, so they rarely share a stop
                stops = np.where(np.array(mine)[:, None], problem.prefill_stop_s(pool), 0.0)
            works[pool.id] = decode_work(
                problem, requests, tokens, np.zeros_like(tokens), prefill_s=stop, stops_s=stops
            )
    return works


def decode_work(
    problem: Problem,
    requests: Array,
    tokens: Array,
    held_s: Array,
    *,
    prefill_s: float,
    stops_s: Array | None = None,
) -> DecodeWork:
    """What the mean request asks of a decoding pool, from rows (paths) of requests per class.

    ``tokens`` are made here, ``held_s`` is time a slot is kept besides, ``stops_s`` are prefills that stop an instance;
    all shapes (paths, classes). ``prefill_s`` is other work of the mean request that stops an instance.
    """
    classes = problem.workload.classes
    total = float(requests.sum())
    weight = requests / total if total > 0 else np.broadcast_to(classes.weight / len(requests), requests.shape)
    made = float((weight * tokens).sum())
    # a long answer is in flight longer: contexts are weighted by the time they stay
    stay = weight * np.where(
        held_s > 0, held_s / max(float(held_s.max()), 1e-300), tokens / max(float(tokens.max()), 1e-300)
    )
    stay = stay if stay.sum() > 0 else weight
    stay = stay / stay.sum()
    stop = [float((weight * stops_s**power).sum()) if stops_s is not None else 0.0 for power in (1, 2, 3)]
    return DecodeWork(
        tokens_per_request=made,
        step_tokens=float((stay * (classes.input_tokens + 0.5 * classes.output_tokens)).sum()),
        memory_tokens=float((stay * (classes.input_tokens + classes.output_tokens)).sum()),
        extra_holding_s=float((weight * held_s).sum()),
        prefill_s=prefill_s + stop[0],
        holding_scv=problem.settings.decode_slot_scv,
        holding_overlap=_overlap(weight, np.where(held_s > 0, held_s, tokens)),
        stop_mean_s=stop[0],
        stop_second_s2=stop[1],
        stop_memory_s=0.5 * stop[2] / stop[1] if stop[1] > 0 else 0.0,
    )


def _overlap(weight: Array, stay: Array) -> float:
    """E[min(H, H')] / E[H] of two independent stays of these lengths."""
    order = np.argsort(stay, axis=None)
    sizes, shares = stay.ravel()[order], weight.ravel()[order]
    # the smaller of two is this one when the other is longer, or as long and later in the row
    longer = np.cumsum(shares[::-1])[::-1] - 0.5 * shares
    mean = float(sizes @ shares)
    return max(float(2.0 * (sizes * shares) @ longer) / mean, _LEAST_OVERLAP) if mean > 0 else 0.5


__all__ = ["System", "decode_users", "decode_work", "decode_works", "flows", "system", "transfer_of"]
