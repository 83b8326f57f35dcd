"""``pddplan pareto --html``: the front as a drawing and its plans as a table, as one page."""

from __future__ import annotations

from pddplan.report import page
from pddplan.report.numbers import amount, count, seconds, short
from pddplan.report.page import text
from pddplan.report.page_charts import Axis, Line, Spot, chart
from pddplan.report.verdict import fleet_words
from pddplan.studies.pareto import Front


def page_of(found: Front) -> str:
    """The page."""
    points = found.points
    currency = points[0].outcome.cost.currency
    title = f"{found.y} against {found.x}"
    pays = f"{currency} a month" if found.x == "cost" else found.x
    x = Axis(pays, min(p.x for p in points), max(p.x for p in points), amount if found.x == "cost" else short)
    y = Axis(found.y, 0.0, max(p.y for p in points), seconds)
    spots = [Spot(p.x, p.y, str(number)) for number, p in enumerate(points, start=1)]
    drawn = chart([Line("plans", [(p.x, p.y) for p in points])], x=x, y=y, label=title, spots=spots)
    rows = [
        [
            number,
            amount(p.outcome.cost.monthly_total),
            count(sum(pool.chips for pool in p.outcome.plan.pools)),
            seconds(p.y),
            fleet_words(p.outcome),
        ]
        for number, p in enumerate(points, start=1)
    ]
    parts = [
        f"<h1>{text(title)}</h1>",
        f'<p class="soft">{text(points[0].outcome.plan.topology)}: {len(points)} plans of which none beats another in '
        f"both. One plan stands for each promise; nothing is said about promises in between.</p>",
        f"<figure>{drawn}</figure>",
        page.table(["plan", f"{currency}/month", "chips", found.y, "fleet"], rows, right=(0, 1, 2, 3)),
    ]
    if found.tightest is not None:
        parts.append(f'<p class="soft">No plan was found for {text(found.y)} of {seconds(found.tightest)} or less.</p>')
    return page.document(title, "\n".join(parts))
