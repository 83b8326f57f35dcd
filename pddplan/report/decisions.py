"""The routing of a plan as rules that a router can follow: thresholds in tokens, read off the shares."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pddplan.domain.outcome import Outcome
from pddplan.domain.plan import Path, PathKind, Plan
from pddplan.domain.workload import Array, RequestClasses, Workload
from pddplan.report.numbers import NO_SHARE, count, percent, quantity

MOST_WRONG = 0.1
"""A threshold is named when it sends at most this part of the fewer requests the other way than the plan."""
QUANTITIES = {
    "to prefill": "miss_prefill_tokens",
    "to transfer": "miss_decode_tokens",
    "of input": "input_tokens",
    "of answer": "output_tokens",
}


@dataclass(frozen=True, slots=True)
class Rule:
    """Requests from a number of tokens on go one way, the others another."""

    about: str
    """``relay``, ``odd traffic``, ``offload``, or ``way`` for the choice among ways of one kind."""
    share: float
    """Of all requests that go this way."""
    tokens: str | None
    """Which tokens decide (``to transfer``); None = no single threshold does."""
    at_least: float | None
    at_most: float | None = None
    """For odd traffic: tokens of answer."""
    matches: float = 1.0
    """Share of the requests that the rule sends where the plan sends them."""
    way: str = ""
    """Where they go, for the choice among ways of one kind."""

    def __str__(self) -> str:
        return _WORDS[self.about](self)


def _threshold(rule: Rule) -> str:
    if rule.tokens is None or rule.at_least is None:
        return f"{percent(rule.share)} of requests, by no single threshold in tokens,"
    exact = "" if rule.matches >= 1 - 1e-3 else f"; the rule sends {percent(rule.matches)} as the plan does"
    return f"requests with {count(rule.at_least)} tokens or more {rule.tokens} ({percent(rule.share)} of all{exact})"


_WORDS = {
    "relay": lambda r: f"relay: {_threshold(r)} start on the relay, the others go straight to main decode",
    "offload": lambda r: f"offload: {_threshold(r)} are prefilled at another site than they are decoded at",
    "way": lambda r: f"way: {_threshold(r)} take {r.way}",
    "odd traffic": lambda r: (
        f"odd traffic: requests with {count(r.at_least or 0)} tokens or more to transfer and at most "
        f"{count(r.at_most or 0)} of answer ({percent(r.share)} of all) end on the relay"
    ),
}


def rules(plan: Plan, workload: Workload) -> tuple[Rule, ...]:
    """What decides which way a request goes, where ways differ."""
    classes = workload.classes
    relayed = [path.kind is PathKind.P_RLD_MD for path in plan.paths]
    crossing = [path.line is not None for path in plan.paths]
    found = [
        _rule("relay", relayed, _across(plan.paths), plan, classes, prefer="to transfer"),
        _odd(plan, workload),
        _rule("offload", crossing, [True] * len(plan.paths), plan, classes, prefer="to prefill"),
        *_ways(plan, classes),
    ]
    return tuple(rule for rule in found if rule is not None)


def _ways(plan: Plan, classes: RequestClasses) -> Iterator[Rule | None]:
    """Who takes which of several ways of one kind (two lines, two kinds of chips); the commonest is left unsaid."""
    part = {path.id: float(classes.weight @ row) for path, row in zip(plan.paths, plan.share, strict=True)}
    kinds = {path.id: (path.kind, path.line is None) for path in plan.paths if part[path.id] > NO_SHARE}
    for kind in dict.fromkeys(kinds.values()):
        alike = [path for path in plan.paths if kinds.get(path.id) == kind]
        among = [path in alike for path in plan.paths]
        for path in sorted(alike, key=lambda one: -part[one.id])[1:]:
            found = _rule("way", [one is path for one in plan.paths], among, plan, classes, prefer="to prefill")
            yield replace(found, way=_way(plan, path)) if found is not None else None


def _way(plan: Plan, path: Path) -> str:
    pools = [plan.pool(pool) for pool in (path.prefill, path.relay, path.decode) if pool is not None]
    over = f" over {path.line}" if path.line is not None else ""
    return f"{' → '.join(f'{pool.site}/{pool.chip}' for pool in pools)}{over}"


def _across(paths: Sequence[Path]) -> list[bool]:
    return [path.line is not None and path.kind is not PathKind.P_RLD for path in paths]


def _rule(
    about: str, chosen: list[bool], among: list[bool], plan: Plan, classes: RequestClasses, *, prefer: str
) -> Rule | None:
    """The threshold behind a choice among some of the paths; None where all requests go one way."""
    this = np.array(chosen) & np.array(among)
    share = np.asarray(plan.share[this].sum(axis=0))
    other = np.asarray(plan.share[np.array(among) & ~this].sum(axis=0))
    part, rest = float(classes.weight @ share), float(classes.weight @ other)
    if part <= 0 or rest <= 0:
        return None
    names = sorted(QUANTITIES, key=lambda name: name != prefer)  # of thresholds that tell as much, the telling one
    splits = [_split(classes, name, share, other) for name in names]
    matches, tokens, at_least = max(splits, key=lambda split: split[0])
    if (1.0 - matches) * (part + rest) > MOST_WRONG * min(part, rest):
        return Rule(about, part, None, None, matches=matches)
    return Rule(about, part, tokens, at_least, matches=matches)


def _split(classes: RequestClasses, tokens: str, share: Array, other: Array) -> tuple[float, str, float]:
    """How well a threshold on one quantity tells the two ways apart, and the best threshold.

    Of a class that both ways share, the larger requests are taken to go this way: the threshold lies inside it.
    """
    values = getattr(classes, QUANTITIES[tokens])
    order = np.argsort(values, kind="stable")
    value, here, there = values[order], (classes.weight * share)[order], (classes.weight * other)[order]
    levels, first = np.unique(value, return_index=True)
    if levels.size == 1:
        return 0.0, tokens, float(levels[0])
    mine, theirs = np.add.reduceat(here, first), np.add.reduceat(there, first)
    # below level k all go the other way, above it all this way, and level k itself is divided as the plan divides it
    below, above = np.cumsum(theirs) - theirs, np.cumsum(mine[::-1])[::-1] - mine
    right = below + above + mine + theirs
    at = int(np.argmax(right))
    low = 0.5 * (levels[at - 1] + levels[at]) if at > 0 else levels[at]
    high = 0.5 * (levels[at] + levels[at + 1]) if at + 1 < levels.size else levels[at]
    inside = float(mine[at] / (mine[at] + theirs[at])) if mine[at] + theirs[at] > 0 else 0.0
    return float(right[at] / (mine.sum() + theirs.sum())), tokens, float(high - inside * (high - low))


def _odd(plan: Plan, workload: Workload) -> Rule | None:
    """The cut of what ends on the relay: the smallest transfer and the longest answer among it."""
    ended = np.array([path.kind is PathKind.P_RLD for path in plan.paths])
    share = np.asarray(plan.share[ended].sum(axis=0))
    classes = workload.classes
    part = float(classes.weight @ share)
    if part <= 0:
        return None
    taken = (share > 0) & (classes.weight > 0)
    return Rule(
        "odd traffic",
        part,
        "to transfer",
        max(float(classes.miss_decode_tokens[taken].min()), workload.odd_traffic.min_transfer_tokens),
        min(float(classes.output_tokens[taken].max()), workload.odd_traffic.max_output_tokens),
    )


def decided(outcome: Outcome, workload: Workload) -> list[str]:
    """Every decision that the tables of a plan do not spell out, in words."""
    said = [str(rule) for rule in rules(outcome.plan, workload)]
    for load in outcome.pools:
        if load.batch is not None and load.batch_cap is not None:
            pool = outcome.plan.pool(load.pool)
            said.append(
                f"batch: {pool.role.value} at {pool.site} is operated at up to {quantity(load.batch_cap)} sequences "
                f"per replica, {quantity(round(load.batch))} on average"
            )
    return said


def rules_json(plan: Plan, workload: Workload) -> list[dict[str, Any]]:
    """The rules as plain data."""
    return [
        {
            "about": rule.about,
            "share": rule.share,
            "tokens": rule.tokens,
            "at_least": rule.at_least,
            "at_most_answer_tokens": rule.at_most,
            "matches": rule.matches,
            "way": rule.way or None,
        }
        for rule in rules(plan, workload)
    ]
