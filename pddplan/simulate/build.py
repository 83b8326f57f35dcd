"""From a problem and a plan to a scenario: the service times of every stage, taken from the performance model.

Nothing of the closed forms for queues and paths is used here; the simulation is their oracle.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pddplan.domain.plan import Path, PathKind, Plan, Pool, Role
from pddplan.domain.workload import Array, RequestClasses
from pddplan.errors import InputError
from pddplan.errors import Problem as Fault
from pddplan.evaluate.problem import Instance, Problem, longest_chunk_s
from pddplan.network.rate import effective_rate
from pddplan.simulate.scenario import (
    DecodeStage,
    Index,
    LineStage,
    MixedStage,
    PrefillStage,
    Scenario,
    Way,
)

_MOST_SLOTS = 200_000
"""Slots of a pool beyond which the step table is cut; no pool that keeps a TPOT promise comes near."""
_MOST_ROUNDS = 64
_LONGEST_EXTEND_TOKENS = 8192


@dataclass(frozen=True, slots=True, eq=False)
class Kinds:
    """Kinds of requests: rows as in RequestClasses, and the class whose routing each follows."""

    rows: RequestClasses
    class_of: Index
    """Column of ``Plan.share``, shape (kinds,)."""

    @staticmethod
    def of_classes(classes: RequestClasses) -> Kinds:
        return Kinds(classes, np.arange(classes.count))


def build_scenario(
    problem: Problem, plan: Plan, *, kinds: Kinds | None = None, chunk_tokens: float | None = None
) -> Scenario:
    """Make a plan ready for replay.

    Parameters:  problem; plan; kinds of requests, None = the classes of the workload; chunk_tokens: size of the
                 prefill chunks that take turns with decode steps on aggregated pools (None: they ride on steps, as in
                 the closed form)
    Returns:     Scenario
    Raises:      InputError when a path names a pool or line that the plan does not have, or a pool has no instance
    """
    asked = kinds or Kinds.of_classes(problem.workload.classes)
    _check_plan(problem, plan)
    flow = plan.share[:, asked.class_of] * asked.rows.weight  # (paths, kinds): what part of all requests
    prefill: list[PrefillStage] = []
    decode: list[DecodeStage] = []
    relay: list[DecodeStage] = []
    mixed: list[MixedStage] = []
    for pool in plan.pools:
        used = [i for i, path in enumerate(plan.paths) if pool.id in (path.prefill, path.relay, path.decode)]
        if not used:
            continue
        through = flow[used].sum(axis=0)
        if pool.role is Role.PREFILL:
            prefill.append(_prefill_stage(problem, pool, asked.rows))
        elif pool.role is Role.AGGREGATED:
            mixed.append(_mixed_stage(problem, pool, asked.rows, through=through, chunk_tokens=chunk_tokens))
        else:
            held = through * _holding_weight(problem, plan, pool, asked.rows)
            stage = _decode_stage(problem, pool, asked.rows, held=held)
            (relay if pool.role is Role.RELAY else decode).append(stage)
    lines = [_line_stage(problem, plan, line_id) for line_id in dict.fromkeys(p.line for p in plan.paths) if line_id]
    ways = tuple(
        _way(problem, plan, path, rows=asked.rows, flow=flow[i], stages=decode) for i, path in enumerate(plan.paths)
    )
    return Scenario(
        ways=ways,
        share=np.asarray(plan.share, dtype=float),
        prefill=tuple(prefill),
        decode=tuple(decode),
        relay=tuple(relay),
        mixed=tuple(mixed),
        lines=tuple(lines),
    )


def _check_plan(problem: Problem, plan: Plan) -> None:
    pools = {pool.id: pool for pool in plan.pools}
    taken = {line.line for line in plan.lines if line.count > 0}
    faults = []
    for path in plan.paths:
        for pool_id in filter(None, (path.prefill, path.relay, path.decode)):
            if pool_id not in pools:
                faults.append(Fault(f"there is no pool {pool_id!r}", "add it to pools", f"path {path.id}"))
            elif pools[pool_id].instances < 1:
                faults.append(Fault(f"pool {pool_id!r} has no instance", "give it at least one", f"path {path.id}"))
        if path.line is not None and path.line not in taken:
            faults.append(Fault(f"line {path.line!r} is not taken", "add it to lines", f"path {path.id}"))
        elif path.line is not None and path.line not in problem.sites.lines:
            faults.append(Fault(f"there is no line {path.line!r}", "add it to the sites file", f"path {path.id}"))
    if plan.share.shape != (len(plan.paths), problem.workload.classes.count):
        faults.append(
            Fault(
                f"shares have shape {plan.share.shape}, not {(len(plan.paths), problem.workload.classes.count)}",
                "give one row per path and one column per request class",
                "share",
            )
        )
    elif not (np.isfinite(plan.share).all() and (plan.share >= -1e-9).all() and (plan.share.sum(axis=0) > 0).all()):
        faults.append(Fault("shares must be finite, not negative, and route every class", "correct them", "share"))
    if faults:
        raise InputError(faults)


def _prefill_times(problem: Problem, pool: Pool, rows: RequestClasses) -> Array:
    times = problem.instance_of(pool).prefill_time_s(
        new_tokens=rows.miss_prefill_tokens, cached_tokens=rows.cached_prefill_tokens
    )
    return np.asarray(times, dtype=float)


def _prefill_stage(problem: Problem, pool: Pool, rows: RequestClasses) -> PrefillStage:
    return PrefillStage(
        pool=pool.id,
        servers=pool.instances * problem.instance_of(pool).prefill_servers,
        service_s=_prefill_times(problem, pool, rows),
        shortest_first=problem.settings.discipline == "shortest-first",
    )


def _holding_weight(problem: Problem, plan: Plan, pool: Pool, rows: RequestClasses) -> Array:
    """How long each kind stays in a decoding pool, up to a factor: by answer, or on a relay by transfer."""
    if pool.role is not Role.RELAY:
        return rows.output_tokens
    path = next(path for path in plan.paths if path.relay == pool.id)
    if path.kind is PathKind.P_RLD:
        return rows.output_tokens
    return _payload(problem, plan, path, rows=rows) + 1.0


def _mean(values: Array, weight: Array) -> float:
    total = float(weight.sum())
    return float(np.dot(values, weight) / total) if total > 0 else float(values.mean())


def _slots_per_instance(problem: Problem, pool: Pool, *, step_tokens: float, memory_tokens: float) -> int:
    """Batch that the plan, memory and (where the plan is silent) the TPOT promise allow."""
    instance = problem.instance_of(pool)
    most, reason = instance.max_batch(context_tokens=memory_tokens)
    if most < 1:
        raise InputError(
            Fault(
                what=f"not one sequence of {memory_tokens:.0f} tokens fits on an instance ({reason})",
                fix="use a larger instance shape, or a chip with more memory",
                where=f"pool {pool.id}",
            )
        )
    if pool.batch is not None:
        return max(min(pool.batch, most), 1)
    limit_s = problem.workload.promises.tpot_s
    if limit_s is None:
        return most
    low, high = 1, most
    while low < high:  # the time per token grows with the batch
        middle = (low + high + 1) // 2
        if _token_s(instance, np.array([float(middle)]), context_tokens=step_tokens)[0] <= limit_s:
            low = middle
        else:
            high = middle - 1
    return low


def _token_s(instance: Instance, batch: Array, *, context_tokens: float) -> Array:
    step = np.asarray(
        instance.decode_step_s(batch=batch, context_tokens=np.full_like(batch, context_tokens)), dtype=float
    )
    made = np.array([instance.tokens_per_step(batch=float(b)) for b in batch])
    per_token: Array = step / made
    return per_token


def _step_table(instance: Instance, slots: int, *, instances: int, context_tokens: float) -> tuple[float, ...]:
    """Time of one token when 0..slots sequences are spread evenly over the instances.

    Between two whole batches some instances carry one sequence more: sequences see the weighted mean of both.
    """
    whole = _token_s(instance, np.arange(1.0, slots // instances + 2.0), context_tokens=context_tokens)
    n = np.arange(slots + 1)
    low, more = n // instances, n % instances
    fuller = more * (low + 1)
    share = np.divide(fuller, n, out=np.zeros(slots + 1), where=n > 0)
    at_low = whole[np.maximum(low, 1) - 1]
    table = (1.0 - share) * at_low + share * whole[low]
    return tuple(table.tolist())


def _decode_stage(problem: Problem, pool: Pool, rows: RequestClasses, *, held: Array) -> DecodeStage:
    growth = 0.0 if pool.role is Role.RELAY else 0.5  # a relay hands over long before the answer is complete
    step_tokens = _mean(rows.input_tokens + growth * rows.output_tokens, held)
    memory_tokens = _mean(rows.input_tokens + rows.output_tokens, held)
    batch = _slots_per_instance(problem, pool, step_tokens=step_tokens, memory_tokens=memory_tokens)
    slots = min(batch * pool.instances, _MOST_SLOTS)
    table = _step_table(problem.instance_of(pool), slots, instances=pool.instances, context_tokens=step_tokens)
    return DecodeStage(pool.id, pool.instances, table)


def _mixed_stage(
    problem: Problem, pool: Pool, rows: RequestClasses, *, through: Array, chunk_tokens: float | None
) -> MixedStage:
    instance = problem.instance_of(pool)
    held = through * rows.output_tokens
    step_tokens = _mean(rows.input_tokens + 0.5 * rows.output_tokens, held)
    memory_tokens = _mean(rows.input_tokens + rows.output_tokens, held)
    batch = _slots_per_instance(problem, pool, step_tokens=step_tokens, memory_tokens=memory_tokens)
    table = _step_table(instance, batch, instances=1, context_tokens=step_tokens)
    side_by_side = instance.prefill_servers
    chunk_s = np.inf
    if chunk_tokens is not None:
        size = np.array([float(chunk_tokens)])
        context = np.array([0.5 * _mean(rows.input_tokens, through)])
        chunk_s = float(instance.prefill_time_s(new_tokens=size, cached_tokens=context)[0])
    service_s = _prefill_times(problem, pool, rows)
    stop_s = instance.prefill_stop_s(new_tokens=rows.miss_prefill_tokens, cached_tokens=rows.cached_prefill_tokens)
    stop_share = np.clip(stop_s / np.where(service_s > 0, service_s, 1.0), 0.0, 1.0)
    alone_s, added_s = longest_chunk_s(
        instance, pool.shape, new_tokens=rows.miss_prefill_tokens, cached_tokens=rows.cached_prefill_tokens
    )
    return MixedStage(
        pool=pool.id,
        instances=pool.instances,
        service_s=service_s,
        chunk_s=chunk_s,
        pass_alone_s=alone_s,
        pass_added_s=added_s,
        second_per_token=table,
        side_by_side=side_by_side,
        stop_share=stop_share,
    )


def _line_stage(problem: Problem, plan: Plan, line_id: str) -> LineStage:
    line = problem.sites.lines[line_id]
    taken = next(taken for taken in plan.lines if taken.line == line_id)
    rate = effective_rate(line, taken.gbps, count=taken.count)
    return LineStage(
        line_id,
        rate_bytes_per_s=rate.bytes_per_s,
        transfer_limit_bytes_per_s=rate.transfer_bytes_per_s,
        delay_s=0.5 * line.rtt_s,
        noise_mean_s=line.noise_mean_s,
    )


def _payload(problem: Problem, plan: Plan, path: Path, *, rows: RequestClasses) -> Array:
    kv = problem.instance_of(plan.pool(path.prefill)).kv
    missing = rows.miss_decode_tokens if path.decode_cache else rows.input_tokens
    return np.asarray(kv.increment_bytes(total_tokens=rows.input_tokens, missing_tokens=missing), dtype=float)


def _way(
    problem: Problem, plan: Plan, path: Path, *, rows: RequestClasses, flow: Array, stages: Sequence[DecodeStage]
) -> Way:
    zero = np.zeros(rows.count)
    payload, local_s = zero, zero
    if path.kind is not PathKind.AGGREGATED:
        moved = _payload(problem, plan, path, rows=rows)
        payload = moved if path.line is not None else zero
        if path.relay is not None or path.line is None:
            pool = plan.pool(path.prefill)
            if path.relay is not None:  # the relay starts with nothing: the whole KV is copied
                kv = problem.instance_of(pool).kv
                moved = np.asarray(
                    kv.increment_bytes(total_tokens=rows.input_tokens, missing_tokens=rows.input_tokens), dtype=float
                )
            local_s = np.where(moved > 0, moved / problem.rdma_bytes_per_s(pool) + problem.settings.rdma_latency_s, 0.0)
    pipelined = problem.settings.overlap == "layerwise" and path.line is not None
    return Way(
        path=path.id,
        kind=path.kind,
        prefill=path.prefill,
        relay=path.relay,
        decode=path.decode if path.kind is not PathKind.P_RLD else None,
        line=path.line if path.kind is not PathKind.P_RLD else None,
        payload_bytes=payload,
        local_s=local_s,
        decode_cache=path.decode_cache,
        pipelined_fraction=1.0 - 1.0 / problem.layers if pipelined else 0.0,
        handover=_handover_rule(problem, plan, path, rows=rows, flow=flow, stages=stages),
    )


def _busy_step_s(stage: DecodeStage, *, token_rate: float) -> float:
    """Step time at the load where as many sequences are inside as arrive in the time they stay (fluid mean)."""
    for n, token_s in enumerate(stage.second_per_token[1:], start=1):
        if n >= token_rate * token_s:
            return token_s
    return stage.second_per_token[-1]


def _handover_rule(
    problem: Problem, plan: Plan, path: Path, *, rows: RequestClasses, flow: Array, stages: Sequence[DecodeStage]
) -> Callable[[float, float], tuple[float, float]]:
    """The rule by which a relay hands over on this path (see relay.Handover)."""
    if path.relay is None or path.decode is None or path.kind is not PathKind.P_RLD_MD:
        return lambda made, token_s: (0.0, 0.0)
    settings = problem.settings
    stage = next(stage for stage in stages if stage.pool == path.decode)
    instance = problem.instance_of(plan.pool(path.decode))
    context = np.array([_mean(rows.input_tokens, flow)])
    one = np.ones(1)
    far_rate = plan.rate_rps * float(np.dot(flow, rows.output_tokens))
    step_s = _busy_step_s(stage, token_rate=far_rate)
    alone_s = float(instance.decode_step_s(batch=one, context_tokens=context)[0])
    grid = np.unique(np.geomspace(1, _LONGEST_EXTEND_TOKENS, 40).round())
    several_s = np.array(
        [
            float(instance.decode_step_s(batch=one, context_tokens=context, tokens_per_sequence=float(n))[0])
            for n in grid
        ]
    )
    extend_s = step_s + np.maximum(several_s - alone_s, 0.0)
    table = np.interp(np.arange(_LONGEST_EXTEND_TOKENS + 1), grid, extend_s).tolist()
    one_way_s = 0.5 * problem.sites.lines[path.line].rtt_s if path.line is not None else settings.rdma_latency_s

    def last_s(tokens: float) -> float:
        """Ids cross, and main decode takes them all in one step."""
        return float(one_way_s + table[min(int(tokens), _LONGEST_EXTEND_TOKENS)])

    def one_shot(made: float, token_s: float) -> tuple[float, float]:
        return 0.0, last_s(made) + settings.handover_overhead_s

    def catch_up(made: float, token_s: float) -> tuple[float, float]:
        outstanding, emitting_s = made, 0.0
        for _ in range(_MOST_ROUNDS):
            round_s = last_s(outstanding) + settings.handover_overhead_s
            sent, outstanding = outstanding, round_s / token_s
            emitting_s += round_s
            if sent <= settings.handover_threshold_tokens or outstanding >= sent:
                break
        return emitting_s, last_s(outstanding)

    return one_shot if settings.handover == "one-shot" else catch_up
