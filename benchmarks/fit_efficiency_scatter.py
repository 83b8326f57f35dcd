"""How much of an error belongs to sources, configurations and single rows (called by fit_efficiency_report.py)."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from fit_efficiency import Data, group_columns

from pddplan.domain.workload import Array

GOAL_PERCENT = 10.0
SIGNIFICANT = 2.0
"""Standard errors from which on a bias is more than the scatter between configurations."""


_MISSED = """Pairs with a bias above {goal:.0f} % in one of the three ways, release by release. `scatter`: twice the
standard error that the spread between configurations (model, layout, weights, release, quantity) gives the pair's bias;
a bias inside it says no more than that few configurations were measured."""

_SHARES = """How the variance of errors of measured runs divides (logarithms, sums of operators apart): between pairs
of chip and stack, between the files of a pair, between the configurations of a file, and within them. What lies between
the files of a pair no input of a plan can tell."""


@dataclass(frozen=True, slots=True)
class Scatter:
    """Spread of the errors of some rows (logarithms), between their configurations and within them."""

    configurations: int
    between: float
    within: float
    standard_error: float
    """Of the mean error, if configurations were drawn from many like them."""


def scatter(errors: Array, configurations: Array) -> Scatter:
    """Split the variance of errors, one way analysis with unequal groups.

    Formula:     s_w^2 pooled within; s_b^2 = max((MS_b - s_w^2) / n_0, 0); error of the mean
                 sqrt(sum (n_i / n)^2 (s_b^2 + s_w^2 / n_i)); one configuration alone tells no s_b
    """
    keys, place = np.unique(configurations, return_inverse=True)
    sizes = np.bincount(place).astype(float)
    means = np.bincount(place, weights=errors) / sizes
    total, groups = float(errors.size), keys.size
    inside = float(np.sum((errors - means[place]) ** 2)) / max(total - groups, 1.0)
    if groups < 2:
        return Scatter(1, float("nan"), float(np.sqrt(inside)), float("nan"))
    mean_square = float(np.sum(sizes * (means - errors.mean()) ** 2)) / (groups - 1)
    usual = (total - float(np.sum(sizes**2)) / total) / (groups - 1)
    between = max((mean_square - inside) / usual, 0.0)
    error = float(np.sqrt(np.sum((sizes / total) ** 2 * (between + inside / sizes))))
    return Scatter(groups, float(np.sqrt(between)), float(np.sqrt(inside)), error)


def section(data: Data, errors: Mapping[str, Array]) -> str:
    """Where the bias goal is missed, what those rows are, and how much of all error lies between sources."""
    return "\n\n".join([_missed(data, errors), _shares(data, errors)])


def _configurations(data: Data) -> Array:
    return np.array(
        [
            f"{file}|{m.model}|{m.weights_dtype}|{m.shape}|{m.framework}|{m.date}|{m.kind}"
            for file, m in zip(data.files, data.measurements, strict=True)
        ]
    )


def _releases(data: Data) -> Array:
    return np.array([f"{m.model}, {m.weights_dtype} | {m.framework} ({m.date})" for m in data.measurements])


def _missed(data: Data, errors: Mapping[str, Array]) -> str:
    pairs, releases, kinds = group_columns(data)["chip and stack"], _releases(data), _configurations(data)
    lines = [
        "## Where the bias goal is missed",
        "",
        _MISSED.format(goal=GOAL_PERCENT),
        "",
        "| chip / stack | model | release | rows | "
        + " | ".join(f"left out by {by}" for by in errors)
        + " | scatter |",
        "| --- | --- | --- | ---: |" + " ---: |" * (len(errors) + 1),
    ]
    for pair in sorted(set(pairs)):
        rows = pairs == pair
        if max(abs(100 * e[rows].mean()) for e in errors.values()) <= GOAL_PERCENT:
            continue
        worst = max(errors.values(), key=lambda e: abs(float(e[rows].mean())))
        spread = scatter(np.log1p(worst[rows]), kinds[rows])
        known = np.isfinite(spread.standard_error)
        half = f"{100 * SIGNIFICANT * spread.standard_error:.0f} %" if known else "one configuration"
        cells = " | ".join(f"{100 * e[rows].mean():+.1f}" for e in errors.values())
        lines.append(f"| **{pair}** | all | all | {rows.sum()} | {cells} | {half} |")
        for release in sorted(set(releases[rows])):
            some = rows & (releases == release)
            cells = " | ".join(f"{100 * e[some].mean():+.1f}" for e in errors.values())
            lines.append(f"| | {release} | {some.sum()} | {cells} | |")
    return "\n".join(lines)


def _shares(data: Data, errors: Mapping[str, Array]) -> str:
    runs = data.observations.keys["measure"] == "runs"
    groups, kinds = group_columns(data)["chip and stack"], _configurations(data)
    files = np.array([f"{pair}|{file}" for pair, file in zip(groups, data.files, strict=True)])
    lines = [
        _SHARES,
        "",
        "| left out by | one deviation, a factor of | pairs | files of a pair | configurations | within |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for by, e in errors.items():
        log = np.log1p(e[runs])
        levels = [np.full(log.size, log.mean()), *(_means(log, keys[runs]) for keys in (groups, files, kinds)), log]
        parts = [float(np.mean((fine - coarse) ** 2)) for coarse, fine in itertools.pairwise(levels)]
        cells = " | ".join(f"{100 * part / sum(parts):.0f} %" for part in parts)
        lines.append(f"| {by} | {np.exp(np.sqrt(sum(parts))):.2f} | {cells} |")
    return "\n".join(lines)


def _means(values: Array, keys: Array) -> Array:
    """Mean of its group for each row."""
    _, place = np.unique(keys, return_inverse=True)
    means = np.bincount(place, weights=values) / np.bincount(place)
    result: Array = means[place]
    return result
