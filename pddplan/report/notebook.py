"""Plans in a notebook: the first part of the page as a fragment that leaves the notebook's own style alone."""

from __future__ import annotations

from pddplan.domain.outcome import Outcome
from pddplan.report import html
from pddplan.report.numbers import count, money, short
from pddplan.report.page import text
from pddplan.report.verdict import chips_in
from pddplan.sizing import Sizing

_STYLE = """
.pddplan { --ink:#1b1f24; --soft:#5b6570; --line:#d5dae0; --card:#f6f8fa; --a:#1f6feb; --b:#b35900; --c:#6f42c1;
  --good:#116329; --bad:#b42318; color: var(--ink); background: #fff; padding: 1rem; max-width: 64rem }
.pddplan .soft { color: var(--soft) } .pddplan .good { color: var(--good) } .pddplan .bad { color: var(--bad) }
.pddplan .cards { display: flex; flex-wrap: wrap; gap: .8rem; margin: .6rem 0 }
.pddplan .card { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: .5rem .9rem }
.pddplan .card b { display: block; font-size: 1.25rem } .pddplan figure { margin: 0 }
.pddplan svg { width: 100%; height: auto } .pddplan svg text { fill: var(--ink); font: 13px system-ui, sans-serif }
.pddplan svg .soft { fill: var(--soft) } .pddplan table { border-collapse: collapse }
.pddplan th, .pddplan td { padding: .2rem .6rem; border-bottom: 1px solid var(--line); text-align: left }
.pddplan td.n, .pddplan th.n { text-align: right; font-variant-numeric: tabular-nums }
"""


def sizing_html(sizing: Sizing) -> str:
    """Verdict, drawing, pools, latencies and what the plan is compared with."""
    return _fragment(
        html.head(sizing),
        html.topology(sizing.outcome),
        html.pools(sizing.outcome),
        html.latency(sizing, (), ()),
        html.comparison(sizing),
    )


def outcome_html(outcome: Outcome) -> str:
    """Whether the promises hold, drawing, pools and cost."""
    total = money(outcome.cost.monthly_total, outcome.cost.currency)
    kept = outcome.keeps_promises
    words = (
        f"{count(chips_in(outcome))} chips serve {short(outcome.plan.rate_rps)} requests per second for {total} a month"
        if kept
        else "Promises broken: " + ", ".join(violation.limit for violation in outcome.violations)
    )
    title = f'<p class="{"good" if kept else "bad"}"><b>{text(words)}</b></p>'
    return _fragment(title, html.topology(outcome), html.pools(outcome), html.cost(outcome))


def _fragment(*parts: str) -> str:
    return f'<div class="pddplan"><style>{_STYLE}</style>{"".join(parts)}</div>'
