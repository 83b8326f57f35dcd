"""Whose cost is it: a plan's monthly cost split over missed, cached and output tokens."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pddplan.domain.outcome import Cost, CostItem
from pddplan.domain.plan import Role
from pddplan.economics.costs import ROLE_IDLE, ROLE_LINE, ROLE_SITE
from pddplan.economics.revenue import TokenVolume
from pddplan.errors import DomainError
from pddplan.units import MILLION


@dataclass(frozen=True, slots=True)
class TokenCost:
    """Cost of a million tokens by kind, and the money behind each; the three monthly parts add up to the total."""

    currency: str
    miss_monthly_cost: float
    cached_monthly_cost: float
    output_monthly_cost: float
    volume: TokenVolume

    @property
    def monthly_total(self) -> float:
        return math.fsum((self.miss_monthly_cost, self.cached_monthly_cost, self.output_monthly_cost))

    @property
    def miss_per_mtok(self) -> float | None:
        return per_million(self.miss_monthly_cost, self.volume.miss_tokens)

    @property
    def cached_per_mtok(self) -> float | None:
        return per_million(self.cached_monthly_cost, self.volume.cached_tokens)

    @property
    def output_per_mtok(self) -> float | None:
        return per_million(self.output_monthly_cost, self.volume.output_tokens)

    @property
    def input_per_mtok(self) -> float | None:
        cost = self.miss_monthly_cost + self.cached_monthly_cost
        return per_million(cost, self.volume.miss_tokens + self.volume.cached_tokens)

    @property
    def all_per_mtok(self) -> float | None:
        return per_million(self.monthly_total, self.volume.total_tokens)


def token_cost(
    cost: Cost, volume: TokenVolume, *, context_share: float, aggregated_prefill_share: float | None = None
) -> TokenCost:
    """Split the monthly cost of a plan over the kinds of tokens that cause it.

    Formula:     P and line -> input; RLD and MD -> output; AGG -> prefill share to input, rest to output;
                 credits and idle chips in proportion; of the input part, context_share -> cached,
                 rest -> missed
    Parameters:  cost; volume per month [tokens]; context_share, share of prefill time that is only there because
                 of cached context, 1 - E[t(m, 0)] / E[t(m, c)]; aggregated_prefill_share, share of busy time that
                 aggregated instances prefill (needed if the plan has such pools)
    Returns:     TokenCost; its parts add up to cost.monthly_total
    Raises:      DomainError for shares outside [0, 1], or a missing share of aggregated pools.
    Holds when:  a cached token costs what it adds to prefill; holding it in memory is paid with the pool.
    References:  configiq10
    """
    _share("context_share", context_share)
    weights = [input_share(item, aggregated_prefill_share=aggregated_prefill_share) for item in cost.items]
    priced = [(item.monthly_cost, share) for item, share in zip(cost.items, weights, strict=True) if share is not None]
    paid = math.fsum(amount for amount, _ in priced)
    input_part = math.fsum(amount * share for amount, share in priced)
    # Credits (owned chips) and idle chips have no role of their own: they move both sides alike.
    input_cost = cost.monthly_total * (input_part / paid if paid > 0 else 0.0)
    cached = input_cost * (context_share if volume.cached_tokens > 0 else 0.0)
    return TokenCost(
        currency=cost.currency,
        miss_monthly_cost=input_cost - cached,
        cached_monthly_cost=cached,
        output_monthly_cost=cost.monthly_total - input_cost,
        volume=volume,
    )


def input_share(item: CostItem, *, aggregated_prefill_share: float | None) -> float | None:
    """Share of a cost item that input tokens cause; the rest is caused by output tokens.

    Formula:     P, line: 1;  RLD, MD: 0;  AGG: share of busy time that is prefill;  else none of its own
    Parameters:  item; aggregated_prefill_share, needed for items of aggregated pools
    Returns:     [fraction], None for credits and idle chips, which move both sides alike
    Raises:      DomainError if the share is outside [0, 1], or missing for an aggregated pool.
    Holds when:  a pool is paid for by what it does.
    References:  configiq10
    """
    if item.role in (Role.PREFILL, ROLE_LINE):
        return 1.0
    if item.role in (Role.RELAY, Role.DECODE):
        return 0.0
    if item.role in (ROLE_SITE, ROLE_IDLE):
        return None
    if aggregated_prefill_share is None:
        raise DomainError("aggregated_prefill_share", "must be given for a plan with aggregated pools", None)
    return _share("aggregated_prefill_share", aggregated_prefill_share)


def _share(name: str, value: float) -> float:
    if not 0 <= value <= 1:
        raise DomainError(name, "must lie between 0 and 1", value)
    return value


def per_million(cost: float, tokens: float) -> float | None:
    """Cost per million tokens.

    Formula:     cost / tokens * 1,000,000
    Parameters:  cost and tokens of the same time
    Returns:     in the currency of the cost; None without tokens
    Raises:      nothing
    Holds when:  always.
    References:  definition
    """
    return cost / tokens * MILLION if tokens > 0 else None
