"""A plan as one self-contained page: verdict, drawing, latencies, costs, comparison, assumptions."""

from __future__ import annotations

from collections.abc import Sequence

from pddplan.domain.outcome import Outcome
from pddplan.domain.plan import Role
from pddplan.report import page
from pddplan.report.assumptions import of_plan, of_sites
from pddplan.report.cautions import asked_limits, cautions
from pddplan.report.html_studies import (
    bathtub_section,
    first_token_chart,
    sensitivity_section,
    simulation_section,
)
from pddplan.report.latencies import TOUCHING, latencies
from pddplan.report.legend import key, unit_price
from pddplan.report.line_loss import said as said_of_lost_lines
from pddplan.report.numbers import amount, count, money, percent, quantity, ratio, seconds, short
from pddplan.report.page import Arrow, Box, text
from pddplan.report.page_charts import Spot
from pddplan.report.proof import searched
from pddplan.report.verdict import (
    chips_in,
    chips_words,
    compare,
    is_aggregated,
    next_step,
    promises_made,
    second_site,
    shown_plans,
    unproven_baseline,
    weakest_basis,
    whole_instances,
)
from pddplan.sizing import Sizing
from pddplan.studies.in_full import Studies, studies_of
from pddplan.units import MONTHS_PER_YEAR


def render(sizing: Sizing, *, ttft_curve: Sequence[tuple[float, float]] = (), studies: Studies | None = None) -> str:
    """The page as text; ``ttft_curve`` holds (seconds, share of first tokens out by then)."""
    outcome, asked = sizing.outcome, studies or Studies()
    simulated = asked.simulated.ttft_curve if asked.simulated is not None else ()
    sections = [
        head(sizing),
        _section("Where everything stands", topology(outcome)),
        _section("Pools", pools(outcome)),
        _section("Time to first token", latency(sizing, ttft_curve, simulated)),
        _section("Closed form against simulation", simulation_section(outcome, asked.simulated)),
        _section("Cost", cost(outcome)),
        _section("Compared with", comparison(sizing)),
        _section("What binds", _binding(sizing)),
        _section("If one line is lost", "".join(f"<p>{text(one)}</p>" for one in said_of_lost_lines(sizing))),
        _section("What the hit rate is worth", bathtub_section(asked.bathtub)),
        _section("How sure", _certainty(sizing, asked.remarks)),
        _section("What matters most", sensitivity_section(asked.sure)),
        _section("Assumptions", _assumptions(sizing)),
    ]
    return page.document(f"Plan for {sizing.inputs.workload.name}", "\n".join(s for s in sections if s))


def page_of(sizing: Sizing, *, full: bool = False) -> str:
    """The page with its curve of first tokens; ``full`` also simulates, and asks for bathtub and sensitivity."""
    from pddplan import api

    curve = api.ttft_curve(sizing.inputs, sizing.outcome.plan, longest_s=longest_time_s(sizing))
    return render(sizing, ttft_curve=curve, studies=studies_of(sizing) if full else None)


def longest_time_s(sizing: Sizing) -> float:
    """How far the curve of first tokens must reach: past P99 and past every promise."""
    promised = list(sizing.inputs.workload.promises.ttft().values())
    p99 = sizing.outcome.ttft.p99
    finite = [value for value in (p99, *promised) if value < float("inf")]
    return 1.15 * max(finite, default=1.0)


def _section(title: str, content: str) -> str:
    return f"<section><h2>{text(title)}</h2>{content}</section>" if content else ""


def head(sizing: Sizing) -> str:
    """Verdict in words, and the numbers to be seen first."""
    outcome, inputs = sizing.outcome, sizing.inputs
    currency = outcome.cost.currency
    kept = outcome.keeps_promises
    within = "within all promises" if promises_made(sizing) else "with no promise to keep"
    words = (
        f"{chips_words(outcome, 'serve')} {short(outcome.plan.rate_rps)} requests per second {within}"
        if kept
        else "Promises broken: " + ", ".join(v.limit for v in outcome.violations)
    )
    cards = [
        page.card("cost a month", money(outcome.cost.monthly_total, currency)),
        page.card("BCR", ratio(outcome.bcr), f"req/s per 1,000 {currency} a month"),
        page.card("TTFT P50 / P90 / P99", " / ".join(seconds(t) for t in _three(outcome))),
        page.card(*_tpot(outcome)),
    ]
    base = sizing.baseline
    difference = compare(outcome, base) if base is not None and base is not outcome else None
    if difference is not None:
        tone = "good" if difference.wins else "" if difference.ties else "bad"
        gain = "the same" if difference.ties else percent(difference.bcr_gain, signed=True)
        saved = money(abs(difference.yearly_saving), currency)
        note = f"saves {saved} a year" if difference.wins else f"splitting this way loses: {saved} a year dearer"
        note = "splitting this way brings nothing" if difference.ties else note
        note = "nothing is split here" if is_aggregated(outcome) else note
        cards.insert(1, page.card("BCR against the aggregated baseline", gain, note, tone))
    names = f"{inputs.workload.name} · {inputs.llm.name} · {inputs.sites.name} · topology {outcome.plan.topology}"
    title = f'<h1 class="{"good" if kept else "bad"}">{text(words)}</h1>'
    said = " ".join(filter(None, (second_site(outcome, sizing.one_site), next_step(sizing))))
    title += "".join(f'<p class="bad">Caution: {text(word)}</p>' for word in cautions(sizing))
    title += "".join(f"<p>{text(word)}</p>" for word in (said, asked_limits(sizing)) if word)
    return f'<header>{title}<p class="soft">{text(names)}</p><div class="cards">{"".join(cards)}</div></header>'


def _three(outcome: Outcome) -> tuple[float, float, float]:
    return outcome.ttft.p50, outcome.ttft.p90, outcome.ttft.p99


def _tpot(outcome: Outcome) -> tuple[str, str]:
    if outcome.tpot is None:
        return "TPOT mean", seconds(outcome.tpot_s)
    return "TPOT P90", seconds(outcome.tpot.p90)


def topology(outcome: Outcome) -> str:
    """Where pools stand and what flows between them."""
    loads = {load.pool: load for load in outcome.pools}
    boxes = [
        Box(
            pool.site,
            str(pool.role),
            (
                f"{pool.role}  {pool.chip}",
                f"{count(pool.chips)} chips = {count(pool.instances)} × {pool.shape}",
                f"{percent(loads[pool.id].utilization)} busy" if pool.id in loads else "",
            ),
        )
        for pool in outcome.plan.pools
    ]
    number = {pool.id: index for index, pool in enumerate(outcome.plan.pools)}
    rates = {line.line: line for line in outcome.lines}
    shares: dict[tuple[int, int, str | None], float] = {}
    for path in outcome.plan.paths:
        share = outcome.path_share.get(path.id, 0.0)
        hops = [(path.prefill, path.relay, None), (path.prefill, path.decode, path.line)]
        for source, target, line in hops:
            if target is not None and share > 0:
                key = (number[source], number[target], line)
                shares[key] = shares.get(key, 0.0) + share
    arrows = []
    label: tuple[str, ...]
    for (start, end, over), share in shares.items():
        label = (f"{percent(share)} of requests",)
        if over is not None and over in rates:
            taken = rates[over]
            line_words = f"{taken.count} × {short(taken.gbps)} Gbit/s"
            label = (f"{percent(share)} over {over}", line_words, f"{percent(taken.utilization)} busy")
        arrows.append(Arrow(start, end, label, share))
    drawing = page.topology(boxes, arrows, label="Sites, pools, and the share of requests on each way")
    return f"<figure>{drawing}<figcaption>Lines are as thick as the share of requests.</figcaption></figure>"


def pools(outcome: Outcome) -> str:
    """One row per pool."""
    loads = {load.pool: load for load in outcome.pools}
    rows = []
    for pool in sorted(outcome.plan.pools, key=lambda p: list(Role).index(p.role)):
        load = loads.get(pool.id)
        cap = f"{short(load.batch)} of {quantity(load.batch_cap)}" if load and load.batch and load.batch_cap else ""
        chips = f"{count(pool.chips)} = {count(pool.instances)} × {pool.shape.chips}"
        wait = seconds(load.wait.p99) if load else ""
        busy = percent(load.utilization) if load else ""
        reason = (load.batch_cap_reason or "") if load else ""
        rows.append([pool.site, pool.role, pool.chip, chips, pool.shape, busy, cap, reason, wait])
    heads = ("site", "role", "chip", "chips = replicas × each", "shape", "busy", "batch", "capped by", "wait P99")
    return page.table(heads, rows, right=(3, 5, 6, 8)) + f'<p class="soft">{text(key(outcome))}</p>'


def latency(sizing: Sizing, pairs: Sequence[tuple[float, float]], simulated: Sequence[tuple[float, float]]) -> str:
    """Time to first token against the promises, with its curve where one is given."""
    outcome, promises = sizing.outcome, sizing.inputs.workload.promises
    predicted = {0.5: outcome.ttft.p50, 0.9: outcome.ttft.p90, 0.99: outcome.ttft.p99}
    spots = [
        Spot(
            limit,
            q,
            f"P{q * 100:g} promised {seconds(limit)}",
            "good" if predicted[q] <= limit * (1 + TOUCHING) else "bad",
        )
        for q, limit in promises.ttft().items()
    ]
    rows = [[row.name, seconds(row.predicted_s), seconds(row.promised_s), row.verdict] for row in latencies(sizing)]
    drawing = first_token_chart(pairs, simulated, spots=spots) if pairs else ""
    notes = "".join(f'<p class="soft">{text(n)}</p>' for n in outcome.notes if n.startswith("TTFT counts"))
    listing = page.table(("", "predicted", "promised", ""), rows, right=(1, 2))
    words = "Share of requests whose first token is out by then."
    words += " Dots are promises: the curve must pass above them." if spots else ""
    caption = f"<figcaption>{words}</figcaption>"
    return (f"<figure>{drawing}{caption}</figure>" if drawing else "") + listing + notes


def cost(outcome: Outcome) -> str:
    """What a month costs, item by item."""
    paid = outcome.cost
    total = paid.monthly_total
    before_credits = sum(max(i.monthly_cost, 0.0) for i in paid.items) or 1.0
    shares = [
        (f"{i.role} {i.item}", max(i.monthly_cost, 0.0) / before_credits, f"{amount(i.monthly_cost)} {paid.currency}")
        for i in paid.items
    ]
    rows = [
        [i.site, i.role, i.item, quantity(i.quantity), unit_price(i), amount(i.monthly_cost), i.source]
        for i in paid.items
    ]
    heads = ("site", "role", "item", "quantity", "unit price", f"{paid.currency} a month", "source")
    monthly, yearly = (f"{amount(value)} {paid.currency}" for value in (total, total * MONTHS_PER_YEAR))
    words = f"<p>{text(monthly)} a month, {text(yearly)} a year.</p>"
    drawing = page.bars(shares, label="Share of each item in the monthly cost")
    return f"{words}<figure>{drawing}</figure>{page.table(heads, rows, right=(3, 4, 5))}"


def comparison(sizing: Sizing) -> str:
    """The plan beside what it must be compared with."""
    plan = sizing.outcome
    columns = shown_plans(sizing)
    if len(columns) == 1:
        return "".join(f"<p>{text(remark)}</p>" for remark in sizing.remarks)
    currency = plan.cost.currency
    rows = [
        ["chips", *(count(chips_in(o)) for _, o in columns)],
        [f"{currency} a month", *(amount(o.cost.monthly_total) for _, o in columns)],
        [f"BCR [req/s per 1,000 {currency} a month]", *(ratio(o.bcr) for _, o in columns)],
        ["TTFT P90", *(seconds(o.ttft.p90) for _, o in columns)],
        ["TTFT P99", *(seconds(o.ttft.p99) for _, o in columns)],
    ]
    heads = ("", *(name for name, _ in columns))
    return page.table(heads, rows, right=range(1, len(heads)))


def _binding(sizing: Sizing) -> str:
    rows = [[b.limit, *_used(b.used, b.available, b.unit), b.marginal or ""] for b in sizing.outcome.binding]
    if not rows:
        said = whole_instances(sizing.outcome, sizing.limits)
        return f"<p>{_sentence(said)}</p>" if said else ""
    return page.table(("limit", "used", "available", "one more would"), rows, right=(1, 2))


def _used(used: float, available: float, unit: str) -> tuple[str, str]:
    if unit == "s":
        return seconds(used), seconds(available)
    if unit == "utilization":
        return percent(used), percent(available)
    return f"{quantity(used)} {unit}", f"{quantity(available)} {unit}"


def _certainty(sizing: Sizing, asked: Sequence[str]) -> str:
    outcome = sizing.outcome
    words = []
    weakest = weakest_basis(outcome)
    if weakest is not None:
        names = ", ".join(item.name for item in outcome.assumptions if item.basis == weakest)
        words.append(f"the weakest numbers are {weakest.label}: {names}")
    if outcome.solver is not None:
        words.append(searched(outcome.solver))
    words += filter(None, [unproven_baseline(sizing)])
    words += [n for n in outcome.notes if not n.startswith("TTFT counts")]
    words += [*sizing.remarks, *asked]
    return "".join(f"<p>{_sentence(word)}</p>" for word in words)


def _sentence(words: str) -> str:
    return text(words[:1].upper() + words[1:].rstrip(".") + ".")


def _assumptions(sizing: Sizing) -> str:
    rows = [[i.name, i.value, i.range, i.basis, i.source] for i in (*of_plan(sizing), *of_sites(sizing))]
    return page.table(("number", "value", "range", "basis", "source"), rows) if rows else ""
