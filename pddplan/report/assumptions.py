"""What a plan leans on, number by number: value, range, basis and source, of the evaluator's settings, of the speed of
chips, and of the prices and lines that the plan takes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pddplan.domain.outcome import Assumption
from pddplan.domain.sites import Line, Sites
from pddplan.economics.unit_costs import line_tier
from pddplan.profiles.efficiency_profile import validated_error
from pddplan.report.numbers import percent, short
from pddplan.sizing import Sizing
from pddplan.units import MIB, MS_PER_S

_IN_FILE = {"rtt_ms": ("rtt_s", MS_PER_S, "ms"), "tcp_window_mib": ("tcp_window_bytes", 1 / MIB, "MiB")}
"""Keys of a sites file whose records are in base units: field, factor into the unit of the key, that unit."""
SPEED = "speed of "


@dataclass(frozen=True, slots=True)
class Leant:
    """One row of the list."""

    name: str
    value: str
    range: str
    basis: str
    source: str


def of_plan(sizing: Sizing) -> list[Leant]:
    """Settings and speeds, weakest first; modelled speeds with the error they had on measurements left out."""
    items = sorted(sizing.outcome.assumptions, key=lambda item: -item.basis)
    return [
        _speed(item, moe=sizing.inputs.llm.is_moe) if item.name.startswith(SPEED) else _leant(item) for item in items
    ]


def _leant(item: Assumption) -> Leant:
    return Leant(item.name, item.value, item.range or "", item.basis.label, item.source)


def _speed(item: Assumption, *, moe: bool) -> Leant:
    error = validated_error(moe=moe)
    source = f"{item.source}; times were off by {percent(error)} on average on measurements left out of the fit"
    return Leant(
        item.name, item.value, f"times x {short(1 / (1 + error))}-{short(1 + error)}", item.basis.label, source
    )


def of_sites(sizing: Sizing) -> list[Leant]:
    """Sourced numbers of the sites file, as far as the plan uses them; tiers by their rate."""
    sites, plan = sizing.inputs.sites, sizing.outcome.plan
    offers = {
        f"sites.{site_id}.chips.{chip_id}.": sites.sites[site_id].chips.get(chip_id)
        for site_id, chip_id in sorted({(pool.site, pool.chip) for pool in plan.pools})
        if site_id in sites.sites
    }
    taken = [(sites.lines[line.line], line.gbps) for line in plan.lines if line.count]
    rows = [row for prefix, offer in offers.items() for row in _numbers(sites, prefix, offer)]
    for line, gbps in taken:
        rows += [*_numbers(sites, f"lines.{line.id}.", line), *_tier(sites, line, gbps)]
    return [*rows, *_numbers(sites, "finance.", sites.finance)]


def _numbers(sites: Sites, prefix: str, record: object) -> Iterator[Leant]:
    """Fields of a record that the file gave with a source, in the unit of their key."""
    for path, origin in sorted(sites.origins.items()):
        key = path.removesuffix(".value")
        name = key.removeprefix(prefix)
        field, factor, unit = _IN_FILE.get(name, (name, 1.0, ""))
        value = getattr(record, field, None) if key.startswith(prefix) and name.isidentifier() else None
        if isinstance(value, (int, float)):
            spread = _range(origin.low, origin.high)
            source = sites.provenance.get(key, origin.source)
            yield Leant(key, f"{short(value * factor)} {unit}".strip(), spread, origin.basis.label, source)


def _tier(sites: Sites, line: Line, gbps: float) -> Iterator[Leant]:
    """The tier that is leased. Its place in the file is not known any more: its basis is looked up by its source."""
    tier = line_tier(line, gbps)
    prefix = f"lines.{line.id}.tiers["
    alike = [
        origin.basis.label
        for path, origin in sites.origins.items()
        if path.startswith(prefix) and sites.provenance.get(path.removesuffix(".value")) == tier.source
    ]
    name, spread = f"lines.{line.id}: {gbps:g} Gbit/s a month", _range(tier.monthly_cost_low, tier.monthly_cost_high)
    yield Leant(name, short(tier.monthly_cost), spread, next(iter(alike), ""), tier.source or "")


def _range(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"{short(low)}-{short(high)}"
