"""How full the slots of a decoding pool are: from the coming and going of sequences, and what makes it uneven."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from pddplan.domain.workload import Array
from pddplan.queueing.erlang import erlang_c

_LEAST_SPREAD = 0.05
_MOST_STOPPED = 0.999
_MOST_STATES = 2_000
"""Numbers of sequences that are looked at; more are stepped over evenly."""
_SLOWEST_PER_S = 1e-9
_ENDLESS_S = 1e9
"""A window in which every wave has passed."""
_INSTANT_S = 1e-30
"""Stands for a slot that is not held at all (the relay made the whole answer)."""
_MOST_SLOTS = 100_000
"""Above, fewer than one request in a billion waits at any load that is planned for, and Erlang's formula will do."""


@dataclass(frozen=True, slots=True)
class SlotOccupancy:
    """How full a decoding pool is."""

    delay_probability: float
    """Chance that no slot can be taken, as its exponential tail sees it."""
    sequences_sd: float
    """Standard deviation of the sequences in flight in the whole pool."""
    excess: float
    """Mean length of the queue, itself included, that a request finds when it has to wait long."""
    waves_share: float = 0.0
    """What part of the variance at the level m comes from waves of arrivals."""
    at_load: Callable[[Array], Array] | None = None
    """Chance of delay at other utilisations, the spread staying what it is."""


@dataclass(frozen=True, slots=True)
class Unrest:
    """What moves the number of sequences in a pool beyond single arrivals and ends."""

    dispersion: Callable[[Array], Array] | None = None
    """Index of dispersion of the pool's arrivals over windows [s]; None = 1, as of a Poisson flow."""
    overlap: float = 0.5
    """E[min(H, H')] / E[H] of two holding times: 1 when all are alike, 1/2 for exponential ones."""
    stop_mean_s: float = 0.0
    """E[p] of the stops that prefills bring to one instance, per request [s]."""
    stop_second_s2: float = 0.0
    """E[p^2] of them [s^2]."""
    stop_memory_s: float = 0.0
    """How long such a stop is noticed, E[p^3] / (2 E[p^2]) [s]."""

    def arrivals(self, window_s: Array) -> Array:
        return np.ones_like(window_s) if self.dispersion is None else np.asarray(self.dispersion(window_s))


CALM = Unrest()


def averaging_part(overlap: float) -> float:
    """Part of a holding time over which a pool averages waves of its arrivals.

    Formula:     a = (5 - 4 o) / 3: 1 for exponential holding times (overlap 1/2), 1/3 where all are alike (1), so that
                 waves of relaxation time w are felt with variance w / (w + a h)
    Parameters:  overlap o in (0, 1], see Unrest
    Returns:     between 1/3 and 5/3
    Raises:      nothing
    Holds when:  exact for exponential holding times, and for h << w where all are alike; a straight line between.
    References:  eckberg1983 (peakedness)
    """
    return (5.0 - 4.0 * min(overlap, 1.0)) / 3.0


def slot_occupancy(
    request_rate_rps: float,
    slots: int,
    *,
    instances: int,
    nodes: Array,
    holding_s: Array,
    utilization: float,
    unrest: Unrest = CALM,
    work_scv: float = 1.0,
) -> SlotOccupancy:
    """Sequences in flight in a decoding pool, when fewer of them mean faster steps.

    Formula:     P(k) ~ 1/z_k exp(sum over j = 1..k of log(lambda h_j / j) / z_j) for k <= c; chance of delay = P(c),
                 times the mean queue there a + v, times 1 + o V_c / (2 z_c) (c / (lambda h_c) - 1) for waves, times
                 (e + max(sqrt(a b) - b, 0)) / e, so that the mean is kept with a tail e that ends as the work is done;
                 e = b + (I_inf - 1) / (2 (1 - rho)),  b = (1 + cs^2) / (2 (1 - rho)),
                 a = (J_c + cs^2) / (2 s), v = V_c / (2 s), s = 1 - lambda h_c / c: near full slots, stops and waves
                 push; in a long queue only the work and whole waves do;
                 z_j = 1 + (J_j - 1)/2 + o V_j,  V_j = (I - 1) (1 + D E[p])^2, I at the window 1 / (o r_j),
                 J_j = (1 + D E[p])^2 + D^2 Var[p] / (1 + r_j T): an arrival brings itself and a stop of one instance,
                 in which D = j / (n h_j (1 - lambda E[p] / n)) others would have ended;
                 r_j = (j/h_j - lambda) / (j - m): how fast a surplus over the level m, at which as many come as go,
                 is worked off
    Parameters:  request_rate_rps lambda; slots c = instances n x batch cap; holding_s h at batches nodes [s];
                 utilization rho < 1; unrest: dispersion I of arrivals, overlap o, stops p with memory T;
                 work_scv cs^2 of what requests ask of full instances
    Returns:     SlotOccupancy
    Raises:      nothing
    Holds when:  sequences are spread evenly. Calm (z = 1): insensitive to the law of answer lengths below c. Else a
                 diffusion with the same drift. No number is fitted; against simulation see docs/queueing.md.
    References:  cohen1979 (generalised processor sharing); kleinrock1975, chapter 3; eckberg1983 (peakedness)
    """
    room = 1.0 - utilization
    if slots > _MOST_SLOTS:
        sd = float(np.sqrt(utilization * slots))
        at_load = partial(erlang_c, slots)
        return SlotOccupancy(float(erlang_c(slots, utilization)), sd, 1.0 / room, at_load=at_load)
    taken = np.unique(np.linspace(1, slots, min(slots, _MOST_STATES)).round())
    apart = np.diff(taken, prepend=0.0)
    held = np.maximum(np.interp(taken / instances, nodes, holding_s), _INSTANT_S)
    ends = taken / held
    enough = np.flatnonzero(ends >= request_rate_rps)
    level = float(taken[enough[0]]) if enough.size else float(slots)
    spread, jump, waves, share = np.ones_like(taken), 1.0, 0.0, 0.0
    if unrest is not CALM:
        spread, jump, wave = _spread(request_rate_rps, taken, held, level=level, instances=instances, unrest=unrest)
        at = min(int(np.searchsorted(taken, level)), taken.size - 1)
        waves, share = float(wave[-1]), float(np.clip(unrest.overlap * wave[at] / spread[at], 0.0, 1.0))
    at_one = np.cumsum(-apart * np.log(ends) / spread) - np.log(spread)
    at_one = np.concatenate([[-np.log(spread[0])], at_one])
    per_log_rate = np.concatenate([[0.0], np.cumsum(apart / spread)])
    # where states were left out, each stands for those before it; the last one, full slots, for itself
    stands_for = np.concatenate([[1.0], apart[:-1], [1.0]])
    queued = 0.5 * (jump + work_scv + waves)

    def weights(load: Array) -> Array:
        rate = load * (request_rate_rps / utilization)
        log_weight = at_one + per_log_rate * np.log(rate)[:, None]
        found = np.exp(log_weight - log_weight.max(axis=1, keepdims=True)) * stands_for
        slack = np.maximum(1.0 - rate / float(ends[-1]), 1.0 - load)
        found[:, -1] *= np.maximum(queued / slack, 1.0)
        return np.asarray(found / found.sum(axis=1, keepdims=True))

    weight = weights(np.array([utilization]))[0]
    slack = max(1.0 - request_rate_rps / float(ends[-1]), room)
    passing, lasting = 0.5 * (jump + work_scv) / slack, 0.5 * (1.0 + work_scv) / room
    in_the_end = 0.5 * (float(unrest.arrivals(np.array([_ENDLESS_S]))[0]) - 1.0) / room
    end = lasting + max(in_the_end, -0.5 * lasting)
    # a wait begins as stops and waves push it, and ends as work is done: less varied than an exponential of its mean
    oftener = 1.0 + max(np.sqrt(lasting * passing) - lasting, 0.0) / end
    states = np.concatenate([[0.0], taken])
    mean = float(weight @ states)
    sd = float(np.sqrt(max(weight @ states**2 - mean**2, 0.0)))
    # in waves more arrive while it is full: between the mean and what full slots serve
    seen = 1.0 + 0.5 * unrest.overlap * max(waves, 0.0) / float(spread[-1]) * (float(ends[-1]) / request_rate_rps - 1.0)
    chance = float(min(weight[-1] * seen * oftener, 1.0))

    def chance_at(load: Array) -> Array:
        return np.asarray(np.minimum(weights(load)[:, -1] * oftener, 1.0))

    return SlotOccupancy(chance, sd, float(end), share, at_load=chance_at)


def _spread(
    request_rate_rps: float, taken: Array, held: Array, *, level: float, instances: int, unrest: Unrest
) -> tuple[Array, float, Array]:
    """z_j, J_c and V_j of slot_occupancy."""
    ends, apart = taken / held, taken - level
    near = np.abs(apart) < 1.0
    relaxation = np.where(near, 1.0 / held, (ends - request_rate_rps) / np.where(near, 1.0, apart))
    relaxation = np.maximum(relaxation, _SLOWEST_PER_S)
    stopped = min(request_rate_rps * unrest.stop_mean_s / instances, _MOST_STOPPED)
    missed = ends / (instances * (1.0 - stopped))
    brought = (1.0 + missed * unrest.stop_mean_s) ** 2
    waves = (unrest.arrivals(1.0 / (unrest.overlap * relaxation)) - 1.0) * brought
    varied = max(unrest.stop_second_s2 - unrest.stop_mean_s**2, 0.0) / (1.0 + relaxation * unrest.stop_memory_s)
    calm = brought + missed**2 * varied
    spread = np.maximum(1.0 + 0.5 * (calm - 1.0) + unrest.overlap * waves, _LEAST_SPREAD)
    return np.asarray(spread), float(calm[-1]), np.asarray(waves)
