"""The integer program, written down with PuLP: one function per constraint, readable names (see docs/milp.md).

Variables     y[p,k]  requests per second of class k on path p        n[c]   instances of pool c (integer)
              R       requests per second served in all               t[o]   line option o taken (binary)
              u[c]    pool c is open (binary, only where it matters)  f[s,g] owned chips g used at site s
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from pddplan.optimize.data import LineOption, PoolOption, ProgramData
from pddplan.units import GIGA, KILO

if TYPE_CHECKING:
    import pulp

MONEY = KILO
"""Costs enter the program in thousands, so that coefficients stay near one."""
LOAD_MARGIN = 4e-6
"""Utilisation kept free below each ceiling: solvers let rows slip by a millionth, which no plan may show."""


@dataclass(slots=True)
class Variables:
    """Handles of the program's variables, by the ids of ``ProgramData``."""

    rate: pulp.LpVariable
    flow: dict[tuple[int, int], pulp.LpVariable] = field(default_factory=dict)
    instances: dict[str, pulp.LpVariable] = field(default_factory=dict)
    open: dict[str, pulp.LpVariable] = field(default_factory=dict)
    taken: dict[str, pulp.LpVariable] = field(default_factory=dict)
    owned: dict[tuple[str, str], pulp.LpVariable] = field(default_factory=dict)


def formulate(data: ProgramData, *, objective: str, money_weight: float = 1.0) -> tuple[pulp.LpProblem, Variables]:
    """Write the whole program down.

    ``objective`` is ``cost`` (least cost), ``rps`` (most requests), ``tidy`` (least traffic over lines and relays)
    or ``ratio``: R - money_weight * cost, the parametric form of the ratio R / cost (Dinkelbach): its optimum is
    zero at the best ratio.
    """
    import pulp

    program = pulp.LpProblem("plan", pulp.LpMinimize if objective in ("cost", "tidy") else pulp.LpMaximize)
    variables = _variables(data)
    cost = cost_expression(data, variables)
    if objective == "cost":
        program += cost, "monthly_cost_in_thousands"
    elif objective == "tidy":
        program += _traffic(data, variables), "traffic_over_lines_and_relays"
    elif objective == "rps":
        program += 1.0 * variables.rate, "requests_per_second"
    else:
        program += variables.rate - money_weight * cost, "requests_minus_weighted_cost"
    for constraint in CONSTRAINTS:
        constraint(program, data, variables)
    return program, variables


def cost_expression(data: ProgramData, variables: Variables) -> pulp.LpAffineExpression:
    """Monthly cost in thousands: instances and their spares, lines, less the credit for owned chips."""
    import pulp

    terms = [(variables.instances[c.id], c.monthly_cost_per_instance / MONEY) for c in data.pools]
    terms += [
        (variables.open[c.id], c.redundant_instances * c.monthly_cost_per_instance / MONEY)
        for c in data.pools
        if c.redundant_instances
    ]
    terms += [(variables.taken[o.id], o.monthly_cost / MONEY) for o in data.lines]
    terms += [(variables.owned[o.site, o.chip], -o.credit_per_chip / MONEY) for o in data.owned]
    return pulp.LpAffineExpression(terms)


def chips_held(
    data: ProgramData, v: Variables, *, site: str | None = None, chip: str | None = None
) -> pulp.LpAffineExpression:
    """Chips of a kind at a site, or of all kinds and sites; spares included."""
    import pulp

    own = [pool for pool in data.pools if (site is None or pool.site == site) and (chip is None or pool.chip == chip)]
    return pulp.LpAffineExpression([t for pool in own for t in _chips(v, pool)])


def power_drawn(data: ProgramData, v: Variables, site: str) -> pulp.LpAffineExpression:
    """Power at the meter of a site [kW]."""
    import pulp

    terms = []
    for pool in data.pools:
        if pool.site == site:
            per_chip_kw = pool.power_kw_per_instance / pool.chips_per_instance
            terms += [(variable, chips * per_chip_kw) for variable, chips in _chips(v, pool)]
    return pulp.LpAffineExpression(terms)


def _traffic(data: ProgramData, v: Variables) -> pulp.LpAffineExpression:
    """Gigabytes per second over lines, and a little for each relay instance kept busy."""
    import pulp

    relays = {pool.id for pool in data.pools if pool.role == "RLD"}
    terms = []
    for (r, k), flow in v.flow.items():
        route = data.routes[r]
        crossing = float(route.payload_bytes[k]) / GIGA if route.payload_bytes is not None else 0.0
        relayed = sum(float(work[k]) for pool, work in route.work.items() if pool in relays)
        terms.append((flow, crossing + 1e-3 * relayed))
    return pulp.LpAffineExpression(terms)


def route_all(program: pulp.LpProblem, data: ProgramData, v: Variables) -> None:
    """Every request is served: sum over p of y[p,k] = w[k] R for each class."""
    import pulp

    per_class: dict[int, list[tuple[pulp.LpVariable, float]]] = {k: [] for k in range(data.weight.size)}
    for (_, k), flow in v.flow.items():
        per_class[k].append((flow, 1.0))
    for k, terms in per_class.items():
        if data.weight[k] > 0:
            total = pulp.LpAffineExpression([*terms, (v.rate, -float(data.weight[k]))])
            program += total == 0, f"route_all_class_{k}"


def pool_capacity(program: pulp.LpProblem, data: ProgramData, v: Variables) -> None:
    """Load stays below the ceiling: sum of work * y <= (ceiling - margin) * n, for each pool."""
    import pulp

    for pool in data.pools:
        ceiling = max(pool.max_utilization - LOAD_MARGIN, 0.0)
        terms = [*_load(data, v, pool), (v.instances[pool.id], -ceiling)]
        program += pulp.LpAffineExpression(terms) <= 0, f"capacity_{name(pool.id)}"


def pool_spare(program: pulp.LpProblem, data: ProgramData, v: Variables) -> None:
    """An open pool keeps the idle instances its operating point asks for: load + spare * u <= n."""
    import pulp

    for pool in data.pools:
        if pool.spare_instances > 0:
            terms = _load(data, v, pool)
            terms += [(v.open[pool.id], pool.spare_instances), (v.instances[pool.id], -1.0)]
            program += pulp.LpAffineExpression(terms) <= 0, f"spare_{name(pool.id)}"


def pool_max_load(program: pulp.LpProblem, data: ProgramData, v: Variables) -> None:
    """The operating point's load is not exceeded: sum of work * y <= max_load."""
    import pulp

    for pool in data.pools:
        if np.isfinite(pool.max_load):
            program += (
                pulp.LpAffineExpression(_load(data, v, pool)) <= pool.max_load,
                f"max_load_{name(pool.id)}",
            )


def pool_open(program: pulp.LpProblem, data: ProgramData, v: Variables) -> None:
    """A closed pool has no instances and an open one its least number: n_min u <= n <= n_max u."""
    for pool in data.pools:
        if pool.id in v.open:
            n, u = v.instances[pool.id], v.open[pool.id]
            program += n <= pool.max_instances * u, f"open_{name(pool.id)}"
            if pool.min_instances > 0:
                program += n >= pool.min_instances * u, f"least_{name(pool.id)}"


def one_shape(program: pulp.LpProblem, data: ProgramData, v: Variables) -> None:
    """Instances of one chip in one role at one site are alike: sum of u over the shapes <= 1."""
    import pulp

    for kind, shapes in _kinds(data).items():
        if len(shapes) > 1:
            program += pulp.lpSum(v.open[c.id] for c in shapes) <= 1, f"one_shape_{name(kind)}"


def line_capacity(program: pulp.LpProblem, data: ProgramData, v: Variables) -> None:
    """Transfers fit the line: sum of payload * y <= sum of (1 - margin) * capacity * t, in units of the thinnest."""
    import pulp

    for line in dict.fromkeys(route.line for route in data.routes if route.line is not None):
        thinnest = min((o.capacity_bytes_per_s for o in _options(data, line)), default=0.0)
        scale = 1.0 / (thinnest or GIGA)  # what the solver lets pass is a part of this, however thin the line
        terms = []
        for r, route in enumerate(data.routes):
            if route.line == line and route.payload_bytes is not None:
                terms += [(v.flow[r, k], float(route.payload_bytes[k]) * scale) for k in _classes(data, r)]
        terms += [(v.taken[o.id], -o.capacity_bytes_per_s * scale * (1.0 - LOAD_MARGIN)) for o in _options(data, line)]
        program += pulp.LpAffineExpression(terms) <= 0, f"line_{name(line)}"


def line_choice(program: pulp.LpProblem, data: ProgramData, v: Variables) -> None:
    """At most one tier and number per line: sum over o of t[o] <= 1; a way bound to options needs one of them."""
    import pulp

    for line in dict.fromkeys(option.line for option in data.lines):
        taken = pulp.lpSum(v.taken[o.id] for o in _options(data, line))
        program += taken <= 1, f"one_tier_{name(line)}"
    for r, route in enumerate(data.routes):
        if route.line is None:
            continue
        allowed = [o.id for o in _options(data, route.line) if route.options is None or o.id in route.options]
        flow = pulp.lpSum(v.flow[r, k] for k in _classes(data, r))
        program += (
            flow <= data.max_rate_rps * pulp.lpSum(v.taken[o] for o in allowed),
            f"needs_line_{name(route.id)}",
        )


def coverage(program: pulp.LpProblem, data: ProgramData, v: Variables) -> None:
    """Each promise holds for its share of the requests it is made to: sum of F[p,k] y[p,k] >= q w R."""
    import pulp

    for promise in data.promises:
        terms = [
            (v.flow[r, k], float(route.coverage[promise.name][k]))
            for r, route in enumerate(data.routes)
            for k in _classes(data, r)
        ]
        program += (
            pulp.LpAffineExpression([*terms, (v.rate, -promise.covered_share)]) >= 0,
            f"promise_{name(promise.name)}",
        )


def inventory(program: pulp.LpProblem, data: ProgramData, v: Variables) -> None:
    """A site holds no more chips of a kind than it has, nor the plan more than allowed in all."""
    for (site, chip), limit in data.chip_limits.items():
        held = chips_held(data, v, site=site, chip=chip)
        if held:
            program += held <= limit, f"inventory_{name(site)}_{name(chip)}"
    if data.max_chips is not None:
        program += chips_held(data, v) <= data.max_chips, "max_chips"


def owned_chips(program: pulp.LpProblem, data: ProgramData, v: Variables) -> None:
    """Credit is given for owned chips in use only: f[s,g] <= chips of that kind held."""
    import pulp

    for kind in data.owned:
        terms = [(v.owned[kind.site, kind.chip], 1.0)]
        for pool in data.pools:
            if (pool.site, pool.chip) == (kind.site, kind.chip):
                terms += [(variable, -kind.chips_held_per_chip * chips) for variable, chips in _chips(v, pool)]
        program += pulp.LpAffineExpression(terms) <= 0, f"owned_{name(kind.site)}_{name(kind.chip)}"


def power(program: pulp.LpProblem, data: ProgramData, v: Variables) -> None:
    """A site draws no more power than it is connected for."""
    for site, limit_kw in data.power_limits_kw.items():
        drawn = power_drawn(data, v, site)
        if drawn:
            program += drawn <= limit_kw, f"power_{name(site)}"


def budget(program: pulp.LpProblem, data: ProgramData, v: Variables) -> None:
    """The plan costs no more than the budget."""
    if data.budget is not None:
        program += cost_expression(data, v) <= data.budget / MONEY, "budget"


CONSTRAINTS: tuple[Callable[[pulp.LpProblem, ProgramData, Variables], None], ...] = (
    route_all,
    pool_capacity,
    pool_spare,
    pool_max_load,
    pool_open,
    one_shape,
    line_capacity,
    line_choice,
    coverage,
    inventory,
    owned_chips,
    power,
    budget,
)
"""Every constraint of the program, in the order of docs/milp.md; each has its LP golden."""


def name(text: str) -> str:
    """Turn an id into a name that LP files allow."""
    return re.sub(r"[^A-Za-z0-9_.]", "_", text)


def _variables(data: ProgramData) -> Variables:
    import pulp

    v = Variables(rate=pulp.LpVariable("R", data.min_rate_rps, data.max_rate_rps))
    for r, route in enumerate(data.routes):
        for k in _classes(data, r):
            v.flow[r, k] = pulp.LpVariable(f"y_{name(route.id)}_{k}", 0)
    kinds = _kinds(data)
    for pool in data.pools:
        gated = pool.spare_instances > 0 or pool.redundant_instances > 0 or pool.min_instances > 0
        gated = gated or len(kinds[pool.kind]) > 1
        v.instances[pool.id] = pulp.LpVariable(f"n_{name(pool.id)}", 0, pool.max_instances, cat=pulp.LpInteger)
        if gated:
            v.open[pool.id] = pulp.LpVariable(f"u_{name(pool.id)}", 0, 1, cat=pulp.LpInteger)
    for option in data.lines:
        v.taken[option.id] = pulp.LpVariable(f"t_{name(option.id)}", 0, 1, cat=pulp.LpInteger)
    for kind in data.owned:
        v.owned[kind.site, kind.chip] = pulp.LpVariable(f"f_{name(kind.site)}_{name(kind.chip)}", 0, kind.count)
    return v


def _kinds(data: ProgramData) -> dict[str, list[PoolOption]]:
    kinds: dict[str, list[PoolOption]] = {}
    for pool in data.pools:
        kinds.setdefault(pool.kind, []).append(pool)
    return kinds


def _classes(data: ProgramData, route: int) -> list[int]:
    allowed = data.routes[route].allowed
    return [k for k in range(data.weight.size) if allowed[k] > 0 and data.weight[k] > 0]


def _options(data: ProgramData, line: str | None) -> Sequence[LineOption]:
    return [option for option in data.lines if option.line == line]


def _load(data: ProgramData, v: Variables, pool: PoolOption) -> list[tuple[pulp.LpVariable, float]]:
    """Load of a pool in instances: sum of work * y."""
    terms = []
    for r, route in enumerate(data.routes):
        work = route.work.get(pool.id)
        if work is not None:
            terms += [(v.flow[r, k], float(work[k])) for k in _classes(data, r) if work[k] > 0]
    return terms


def _chips(v: Variables, pool: PoolOption) -> list[tuple[pulp.LpVariable, float]]:
    terms = [(v.instances[pool.id], float(pool.chips_per_instance))]
    if pool.redundant_instances:
        terms.append((v.open[pool.id], float(pool.redundant_instances * pool.chips_per_instance)))
    return terms
