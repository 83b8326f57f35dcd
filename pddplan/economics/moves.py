"""Ways out of the valley: a shallower tub (packing, chunk size), or more cache (capacity, hit rate, memory price)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pddplan.domain.sites import Finance
from pddplan.domain.token_price import TokenPrice
from pddplan.domain.workload import Array, RequestClasses
from pddplan.economics.bathtub import PrefillTime, ServingCost, now_point, ratio, request_economics
from pddplan.economics.hit_rate import Spread, miss_tokens_at
from pddplan.economics.revenue import seconds_per_month
from pddplan.errors import DomainError
from pddplan.units import GIGA


@dataclass(frozen=True, slots=True)
class Move:
    """One change, and what it does to benefit (revenue over cost) against today."""

    name: str
    hit_rate: float
    benefit: float
    gain_fraction: float
    extra_monthly_cost: float = 0.0
    capacity_tokens: float | None = None


def shallower_tub(
    classes: RequestClasses,
    alternatives: Mapping[str, PrefillTime],
    *,
    serving: ServingCost,
    price: TokenPrice,
    finance: Finance,
) -> tuple[Move, ...]:
    """What other ways of running prefill (tails packed, another chunk size) would do at today's hit rate.

    Formula:     gain = B'(now) / B(now) - 1
    Parameters:  classes; alternatives, name -> prefill time; serving as it is; price; finance
    Returns:     moves, best first
    Raises:      as request_revenue.
    Holds when:  the busy second costs the same in every alternative.
    References:  pdd-report, A4
    """
    hit_rate, now = now_point(classes, serving=serving, price=price, finance=finance)
    moves = []
    for name, prefill_time_s in alternatives.items():
        changed = replace(serving, prefill_time_s=prefill_time_s)
        _, benefit = now_point(classes, serving=changed, price=price, finance=finance)
        moves.append(Move(name, hit_rate, benefit, benefit / now - 1.0))
    return tuple(sorted(moves, key=lambda move: -move.benefit))


def more_cache(
    classes: RequestClasses,
    capacity_curve: Sequence[tuple[float, float]],
    *,
    serving: ServingCost,
    price: TokenPrice,
    finance: Finance,
    rate_rps: float,
    kv_bytes_per_token: float,
    memory_price_per_gb_month: float,
    capacity_now_tokens: float | None = None,
    spread: Spread = Spread.AS_NOW,
    cost_factor: Callable[[Array], Array] | None = None,
) -> tuple[Move, ...]:
    """What a cache of other capacities would do: hit rate from the trace's curve, less the price of its memory.

    Formula:     cost' = cost(h(K)) + K' * bytes/token * price / requests per month, K' = tokens beyond today's
    Parameters:  classes; capacity_curve, (capacity [tokens], token-weighted hit rate) pairs; serving; price; finance;
                 rate_rps, mean of the month; kv_bytes_per_token; memory_price_per_gb_month [currency/(GB month)];
                 capacity_now_tokens (None: the capacity whose hit rate is today's); spread;
                 cost_factor of hit rates on the cost of serving, relative to today's
    Returns:     one move per capacity, in order of capacity
    Raises:      DomainError for a rate or price that is not positive or not finite, or a curve without points.
    Holds when:  the curve was measured on this traffic, and reading from the cache does not slow prefill.
    References:  pdd-report, A4
    """
    if not (np.isfinite(rate_rps) and rate_rps > 0):
        raise DomainError("rate", "must be finite and greater than 0", rate_rps)
    if not (np.isfinite(memory_price_per_gb_month) and memory_price_per_gb_month >= 0):
        raise DomainError("memory price", "must be finite and at least 0", memory_price_per_gb_month)
    if not capacity_curve:
        raise DomainError("cache curve", "must have at least one point", capacity_curve)
    now_rate, now = now_point(classes, serving=serving, price=price, finance=finance)
    capacity, hit = (np.array(column, dtype=float) for column in zip(*sorted(capacity_curve), strict=True))
    hit = np.clip(np.maximum.accumulate(hit), 0.0, 1.0)
    if capacity_now_tokens is None:
        capacity_now_tokens = float(np.interp(now_rate, hit, capacity))
    # Today's classes and the curve may come from different counts; the curve only says how much a change brings.
    today_on_curve = float(np.interp(capacity_now_tokens, capacity, hit))
    rates = np.clip(now_rate + hit - today_on_curve, 0.0, 1.0)
    missed = miss_tokens_at(classes, rates, spread=spread)
    revenue, cost, _ = request_economics(classes, missed, serving=serving, price=price, finance=finance)
    if cost_factor is not None:
        cost = cost * cost_factor(rates) / cost_factor(np.array([now_rate]))[0]
    extra_monthly = (capacity - capacity_now_tokens) * kv_bytes_per_token / GIGA * memory_price_per_gb_month
    extra = extra_monthly / (rate_rps * seconds_per_month(finance))
    benefit = ratio(revenue, np.maximum(cost + extra, 0.0))
    return tuple(
        Move(
            name=f"cache of {tokens:,.0f} tokens",
            hit_rate=float(rates[i]),
            benefit=float(benefit[i]),
            gain_fraction=float(benefit[i] / now - 1.0),
            extra_monthly_cost=float(extra_monthly[i]),
            capacity_tokens=float(tokens),
        )
        for i, tokens in enumerate(capacity)
    )
