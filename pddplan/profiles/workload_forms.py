"""Parametric traffic: a few published figures turned into request classes.

Each form cuts a continuous distribution into slices and represents a slice by its mean, so the mean over
all requests is exact for every quantity that is linear in the tokens.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from statistics import NormalDist

import numpy as np

from pddplan.domain.workload import Array, RequestClasses
from pddplan.errors import DomainError

WIDEST_HIT_SLICE = 0.10
"""A hit-rate bin wider than this is cut into equal slices: work is not linear in the hit rate."""
_STANDARD_NORMAL = NormalDist()


def from_hit_bins(
    edges: Sequence[float],
    shares: Sequence[float],
    *,
    input_tokens: float,
    output_tokens: float,
    decode_extra_tokens: float = 0.0,
) -> RequestClasses:
    """Classes of one input length whose hit rate is spread evenly inside each bin.

    Formula:     h = middle of the slice; m = (1 - h) L; s = max(m - e, 0)
    Parameters:  edges, increasing hit rates in [0, 1], one more than shares; shares >= 0 (scaled to sum one);
                 input_tokens L, output_tokens O [tokens]; decode_extra_tokens e: tokens that only the decode
                 side holds (answers of earlier turns) [tokens]
    Returns:     one class per slice; a slice is at most WIDEST_HIT_SLICE wide
    Raises:      DomainError if the edges do not increase or the shares sum to nothing.
    Holds when:  the hit rate does not depend on the input length.
    References:  pdd-report, A2 hit-rate distribution
    """
    if len(edges) != len(shares) + 1 or any(b <= a for a, b in itertools.pairwise(edges)):
        raise DomainError("edges", "must increase, one more than there are shares", list(edges))
    if edges[0] < 0 or edges[-1] > 1:
        raise DomainError("edges", "must lie between 0 and 1", list(edges))
    hits: list[float] = []
    weights: list[float] = []
    labels: list[str] = []
    for low, high, share in zip(edges, edges[1:], shares, strict=False):
        slices = max(1, math.ceil((high - low) / WIDEST_HIT_SLICE - 1e-9))
        step = (high - low) / slices
        for k in range(slices):
            hits.append(low + (k + 0.5) * step)
            weights.append(share / slices)
            labels.append(f"hit {100 * (low + k * step):g}-{100 * (low + (k + 1) * step):g} %")
    miss = (1.0 - np.array(hits)) * input_tokens
    return request_classes(
        weight=np.array(weights),
        input_tokens=np.full(miss.size, float(input_tokens)),
        miss_prefill_tokens=miss,
        miss_decode_tokens=np.maximum(miss - decode_extra_tokens, 0.0),
        output_tokens=np.full(miss.size, float(output_tokens)),
        label=tuple(labels),
    )


def from_lognormal(
    mu: float,
    sigma: float,
    *,
    low_tokens: float,
    high_tokens: float,
    output_tokens: float,
    hit_rate: float = 0.0,
    decode_hit_rate: float | None = None,
    classes: int = 64,
) -> RequestClasses:
    """Classes of a lognormal input length cut off at both ends.

    Formula:     density of ln L normal(mu, sigma) on [low, high]; slices are equal in the mean of
                 (share of requests, share of tokens), so the long tail gets its own slices;
                 L of a slice = E[L | slice] = e^(mu + sigma^2/2) (G(b) - G(a)) / (F(b) - F(a)),
                 F(x) = Phi((ln x - mu)/sigma), G(x) = F(x e^(-sigma^2))
    Parameters:  mu, sigma > 0 of ln(tokens); low_tokens < high_tokens, output_tokens [tokens];
                 hit rates in [0, 1]; classes >= 1
    Returns:     RequestClasses of that many classes (fewer if slices are empty)
    Raises:      DomainError if the limits are not increasing or leave no probability.
    Holds when:  the hit rate does not depend on the length.
    References:  prfaas, request length distribution
    """
    if not 0 < low_tokens < high_tokens:
        raise DomainError("high_tokens", "must be greater than low_tokens, both positive", (low_tokens, high_tokens))
    if sigma <= 0:
        raise DomainError("sigma", "must be greater than 0", sigma)
    grid = np.exp(np.linspace(math.log(low_tokens), math.log(high_tokens), 4097))
    requests = _normal_cdf((np.log(grid) - mu) / sigma)
    tokens = _normal_cdf((np.log(grid) - mu) / sigma - sigma)
    if not requests[-1] - requests[0] > 0 or not tokens[-1] - tokens[0] > 0:
        raise DomainError("mu", "must leave some probability between the limits", mu)
    blend = _unit(requests) + _unit(tokens)
    edges = np.interp(np.linspace(0.0, 2.0, classes + 1), blend, grid)
    request_part = np.diff(_normal_cdf((np.log(edges) - mu) / sigma))
    token_part = np.diff(_normal_cdf((np.log(edges) - mu) / sigma - sigma))
    kept = request_part > 0
    length = math.exp(mu + sigma**2 / 2) * token_part[kept] / request_part[kept]
    decode = hit_rate if decode_hit_rate is None else decode_hit_rate
    return request_classes(
        weight=request_part[kept],
        input_tokens=length,
        miss_prefill_tokens=(1 - hit_rate) * length,
        miss_decode_tokens=(1 - decode) * length,
        output_tokens=np.full(length.size, float(output_tokens)),
    )


def from_uniform(
    input_tokens: tuple[float, float],
    output_tokens: tuple[float, float],
    *,
    hit_rate: float = 0.0,
    decode_hit_rate: float | None = None,
    input_slices: int = 16,
    output_slices: int = 4,
) -> RequestClasses:
    """Classes of input and output lengths that are independent and uniform.

    Formula:     a slice [a, b] of a uniform length is represented by (a + b)/2; weight = 1/(slices)
    Parameters:  (low, high) of each length [tokens], low = high for a fixed length; hit rates in [0, 1]
    Returns:     input_slices x output_slices classes
    Raises:      DomainError if low exceeds high.
    Holds when:  lengths and hit rate are independent.
    References:  elementary
    """
    inputs = _middles(input_tokens, input_slices, name="input_tokens")
    outputs = _middles(output_tokens, output_slices, name="output_tokens")
    length, output = (grid.ravel() for grid in np.meshgrid(inputs, outputs, indexing="ij"))
    decode = hit_rate if decode_hit_rate is None else decode_hit_rate
    return request_classes(
        weight=np.ones(length.size),
        input_tokens=length,
        miss_prefill_tokens=(1 - hit_rate) * length,
        miss_decode_tokens=(1 - decode) * length,
        output_tokens=output,
    )


def request_classes(
    *,
    weight: Array,
    input_tokens: Array,
    miss_prefill_tokens: Array,
    miss_decode_tokens: Array,
    output_tokens: Array,
    label: tuple[str, ...] = (),
    group: tuple[str, ...] = (),
) -> RequestClasses:
    """Build the record with weights scaled to sum one; classes without weight are left out.

    Raises:  DomainError when no weight is positive.
    """
    total = float(np.sum(weight))
    if not total > 0:
        raise DomainError("weight", "must sum to more than 0", total)
    kept = np.asarray(weight) > 0
    columns = (input_tokens, miss_prefill_tokens, miss_decode_tokens, output_tokens)
    length, miss_p, miss_d, output = (np.asarray(values, dtype=np.float64)[kept] for values in columns)
    return RequestClasses(
        weight=np.asarray(weight, dtype=np.float64)[kept] / total,
        input_tokens=length,
        miss_prefill_tokens=miss_p,
        miss_decode_tokens=miss_d,
        output_tokens=output,
        label=tuple(text for text, keep in zip(label, kept, strict=True) if keep) if label else (),
        group=tuple(text for text, keep in zip(group, kept, strict=True) if keep) if group else (),
    )


def mixed(parts: Mapping[str, tuple[float, RequestClasses]]) -> RequestClasses:
    """Request classes of several traffic classes side by side, each with its share of all requests.

    Formula:     w = share_i w_i / sum of shares
    Parameters:  parts: name of the traffic class -> (share > 0, its request classes)
    Returns:     all request classes, each with the name of its traffic class as ``group``
    Raises:      DomainError when no share is positive.
    Holds when:  requests of the traffic classes arrive independently of each other.
    References:  definition
    """
    found = list(parts.items())

    def column(name: str) -> Array:
        return np.concatenate([getattr(classes, name) for _, (_, classes) in found])

    labelled = any(classes.label for _, (_, classes) in found)
    return request_classes(
        weight=np.concatenate([share * classes.weight for _, (share, classes) in found]),
        input_tokens=column("input_tokens"),
        miss_prefill_tokens=column("miss_prefill_tokens"),
        miss_decode_tokens=column("miss_decode_tokens"),
        output_tokens=column("output_tokens"),
        label=tuple(f"{name} {text}".strip() for name, (_, c) in found for text in (c.label or ("",) * c.count))
        if labelled
        else (),
        group=tuple(name for name, (_, classes) in found for _ in range(classes.count)),
    )


def _middles(limits: tuple[float, float], slices: int, *, name: str) -> Array:
    low, high = limits
    if not 0 < low <= high:
        raise DomainError(name, "must have 0 < low <= high", limits)
    if low == high:
        return np.array([float(low)])
    edges = np.linspace(low, high, slices + 1)
    return np.asarray((edges[:-1] + edges[1:]) / 2)


def _unit(values: Array) -> Array:
    return np.asarray((values - values[0]) / (values[-1] - values[0]))


def _normal_cdf(values: Array) -> Array:
    return np.array([_STANDARD_NORMAL.cdf(float(v)) for v in np.ravel(values)])
