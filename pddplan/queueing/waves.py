"""Traffic that comes in waves: what a queue is like whose arrivals swell and ebb over minutes.

Two moments say how far counts spread, but not that a swell may bring more than a station can serve for a minute on
end: then the queue grows like a ramp, whatever its size was. Here the rate is a level that comes and goes; the queue is
followed over all levels at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from pddplan.domain.workload import Array, Arrival
from pddplan.queueing.wait import Wait

_LEVELS = 9
_LOWEST, _STEP = -2.25, 0.75
"""Levels of the logarithm of the rate, in standard deviations: from -2.25 to 3.75, since swells decide."""
_FIT_ROUNDS = 3000
_SLOW_PART = 0.1
"""Waves at least so long as this part of the longest belong to it; shorter ones are noise to a queue."""
_NEGLIGIBLE = 1e-4
"""Variance of the logarithm of the rate below which there is no wave; relative change of a mean that is none."""
_POINTS = 96
_TAIL = ((0.03, 0.3), (0.004, 0.04))
"""Two points of the tail that the slow phase is fitted to: of all requests, and at most so much of those who wait."""
_CALM_LENGTHS = 3.0
_MOST_MARGIN, _HALF_MARGIN_AT = 0.2, 0.03
"""Of swell_margin."""
_LEAST_NOISE = 1e-6
"""Of a queue's calm time scale over that of the wave: below, the wave alone decides."""
_SLOWEST = 1e-12
_FULL = 1.0 - 1e-6
_HEADROOM = 0.95
"""A station counts as swamped from this load on: close below, a queue needs longer to settle than a wave lasts."""


@dataclass(frozen=True, slots=True)
class Wave:
    """Slow changes of the arrival rate: exp(G - v/2), G Gaussian with variance v and correlation exp(-t/w)."""

    relaxation_s: float
    """w."""
    log_variance: float
    """v."""
    noise: tuple[tuple[float, float], ...]
    """(window, size) of the waves that are too short to be levels."""
    scv: float
    """Of gaps between arrivals, on a calm clock."""

    def dispersion(self, window_s: Array | float) -> Array:
        """Index of dispersion of counts without the slow wave."""
        asked = np.maximum(np.asarray(window_s, dtype=float), _SLOWEST)
        return np.asarray(self.scv + sum(size * wave_growth(asked / w) for w, size in self.noise) + 0.0 * asked)

    @property
    def level(self) -> Array:
        """Rates over their mean, rising, shape (levels,)."""
        return _level(self.log_variance)

    @property
    def rate_cv(self) -> float:
        """Standard deviation of the rate over its mean."""
        return math.sqrt(math.expm1(self.log_variance))

    @property
    def chance(self) -> Array:
        """Share of the time that a level lasts, shape (levels,)."""
        return _chain()[1]


def wave_growth(ratio: Array | float) -> Array:
    """How far counts over a window show a wave.

    Formula:     g(x) = 1 - (1 - exp(-x)) / x
    Parameters:  ratio x > 0 of the window to the wave's relaxation time
    Returns:     between 0 and 1, shape of ratio
    Raises:      nothing
    Holds when:  the rate's correlation falls exponentially.
    References:  cox1955
    """
    return np.asarray(1.0 + np.expm1(-np.asarray(ratio)) / ratio)


@lru_cache(maxsize=256)
def wave_sizes(windows: tuple[float, ...], excess: tuple[float, ...]) -> tuple[tuple[float, float], ...]:
    """Waves that together spread counts as measured.

    Formula:     sizes a_k >= 0 with sum_k a_k g(w_j / w_k) = I(w_j) - SCV, by least squares (coordinate descent)
    Parameters:  windows w_j > 0, rising [s]; excess I(w_j) - SCV of each
    Returns:     (w_k, a_k) per window
    Raises:      nothing
    Holds when:  waves fade in the windows that were measured; as simulate.arrivals draws them.
    References:  cox1955
    """
    window = np.array(windows)
    wanted = np.maximum(np.array(excess), 0.0)
    response = wave_growth(window[:, None] / window[None, :])
    square, aim = response.T @ response, response.T @ wanted
    size = np.zeros_like(window)
    for _ in range(_FIT_ROUNDS):
        before = size.copy()
        for k in range(size.size):
            size[k] = max(size[k] + (aim[k] - float(square[k] @ size)) / square[k, k], 0.0)
        if np.abs(size - before).max() <= _SLOWEST * max(float(size.max()), 1.0):
            break
    return tuple((float(w), float(a)) for w, a in zip(window, size, strict=True))


def measured_waves(arrival: Arrival) -> tuple[tuple[float, float], ...]:
    """(window, size) of the waves in an arrival pattern; none where no dispersion was measured."""
    windows = tuple(sorted(w for w in arrival.dispersion if w > 0))
    if not windows or not arrival.rate_rps > 0:
        return ()
    return wave_sizes(windows, tuple(arrival.dispersion[w] - arrival.scv for w in windows))


def slow_wave(arrival: Arrival) -> Wave | None:
    """The wave that queues are followed through, or None where counts spread no more than gaps say.

    Formula:     per measured wave (w_k, a_k): v_k = log(1 + a_k / (2 lambda w_k)); those with w_k >= w_max / 10 make
                 one, v = sum v_k and w = sum v_k w_k / v; shorter ones are left as noise
    Parameters:  arrival: rate lambda [1/s], SCV of gaps, dispersion per window [s]
    Returns:     Wave or None
    Raises:      nothing
    Holds when:  the wave's variance and the sum of its correlation are kept; their shape is not.
    References:  cox1955
    """
    return _slow_part(measured_waves(arrival), arrival.rate_rps, arrival.scv)


@lru_cache(maxsize=256)
def _slow_part(waves: tuple[tuple[float, float], ...], rate_rps: float, scv: float) -> Wave | None:
    found = [(w, a, math.log1p(a / (2.0 * rate_rps * w))) for w, a in waves if a > 0]
    if not found:
        return None
    longest = max(w for w, _, _ in found)
    slow = [(w, v) for w, _, v in found if w >= _SLOW_PART * longest]
    variance = sum(v for _, v in slow)
    if variance < _NEGLIGIBLE:
        return None
    return Wave(
        relaxation_s=sum(v * w for w, v in slow) / variance,
        log_variance=variance,
        noise=tuple((w, a) for w, a, _ in found if w < _SLOW_PART * longest),
        scv=scv,
    )


@lru_cache(maxsize=1)
def _chain() -> tuple[Array, Array, Array]:
    """Standard levels, their chances, and the symmetric generator of moves between them for a relaxation time of 1.

    A birth-death chain in detailed balance with the normal law: between neighbours a and b it goes in proportion to
    sqrt(p_b / p_a), at the pace at which what lasts longest fades with exp(-t).
    """
    z = _LOWEST + _STEP * np.arange(_LEVELS)
    chance = np.exp(-0.5 * z**2)
    chance /= chance.sum()
    ratio = np.sqrt(chance[1:] / chance[:-1])
    symmetric = np.eye(_LEVELS, k=1) + np.eye(_LEVELS, k=-1)
    symmetric -= np.diag(np.append(ratio, 0.0) + np.append(0.0, 1.0 / ratio))
    slowest = float(np.sort(np.linalg.eigvalsh(symmetric))[-2])
    return np.asarray(z, dtype=float), np.asarray(chance, dtype=float), np.asarray(symmetric / -slowest)


@lru_cache(maxsize=256)
def _level(log_variance: float) -> Array:
    z, chance, _ = _chain()
    level = np.exp(math.sqrt(log_variance) * z)
    return np.asarray(level / (chance @ level))


def modulated_queue(drift: Array, noise_s: float, *, relaxation_s: float) -> tuple[Array, Array]:
    """Law of a queue whose arrival rate moves between levels.

    Formula:     P(V > x, level j) = sum_k M_jk exp(-theta_k x): theta > 0 and u solve
                 (theta^2 s / 2 + theta D + Q') u = 0, M = u diag(a), sum_k M_jk = chance of level j (V >= 0)
    Parameters:  drift d_j = load at the level - 1, shape (levels,); noise_s s: variance of V per second [s];
                 relaxation_s of the wave [s]
    Returns:     theta [1/s], shape (levels,); M, shape (levels, levels)
    Raises:      nothing
    Holds when:  the mean drift is negative. Brownian motion within a level, as in heavy traffic; without waves
                 exponential with mean s / (2 (1 - load)).
    References:  karandikar1995 (Markov-modulated fluid with Brownian noise)
    """
    _, chance, symmetric = _chain()
    root, count = np.sqrt(chance), _LEVELS
    # in units of the noise, so that one set of numbers serves seconds and microseconds
    scale = max(noise_s, _LEAST_NOISE * relaxation_s)
    companion = np.zeros((2 * count, 2 * count))
    companion[:count, count:] = np.eye(count)
    companion[count:, :count] = -2.0 * scale / relaxation_s * symmetric
    companion[count:, count:] = -np.diag(2.0 * drift)
    values, vectors = np.linalg.eig(companion)
    order = np.argsort(-values.real)[:count]
    theta = np.maximum(values.real[order], _SLOWEST)
    shapes = vectors.real[:count, order]
    amount = np.linalg.solve(shapes, root)
    return theta / scale, root[:, None] * shapes * amount


def swell_margin(wave: Wave) -> float:
    """Margin on waits behind swells: what the form misses where waves are strong.

    Formula:     m = 0.2 v / (v + 0.03)
    Parameters:  wave with variance v of the logarithm of the rate
    Returns:     share of the wait, 0 without waves and 0.2 at most
    Raises:      nothing
    Holds when:  without it TTFT P99 is up to 12 % too low where counts spread 20 times more over 60 s than Poisson's.
    References:  calibrated against simulation (docs/simulation.md)
    """
    return _MOST_MARGIN * wave.log_variance / (wave.log_variance + _HALF_MARGIN_AT)


def waved_wait(
    calm: Wait,
    wave: Wave | None,
    *,
    utilization: float,
    noise_s: float,
    delayed: Callable[[Array], Array],
    memory_s: float = 0.0,
) -> Wait:
    """Wait at a station whose arrivals come in waves.

    Formula:     P(W > t) = calm(t) + S(t) - p_0 exp(-t / tau_0),  tau_0 = s / (2 (1 - rho));
                 S(t) = sum_j l_j P_j P(V > t, level j): modulated_queue at loads rho l_j;
                 P_j = 1 - (1 - C_j)(1 - b_j): C_j chance of delay in a calm flow of this level (1 above capacity),
                 b_j what is left of earlier swells, P(V > 3 tau_j | j) beyond exp(-3).
                 A station that holds requests for a time h feels waves of variance v w / (w + h) that last w + h.
                 Given as two phases: the slow one through the tail at 3 % and 0.4 %, the fast one by chance and mean;
                 then the slow one is lengthened by swell_margin(v)
    Parameters:  calm: wait of the same mean load without the wave; wave or None; utilization rho; noise_s s: tau_0 is
                 the calm tail; delayed: C at loads below 1; memory_s h [s]
    Returns:     Wait; calm where there is no wave, or no wait
    Raises:      nothing
    Holds when:  against simulated waves of dispersion 2..20 over 60 s: docs/simulation.md. Only the margin is fitted.
    References:  karandikar1995; margin calibrated against simulation (docs/simulation.md)
    """
    if wave is None or not 0.0 < utilization < _FULL or not 0.0 < noise_s < math.inf:
        return calm
    held = wave.relaxation_s + memory_s
    variance = math.log1p(math.expm1(wave.log_variance) * wave.relaxation_s / held)
    level, chance = _level(variance), wave.chance
    load = utilization * level
    theta, part = modulated_queue(load - 1.0, noise_s, relaxation_s=held)
    below = np.minimum(load, _FULL)
    found = np.where(load < 1.0, delayed(below), 1.0)
    calm_length = _CALM_LENGTHS * 0.5 * noise_s / (1.0 - below)
    beyond = (part * np.exp(-theta * calm_length[:, None])).sum(axis=1) / chance
    usual = math.exp(-_CALM_LENGTHS)
    left = np.where(load < 1.0, np.clip((beyond - usual) / (1.0 - usual), 0.0, 1.0), 1.0)
    amount = (level * (1.0 - (1.0 - found) * (1.0 - left))) @ part
    tail, plain = 0.5 * noise_s / (1.0 - utilization), float(delayed(np.array([utilization]))[0])
    more = float((amount / theta).sum()) - plain * tail
    probability = min(float(calm.delay_probability) + float(amount.sum()) - plain, 1.0)
    mean = float(calm.mean_s) + more
    if probability <= 0.0 or more <= _NEGLIGIBLE * max(float(calm.mean_s), plain * tail):
        return calm
    t = np.geomspace(1e-3 * tail, 40.0 / float(theta.min()), _POINTS)
    survival = np.exp(-theta * t[:, None]) @ amount + calm.beyond(t) - plain * np.exp(-t / tail)
    survival = np.minimum.accumulate(np.minimum(np.maximum(survival, 1e-30), probability))
    found_wait = _two_phases(t, survival, probability=probability, mean_s=mean)
    return replace(found_wait, tail_mean_s=found_wait.tail_mean_s * (1.0 + swell_margin(wave)))


def _two_phases(t_s: Array, survival: Array, *, probability: float, mean_s: float) -> Wait:
    """A wait with this chance and mean, through two points of a tail."""
    logs = np.log(survival)
    near, far = (min(share, most * probability) for share, most in _TAIL)
    at = [float(np.interp(-math.log(share), -logs, t_s)) for share in (near, far)]
    slow = max((at[1] - at[0]) / math.log(near / far), mean_s / probability)
    share = min(near * math.exp(at[0] / slow), probability)
    rest = probability - share
    if rest <= _NEGLIGIBLE * probability:
        return Wait(probability, mean_s / probability)
    fast = min(max((mean_s - share * slow) / rest, 0.0), slow)
    return Wait(probability, slow, rest / probability, fast)


def thinned(calm: Wait, waved: Wait, share: float) -> Wait:
    """A wait of which only part of the swells are left (see passed_swells): chances and means are mixed.

    Formula:     p = (1 - x) p_calm + x p_waved, the mean alike; the slow phase of the waves keeps its length, x of it
    Parameters:  calm and waved: the wait without and with waves; share x in [0, 1]
    Returns:     Wait
    Raises:      nothing
    Holds when:  see passed_swells.
    References:  definition
    """
    if share >= 1.0 or calm is waved:
        return waved
    if share <= 0.0:
        return calm
    probability = (1.0 - share) * np.asarray(calm.delay_probability) + share * np.asarray(waved.delay_probability)
    mean = (1.0 - share) * calm.mean_s + share * waved.mean_s
    slow = share * np.asarray(waved.delay_probability) * (1.0 - np.asarray(waved.fast_share))
    rest = np.maximum(probability - slow, 0.0)
    safe = np.where(rest > 0, rest, 1.0)
    fast = np.where(rest > 0, np.maximum(mean - slow * waved.tail_mean_s, 0.0) / safe, 0.0)
    whole = np.where(probability > 0, probability, 1.0)
    return Wait(probability, waved.tail_mean_s, rest / whole, fast)


def passed_swells(wave: Wave | None, *, before: float, here: float) -> float:
    """What part of the swells that would swamp a station the stations before it let through.

    Formula:     1 - E[(l - k1)+] / E[(l - k2)+],  k = 1 / load; k2 = 0.95 / load here
    Parameters:  wave; before: largest load on the way here; here: load of the station
    Returns:     share in [0, 1]; 1 without a wave or a station before
    Raises:      nothing
    Holds when:  a full station passes no more than it can serve (fluid tandem): who waited there need not wait here.
    References:  leboudec2001
    """
    if wave is None or before <= 0.0 or here <= 0.0:
        return 1.0
    level, chance = wave.level, wave.chance
    stopped = float(chance @ np.maximum(level - 1.0 / before, 0.0))
    swamped = float(chance @ np.maximum(level - _HEADROOM / here, 0.0))
    return min(max(1.0 - stopped / swamped, 0.0), 1.0) if swamped > 0.0 else 0.0


def scaled(wait: Wait, ratio: Array | float) -> Wait:
    """The same wait in other units: all its times are multiplied."""
    return Wait(wait.delay_probability, wait.tail_mean_s * ratio, wait.fast_share, wait.fast_mean_s * ratio)
