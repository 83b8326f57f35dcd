"""The bathtub: what a unit of hardware earns against the hit rate, its valley, its notches and the way out.

A higher hit rate saves prefill work but turns missed tokens into cached ones, which are billed at a fraction of
the price. So benefit is high at both ends and low in between. The curve is computed with the same prefill times as
the plan, so chunking, overheads and the decode and line bounds bend it as they bend the real system.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pddplan.domain.sites import Finance
from pddplan.domain.token_price import TokenPrice
from pddplan.domain.workload import Array, RequestClasses
from pddplan.economics.hit_rate import Spread, decode_miss_at, miss_tokens_at, token_hit_rate
from pddplan.economics.revenue import request_revenue
from pddplan.errors import DomainError

PrefillTime = Callable[[Array, Array], Array]
"""(new tokens, cached tokens) -> seconds of one prefill instance; any common shape."""


@dataclass(frozen=True, slots=True)
class ServingCost:
    """What a request costs, as far as it depends on the hit rate."""

    prefill_time_s: PrefillTime
    prefill_cost_per_s: float
    """Cost of one busy second of a prefill instance: monthly cost over busy seconds [currency/s]."""
    decode_cost_per_request: float
    """Decoding does the same work at any hit rate [currency]."""
    line_cost_per_token: float = 0.0
    """Line cost per token whose KV crosses [currency/token]."""
    fixed_cost_per_request: float = 0.0
    """Whatever does not depend on the traffic, e.g. memory for a larger cache [currency]."""


@dataclass(frozen=True, slots=True, eq=False)
class BathtubCurve:
    """Benefit against hit rate. Benefit is revenue over cost; ``relative`` is 1 without any hit."""

    hit_rate: Array
    revenue: Array
    """Per request [currency]."""
    cost: Array
    """Per request [currency]."""
    prefill_s: Array
    """Mean prefill time of a request [s]."""

    @property
    def benefit(self) -> Array:
        return ratio(self.revenue, self.cost)

    @property
    def relative(self) -> Array:
        benefit = self.benefit
        return np.asarray(benefit / benefit[0])

    @property
    def requests_per_cost(self) -> Array:
        """Requests per unit of currency: RPS per cost up to a constant."""
        return ratio(np.ones_like(self.cost), self.cost)


def ratio(above: Array, below: Array) -> Array:
    """Quotient that is infinite where nothing is paid."""
    return np.asarray(np.divide(above, below, out=np.full(np.shape(above), np.inf), where=below > 0))


def request_economics(
    classes: RequestClasses, miss_tokens: Array, *, serving: ServingCost, price: TokenPrice, finance: Finance
) -> tuple[Array, Array, Array]:
    """Mean revenue, cost and prefill time of a request for given misses per class.

    Formula:     revenue as request_revenue; cost = c_p t(m, L - m) + c_d + c_l s + c_f; means over the classes
    Parameters:  classes; miss_tokens m, shape (points, classes); serving; price; finance
    Returns:     three arrays, shape (points,) [currency], [currency], [s]
    Raises:      as request_revenue.
    Holds when:  pools are sized to their load, so that cost follows work (see fixed_fleet_rate for a given fleet).
    References:  pdd-report, A4
    """
    missed = np.atleast_2d(miss_tokens)
    length = np.broadcast_to(classes.input_tokens, missed.shape)
    cached = length - missed
    time_s = np.where(missed > 0, serving.prefill_time_s(missed, cached), 0.0) @ classes.weight
    crossing = decode_miss_at(classes, missed) @ classes.weight
    revenue = (
        request_revenue(
            price,
            miss_tokens=missed,
            cached_tokens=cached,
            output_tokens=np.broadcast_to(classes.output_tokens, missed.shape),
            finance=finance,
        )
        @ classes.weight
    )
    cost = (
        serving.prefill_cost_per_s * time_s
        + serving.decode_cost_per_request
        + serving.line_cost_per_token * crossing
        + serving.fixed_cost_per_request
    )
    return revenue, cost, time_s


def bathtub_curve(
    classes: RequestClasses,
    hit_rates: Array,
    *,
    serving: ServingCost,
    price: TokenPrice,
    finance: Finance,
    spread: Spread = Spread.AS_NOW,
) -> BathtubCurve:
    """Benefit of the same traffic at every hit rate.

    Formula:     B(h) = revenue(h) / cost(h)
    Parameters:  classes; hit_rates, shape (points,), rising from 0; serving; price; finance; spread
    Returns:     BathtubCurve, shape (points,)
    Raises:      DomainError unless hit rates rise from 0 and stay within [0, 1].
    Holds when:  lengths, weights and prices do not depend on the hit rate. With attention-only work it is
                 (1 - (1-k) h) / (1 - h^2).
    References:  pdd-report, A4
    """
    rates = np.asarray(hit_rates, dtype=float)
    if rates.size < 2 or rates[0] != 0 or np.any(np.diff(rates) <= 0):
        raise DomainError("hit rates", "must rise from 0", rates.tolist()[:5])
    missed = miss_tokens_at(classes, rates, spread=spread)
    revenue, cost, time_s = request_economics(classes, missed, serving=serving, price=price, finance=finance)
    return BathtubCurve(rates, revenue, cost, time_s)


def fixed_fleet_rate(
    classes: RequestClasses,
    hit_rates: Array,
    *,
    prefill_time_s: PrefillTime,
    prefill_busy_instances: float,
    decode_rate_rps: float,
    line_tokens_per_s: float = np.inf,
    spread: Spread = Spread.AS_NOW,
) -> Array:
    """Request rate that a given fleet sustains at every hit rate: the smallest of its three stages.

    Formula:     min(N_p rho / E[t(m, c)], decode rate, line / E[s])
    Parameters:  classes; hit_rates, shape (points,); prefill_time_s; prefill_busy_instances N_p rho;
                 decode_rate_rps; line_tokens_per_s; spread
    Returns:     shape (points,) [req/s]
    Raises:      DomainError as miss_tokens_at.
    Holds when:  utilisation caps stay what they are; promises are checked by the evaluator, not here.
    References:  prfaas, throughput model
    """
    missed = miss_tokens_at(classes, hit_rates, spread=spread)
    cached = np.broadcast_to(classes.input_tokens, missed.shape) - missed
    time_s = np.where(missed > 0, prefill_time_s(missed, cached), 0.0) @ classes.weight
    crossing = decode_miss_at(classes, missed) @ classes.weight
    prefill = ratio(np.full(time_s.shape, prefill_busy_instances), time_s)
    line = ratio(np.full(time_s.shape, line_tokens_per_s), crossing)
    return np.asarray(np.minimum(np.minimum(prefill, line), decode_rate_rps))


def now_point(
    classes: RequestClasses, *, serving: ServingCost, price: TokenPrice, finance: Finance
) -> tuple[float, float]:
    """Hit rate and benefit of the workload as it is.

    Formula:     h = 1 - E[m]/E[L]; B = E[revenue] / E[cost]
    Parameters:  classes; serving; price; finance
    Returns:     (hit rate, benefit)
    Raises:      as request_revenue.
    Holds when:  as request_economics.
    References:  pdd-report, A4
    """
    revenue, cost, _ = request_economics(
        classes, classes.miss_prefill_tokens, serving=serving, price=price, finance=finance
    )
    return token_hit_rate(classes), float(ratio(revenue, cost)[0])
