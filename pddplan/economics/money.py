"""Money over time and between currencies: the formulas that every price passes through once."""

from __future__ import annotations

import math

from pddplan.domain.sites import Finance
from pddplan.errors import DomainError, InputError, Problem, did_you_mean
from pddplan.units import MONTHS_PER_YEAR

_NEGLIGIBLE_RATE = 1e-300
"""Below this, i / (1 - (1+i)^-n) is 1/n to the last digit, and denormal numbers would spoil the quotient."""


def convert(amount: float, currency: str, *, finance: Finance) -> float:
    """Turn an amount of any known currency into the currency of the finance settings.

    Formula:     a' = a * usd_per[currency] / usd_per[finance.currency]
    Parameters:  amount [currency]; currency, three-letter code; finance with its exchange rates
    Returns:     amount [finance.currency]
    Raises:      InputError if a rate is missing or not positive.
    Holds when:  one rate per currency is enough (no hedging, no spread between buying and selling).
    References:  definition
    """
    if currency == finance.currency:
        return amount
    return amount * _usd_per(currency, finance) / _usd_per(finance.currency, finance)


def _usd_per(currency: str, finance: Finance) -> float:
    if currency == finance.currency and currency not in finance.usd_per and finance.usd_per_currency is not None:
        rate = finance.usd_per_currency
    elif currency == "USD":
        rate = 1.0
    elif currency in finance.usd_per:
        rate = finance.usd_per[currency]
    else:
        known = {"USD", finance.currency, *finance.usd_per} - {currency}
        raise InputError(
            Problem(
                what=f"no exchange rate for {currency!r}{did_you_mean(currency, known)}",
                fix=f"add it to the finance settings, USD per unit: {_how_to_say(currency, finance)}",
                where="finance",
            )
        )
    if not (math.isfinite(rate) and rate > 0):
        raise DomainError(f"exchange rate USD per {currency}", "must be finite and greater than 0", rate)
    return rate


def _how_to_say(currency: str, finance: Finance) -> str:
    if currency == finance.currency:
        return f"usd_per_currency: 0.14 (or state every price in {currency})"
    return f"usd_per: {{{currency}: 0.14}}"


def monthly_rate(annual_rate_fraction: float) -> float:
    """Monthly rate that compounds to a yearly one.

    Formula:     i = (1 + r)^(1/12) - 1
    Parameters:  annual_rate_fraction r > -1 [1/year]
    Returns:     [1/month]
    Raises:      DomainError if r is not finite or not above -1.
    Holds when:  interest compounds monthly.
    References:  brealey2020
    """
    if not (math.isfinite(annual_rate_fraction) and annual_rate_fraction > -1):
        raise DomainError("cost of capital", "must be finite and greater than -1", annual_rate_fraction)
    return math.expm1(math.log1p(annual_rate_fraction) / MONTHS_PER_YEAR)


def capital_monthly_cost(price: float, months: float, *, residual: float = 0.0, annual_rate_fraction: float) -> float:
    """Level monthly charge that pays back a purchase with interest, less what it fetches at the end.

    Formula:     (P - R / (1+i)^n) * i / (1 - (1+i)^-n);  (P - R) / n for i = 0
    Parameters:  price P >= 0 [currency]; months n > 0; residual R [currency]; annual_rate_fraction r [1/year]
    Returns:     [currency/month]
    Raises:      DomainError outside these ranges.
    Holds when:  paid at once, in use from the first month on, sold after n months.
    References:  brealey2020, equivalent annual cost
    """
    if not (math.isfinite(months) and months > 0):
        raise DomainError("amortisation", "must be a finite number of months greater than 0", months)
    if not (math.isfinite(price) and price >= 0):
        raise DomainError("purchase price", "must be finite and at least 0", price)
    if not (math.isfinite(residual) and 0 <= residual <= price):
        raise DomainError("residual value", "must lie between 0 and the purchase price", residual)
    rate = monthly_rate(annual_rate_fraction)
    paid_back = -math.expm1(-months * math.log1p(rate))  # 1 - (1+i)^-n without cancellation
    if paid_back == 0 or abs(rate) < _NEGLIGIBLE_RATE:
        return (price - residual) / months
    return (price - residual * (1 - paid_back)) * rate / paid_back


def present_value(amount: float, month: float, *, annual_rate_fraction: float) -> float:
    """Value today of an amount paid in some months.

    Formula:     a / (1+i)^t
    Parameters:  amount [currency]; month t >= 0; annual_rate_fraction [1/year]
    Returns:     [currency of today]
    Raises:      DomainError if the rate is not above -1.
    Holds when:  the rate is constant.
    References:  brealey2020
    """
    return amount * math.exp(-month * math.log1p(monthly_rate(annual_rate_fraction)))
