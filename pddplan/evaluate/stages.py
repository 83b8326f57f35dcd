"""From loads to states: a pool or line at its operating point, with the same formulas for evaluator and optimiser.

Every function here takes a load (or a utilisation) and gives a state; none looks at a whole plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from pddplan.domain.plan import Pool, Role
from pddplan.domain.sites import Line
from pddplan.domain.workload import Array
from pddplan.evaluate.problem import DecodeWork, Problem
from pddplan.network.feed import Feed, feed_effect
from pddplan.network.rate import LineRate, effective_rate
from pddplan.network.sharing import sharing_tail_ratio
from pddplan.paths.decoding import BatchCap, DecodePoint, batch_cap, decode_point
from pddplan.paths.first_token import PrefillStage
from pddplan.paths.occupancy import CALM, Unrest
from pddplan.paths.transfer import TransferStage
from pddplan.queueing.erlang import erlang_c_real
from pddplan.queueing.flows import burstiness, departure_scv, split_scv
from pddplan.queueing.moments import Moments, mix_moments
from pddplan.queueing.priority import shortest_first_wait
from pddplan.queueing.residual import first_free
from pddplan.queueing.wait import NO_WAIT, Wait, delay_probability, pool_wait
from pddplan.queueing.waves import Wave, scaled, slow_wave, waved_wait

RELAY_PACE = 2.0
"""A relay pool that no plan fixes the batch of may take this many times the promised TPOT for its few tokens."""
_LEAST_ROOM = 0.02
"""Spare capacity below which a queue's memory is not taken to be longer still."""


@dataclass(frozen=True, slots=True, eq=False)
class PrefillState:
    """A prefill pool under a load."""

    stage: PrefillStage
    utilization: float
    service: Moments
    arrival_scv: float
    delay_probability: float
    """Chance that an arriving request finds all servers busy."""
    rate_rps: float
    instances: int
    stop: Moments
    """What of the prefills stops decoding on the same instance (aggregated pools; else their whole time)."""


@dataclass(frozen=True, slots=True, eq=False)
class LineState:
    """A line under a load."""

    stage: TransferStage
    rate: LineRate
    utilization: float
    mean_bytes_per_s: float
    payload: Moments
    arrival_scv: float

    @property
    def swell_mean_s(self) -> float:
        """What slow waves of traffic add to the mean transfer [s]."""
        swell = self.stage.swell
        if swell is None or self.payload.mean <= 0.0:
            return 0.0
        more = float(swell.mean_s) - float(np.max(self.stage.tail_ratio))
        return max(more, 0.0) * self.payload.mean / self.rate.bytes_per_s


def prefill_state(
    problem: Problem,
    pool: Pool,
    *,
    class_rate_rps: Array,
    instances: int | None = None,
    arrival_scv: float | None = None,
) -> PrefillState:
    """State of a prefill (or aggregated) pool that gets ``class_rate_rps`` requests per second of each class.

    Utilisation is lambda E[t_prefill] / servers (see prefill_servers). ``arrival_scv`` of the pool's own arrivals;
    None = the workload's, split at random down to the pool's share of the requests.
    """
    count = prefill_servers(problem, pool, instances=instances)
    service_s = problem.prefill_s(pool)
    service = mix_moments(class_rate_rps, service_s)
    rate = float(class_rate_rps.sum())
    scv = problem.workload.arrival.scv if arrival_scv is None else arrival_scv
    wait = pool_wait(
        count,
        service.mean,
        service_scv=service.scv,
        arrival_rate_rps=rate,
        arrival_scv=scv,
        light=first_free(count, service_s, weight=class_rate_rps),
    )
    chance = float(wait.delay_probability)
    waved = waved_wait(
        wait,
        slow_wave(problem.workload.arrival),
        utilization=rate * service.mean / count,
        noise_s=service.mean / count * (scv + service.scv),
        delayed=partial(delay_probability, count, arrival_scv=scv, service_scv=service.scv),
    )
    if problem.settings.discipline == "shortest-first":
        in_turn = shortest_first_wait(
            count, service_s, class_rate_rps=class_rate_rps, service_scv=service.scv, arrival_scv=scv
        )
        longer = float(waved.mean_s) / float(wait.mean_s) if float(wait.mean_s) > 0 else 1.0
        waved, wait = (in_turn if waved is wait else _swollen(in_turn, waved, longer=longer)), in_turn
    return PrefillState(
        PrefillStage(service_s, waved, wait),
        rate * service.mean / count,
        service,
        scv,
        chance,
        rate,
        pool.instances if instances is None else instances,
        mix_moments(class_rate_rps, problem.prefill_stop_s(pool)) if pool.role is Role.AGGREGATED else service,
    )


def pool_arrival_scv(problem: Problem, pool: Pool, class_rate_rps: Array, *, part: float) -> float:
    """Burstiness of a pool's arrivals on the time scale of its queue; ``part`` of all requests, at random, go there.

    The time scale is that in which a full queue drains: E[S] (1 + cs^2) / (2 c (1 - rho)^2).
    """
    arrival = problem.workload.arrival
    if not arrival.dispersion:
        return float(split_scv(part, scv=arrival.scv))
    service = mix_moments(class_rate_rps, problem.prefill_s(pool))
    servers = prefill_servers(problem, pool)
    room = max(1.0 - float(class_rate_rps.sum()) * service.mean / servers, _LEAST_ROOM)
    window_s = service.mean * (1.0 + service.scv) / (2.0 * servers * room**2)
    wave = slow_wave(arrival)
    seen = burstiness(arrival, window_s) if wave is None else wave.dispersion(window_s)
    return float(split_scv(part, scv=seen))


def _swollen(calm: Wait, waved: Wait, *, longer: float) -> Wait:
    """Waits per class of a pool that reorders its queue, in waves that raise chance and mean of the plain queue."""
    chance = np.maximum(np.asarray(calm.delay_probability), float(waved.delay_probability))
    with np.errstate(divide="ignore", invalid="ignore"):
        tail = np.where(chance > 0, calm.mean_s * longer / chance, 0.0)
    return Wait(chance, tail)


def passed_scv(state: PrefillState, *, part: float) -> float:
    """Burstiness that a pool passes on to a line, of which ``part`` of its requests use; the rest is in the feed.

    A busy pool sends as many at once as it has servers, whatever came in.
    """
    leaving = departure_scv(servers=1, utilization=state.utilization, arrival_scv=state.arrival_scv, service_scv=1.0)
    return float(split_scv(part, scv=leaving))


def prefill_servers(problem: Problem, pool: Pool, *, instances: int | None = None) -> int:
    """Prefills that a pool works on at once: instances x what one of them does side by side (ranks, stages)."""
    return (pool.instances if instances is None else instances) * problem.instance_of(pool).prefill_servers


def feed_of(
    state: PrefillState, *, servers: int, class_rate_rps: Array, sent_rate_rps: Array, payload_bytes: Array
) -> Feed:
    """What a pool's state means for a line it feeds.

    ``class_rate_rps`` goes through the pool; ``sent_rate_rps`` of it goes over the line with ``payload_bytes``;
    the latter two may have shape (paths, classes).
    """
    service_s = state.stage.service_s
    square = sent_rate_rps * payload_bytes**2
    total = float(square.sum())
    work = float((class_rate_rps * service_s).sum())
    mean_payload, mean_service = float((sent_rate_rps * payload_bytes).sum()), float((sent_rate_rps * service_s).sum())
    apart = payload_bytes - (service_s * mean_payload / mean_service if mean_service > 0 else 0.0)
    return Feed(
        servers=servers,
        utilization=state.utilization,
        delay_probability=state.delay_probability,
        rate_rps=float(class_rate_rps.sum()),
        service_scv=state.service.scv,
        payload_service_s=float((square * service_s).sum()) / total if total > 0 else 0.0,
        sent_work_fraction=min(float((sent_rate_rps * service_s).sum()) / work, 1.0) if work > 0 else 0.0,
        payload_spread=min(float((sent_rate_rps * apart**2).sum()) / total, 1.0) if total > 0 else 1.0,
        payload_square=total,
    )


def line_state(
    line: Line,
    gbps: float,
    *,
    count: int,
    transfer_rate_rps: Array,
    payload_bytes: Array,
    extra_bytes_per_s: float = 0.0,
    arrival_scv: float = 1.0,
    feeds: Sequence[Feed] = (),
    wave: Wave | None = None,
) -> LineState:
    """State of ``count`` parallel lines that carry transfers of given sizes at given rates (arrays of one shape).

    ``extra_bytes_per_s`` is small traffic that loads the line without queueing on its own (token ids);
    ``arrival_scv`` that of the requests whose KV crosses; ``feeds`` the pools the transfers come from; ``wave`` the
    slow wave of the traffic.
    """
    rate = effective_rate(line, gbps, count=count)
    carried = np.where(payload_bytes > 0, transfer_rate_rps, 0.0).ravel()
    sizes = np.asarray(payload_bytes, dtype=float).ravel()
    payload = mix_moments(carried, sizes)
    mean = float(np.dot(carried, sizes)) + extra_bytes_per_s
    utilization = mean / rate.bytes_per_s if rate.bytes_per_s > 0 else (np.inf if mean > 0 else 0.0)
    ratio = sharing_tail_ratio(utilization, parallel=rate.parallel, arrival_scv=arrival_scv, size_scv=payload.scv)
    large = payload.second / payload.mean if payload.mean > 0 else 0.0
    stage = TransferStage(
        rate.bytes_per_s,
        utilization=utilization,
        tail_ratio=ratio,
        transfer_bytes_per_s=rate.transfer_bytes_per_s,
        effect=feed_effect(
            feeds,
            large_transfer_s=large / rate.bytes_per_s if rate.bytes_per_s > 0 else np.inf,
            utilization=float(utilization),
        ),
        large_bytes=large,
        rtt_s=line.rtt_s,
        swell=_line_swell(wave, float(utilization), float(ratio), rate, large),
        noise_mean_s=line.noise_mean_s,
    )
    return LineState(stage, rate, float(utilization), mean, payload, arrival_scv)


def _line_swell(wave: Wave | None, utilization: float, ratio: float, rate: LineRate, large_bytes: float) -> Wait | None:
    """How many others a transfer shares the line with, in waves; None without.

    The work on the line is followed through the wave; so much of it as half a large payload is one other transfer.
    """
    if wave is None or not 0.0 < utilization < 1.0 or not large_bytes > 0.0:
        return None
    other_s = 0.5 * large_bytes / rate.bytes_per_s
    delayed = partial(erlang_c_real, max(rate.parallel, 1.0))
    chance = float(delayed(utilization))
    calm = Wait(chance, ratio / chance * other_s) if chance > 0 else NO_WAIT
    swell = waved_wait(
        calm,
        wave,
        utilization=utilization,
        noise_s=2.0 * (1.0 - utilization) * ratio / chance * other_s if chance > 0 else 0.0,
        delayed=delayed,
    )
    return None if swell is calm else scaled(swell, 1.0 / other_s)


def decode_cap(problem: Problem, pool: Pool, work: DecodeWork) -> BatchCap:
    """Largest batch of one instance of a decoding pool.

    Memory and stack always bind; the plan's own batch binds where it is given, else the TPOT that the pool is to keep
    (its own or the one promised to all requests) does: a plan that fixes its batch is judged, not corrected.
    A relay pool writes the first few tokens of an answer, so its own pace may be slower: whether whole answers keep
    their promise is judged by them.
    """
    promised_s = problem.workload.promises.tpot_s if pool.tpot_s is None else pool.tpot_s
    if promised_s is not None and pool.role is Role.RELAY:
        promised_s *= RELAY_PACE

    def compute() -> BatchCap:
        curve = problem.curve(pool, work)
        if work.prefill_s > 0 and work.tokens_per_request > 0:
            curve = replace(curve, token_s=curve.token_s + curve.batch * work.prefill_s / work.tokens_per_request)
        return batch_cap(
            problem.instance_of(pool),
            curve,
            context_tokens=work.memory_tokens,
            tpot_limit_s=promised_s if pool.batch is None else None,
            plan_batch=pool.batch,
        )

    return problem.remembered("cap", pool, compute, work, promised_s, pool.batch)


def decode_state(
    problem: Problem, pool: Pool, work: DecodeWork, *, request_rate_rps: float, instances: int | None = None
) -> DecodePoint:
    """State of a decoding pool: batch by Little's law, cap, slot wait."""
    arrival = problem.workload.arrival
    unrest = CALM
    if arrival.scv != 1.0 or arrival.dispersion or work.stop_second_s2 > 0.0:
        part = min(request_rate_rps / arrival.rate_rps, 1.0) if arrival.rate_rps > 0 else 1.0
        unrest = Unrest(
            lambda window_s: split_scv(part, scv=burstiness(arrival, window_s)),
            overlap=work.holding_overlap,
            stop_mean_s=work.stop_mean_s,
            stop_second_s2=work.stop_second_s2,
            stop_memory_s=work.stop_memory_s,
        )
    wave = slow_wave(arrival)
    calm = unrest if wave is None else replace(unrest, dispersion=lambda t_s: split_scv(part, scv=wave.dispersion(t_s)))
    return decode_point(
        problem.curve(pool, work),
        cap=decode_cap(problem, pool, work),
        instances=pool.instances if instances is None else instances,
        request_rate_rps=request_rate_rps,
        tokens_per_request=work.tokens_per_request,
        extra_holding_s=work.extra_holding_s,
        prefill_s=work.prefill_s,
        holding_scv=work.holding_scv,
        unrest=unrest,
        wave=wave,
        calm=calm,
    )
