"""Waiting time in front of a pool of equal servers with one shared queue."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pddplan.domain.workload import Array
from pddplan.errors import DomainError
from pddplan.queueing.erlang import erlang_c
from pddplan.queueing.residual import FirstFree

_MOST_CORRECTION = 0.24
"""Bound on the multi-server correction, as Cosmetatos' formula is used by Whitt (1993)."""
SERVICE_SPREAD_EFFECT = 0.14
"""How much more often requests wait when services vary much: fitted once to simulated waits of three mixes with
cs^2 = 1.5, 2.5 and 10 (c = 2..40, rho = 0.7..0.95); fits each of them alone within 0.02."""
_NEWTON_STEPS = 12
_STILL = 1e-12
"""Relative step of the search for a quantile that changes nothing."""
_LEAST_SLOPE = 1e-290
"""Below, a step would be longer than any number: the quantile is as far as it can be told."""
_SAME = 1e-6
"""Relative distance below which two phases are one."""
_ERFC = np.frompyfunc(math.erfc, 1, 1)
_FARTHEST = 25.0
"""Beyond, the tail of the normal law is smaller than any float; ratios of tails need a nonzero one."""


@dataclass(frozen=True, slots=True, eq=False)
class Wait:
    """W = 0 with probability 1 - p; else exponential with the tail's mean, or, for the fast share, a shorter mean.

    All fields may be floats or arrays that broadcast against (classes,).
    """

    delay_probability: Array | float
    tail_mean_s: Array | float
    """Mean of the exponential tail; ``inf`` when the pool cannot keep up."""
    fast_share: Array | float = 0.0
    """Share of the delayed who meet servers about to become free."""
    fast_mean_s: Array | float = 0.0

    @property
    def conditional_mean_s(self) -> Array:
        """Mean wait of those who wait."""
        share = np.asarray(self.fast_share, dtype=float)
        return np.asarray(share * self.fast_mean_s + (1.0 - share) * self.tail_mean_s)

    @property
    def mean_s(self) -> Array:
        """Mean wait of all."""
        probability = np.asarray(self.delay_probability, dtype=float)
        with np.errstate(invalid="ignore"):
            return np.where(probability > 0.0, probability * self.conditional_mean_s, 0.0)

    def beyond(self, t_s: Array | float) -> Array:
        """P(W > t) for t >= 0."""
        slow, fast = self._phases(np.asarray(t_s, dtype=float))
        return np.asarray(slow + fast)

    def quantile_s(self, quantile: Array | float) -> Array:
        """Wait that the share ``quantile`` of requests does not exceed; broadcasts against the fields."""
        probability, share = np.asarray(self.delay_probability, dtype=float), np.asarray(self.fast_share, dtype=float)
        left = 1.0 - np.asarray(quantile, dtype=float)
        tail, fast = np.asarray(self.tail_mean_s, dtype=float), np.asarray(self.fast_mean_s, dtype=float)
        waits = probability > left
        with np.errstate(divide="ignore", invalid="ignore"):
            start = np.log(probability * (1.0 - share) / left) * tail
        t = np.where(waits & (start > 0), start, 0.0)
        if not np.any(share > 0.0):
            return t
        # P(W > t) is convex and falls: Newton's steps from the left never overshoot
        for _ in range(_NEWTON_STEPS):
            slow_part, fast_part = self._phases(t)
            slope = _over(slow_part, tail) + _over(fast_part, fast)
            steep = waits & (slope > _LEAST_SLOPE)
            step = np.where(steep, (slow_part + fast_part - left) / np.where(steep, slope, 1.0), 0.0)
            t = t + step
            if (np.abs(step) <= _STILL * t).all():
                break
        return np.asarray(np.where(waits, np.maximum(t, 0.0), 0.0))

    def _phases(self, t: Array) -> tuple[Array, Array]:
        """P(W > t) of the slow and of the fast phase."""
        share = np.asarray(self.fast_share, dtype=float)
        slow = self.delay_probability * (1.0 - share) * np.exp(-_over(t, np.asarray(self.tail_mean_s, dtype=float)))
        fast = self.delay_probability * share * np.exp(-_over(t, np.asarray(self.fast_mean_s, dtype=float)))
        return np.asarray(slow), np.asarray(fast)


def _over(x: Array, mean: Array) -> Array:
    """x / mean; infinity where the mean is zero and x is not."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio = x / mean
    return np.asarray(np.where(np.isnan(ratio), 0.0, ratio))


NO_WAIT = Wait(0.0, 0.0)
OVERLOADED = Wait(1.0, np.inf)
"""In front of a pool that cannot keep up."""


def multi_server_factor(servers: int, utilization: Array | float, *, service_scv: float) -> Array:
    """Mean wait of M/G/c over its heavy-traffic value (1 + cs^2)/2 times that of M/M/c.

    Formula:     f = (1 + cs^2) / (2 cs^2 + 2 (1 - cs^2) / (1 + g)) / ((1 + cs^2) / 2);
                 g = min(0.24, (1 - rho) (c - 1) (sqrt(4 + 5c) - 2) / (16 c rho))
    Parameters:  servers c >= 1; utilization rho in [0, 1), any shape; service_scv cs^2 >= 0
    Returns:     factor, shape of utilization; 1 for one server, for cs^2 = 1 and for rho -> 1;
                 below 1 when services vary much: with several servers a long one does not block the rest
    Raises:      nothing
    Holds when:  Poisson arrivals.
    References:  kimura1986; whitt1993 (g)
    """
    rho = np.clip(np.asarray(utilization, dtype=float), 1e-9, 1.0)
    correction = (1.0 - rho) * (servers - 1) * (np.sqrt(4.0 + 5.0 * servers) - 2.0) / (16.0 * servers * rho)
    deterministic = 1.0 + np.minimum(correction, _MOST_CORRECTION)
    harmonic = 2.0 * service_scv + 2.0 * (1.0 - service_scv) / deterministic
    return np.asarray(2.0 / harmonic)


def light_traffic_factor(utilization: Array | float, *, arrival_scv: float, service_scv: float) -> Array:
    """Correction for arrivals more regular than Poisson, which rarely collide.

    Formula:     exp(-2 (1 - rho) (1 - ca^2)^2 / (3 rho (ca^2 + cs^2))) for ca^2 < 1, else 1
    Parameters:  utilization rho > 0, any shape; arrival_scv ca^2; service_scv cs^2
    Returns:     factor in (0, 1]
    Raises:      nothing
    Holds when:  one server; used as it is for several.
    References:  kraemer1976
    """
    rho = np.clip(np.asarray(utilization, dtype=float), 1e-9, 1.0)
    if arrival_scv >= 1.0:
        return np.ones_like(rho)
    spread = max(arrival_scv + service_scv, 1e-9)
    return np.asarray(np.exp(-2.0 * (1.0 - rho) * (1.0 - arrival_scv) ** 2 / (3.0 * rho * spread)))


def delay_probability(servers: int, utilization: Array | float, *, arrival_scv: float, service_scv: float) -> Array:
    """Chance that an arriving request has to wait.

    Formula:     C = E (1 + 0.14 (cs^2 - 1) / (cs^2 + 1) (1 - E) (1 - 1/c)),  E = erlang_c;
                 where arrivals are not Poisson rho^2 p4 + (1 - rho^2) p5, each at most 1;
                 u = (1 - rho) sqrt(c), N the upper normal tail,
                 p4 = N(u (1 + cs^2) / (ca^2 + cs^2)) / N(u) * C,  p5 = N(2 u / (1 + ca^2)) / N(u) * C
    Parameters:  servers c >= 1; utilization rho >= 0, any shape; arrival_scv ca^2; service_scv cs^2
    Returns:     probability, shape of utilization; erlang_c for M/M/c, rho for M/G/1, 1 where rho >= 1
    Raises:      DomainError if there is no server or the utilization is negative.
    Holds when:  renewal arrivals, ca^2 up to about 4; for Poisson arrivals within 2 % of simulation.
    References:  whitt1993 (delay probability); the factor of C calibrated against simulation (decisions, queueing)
    """
    rho = np.asarray(utilization, dtype=float)
    plain = erlang_c(servers, rho)
    varied = SERVICE_SPREAD_EFFECT * (service_scv - 1.0) / (service_scv + 1.0) * (1.0 - 1.0 / servers)
    chance = plain * (1.0 + varied * (1.0 - plain))
    if arrival_scv == 1.0:
        return chance
    spread = max(arrival_scv + service_scv, 1e-9)
    margin = np.maximum(1.0 - rho, 0.0) * np.sqrt(servers)
    whole = _normal_tail(margin)
    heavy = np.minimum(_normal_tail(margin * (1.0 + service_scv) / spread) / whole * chance, 1.0)
    light = np.minimum(_normal_tail(2.0 * margin / (1.0 + arrival_scv)) / whole * chance, 1.0)
    square = np.minimum(rho, 1.0) ** 2
    return np.asarray(np.where(rho < 1.0, square * heavy + (1.0 - square) * light, 1.0))


def _normal_tail(x: Array) -> Array:
    """P(standard normal > x)."""
    return np.asarray(0.5 * _ERFC(np.minimum(x / np.sqrt(2.0), _FARTHEST)), dtype=float)


def pool_wait(
    servers: int,
    service_mean_s: float,
    *,
    service_scv: float,
    arrival_rate_rps: Array | float,
    arrival_scv: float = 1.0,
    light: FirstFree | None = None,
) -> Wait:
    """Wait for the first free of c servers, first come first served (G/G/c).

    Formula:     p = delay_probability(c, rho, ca^2, cs^2), rho = lambda E[S] / c;
                 heavy traffic: the delayed wait Exp(tau), tau = E[S] / (c (1 - rho)) * (ca^2 + cs^2) / 2;
                 light traffic (``light``): they wait for the first free server, moments F1, F2; in between
                 E[W|W>0] = tau ((1 - w) F1 / tau_0 + w),  E[W^2|W>0] = 2 tau^2 ((1 - w) G / (2 tau_0^2) + w),
                 G = F2 + (w / sqrt(c)) (E[S^3] / (3 E[S] c^2) - F2): the busier, the more long services count that
                 all servers work off together; w = rho^max(1, sqrt(c)/2), tau_0 = E[S] (1 + cs^2) / (2c); without
                 ``light`` the mean comes from multi_server_factor.
                 Density at zero c (1 - rho) / E[S]. A fast and a slow phase have these moments
    Parameters:  servers c >= 1; service_mean_s E[S] >= 0 [s]; service_scv cs^2 >= 0;
                 arrival_rate_rps lambda >= 0 [1/s], any shape; arrival_scv ca^2 >= 0;
                 light: first_free of the mix, None when only two moments are known
    Returns:     Wait; tail inf and p = 1 where rho >= 1
    Raises:      DomainError for a negative or missing argument
    Holds when:  any server may take any request; exact for M/M/c, exact moments for M/G/1; wait and
                 service against simulation, c = 2..40, rho = 0.7..0.9: P90 -4..+9 %, P99 -3..+10 % for cs^2 up to 10;
                 P90 up to 14 % pessimistic for cs^2 near 30; P50 up to 25 % optimistic for cs^2 >= 10.
    References:  allen1990; kingman1961; kimura1986; burman1983
    """
    for name, value in (("service_mean_s", service_mean_s), ("service_scv", service_scv), ("arrival_scv", arrival_scv)):
        if not 0 <= value < np.inf:
            raise DomainError(name, "must be finite and not negative", value)
    rho = np.asarray(arrival_rate_rps, dtype=float) * service_mean_s / servers
    stable = rho < 1.0
    probability = delay_probability(servers, rho, arrival_scv=arrival_scv, service_scv=service_scv)
    unit = service_mean_s / (servers * np.where(stable, 1.0 - rho, 1.0))
    tail = unit * 0.5 * (arrival_scv + service_scv)
    regular = light_traffic_factor(rho, arrival_scv=arrival_scv, service_scv=service_scv)
    if light is None or service_mean_s <= 0.0:
        mean = tail * multi_server_factor(servers, rho, service_scv=service_scv) * regular
        split = _tail_kept(mean, tail, unit=unit)
    else:
        idle_tail = service_mean_s * 0.5 * (1.0 + service_scv) / servers
        heavy = np.minimum(rho, 1.0) ** max(1.0, 0.5 * np.sqrt(servers))
        mean = tail * ((1.0 - heavy) * light.mean_s / idle_tail + heavy) * regular
        second = light.second_s2 + heavy / np.sqrt(servers) * (light.pooled_second_s2 - light.second_s2)
        half_second = tail**2 * ((1.0 - heavy) * 0.5 * second / idle_tail**2 + heavy) * regular**2
        split = _moments_kept(mean, half_second, unit=unit)
    slow, share, fast = split
    return Wait(probability, np.where(stable, slow, np.inf), share, fast)


def _tail_kept(mean: Array, tail: Array, *, unit: Array) -> tuple[Array, Array, Array]:
    """Two phases with a given mean, tail, and density 1/unit at zero: slow mean, fast share, fast mean.

    With t = (tau - m) / (tau f0 - 1) and q = (tau - m) / (tau - t); one phase where that is no distribution.
    """
    good = (mean < tail * (1.0 - _SAME)) & (tail > unit * (1.0 + _SAME))
    ratio = np.where(good, tail / np.where(unit > 0, unit, 1.0) - 1.0, 1.0)
    fast = np.where(good, (tail - mean) / ratio, 0.0)
    good &= fast < mean
    fast = np.where(good, fast, 0.0)
    share = np.where(good, (tail - mean) / np.where(good, tail - fast, 1.0), 0.0)
    return np.where(good, tail, mean), share, fast


def _moments_kept(mean: Array, half_second: Array, *, unit: Array) -> tuple[Array, Array, Array]:
    """Two phases with a given mean, second moment, and density 1/unit at zero: slow mean, fast share, fast mean.

    In units of the mean, with h = E[W^2]/2 and f the density at zero, the two means are the roots of
    x^2 - A x + B, B = (h - 1)/(f - 1), A = h + B. Where the wait varies less than an exponential, one phase with
    the given second moment, which is what the tail follows.
    """
    safe = np.where(mean > 0, mean, 1.0)
    spread, density = half_second / safe / safe, safe / np.where(unit > 0, unit, 1.0)
    good = (mean > 0) & (spread > 1.0 + _SAME) & (density > 1.0 + _SAME)
    product = np.where(good, (spread - 1.0) / np.where(good, density - 1.0, 1.0), 0.0)
    total = spread + product
    root = np.sqrt(np.maximum(total**2 - 4.0 * product, 0.0))
    low, high = 0.5 * (total - root), 0.5 * (total + root)
    good &= (low < 1.0) & (high > 1.0)
    share = np.where(good, (high - 1.0) / np.where(good, high - low, 1.0), 0.0)
    slow = np.where(good, high * mean, mean * np.sqrt(np.minimum(spread, 1.0)))
    return slow, share, np.where(good, low * mean, 0.0)
