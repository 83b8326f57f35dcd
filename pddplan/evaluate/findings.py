"""What there is to say about an evaluated plan: loads, broken promises, what binds, what it leans on."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pddplan.domain.outcome import Assumption, Binding, Latencies, LineLoad, Percentiles, PoolLoad, Violation
from pddplan.domain.plan import PathKind, Plan, Pool, Role
from pddplan.domain.provenance import Basis
from pddplan.domain.workload import Array
from pddplan.evaluate.flows import System
from pddplan.evaluate.problem import Problem
from pddplan.evaluate.rounding import exceeds
from pddplan.evaluate.stages import PrefillState
from pddplan.paths.decoding import DecodePoint
from pddplan.paths.latency import LatencySum, stacked
from pddplan.paths.mixture import QUANTILES, mixture_percentiles
from pddplan.paths.stability import CacheLag, cache_lag
from pddplan.queueing.wait import Wait
from pddplan.queueing.waves import slow_wave, swell_margin
from pddplan.units import bytes_per_s_to_gbps

NEAR_LIMIT = 0.97
"""A promise used to this share counts as binding."""
_TOLD_MARGIN = 0.005
"""A margin on transfers below this is not worth a sentence."""
_TOLD_TRANSIT = 0.03
"""KV under way is told of from this share of a decode pool's memory."""
_NEARLY_ALL, _MOST_TOLD = 0.99, 0.999
"""Loads between these are told to a tenth of a per cent; none is told as all."""
NO_TRANSFER = Percentiles(0.0, 0.0, 0.0, 0.0)


def wait_percentiles(wait: Wait) -> Percentiles:
    """Percentiles of one wait [s]."""
    p50, p90, p99 = (float(t) for t in wait.quantile_s(np.array(QUANTILES)))
    return Percentiles(p50, p90, p99, float(wait.mean_s))


def pool_wait_percentiles(state: PrefillState, class_rate_rps: Array) -> Percentiles:
    """Percentiles of the wait in front of a prefill pool, over the classes that go there [s]."""
    wait = state.stage.wait
    if np.ndim(wait.tail_mean_s) == 0:
        return wait_percentiles(wait)
    waits = LatencySum(np.zeros_like(class_rate_rps), (wait,))
    if not class_rate_rps.any():
        return NO_TRANSFER
    return mixture_percentiles(
        waits.prepared().rows(class_rate_rps > 0),
        class_rate_rps[class_rate_rps > 0][None],
        mean_s=waits.mean_s[class_rate_rps > 0][None],
    )[0]


def _through(plan: Plan, pool_id: str, solved: System) -> Array:
    return np.asarray(solved.flow_rps[[path.prefill == pool_id for path in plan.paths]].sum(axis=0))


def pool_loads(problem: Problem, plan: Plan, solved: System) -> tuple[PoolLoad, ...]:
    """Loads of all pools, in the plan's order."""
    loads = []
    for pool in plan.pools:
        prefill = solved.states.prefill.get(pool.id)
        point = solved.states.decode.get(pool.id)
        if pool.role is Role.PREFILL and prefill is not None:
            loads.append(
                PoolLoad(
                    pool=pool.id,
                    utilization=prefill.utilization,
                    mean_service_s=prefill.service.mean,
                    wait=pool_wait_percentiles(prefill, _through(plan, pool.id, solved)),
                    batch=None,
                    batch_cap=None,
                    batch_cap_reason=None,
                )
            )
        elif point is not None:
            wait = wait_percentiles(point.wait)
            if prefill is not None:
                wait = pool_wait_percentiles(prefill, _through(plan, pool.id, solved))
            loads.append(
                PoolLoad(
                    pool=pool.id,
                    utilization=point.utilization,
                    mean_service_s=point.holding_s,
                    wait=wait,
                    batch=point.batch,
                    batch_cap=float(point.cap.batch),
                    batch_cap_reason=point.cap.reason,
                    step_s=point.step_s,
                )
            )
    return tuple(loads)


def line_loads(plan: Plan, solved: System) -> tuple[LineLoad, ...]:
    """Loads of all lines taken, with the transfer times over the mix that crosses them."""
    loads = []
    for taken in plan.lines:
        state = solved.states.lines.get(taken.line)
        if state is None:
            continue
        rows = [i for i, r in enumerate(solved.results) if r.path.line == taken.line and r.transfer is not None]
        transfer = NO_TRANSFER
        if rows:
            sums: list[LatencySum] = []
            weights = []
            for i in rows:
                crossing = solved.results[i].transfer
                assert crossing is not None
                sums.append(crossing)
                weights.append(np.where(solved.results[i].payload_bytes > 0, solved.flow_rps[i], 0.0))
            ready, mean = stacked(sums)
            weight = np.array(weights)
            used = weight > 0
            if used.any():
                transfer = mixture_percentiles(ready.rows(used), weight[used][None], mean_s=mean[used][None])[0]
        loads.append(
            LineLoad(
                line=taken.line,
                gbps=taken.gbps,
                count=taken.count,
                mean_gbps=bytes_per_s_to_gbps(state.mean_bytes_per_s),
                utilization=state.utilization,
                transfer=transfer,
                limit=state.rate.limit,
            )
        )
    return tuple(loads)


def violations(problem: Problem, plan: Plan, solved: System, reached: Mapping[str, Latencies]) -> tuple[Violation, ...]:
    """Every promise and physical limit that the plan breaks; ``reached`` per traffic class, "" = all requests."""
    asked = _asked(problem, reached)
    found = [Violation(name, limit, got, "s") for name, limit, got in asked if exceeds(got, limit)]
    for pool in plan.pools:
        prefill, point = solved.states.prefill.get(pool.id), solved.states.decode.get(pool.id)
        load = max(prefill.utilization if prefill else 0.0, point.utilization if point else 0.0)
        if load >= 1.0:
            found.append(Violation(f"capacity of pool {pool.id}", 1.0, load, "utilization"))
        if point is not None and pool.batch is not None and pool.batch > point.cap.memory_batch:
            found.append(
                Violation(
                    f"{point.cap.memory_reason} batch of pool {pool.id}",
                    float(point.cap.memory_batch),
                    float(pool.batch),
                    "sequences",
                )
            )
    for taken in plan.lines:
        state = solved.states.lines.get(taken.line)
        if state is not None and state.utilization >= 1.0:
            found.append(Violation(f"capacity of line {taken.line}", 1.0, state.utilization, "utilization"))
    lag = relay_lag(problem, plan, solved)
    if lag is not None and lag.collapses:
        slots = sum(
            pool.instances * solved.states.decode[pool.id].cap.batch for pool in plan.pools if pool.role is Role.RELAY
        )
        needed = max(turn.relay_slots for turn in lag.turns)
        found.append(Violation("relay slots when the decode-side cache lags", float(slots), needed, "sequences"))
    unrouted = np.abs(np.asarray(plan.share).sum(axis=0) - 1.0)
    routed = problem.workload.classes.weight > 0
    if (unrouted[routed] > 1e-6).any():
        worst = float(np.asarray(plan.share).sum(axis=0)[routed][np.argmax(unrouted[routed])])
        found.append(Violation("share of a class that is routed", 1.0, worst, "share"))
    return tuple(found)


def _asked(problem: Problem, reached: Mapping[str, Latencies]) -> list[tuple[str, float, float]]:
    """(name, limit, prediction to be held against it) of the promises made; tails are raised by the tail margin."""
    rows = []
    for promise in problem.workload.promises.made():
        latency = getattr(reached[promise.group], promise.kind.latency)
        raised = 1.0 + problem.settings.tail_margin if promise.kind.is_tail else 1.0
        rows.append((promise.name, promise.limit_s, getattr(latency, promise.kind.statistic) * raised))
    return rows


def relay_lag(problem: Problem, plan: Plan, solved: System) -> CacheLag | None:
    """The feedback of a lagging decode-side cache, where requests other than odd traffic end on a relay pool."""
    classes, odd = problem.workload.classes, problem.workload.odd_traffic
    fits = odd.covers(classes.miss_decode_tokens, classes.output_tokens)
    ended = [i for i, path in enumerate(plan.paths) if path.kind is PathKind.P_RLD]
    if not ended or not (solved.flow_rps[ended][:, ~fits] > 0).any():
        return None
    relayed = [i for i, path in enumerate(plan.paths) if path.kind in (PathKind.P_RLD, PathKind.P_RLD_MD)]
    used = solved.flow_rps[relayed].sum(axis=0) > 0
    path = plan.paths[ended[0]]
    point = solved.states.decode[path.relay or ""]
    pool = plan.pool(path.relay or "")
    kv = problem.instance_of(plan.pool(path.prefill)).kv
    line = next(iter(solved.states.lines.values()), None)
    return cache_lag(
        classes,
        rate_rps=plan.rate_rps,
        finished_fraction=float(solved.flow_rps[ended].sum() / solved.flow_rps[relayed].sum()),
        heavy_tokens=float(classes.miss_decode_tokens[used].min()) * (1.0 - 1e-9),
        turns_per_session=problem.settings.session_turns,
        think_s=problem.settings.think_s,
        kv_bytes_per_token=kv.growing_bytes_per_token,
        kv_fixed_bytes=kv.fixed_bytes,
        line_bytes_per_s=line.rate.bytes_per_s if line is not None else np.inf,
        transfer_bytes_per_s=line.rate.transfer_bytes_per_s if line is not None else np.inf,
        relay_token_s=point.token_s,
        relay_slots=float(pool.instances * max(point.cap.batch, 0)),
        handover_s=problem.settings.handover_overhead_s,
    )


def _busiest_part(pool: Pool, prefill: PrefillState | None, point: DecodePoint | None) -> str:
    """Words for how busy a pool is; pools that do both have two loads, and the tables show that of decode slots."""
    if prefill is None or point is None or prefill.utilization <= point.utilization:
        own = point if point is not None else prefill
        return f"pool {pool.id} runs at {_below_all(own.utilization if own is not None else 0.0)}"
    return (
        f"prefill on pool {pool.id} runs at {_below_all(prefill.utilization)} (its decode slots, which tables call "
        f"busy, at {_below_all(point.utilization)})"
    )


def _below_all(load: float) -> str:
    """A load below one, not rounded up to all."""
    return f"{load:.0%}" if load < _NEARLY_ALL else f"{min(load, _MOST_TOLD):.1%}"


def bindings(
    problem: Problem,
    reached: Mapping[str, Latencies],
    *,
    pools: tuple[PoolLoad, ...],
    lines: tuple[LineLoad, ...],
) -> tuple[Binding, ...]:
    """Promises and capacities that are used nearly whole."""
    asked = _asked(problem, reached)
    tight = [Binding(name, got, limit, "s") for name, limit, got in asked if got >= NEAR_LIMIT * limit]
    warn = problem.settings.warn_utilization
    for load in pools:
        if load.utilization >= warn:
            reason = f" (batch capped by {load.batch_cap_reason})" if load.batch_cap_reason else ""
            tight.append(Binding(f"capacity of pool {load.pool}{reason}", load.utilization, 1.0, "utilization"))
    tight += [
        Binding(f"capacity of line {line.line} ({line.limit})", line.utilization, 1.0, "utilization")
        for line in lines
        if line.utilization >= warn
    ]
    return tuple(tight)


def assumptions(problem: Problem, plan: Plan) -> tuple[Assumption, ...]:
    """Numbers nobody measured that this plan really uses, weakest basis last."""
    used = {"decode_slot_scv", "discipline"}
    kinds = {path.kind for path in plan.paths}
    if any(path.line is not None for path in plan.paths):
        used |= {"overlap"}
    if PathKind.P_RLD_MD in kinds:
        used |= {"handover", "handover_threshold_tokens", "handover_overhead_s", "token_id_bytes"}
    if kinds & {PathKind.P_RLD_MD, PathKind.P_RLD} or any(
        path.line is None and path.kind is PathKind.P_MD for path in plan.paths
    ):
        used |= {"rdma_efficiency", "rdma_latency_s"}
    found = [item for item in problem.settings.assumptions() if item.name in used]
    speeds = {(pool.chip, problem.instance_of(pool).basis): pool.shape for pool in plan.pools}
    found += [
        Assumption(f"speed of {chip}", f"instances {shape}", basis, "chip and efficiency profiles")
        for (chip, basis), shape in speeds.items()
        if basis > Basis.MEASURED
    ]
    return tuple(sorted(found, key=lambda item: item.basis))


def notes(problem: Problem, plan: Plan, solved: System) -> tuple[str, ...]:
    """Remarks: what TTFT holds, what runs near its limit, what was not checked."""
    said = ["TTFT counts from arrival to the first output token leaving the decoding pool: " + _hops(plan)]
    warn, margin = problem.settings.warn_utilization, problem.settings.tail_margin
    if margin > 0.0:
        said.append(f"TTFT and E2E at P90 and P99 are judged with a margin of {margin:.1%} (tail_margin)")
    wave = slow_wave(problem.workload.arrival)
    if wave is not None and swell_margin(wave) >= _TOLD_MARGIN:
        said.append(
            f"traffic comes in waves: its rate swings by {wave.rate_cv:.0%} over some {wave.relaxation_s:.2g} s; waits "
            f"behind its swells are worked out and raised by {swell_margin(wave):.1%}, a margin for what the closed "
            "form misses there (docs/queueing.md)"
        )
    for pool in plan.pools:
        prefill, point = solved.states.prefill.get(pool.id), solved.states.decode.get(pool.id)
        load = max(prefill.utilization if prefill else 0.0, point.utilization if point else 0.0)
        if pool.role is Role.AGGREGATED and point is not None:
            chunk, longest = problem.instance_of(pool).prefill_chunk_tokens, problem.longest_mixed_step_s
            said.append(
                f"pool {pool.id} prefills in chunks of {chunk:,.0f} tokens that ride on decode steps (serving stack "
                f"profile); such a step takes up to {longest(pool, point.cap_step_s):.2g} s"
            )
        if warn < load < 1.0:
            said.append(
                f"{_busiest_part(pool, prefill, point)}: waits grow without bound towards 100 %, and above {warn:.0%} "
                "a capacity error of a few per cent decides; plan a margin at least as large as the error of its speed"
            )
    for taken in plan.lines:
        state = solved.states.lines.get(taken.line)
        if state is None:
            continue
        if warn < state.utilization < 1.0:
            said.append(
                f"line {taken.line} runs at {_below_all(state.utilization)}: transfers there are long and spread widely"
            )
        if state.stage.effect.margin >= _TOLD_MARGIN:
            said.append(
                f"line {taken.line}: waits of transfers are raised by {state.stage.effect.margin:.1%}, a margin for "
                "what the closed form misses where few prefill servers feed a nearly full line (docs/simulation.md)"
            )
        if state.rate.limit != "line":
            cause = "TCP window over RTT (BDP)" if state.rate.limit == "window" else "packet loss (Mathis)"
            alone = bytes_per_s_to_gbps(state.rate.transfer_bytes_per_s)
            flows = problem.sites.lines[taken.line].tcp_flows
            said.append(
                f"line {taken.line}: one transfer gets at most {alone:.3g} Gbit/s, bound by {cause} with {flows} flows"
            )
    said += _in_transit(plan, solved)
    lag = relay_lag(problem, plan, solved)
    if lag is not None:
        end = f"after {lag.collapse_turn} turns" if lag.collapses else "never, at this load"
        said.append(
            "requests that are not odd traffic are finished on the relay pool: the decode-side cache falls behind by "
            f"{lag.last.lag_tokens:,.0f} tokens, {lag.last.relay_fraction:.0%} of requests drift to the relay, which "
            f"then holds {lag.last.relay_slots:.0f} sequences; it overloads {end}"
        )
    return tuple(said)


def _in_transit(plan: Plan, solved: System) -> list[str]:
    """KV under way to a decode pool has its memory reserved there already: said where it is much of it."""
    said = []
    for pool in plan.pools:
        point = solved.states.decode.get(pool.id)
        if pool.role is not Role.DECODE or point is None or point.cap.memory_batch < 1:
            continue
        under_way = sum(
            float(np.dot(rate[rate > 0], result.transfer.mean_s[rate > 0]))
            for path, rate, result in zip(plan.paths, solved.flow_rps, solved.results, strict=True)
            if path.decode == pool.id and result.transfer is not None and rate.any()
        )
        held = under_way / (pool.instances * point.cap.memory_batch)
        if _TOLD_TRANSIT <= held < np.inf:
            said.append(
                f"KV on its way to pool {pool.id} holds the memory of {under_way:.0f} sequences there, {held:.0%} of "
                "what fits; engines reserve it before it lands, and the batch limit does not count it"
            )
    return said


def _hops(plan: Plan) -> str:
    hops = {
        PathKind.P_MD: "P-MD = prefill wait + prefill + KV transfer + slot wait + first step",
        PathKind.P_RLD_MD: "P-RLD-MD = prefill wait + prefill + RDMA + relay slot wait + first relay step",
        PathKind.P_RLD: "P-RLD = prefill wait + prefill + RDMA + relay slot wait + first relay step",
        PathKind.AGGREGATED: "AGG = prefill wait + prefill + slot wait + first step",
    }
    return "; ".join(hops[kind] for kind in sorted({path.kind for path in plan.paths}))
