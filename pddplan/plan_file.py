"""Plan files: the records that a plan was made from, kept beside its results so that it can be evaluated again.

``report.json_plan`` writes the file; this module says what ``record`` in it holds, and reads it back.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pddplan.domain.outcome import Outcome, SolverReport
from pddplan.domain.plan import Plan
from pddplan.errors import InputError, Problem, ProblemList
from pddplan.files import read_text
from pddplan.optimize.objective import Limits, Objective
from pddplan.record_check import check_records
from pddplan.records import from_plain, to_plain
from pddplan.sizing import Inputs

SCHEMA = "pddplan-plan/1"
MAX_PLAN_FILE_BYTES = 16_000_000


def record(
    inputs: Inputs, plan: Plan, *, objective: Objective | None = None, limits: Limits | None = None
) -> dict[str, Any]:
    """Plain data of everything needed to evaluate a plan again, and of what it was asked to be best at."""
    asked = {"objective": to_plain(objective), "limits": to_plain(limits)}
    return {"inputs": to_plain(inputs), "plan": to_plain(plan), "asked": asked}


def read_asked(path: str | Path) -> tuple[Objective | None, Limits | None]:
    """What the plan of a file was asked to be best at, within which limits; None where the file does not say.

    Raises:  InputError if it is no plan file, or a damaged one.
    """
    name = f"{path}: record.asked"
    kept = read_plan_json(path).get("record")
    asked = kept.get("asked") if isinstance(kept, Mapping) else None
    if asked is None:
        return None, None
    if not isinstance(asked, Mapping):
        raise _no_plan(name, "must be a mapping")
    objective = from_plain(Objective, asked["objective"], where=f"{name}.objective") if asked.get("objective") else None
    limits = from_plain(Limits, asked["limits"], where=f"{name}.limits") if asked.get("limits") else None
    for part in (objective, limits):
        if part is not None:
            part.check()
    return objective, limits


def read_proof(path: str | Path, outcome: Outcome) -> SolverReport | None:
    """What was proven of the plan of a file; None where nothing was, or the plan was changed since.

    Raises:  InputError if it is no plan file, or a damaged one.
    """
    data = read_plan_json(path)
    shown, kept = data.get("ttft_s"), data.get("solver")
    if kept is None or not isinstance(shown, Mapping):
        return None
    reached = {"p50": outcome.ttft.p50, "p90": outcome.ttft.p90, "p99": outcome.ttft.p99}
    same = all(_same(shown.get(name), value) for name, value in reached.items())
    return from_plain(SolverReport, kept, where=f"{path}: solver") if same else None


def read_plan_file(path: str | Path) -> tuple[Inputs, Plan]:
    """Records of a plan file.

    Raises:  InputError if it is no plan file, of another version, or damaged.
    """
    data = read_plan_json(path)
    name = str(path)
    kept = data.get("record")
    if not isinstance(kept, Mapping) or "inputs" not in kept or "plan" not in kept:
        raise _no_plan(name, "has no 'record' with 'inputs' and 'plan'")
    inputs = from_plain(Inputs, kept["inputs"], where=f"{name}: record.inputs")
    plan = from_plain(Plan, kept["plan"], where=f"{name}: record.plan")
    check_records(inputs, plan, where=f"{name}: record")
    _check(inputs, plan, data, name)
    return inputs, plan


def read_plan_json(path: str | Path) -> dict[str, Any]:
    """All keys of a plan file as plain data, checked for being one."""
    name = str(path)
    text = read_text(path, limit=MAX_PLAN_FILE_BYTES)
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(
            Problem(
                what=f"not valid JSON: {error.msg}",
                fix="give a file written by 'pddplan size --out'",
                where=f"{name}:{error.lineno}",
            )
        ) from None
    except (RecursionError, ValueError):
        raise _no_plan(name, "is nested too deeply or holds a number that is too long") from None
    if not isinstance(data, dict) or "schema" not in data:
        raise _no_plan(name, "is no plan file")
    if data["schema"] != SCHEMA:
        raise _no_plan(name, f"has schema {data['schema']!r}, this version reads {SCHEMA!r}")
    if data.get("status") == "infeasible":
        raise _no_plan(name, "holds no plan: the question was infeasible")
    return data


def _check(inputs: Inputs, plan: Plan, data: Mapping[str, Any], name: str) -> None:
    """Cross-checks that a hand-edited file may fail."""
    faults = ProblemList()
    where = f"{name}: record.plan"
    pools = {pool.id: pool for pool in plan.pools}
    for pool in plan.pools:
        if pool.site not in inputs.sites.sites:
            faults.add(f"pool {pool.id!r} stands at an unknown site {pool.site!r}", fix="name a site", where=where)
        if pool.chip not in inputs.chips or pool.chip not in inputs.efficiencies:
            faults.add(f"pool {pool.id!r} has an unknown chip {pool.chip!r}", fix="name a chip", where=where)
        if pool.instances < 0 or min(pool.shape.tp, pool.shape.pp, pool.shape.dp, pool.shape.ep) < 1:
            faults.add(f"pool {pool.id!r} has a negative count", fix="use counts from 0 (shape: from 1)", where=where)
    for path in plan.paths:
        for pool_id in (path.prefill, path.relay, path.decode):
            if pool_id is not None and pool_id not in pools:
                faults.add(f"path {path.id!r} uses an unknown pool {pool_id!r}", fix="name a pool", where=where)
        if path.line is not None and path.line not in inputs.sites.lines:
            faults.add(f"path {path.id!r} uses an unknown line {path.line!r}", fix="name a line", where=where)
    for taken in plan.lines:
        if taken.line not in inputs.sites.lines:
            faults.add(f"the plan takes an unknown line {taken.line!r}", fix="name a line", where=where)
    expected = (len(plan.paths), inputs.workload.classes.count)
    if plan.share.shape != expected or not np.all(np.isfinite(plan.share)) or np.any(plan.share < -1e-9):
        faults.add(f"shares must be {expected[0]} x {expected[1]} numbers from 0 up", fix="correct them", where=where)
    if not (math.isfinite(plan.rate_rps) and plan.rate_rps > 0):
        faults.add("rate_rps must be finite and above 0", fix="correct it", where=where)
    for what, shown, kept in _shown_twice(plan, data):
        faults.add(
            f"{what}: {shown!r} among the results but {kept!r} in 'record.plan'",
            fix="'record.plan' is what is evaluated: to try a change, make it there and delete the keys 'pools', "
            "'links' and 'rate_rps', which only show results",
            where=name,
        )
    faults.raise_if_any()


def _shown_twice(plan: Plan, data: Mapping[str, Any]) -> Iterator[tuple[str, object, object]]:
    """What the results of a file say of its plan otherwise than the record does: (what, result, record)."""
    pools = {pool.id: {"instances": pool.instances} for pool in plan.pools}
    lines = {taken.line: {"tier_gbps": taken.gbps, "count": taken.count} for taken in plan.lines}
    for key, kind, recorded in (("pools", "pool", pools), ("links", "line", lines)):
        listed = data.get(key)
        for shown in listed if isinstance(listed, list) else []:
            own = recorded.get(str(shown.get("id"))) if isinstance(shown, Mapping) else None
            for name, kept in (own or {}).items():
                if not _same(shown.get(name, kept), kept):
                    yield f"{name} of {kind} {shown['id']!r}", shown[name], kept
    rate = data.get("rate_rps", plan.rate_rps)
    if not _same(rate, plan.rate_rps):
        yield "rate_rps", rate, plan.rate_rps


def _same(shown: object, kept: float) -> bool:
    """Whether a result is the number of the record, which holds more digits."""
    return isinstance(shown, (int, float)) and math.isclose(shown, kept, rel_tol=1e-9)


def _no_plan(name: str, what: str) -> InputError:
    return InputError(Problem(what=what, fix="give a file written by 'pddplan size --out plan.json'", where=name))
