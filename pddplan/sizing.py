"""A sizing question and its answer as records: what ``api`` builds and every renderer reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module

from pddplan.domain.chip import Chip
from pddplan.domain.llm import Llm
from pddplan.domain.outcome import Outcome
from pddplan.domain.sites import Sites
from pddplan.domain.workload import Workload
from pddplan.evaluate.line_loss import LineLoss
from pddplan.evaluate.settings import Settings
from pddplan.optimize.changes import Move
from pddplan.optimize.objective import Limits, Objective
from pddplan.performance.efficiency import Efficiency
from pddplan.profiles.latency_table import LatencyTable


@dataclass(frozen=True, slots=True)
class Inputs:
    """All records a plan depends on; kept inside a plan file, so that it can be evaluated again anywhere."""

    workload: Workload
    sites: Sites
    chips: Mapping[str, Chip]
    llm: Llm
    efficiencies: Mapping[str, Efficiency]
    """Per chip: what the serving stack makes of it."""
    settings: Settings
    tables: tuple[LatencyTable, ...] = ()
    """Measured latency tables of this model on these chips; they stand in for the closed form."""
    weights_dtype: str | None = None
    kv_dtype: str | None = None
    speculation_depth: int = 0
    """Draft tokens per step (MTP); 0 = off."""


@dataclass(frozen=True, slots=True, eq=False)
class Sizing:
    """Answer to a sizing question: the plan, beside what it must be compared with."""

    inputs: Inputs
    topology: str
    outcome: Outcome
    baseline: Outcome | None = None
    """The best aggregated plan of the same rate under the same promises."""
    one_site: Outcome | None = None
    """The best split plan of the same rate without a leased line, for plans that take one."""
    cold: Outcome | None = None
    """The best plan of the same rate if no token were ever found in a cache."""
    objective: Objective | None = None
    limits: Limits | None = None
    """What the plan was asked to be best at, and within which limits; None = not known (a plan made by hand)."""
    moves: tuple[Move, ...] | None = None
    """What to change on the way from the plan that was to be kept; None = there was none."""
    line_losses: tuple[LineLoss, ...] = ()
    """Which promises hold with one line lost, for each bundle of lines."""
    remarks: tuple[str, ...] = ()
    """Why a comparison is missing, and other things to know."""
    timings_s: Mapping[str, float] = field(default_factory=dict)

    def _repr_html_(self) -> str:
        """What a notebook shows. The report layer stands above this one, so it is looked up when it is asked for."""
        return str(import_module("pddplan.report.notebook").sizing_html(self))
