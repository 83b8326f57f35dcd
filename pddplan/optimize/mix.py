"""Who uses which pool and line: what the moments of an operating point come from, as shapes without size.

A mix is exact when all traffic shares a pool, and is brought up to date from each plan found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from pddplan.domain.plan import Path, PathKind, Plan, Pool, Role
from pddplan.domain.workload import Array
from pddplan.evaluate.flows import decode_work, sender_feeds, system
from pddplan.evaluate.problem import DecodeWork, Problem
from pddplan.evaluate.stages import passed_scv
from pddplan.network.feed import Feed


@dataclass(frozen=True, slots=True, eq=False)
class LineMix:
    """Transfers of a line as shapes without size; rows are paths."""

    rates: Array
    payload_bytes: Array
    senders: tuple[str, ...]
    """Prefill pool of each row."""
    part: Mapping[str, float]
    """Share of the requests of each sending pool whose KV crosses here."""
    feeds: Mapping[str, Feed] = field(default_factory=dict)
    """What each sending pool was last seen to do to the flow."""
    scvs: Mapping[str, float] = field(default_factory=dict)
    """How bursty each was last seen to send."""

    @property
    def bytes_per_s(self) -> float:
        return float((self.rates * self.payload_bytes).sum())


@dataclass(frozen=True, slots=True, eq=False)
class Mix:
    """Who uses which pool and line, as shapes without size: what the moments of a point come from."""

    pool_classes: Mapping[str, Array]
    """Requests of each class per pool, any scale."""
    part: Mapping[str, float]
    """Share of all requests per prefilling pool."""
    decode: Mapping[str, DecodeWork]
    lines: Mapping[str, LineMix]


def first_mix(problem: Problem, pools: Sequence[Pool], paths: Sequence[Path]) -> Mix:
    """A mix to start from: every class uses all its paths alike, relays hold a request for an idle transfer."""
    classes = problem.workload.classes
    allowed = [allowed_classes(problem, path) for path in paths]
    flow = np.array(allowed).reshape(len(paths), classes.count) * classes.weight
    flow = flow / np.maximum((flow > 0).sum(axis=0), 1.0)
    by_id = {pool.id: pool for pool in pools}
    pool_classes, decode, part = {}, {}, {}
    for pool in pools:
        rows = [i for i, path in enumerate(paths) if pool.id in pools_of(path)]
        mine = flow[rows] if rows else classes.weight[None] + 0.0
        mine = mine if mine.sum() > 0 else np.broadcast_to(classes.weight, mine.shape)
        pool_classes[pool.id] = mine.sum(axis=0)
        if pool.role in (Role.PREFILL, Role.AGGREGATED):
            part[pool.id] = 1.0
        if pool.role is not Role.PREFILL:
            tokens = np.broadcast_to(classes.output_tokens, mine.shape)
            held = np.zeros_like(mine)
            if pool.role is Role.RELAY:
                relayed = np.array([paths[i].kind is PathKind.P_RLD_MD for i in rows] or [True])[:, None]
                tokens = np.where(relayed, 0.0, tokens)
                held = np.where(relayed, 1.0, held)
            stops = problem.prefill_stop_s(pool) if pool.role is Role.AGGREGATED else None
            decode[pool.id] = decode_work(problem, mine, tokens, held, prefill_s=0.0, stops_s=stops)
    return Mix(pool_classes, part, decode, _line_mixes(problem, by_id, paths, flow))


def mix_of_plan(problem: Problem, plan: Plan, *, before: Mix, paths: Sequence[Path], pools: Sequence[Pool]) -> Mix:
    """The mix a plan really has; pools and lines it does not use keep what was assumed before."""
    solved = system(problem, plan)
    by_id = {pool.id: pool for pool in pools}
    pool_classes, decode, part = dict(before.pool_classes), dict(before.decode), dict(before.part)
    for pool in plan.pools:
        rows = [i for i, path in enumerate(plan.paths) if pool.id in pools_of(path)]
        mine = solved.flow_rps[rows].sum(axis=0)
        if mine.sum() > 0:
            pool_classes[pool.id] = mine
        if pool.role in (Role.PREFILL, Role.AGGREGATED) and mine.sum() > 0:
            part[pool.id] = min(float(mine.sum() / solved.flow_rps.sum()), 1.0)
    decode |= solved.works
    lines = dict(before.lines)
    for line_id, mix in _line_mixes(problem, by_id, plan.paths, solved.flow_rps).items():
        if mix.bytes_per_s > 0:
            scvs = {
                pool_id: passed_scv(solved.states.prefill[pool_id], part=share) for pool_id, share in mix.part.items()
            }
            feeds = sender_feeds(
                problem,
                plan,
                solved.flow_rps,
                solved.states.prefill,
                senders=mix.senders,
                sent_rate_rps=mix.rates,
                payload_bytes=mix.payload_bytes,
            )
            lines[line_id] = replace(mix, feeds=feeds, scvs=scvs)
    return Mix(pool_classes, part, decode, lines)


def _line_mixes(problem: Problem, pools: Mapping[str, Pool], paths: Sequence[Path], flow: Array) -> dict[str, LineMix]:
    found = {}
    crossing = [path.line if path.kind is not PathKind.P_RLD else None for path in paths]
    for line_id in dict.fromkeys(line for line in crossing if line is not None):
        rows = [i for i, line in enumerate(crossing) if line == line_id]
        payloads = [problem.payload_bytes(pools[paths[i].prefill], decode_cache=paths[i].decode_cache) for i in rows]
        part = {}
        for sender in dict.fromkeys(paths[i].prefill for i in rows):
            through = float(flow[[path.prefill == sender for path in paths]].sum())
            onto = float(flow[[i for i in rows if paths[i].prefill == sender]].sum())
            part[sender] = min(onto / through, 1.0) if through > 0 else 1.0
        found[line_id] = LineMix(flow[rows], np.array(payloads), tuple(paths[i].prefill for i in rows), part)
    return found


def pools_of(path: Path) -> tuple[str, ...]:
    """Pools a path goes through, each once."""
    return tuple(dict.fromkeys(p for p in (path.prefill, path.relay, path.decode) if p is not None))


def allowed_classes(problem: Problem, path: Path) -> Array:
    """1 for classes that may take the path: finishing on the relay is for odd traffic only."""
    classes, odd = problem.workload.classes, problem.workload.odd_traffic
    if path.kind is not PathKind.P_RLD:
        return np.ones(classes.count)
    return odd.covers(classes.miss_decode_tokens, classes.output_tokens).astype(float)
