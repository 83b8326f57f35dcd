"""A plan as JSON: results for other programs, and under ``record`` everything needed to evaluate it again.

``pddplan size --json`` prints what ``--out`` writes. The keys are those of docs/json.md; ``schema`` names their
version.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pddplan import __version__
from pddplan.domain.outcome import Outcome, Percentiles
from pddplan.domain.plan import Role
from pddplan.domain.workload import Promises
from pddplan.errors import InfeasibleError
from pddplan.files import write_atomically
from pddplan.plan_file import SCHEMA, record
from pddplan.records import to_plain
from pddplan.report.cautions import cautions
from pddplan.report.decisions import rules_json
from pddplan.report.line_loss import line_loss_json
from pddplan.report.numbers import exported
from pddplan.report.verdict import chips_in, compare
from pddplan.sizing import Inputs, Sizing

_PROVEN_GAP = 1e-3


def plan_json(sizing: Sizing) -> dict[str, Any]:
    """Plain data of an answered question."""
    outcome = sizing.outcome
    data: dict[str, Any] = {
        "schema": SCHEMA,
        "pddplan_version": __version__,
        "status": _status(outcome),
        "workload": sizing.inputs.workload.name,
        "model": sizing.inputs.llm.id,
        "sites": sizing.inputs.sites.name,
        **outcome_json(outcome, sizing.inputs),
        "promises": promises_json(sizing.inputs.workload.promises),
        "comparison": {
            "baseline": _other(outcome, sizing.baseline),
            "one_site": _other(outcome, sizing.one_site),
            "at_zero_hit_rate": _other(outcome, sizing.cold),
        },
        "line_loss": line_loss_json(sizing),
        "moves": None if sizing.moves is None else to_plain(sizing.moves),
        "remarks": [*cautions(sizing), *sizing.remarks],
        "record": record(sizing.inputs, outcome.plan, objective=sizing.objective, limits=sizing.limits),
    }
    return {key: finite(value, exact=key == "record") for key, value in data.items()}


def outcome_json(outcome: Outcome, inputs: Inputs) -> dict[str, Any]:
    """The keys that describe one evaluated plan."""
    plan = outcome.plan
    loads = {load.pool: load for load in outcome.pools}
    lines = inputs.sites.lines
    solver = outcome.solver
    return {
        "topology": plan.topology,
        "rate_rps": plan.rate_rps,
        "goodput_rps": outcome.goodput_rps,
        "bcr": outcome.bcr,
        "bcr_unit": f"req/s per 1,000 {outcome.cost.currency} a month",
        "cost": to_plain(outcome.cost),
        "chips": {
            "total": chips_in(outcome),
            "prefill": chips_in(outcome, Role.PREFILL),
            "decode": chips_in(outcome, Role.RELAY, Role.DECODE),
        },
        "pools": [
            {
                "id": pool.id,
                "site": pool.site,
                "role": str(pool.role),
                "chip": pool.chip,
                "shape": str(pool.shape),
                "instances": pool.instances,
                "chips_per_instance": pool.shape.chips,
                "gpus": pool.chips,
                "utilization": loads[pool.id].utilization if pool.id in loads else None,
                "batch": loads[pool.id].batch if pool.id in loads else None,
                "batch_cap": loads[pool.id].batch_cap if pool.id in loads else None,
                "batch_cap_reason": loads[pool.id].batch_cap_reason if pool.id in loads else None,
                "step_s": loads[pool.id].step_s if pool.id in loads else None,
                "wait_s": _percentiles(loads[pool.id].wait) if pool.id in loads else None,
            }
            for pool in plan.pools
        ],
        "links": [
            {
                "id": load.line,
                "from": lines[load.line].from_site if load.line in lines else None,
                "to": lines[load.line].to_site if load.line in lines else None,
                "gbps": load.gbps * load.count,
                "tier_gbps": load.gbps,
                "count": load.count,
                "monthly_cost": math.fsum(
                    item.monthly_cost
                    for item in outcome.cost.items
                    if item.role == "line" and item.item.split(":")[0] == load.line
                ),
                "utilization": load.utilization,
                "mean_gbps": load.mean_gbps,
                "limit": load.limit,
                "transfer_s": _percentiles(load.transfer),
            }
            for load in outcome.lines
        ],
        "routing": [
            {
                "path": str(path.kind),
                "id": path.id,
                "share": outcome.path_share.get(path.id, 0.0),
                "prefill": path.prefill,
                "relay": path.relay,
                "decode": path.decode,
                "line": path.line,
                "ttft_s": _percentiles(outcome.ttft_by_path.get(path.id)),
            }
            for path in plan.paths
        ],
        "rules": rules_json(plan, inputs.workload),
        "ttft_s": _percentiles(outcome.ttft),
        "e2e_s": _percentiles(outcome.e2e),
        "by_class": {
            name: {
                "ttft_s": _percentiles(met.ttft),
                "tpot_s": _percentiles(met.tpot),
                "e2e_s": _percentiles(met.e2e),
            }
            for name, met in outcome.by_class.items()
        },
        "tpot_s": outcome.tpot_s,
        "tpot_percentiles_s": _percentiles(outcome.tpot) if outcome.tpot is not None else None,
        "worst_itl_s": outcome.worst_itl_s,
        "rld_token_share": outcome.relay_token_share,
        "wan_gbps": math.fsum(load.mean_gbps for load in outcome.lines),
        "solver": to_plain(solver) if solver is not None else None,
        "binding": to_plain(outcome.binding),
        "violations": to_plain(outcome.violations),
        "assumptions": [{**to_plain(item), "basis": item.basis.label} for item in outcome.assumptions],
        "notes": list(outcome.notes),
    }


def promises_json(promises: Promises) -> dict[str, Any]:
    """The promises made, by field; those to single traffic classes under ``by_class``."""
    data: dict[str, Any] = {}
    for promise in promises.made():
        place = data.setdefault("by_class", {}).setdefault(promise.group, {}) if promise.group else data
        place[promise.kind.field] = promise.limit_s
    return data


def plan_file_text(sizing: Sizing) -> str:
    """The text of a plan file."""
    return dump_json(plan_json(sizing))


def save_plan(sizing: Sizing, path: str | Path) -> None:
    """Write a plan file: results for other programs, and all records to evaluate the plan again."""
    write_atomically(path, plan_file_text(sizing))


def infeasible_json(error: InfeasibleError) -> dict[str, Any]:
    """What ``--json`` prints when no plan keeps the promises (exit code 3)."""
    return {
        "schema": SCHEMA,
        "pddplan_version": __version__,
        "status": "infeasible",
        "message": error.what,
        "conflicts": list(error.conflicts),
        "relaxations": finite(to_plain(error.relaxations)),
        "joint_relaxations": finite(to_plain(error.joint)),
    }


def dump_json(data: Mapping[str, Any]) -> str:
    """JSON text that any reader accepts: no NaN, no Infinity; ends with a line break."""
    return json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


# -- helpers ------------------------------------------------------------------------------------------------------


def _status(outcome: Outcome) -> str:
    if outcome.violations:
        return "promises broken"
    if outcome.solver is None:
        return "evaluated"
    return "optimal" if outcome.solver.gap <= _PROVEN_GAP else "feasible"


def _other(plan: Outcome, other: Outcome | None) -> dict[str, Any] | None:
    if other is None:
        return None
    difference = compare(plan, other)
    return {
        "topology": other.plan.topology,
        "goodput_rps": other.goodput_rps,
        "bcr": other.bcr,
        "monthly_total": other.cost.monthly_total,
        "gpus": chips_in(other),
        "ttft_s": _percentiles(other.ttft),
        "bcr_gain": difference.bcr_gain if difference else None,
        "yearly_saving": difference.yearly_saving if difference else None,
    }


def _percentiles(values: Percentiles | None) -> dict[str, float] | None:
    return None if values is None else {"p50": values.p50, "p90": values.p90, "p99": values.p99, "mean": values.mean}


def finite(value: Any, *, exact: bool = False) -> Any:
    """Replace numbers that JSON does not know by null, and -0.0 by 0; numbers as files hold them, or ``exact`` ones."""
    if isinstance(value, float):
        return None if not math.isfinite(value) else value + 0.0 if exact else exported(value)
    if isinstance(value, Mapping):
        return {key: finite(item, exact=exact) for key, item in value.items()}
    return [finite(item, exact=exact) for item in value] if isinstance(value, (list, tuple)) else value
