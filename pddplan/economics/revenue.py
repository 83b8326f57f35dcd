"""What requests earn, from list prices of missed, cached and output tokens."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from pddplan.domain.sites import Finance
from pddplan.domain.token_price import TokenPrice
from pddplan.domain.workload import Array, RequestClasses
from pddplan.economics.money import convert
from pddplan.errors import DomainError, InputError, Problem
from pddplan.units import MILLION, SECONDS_PER_HOUR

LARGEST_RATIO = 100.0
"""Nobody bills a cached token at more than so many missed ones."""


@dataclass(frozen=True, slots=True)
class TokenVolume:
    """Tokens by how they are billed."""

    miss_tokens: float
    cached_tokens: float
    output_tokens: float

    @property
    def total_tokens(self) -> float:
        return self.miss_tokens + self.cached_tokens + self.output_tokens

    def times(self, factor: float) -> TokenVolume:
        return TokenVolume(self.miss_tokens * factor, self.cached_tokens * factor, self.output_tokens * factor)


def seconds_per_month(finance: Finance) -> float:
    """Seconds of a month of the finance settings.

    Formula:     hours_per_month * 3600
    Parameters:  finance
    Returns:     [s]
    Raises:      DomainError if the month has no finite, positive length.
    Holds when:  always.
    References:  definition
    """
    hours = finance.hours_per_month
    if not (math.isfinite(hours) and hours > 0):
        raise DomainError("finance.hours_per_month", "must be finite and greater than 0", hours)
    return hours * SECONDS_PER_HOUR


def tokens_per_request(classes: RequestClasses) -> TokenVolume:
    """Mean tokens of a request by how they are billed.

    Formula:     E[m], E[L - m], E[O]
    Parameters:  classes
    Returns:     [tokens per request]
    Raises:      nothing.
    Holds when:  the prefill-side cache decides what counts as cached.
    References:  definition
    """
    return TokenVolume(
        miss_tokens=classes.mean(classes.miss_prefill_tokens),
        cached_tokens=classes.mean(classes.cached_prefill_tokens),
        output_tokens=classes.mean(classes.output_tokens),
    )


def monthly_tokens(classes: RequestClasses, rate_rps: float, *, finance: Finance) -> TokenVolume:
    """Tokens of a month at a mean request rate.

    Formula:     rate * seconds per month * E[tokens]
    Parameters:  classes; rate_rps, mean over the month [req/s]; finance
    Returns:     [tokens per month]
    Raises:      DomainError as seconds_per_month.
    Holds when:  the rate is the mean of the month, not its peak.
    References:  definition
    """
    return tokens_per_request(classes).times(rate_rps * seconds_per_month(finance))


def with_cached_ratio(price: TokenPrice, cached_over_miss: float | None) -> TokenPrice:
    """Price list with the cached price set as a share of the missed one (None keeps the list).

    Formula:     cached = k * miss
    Parameters:  price; cached_over_miss k >= 0 or None
    Returns:     price list that has a cached price
    Raises:      InputError if the list shows no cached price and none is given; DomainError unless 0 <= k <= 100.
    Holds when:  cached tokens are billed as a share of missed ones.
    References:  pdd-report, A4
    """
    if cached_over_miss is not None:
        if not 0 <= cached_over_miss <= LARGEST_RATIO:
            raise DomainError("cached price ratio", f"must lie between 0 and {LARGEST_RATIO:g}", cached_over_miss)
        return replace(price, cached_per_mtok=cached_over_miss * price.miss_per_mtok)
    if price.cached_per_mtok is None:
        raise InputError(
            Problem(
                what=f"the list price {price.model!r} shows no price for cached tokens",
                fix="give the cached/missed price ratio, e.g. --cached-ratio 0.1",
            )
        )
    return price


def request_revenue(
    price: TokenPrice, *, miss_tokens: Array, cached_tokens: Array, output_tokens: Array, finance: Finance
) -> Array:
    """Revenue of requests at list prices.

    Formula:     (m p_miss + c p_cached + O p_out) / 1e6, converted
    Parameters:  price per million tokens, with a cached price; token counts, any common shape [tokens]
    Returns:     that shape [finance.currency per request]
    Raises:      InputError if the list has no cached price or the currency no rate.
    Holds when:  every token is billed at list price.
    References:  pdd-report, A4
    """
    priced = with_cached_ratio(price, None)
    assert priced.cached_per_mtok is not None
    earned = (
        miss_tokens * priced.miss_per_mtok
        + cached_tokens * priced.cached_per_mtok
        + output_tokens * priced.output_per_mtok
    )
    return earned * (convert(1.0, price.currency, finance=finance) / MILLION)


def monthly_revenue(classes: RequestClasses, rate_rps: float, *, price: TokenPrice, finance: Finance) -> float:
    """Revenue of a month at a mean request rate.

    Formula:     rate * seconds per month * E[revenue per request]
    Parameters:  classes; rate_rps, mean over the month [req/s]; price; finance
    Returns:     [finance.currency per month]
    Raises:      as request_revenue.
    Holds when:  as request_revenue.
    References:  definition
    """
    per_request = request_revenue(
        price,
        miss_tokens=classes.miss_prefill_tokens,
        cached_tokens=classes.cached_prefill_tokens,
        output_tokens=classes.output_tokens,
        finance=finance,
    )
    return rate_rps * seconds_per_month(finance) * classes.mean(per_request)
