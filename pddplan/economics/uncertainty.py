"""How sure: one assumption at a time (tornado), and all at once (Monte Carlo on a quasi-random grid)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pddplan.domain.workload import Array
from pddplan.errors import DomainError

Values = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Factor:
    """A number nobody is sure of: most likely value, and the range it may lie in."""

    name: str
    low: float
    value: float
    high: float
    source: str = ""
    unit: str = ""

    def __post_init__(self) -> None:
        numbers = (self.low, self.value, self.high)
        if not (all(math.isfinite(n) for n in numbers) and self.low <= self.value <= self.high):
            raise DomainError(f"range of {self.name}", "must be finite with low <= value <= high", numbers)

    @property
    def certain(self) -> bool:
        return self.low == self.high


@dataclass(frozen=True, slots=True)
class Score:
    """What one set of assumptions makes of a plan."""

    bcr: float
    holds: bool
    """Every promise is kept."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar of a tornado: the score at both ends of a factor, the others at their value."""

    factor: Factor
    at_low: Score
    at_high: Score

    @property
    def swing(self) -> float:
        return abs(self.at_high.bcr - self.at_low.bcr)


@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """What joint uncertainty makes of a plan."""

    samples: int
    bcr_p5: float
    bcr_p50: float
    bcr_p95: float
    holds_fraction: float
    """Share of samples in which every promise is kept."""
    holds_error: float
    """Half width of the 95 % interval of that share."""
    influence: Mapping[str, float]
    """Rank correlation of each factor with BCR, in [-1, 1]."""
    beats_fraction: float | None = None
    """Share of samples in which the plan's BCR is at least the baseline's."""


def triangular_quantile(quantile: Array, factor: Factor) -> Array:
    """Value of a triangular distribution between low and high with its mode at the most likely value.

    Formula:     low + sqrt(u (high-low)(value-low)) below the mode, high - sqrt((1-u)(high-low)(high-value)) above
    Parameters:  quantile u in [0, 1], any shape; factor
    Returns:     that shape
    Raises:      nothing.
    Holds when:  nothing is known but a range and a most likely value.
    References:  definition
    """
    width = factor.high - factor.low
    if width == 0:
        return np.full(np.shape(quantile), factor.value)
    left = factor.value - factor.low
    below = factor.low + np.sqrt(quantile * width * left)
    above = factor.high - np.sqrt((1.0 - quantile) * width * (width - left))
    return np.asarray(np.where(quantile <= left / width, below, above))


def quasi_random_values(factors: Sequence[Factor], samples: int, *, seed: int) -> Array:
    """Joint values of all factors on a scrambled Sobol sequence.

    Formula:     triangular_quantile of each coordinate
    Parameters:  factors; samples >= 1, rounded up to a power of two; seed
    Returns:     shape (samples, factors)
    Raises:      DomainError for less than one sample.
    Holds when:  factors are independent of each other.
    References:  sobol1967
    """
    if samples < 1:
        raise DomainError("samples", "must be at least 1", samples)
    power = max(0, math.ceil(math.log2(samples)))
    if not factors:
        return np.empty((2**power, 0))
    from scipy.stats import qmc  # takes a second: only where it is needed

    points = qmc.Sobol(d=len(factors), scramble=True, seed=seed).random_base2(power)
    return np.column_stack([triangular_quantile(points[:, i], factor) for i, factor in enumerate(factors)])


def tornado(factors: Sequence[Factor], score: Callable[[Values], Score]) -> tuple[Bar, ...]:
    """Score at both ends of each factor, all others at their most likely value; widest bar first.

    Formula:     swing = |BCR(high) - BCR(low)|
    Parameters:  factors; score, values by name -> Score
    Returns:     bars
    Raises:      whatever score raises.
    Holds when:  factors matter one by one; see monte_carlo for all together.
    References:  definition
    """
    centre = {factor.name: factor.value for factor in factors}
    bars = [
        Bar(factor, score({**centre, factor.name: factor.low}), score({**centre, factor.name: factor.high}))
        for factor in factors
        if not factor.certain
    ]
    return tuple(sorted(bars, key=lambda bar: (-bar.swing, bar.factor.name)))


def monte_carlo(
    factors: Sequence[Factor],
    score: Callable[[Values], Score],
    *,
    samples: int = 256,
    seed: int = 1,
    baseline: Callable[[Values], Score] | None = None,
) -> Spread:
    """Distribution of BCR, and the chance that every promise holds, over all factors at once.

    Formula:     quantiles and shares p over quasi_random_values;
                 error 1.96 sqrt(q (1 - q) / (n + 4)), q = (n p + 2) / (n + 4)
    Parameters:  factors; score; samples; seed; baseline, score of the plan to beat under the same values
    Returns:     Spread
    Raises:      as quasi_random_values, and whatever score raises.
    Holds when:  factors are independent. The error is that of plain sampling: an upper bound for quasi-random points;
                 it stays above nought when all or none of few draws hold.
    References:  sobol1967, agresti1998
    """
    uncertain = [factor for factor in factors if not factor.certain]
    values = quasi_random_values(uncertain, samples, seed=seed)
    names = [factor.name for factor in uncertain]
    fixed = {factor.name: factor.value for factor in factors}
    rows = [{**fixed, **dict(zip(names, map(float, row), strict=True))} for row in values]
    scores = [score(row) for row in rows]
    reached = np.array([s.bcr for s in scores])
    share = float(np.mean([s.holds for s in scores]))
    beats = None
    if baseline is not None:
        beats = float(np.mean([s.bcr >= baseline(row).bcr for s, row in zip(scores, rows, strict=True)]))
    p5, p50, p95 = (float(q) for q in np.quantile(reached, [0.05, 0.5, 0.95]))
    return Spread(
        samples=len(rows),
        bcr_p5=p5,
        bcr_p50=p50,
        bcr_p95=p95,
        holds_fraction=share,
        holds_error=_share_error(share, len(rows)),
        influence={name: rank_correlation(values[:, i], reached) for i, name in enumerate(names)},
        beats_fraction=beats,
    )


def _share_error(share: float, draws: int) -> float:
    """Half width of the 95 % interval of a share of draws (two successes and two failures added)."""
    likely = (share * draws + 2.0) / (draws + 4.0)
    return 1.96 * math.sqrt(likely * (1.0 - likely) / (draws + 4.0))


def rank_correlation(x: Array, y: Array) -> float:
    """Spearman correlation, ties at their mean rank; 0 where one side does not vary.

    Formula:     Pearson correlation of ranks
    Parameters:  x, y, shape (samples,)
    Returns:     [-1, 1]
    Raises:      nothing.
    Holds when:  the relation is monotone.
    References:  definition
    """
    first, second = _ranks(x), _ranks(y)
    if first.size < 2 or np.ptp(first) == 0 or np.ptp(second) == 0:
        return 0.0
    return float(np.corrcoef(first, second)[0, 1])


def _ranks(values: Array) -> Array:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2.0)[inverse])
