"""The same question with one thing changed: prices, hit rate, demand, speed of instances."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from pddplan.domain.plan import Plan, Pool
from pddplan.domain.sites import SiteChip, Sites
from pddplan.domain.workload import Array, RequestClasses, Workload
from pddplan.economics.hit_rate import Spread, at_hit_rate
from pddplan.evaluate.problem import Instance
from pddplan.evaluate.problem import Problem as Question
from pddplan.sizing import Inputs


def scale_chip_price(inputs: Inputs, chip_id: str, factor: float) -> Inputs:
    """Multiply every price of one kind of chip: profile, sites, rent and purchase."""
    chip = inputs.chips[chip_id]
    price = chip.price
    if price is not None:
        price = replace(
            price,
            low_per_chip_hour=price.low_per_chip_hour * factor,
            high_per_chip_hour=price.high_per_chip_hour * factor,
        )
    sites = {
        site_id: replace(
            site, chips={key: _scaled(own, factor) if key == chip_id else own for key, own in site.chips.items()}
        )
        for site_id, site in inputs.sites.sites.items()
    }
    return replace(
        inputs,
        chips={**inputs.chips, chip_id: replace(chip, price=price)},
        sites=replace(inputs.sites, sites=sites),
    )


def _scaled(own: SiteChip, factor: float) -> SiteChip:
    def times(price: float | None) -> float | None:
        return None if price is None else price * factor

    return replace(
        own,
        price_per_chip_hour=times(own.price_per_chip_hour),
        on_demand_price_per_chip_hour=times(own.on_demand_price_per_chip_hour),
        purchase_price_per_chip=times(own.purchase_price_per_chip),
    )


def scale_line_prices(sites: Sites, factor: float, *, line_id: str | None = None) -> Sites:
    """Multiply all prices of one line, or of all lines."""
    lines = {
        key: replace(
            line,
            tiers=tuple(
                replace(
                    tier,
                    monthly_cost=tier.monthly_cost * factor,
                    setup_cost=tier.setup_cost * factor,
                    port_monthly_cost_per_end=tier.port_monthly_cost_per_end * factor,
                )
                for tier in line.tiers
            ),
        )
        if line_id in (None, key)
        else line
        for key, line in sites.lines.items()
    }
    return replace(sites, lines=lines)


def scale_misses(workload: Workload, factor: float) -> Workload:
    """Multiply missing tokens of every class (at both sides), up to the whole input."""
    classes = workload.classes
    return with_classes(
        workload,
        replace(
            classes,
            miss_prefill_tokens=np.minimum(classes.input_tokens, classes.miss_prefill_tokens * factor),
            miss_decode_tokens=np.minimum(classes.input_tokens, classes.miss_decode_tokens * factor),
        ),
    )


def scale_outputs(workload: Workload, factor: float) -> Workload:
    """Multiply output tokens of every class; at least one stays."""
    classes = workload.classes
    return with_classes(workload, replace(classes, output_tokens=np.maximum(1.0, classes.output_tokens * factor)))


def with_hit_rate(workload: Workload, hit_rate: float, *, spread: Spread = Spread.AS_NOW) -> Workload:
    """The same traffic at another token hit rate."""
    return with_classes(workload, at_hit_rate(workload.classes, hit_rate, spread=spread))


def with_classes(workload: Workload, classes: RequestClasses) -> Workload:
    return replace(workload, classes=classes)


def at_rate(plan: Plan, rate_rps: float) -> Plan:
    """The same plan under another request rate; shares stay."""
    return replace(plan, rate_rps=rate_rps)


def for_classes(plan: Plan, count: int) -> Plan:
    """A plan made for other request classes, as far as its routing does not tell classes apart; else as it is."""
    share = np.asarray(plan.share, dtype=float)
    if share.ndim != 2 or share.shape[1] in (0, count) or np.any(share != share[:, :1]):
        return plan
    return replace(plan, share=np.repeat(share[:, :1], count, axis=1))


@dataclass(frozen=True, slots=True, eq=False)
class ScaledInstance:
    """An instance whose prefill and decode take other multiples of the modelled time; all else is as it was."""

    base: Instance
    prefill_factor: float = 1.0
    decode_factor: float = 1.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.base, name)

    def prefill_time_s(self, **prompt: Array) -> Array:
        return self.base.prefill_time_s(**prompt) * self.prefill_factor

    def prefill_stop_s(self, **prompt: Array) -> Array:
        return self.base.prefill_stop_s(**prompt) * self.prefill_factor

    def decode_step_s(self, **step: Any) -> Array:
        return self.base.decode_step_s(**step) * self.decode_factor


def with_speed(question: Question, prefill_factor: Mapping[str, float], decode_factor: Mapping[str, float]) -> Question:
    """The same question with instances of some chips slower or faster, per chip id."""
    built: dict[tuple[object, ...], Instance] = {}

    def instance(pool: Pool) -> Instance:
        key = (pool.chip, pool.shape, pool.weights_dtype, pool.kv_dtype)
        if key not in built:
            factors = prefill_factor.get(pool.chip, 1.0), decode_factor.get(pool.chip, 1.0)
            built[key] = cast(Instance, ScaledInstance(question.instance_of(pool), *factors))
        return built[key]

    return replace(question, instance=instance, memo={})
