"""A plan on the terminal, to be read in ten seconds: verdict first, assumptions last."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from pddplan.domain.outcome import Outcome, PoolLoad
from pddplan.domain.plan import Pool, Role
from pddplan.report.assumptions import of_plan
from pddplan.report.cautions import asked_limits, cautions
from pddplan.report.decisions import decided
from pddplan.report.latencies import Latency, latencies
from pddplan.report.legend import key, unit_price
from pddplan.report.line_loss import said as said_of_lost_lines
from pddplan.report.numbers import amount, bar, count, money, percent, plain_text, quantity, seconds, short
from pddplan.report.proof import searched
from pddplan.report.text_table import MAX_WIDTH, MIN_WIDTH, Column, Paint, paragraph, table
from pddplan.report.verdict import (
    bcr_words,
    chips_in,
    chips_words,
    compare,
    cost_of_line,
    cost_of_pool,
    is_aggregated,
    next_step,
    promises_made,
    second_site,
    unproven_baseline,
    weakest_basis,
    whole_instances,
)
from pddplan.sizing import Sizing
from pddplan.units import MONTHS_PER_YEAR

BAR_CELLS = 10
NOTABLE_HITS = 0.005
"""Below this share of input tokens in the cache there is nothing to lose by having none."""
ROLE_ORDER = (Role.AGGREGATED, Role.PREFILL, Role.RELAY, Role.DECODE)
_ASCII = str.maketrans({"█": "#", "░": ".", "×": "x", "→": ">", "·": "-", "…": "~"})


def render(
    sizing: Sizing, *, width: int, paint: Paint | None = None, ascii_only: bool = False, plan_file: str | None = None
) -> str:
    """The whole report as text, no line longer than ``width`` (kept within 60 and 200).

    ``plan_file`` is where the plan was written, for the commands to type next.
    """
    width = min(max(width, MIN_WIDTH), MAX_WIDTH)
    paint = paint or Paint()
    sections: list[Callable[[Sizing, int, Paint], list[str]]] = [
        _verdict,
        _moves,
        _pools,
        _lines,
        _routing,
        _decisions,
        _latency,
        _cost,
        _binding,
        _line_loss,
        _cold,
        partial(_certainty, plan_file=plan_file),
        _assumptions,
    ]
    blocks = [lines for section in sections if (lines := section(sizing, width, paint))]
    text = plain_text_lines("\n\n".join("\n".join(block) for block in blocks)) + "\n"
    return text.translate(_ASCII) if ascii_only else text


def plain_text_lines(text: str) -> str:
    """Strip control characters that came from names in input files; our own line breaks and colours stay."""
    return "\n".join("\x1b".join(plain_text(part) for part in line.split("\x1b")) for line in text.split("\n"))


def _verdict(sizing: Sizing, width: int, paint: Paint) -> list[str]:
    outcome = sizing.outcome
    workload = plain_text(sizing.inputs.workload.name)
    head = f"{workload} · {plain_text(sizing.inputs.llm.name)} · {plain_text(sizing.inputs.sites.name)}"
    lines = [paint.dim(line) for line in paragraph(head, width=width)]
    currency = outcome.cost.currency
    total = money(outcome.cost.monthly_total, currency)
    served = f"{short(outcome.plan.rate_rps)} req/s"
    if outcome.keeps_promises:
        within = "within all promises" if promises_made(sizing) else "with no promise to keep"
        what = f"PLAN ({outcome.plan.topology}): {chips_words(outcome, 'serve')} {served} {within}"
        lines += [paint.bold(line) for line in paragraph(f"{what}, for {total} a month.", width=width)]
    else:
        broken = ", ".join(v.limit for v in outcome.violations)
        what = f"PROMISES BROKEN ({broken}): {chips_words(outcome)} at {served}, for {total} a month."
        lines += [paint.bad(line) for line in paragraph(what, width=width)]
    bcr = bcr_words(outcome)
    tone = paint.good if _wins(sizing) else paint.warn
    lines += [tone(line) for line in paragraph(bcr + _against(sizing), width=width)]
    said = " ".join(filter(None, (second_site(outcome, sizing.one_site), next_step(sizing))))
    lines += [paint.warn(line) for text in cautions(sizing) for line in paragraph(f"CAUTION: {text}", width=width)]
    held = asked_limits(sizing)
    return lines + [line for text in (said, held) if text for line in paragraph(text, width=width)]


def _wins(sizing: Sizing) -> bool:
    comparison = compare(sizing.outcome, sizing.baseline) if sizing.baseline is not None else None
    return comparison is None or comparison.wins


def _against(sizing: Sizing) -> str:
    """Plan against the aggregated baseline, or why there is nothing to compare with."""
    outcome, base = sizing.outcome, sizing.baseline
    if base is None:
        return "; no aggregated baseline to compare with (see HOW SURE)." if sizing.remarks else "."
    if base is outcome:
        return "; this is the aggregated baseline itself."
    difference = compare(outcome, base)
    if is_aggregated(outcome):
        return "; it is an aggregated plan: no split that was looked at pays here."
    shown = f"aggregated baseline ({chips_words(base)}, {money(base.cost.monthly_total, base.cost.currency)})"
    if difference is None:
        return f"; the {shown} serves nothing within the promises."
    if difference.ties:
        return f", the same as the {shown}: splitting this way brings nothing."
    money_text = money(abs(difference.yearly_saving), outcome.cost.currency)
    if difference.wins:
        return f", {percent(difference.bcr_gain, signed=True)} over the {shown}: saves {money_text} a year."
    return (
        f", {percent(difference.bcr_gain, signed=True)} against the {shown}. SPLITTING THIS WAY LOSES: "
        f"it costs {money_text} a year more."
    )


def _moves(sizing: Sizing, width: int, paint: Paint) -> list[str]:
    if sizing.moves is None:
        return []
    if not sizing.moves:
        return [paint.bold("MOVES   none: the fleet stays as it is")]
    columns = [
        Column("", importance=0),
        Column("before", right=True, importance=0),
        Column("after", right=True, importance=0),
        Column("change", right=True, importance=0),
        Column("", importance=1),
    ]
    rows = [
        [plain_text(m.what), quantity(m.before), quantity(m.after), f"{m.after - m.before:+g}", m.unit]
        for m in sizing.moves
    ]
    return [paint.bold("MOVES   from the plan that was to be kept"), *table(columns, rows, width=width, paint=paint)]


def _pools(sizing: Sizing, width: int, paint: Paint) -> list[str]:
    outcome = sizing.outcome
    loads = {load.pool: load for load in outcome.pools}
    currency = outcome.cost.currency
    columns = [
        Column("site", importance=0),
        Column("role", importance=0),
        Column("chip", importance=0),
        Column("chips = replicas × each", right=True, importance=0),
        Column("shape", importance=3),
        Column("batch", right=True, importance=4),
        Column("busy", right=True, importance=0),
        Column("", importance=5),
        Column(f"{currency}/month", right=True, importance=2),
    ]
    rows = []
    for index, pool in sorted(enumerate(outcome.plan.pools), key=lambda pair: ROLE_ORDER.index(pair[1].role)):
        load = loads.get(pool.id)
        rows.append(
            [
                plain_text(pool.site),
                str(pool.role),
                plain_text(pool.chip),
                f"{count(pool.chips)} = {count(pool.instances)} × {pool.shape.chips}",
                str(pool.shape),
                _batch(pool, load),
                percent(load.utilization) if load else "-",
                bar(load.utilization, BAR_CELLS) if load else "",
                amount(cost_of_pool(outcome, index)),
            ]
        )
    ratio = _chip_ratio(outcome)
    title = f"POOLS{'   prefill : decode chips = ' + ratio if ratio else ''}"
    legend = [paint.dim(line) for line in paragraph(key(outcome), width=width)]
    return [paint.bold(title), *table(columns, rows, width=width, paint=paint), *legend]


def _batch(pool: Pool, load: PoolLoad | None) -> str:
    if load is None or load.batch is None:
        return ""
    cap = f" of {quantity(load.batch_cap)}" if load.batch_cap is not None else ""
    reason = f" ({load.batch_cap_reason})" if load.batch_cap_reason else ""
    return f"{short(load.batch)}{cap}{reason}"


def _chip_ratio(outcome: Outcome) -> str:
    prefill = chips_in(outcome, Role.PREFILL)
    decode = chips_in(outcome, Role.RELAY, Role.DECODE)
    return f"{count(prefill)} : {count(decode)} (1 : {short(decode / prefill)})" if prefill and decode else ""


def _lines(sizing: Sizing, width: int, paint: Paint) -> list[str]:
    outcome = sizing.outcome
    taken = [load for load in outcome.lines if load.count]
    if not taken:
        return []
    columns = [
        Column("line", importance=0),
        Column("taken [Gbit/s]", right=True, importance=0),
        Column("mean [Gbit/s]", right=True, importance=1),
        Column("busy", right=True, importance=0),
        Column("", importance=5),
        Column("transfer P50 / P90 / P99", right=True, importance=2),
        Column("limit", importance=4),
        Column(f"{outcome.cost.currency}/month", right=True, importance=1),
    ]
    rows = [
        [
            plain_text(load.line),
            f"{load.count} × {short(load.gbps)}",
            short(load.mean_gbps),
            percent(load.utilization),
            bar(load.utilization, BAR_CELLS),
            " / ".join(seconds(t) for t in (load.transfer.p50, load.transfer.p90, load.transfer.p99)),
            load.limit,
            amount(cost_of_line(outcome, load.line)),
        ]
        for load in taken
    ]
    return [paint.bold("LINE"), *table(columns, rows, width=width, paint=paint)]


def _routing(sizing: Sizing, width: int, paint: Paint) -> list[str]:
    outcome = sizing.outcome
    used = [path for path in outcome.plan.paths if outcome.path_share.get(path.id, 0.0) > 0]
    if not used:
        return []
    columns = [
        Column("path", importance=0),
        Column("through", importance=3),
        Column("requests", right=True, importance=0),
        Column("TTFT P50 / P90 / P99", right=True, importance=1),
    ]
    rows = []
    for path in sorted(used, key=lambda p: -outcome.path_share[p.id]):
        ttft = outcome.ttft_by_path.get(path.id)
        rows.append(
            [
                str(path.kind),
                _through(outcome, [path.prefill, path.relay, path.decode], path.line),
                percent(outcome.path_share[path.id]),
                " / ".join(seconds(t) for t in (ttft.p50, ttft.p90, ttft.p99)) if ttft else "-",
            ]
        )
    lines = [paint.bold("ROUTING"), *table(columns, rows, width=width, paint=paint)]
    if outcome.relay_token_share > 0:
        said = f"the relay writes {percent(outcome.relay_token_share)} of all output tokens"
        lines += paragraph(said, width=width)
    elif outcome.plan.topology == "pdd":
        lines += paragraph("no relay pool: at these transfer times it is not worth its chips", width=width)
    return lines


def _decisions(sizing: Sizing, width: int, paint: Paint) -> list[str]:
    """What a router and an engine must be told beside the counts: thresholds in tokens, batches."""
    said = decided(sizing.outcome, sizing.inputs.workload)
    lines = [line for text in said for line in paragraph(plain_text(text), width=width, indent="    ", first="  ")]
    return [paint.bold("TO CONFIGURE"), *lines] if lines else []


def _through(outcome: Outcome, pool_ids: Sequence[str | None], line: str | None) -> str:
    pools = [outcome.plan.pool(pool_id) for pool_id in pool_ids if pool_id]
    hops = " → ".join(f"{plain_text(pool.site)}/{plain_text(pool.chip)}" for pool in pools)
    return f"{hops} over {plain_text(line)}" if line else hops


def _latency(sizing: Sizing, width: int, paint: Paint) -> list[str]:
    outcome = sizing.outcome
    rows = [_latency_row(row) for row in latencies(sizing)]
    columns = [
        Column("", importance=0),
        Column("predicted", right=True, importance=0),
        Column("promised", right=True, importance=0),
        Column("used", right=True, importance=2),
        Column("", importance=3),
        Column("", importance=0),
    ]
    lines = [paint.bold("LATENCY"), *table(columns, rows, width=width, paint=paint)]
    for note in outcome.notes:
        if note.startswith("TTFT counts"):
            lines += [paint.dim(line) for line in paragraph(plain_text(note), width=width)]
    if outcome.worst_itl_s > 0:
        lines.append(paint.dim(f"worst gap between two tokens: {seconds(outcome.worst_itl_s)}"))
    return lines


def _latency_row(row: Latency) -> list[str]:
    name = plain_text(row.name)
    if row.promised_s is None:
        return [name, seconds(row.predicted_s), "-", "", "", ""]
    used = row.predicted_s / row.promised_s
    promised = seconds(row.promised_s)
    return [name, seconds(row.predicted_s), promised, percent(used), bar(used, 2 * BAR_CELLS), row.verdict]


def _cost(sizing: Sizing, width: int, paint: Paint) -> list[str]:
    cost = sizing.outcome.cost
    paid = sum(max(item.monthly_cost, 0.0) for item in cost.items)
    columns = [
        Column("cost item", importance=0),
        Column("site", importance=3),
        Column("role", importance=3),
        Column("quantity", right=True, importance=2),
        Column("unit price", right=True, importance=2),
        Column(f"{cost.currency}/month", right=True, importance=0),
        Column("share", right=True, importance=1),
    ]
    rows = [
        [
            plain_text(item.item),
            plain_text(item.site),
            item.role,
            quantity(item.quantity),
            unit_price(item),
            amount(item.monthly_cost),
            percent(item.monthly_cost / paid) if paid and item.monthly_cost >= 0 else "",
        ]
        for item in cost.items
    ]
    yearly = cost.monthly_total * MONTHS_PER_YEAR
    title = f"COST   {amount(cost.monthly_total)} {cost.currency} a month, {amount(yearly)} {cost.currency} a year"
    return [paint.bold(title), *table(columns, rows, width=width, paint=paint)]


def _binding(sizing: Sizing, width: int, paint: Paint) -> list[str]:
    lines = [paint.bold("WHAT BINDS")]
    if not sizing.outcome.binding:
        said = whole_instances(sizing.outcome, sizing.limits)
        return lines + paragraph(said, width=width, indent="    ", first="  ") if said else []
    for item in sizing.outcome.binding:
        if item.unit == "s":
            used = f"{seconds(item.used)} of {seconds(item.available)}"
        elif item.unit == "utilization":
            used = f"{percent(item.used)} busy"
        else:
            used = f"{quantity(item.used)} of {quantity(item.available)} {item.unit}"
        text = f"{plain_text(item.limit)}: {used}" + (f"; {plain_text(item.marginal)}" if item.marginal else "")
        lines += paragraph(text, width=width, indent="    ", first="  ")
    return lines


def _line_loss(sizing: Sizing, width: int, paint: Paint) -> list[str]:
    """Which promises hold with one line lost."""
    texts = said_of_lost_lines(sizing)
    lines = [line for text in texts for line in paragraph(plain_text(text), width=width, indent="    ", first="  ")]
    return [paint.bold("IF ONE LINE IS LOST"), *lines] if lines else []


def _cold(sizing: Sizing, width: int, paint: Paint) -> list[str]:
    """The plan at 0 % hit rate, because hit rates are assumptions until measured."""
    classes = sizing.inputs.workload.classes
    hit = 1 - classes.mean(classes.miss_prefill_tokens) / max(classes.mean(classes.input_tokens), 1.0)
    if hit < NOTABLE_HITS:
        return []
    lines = [paint.bold("IF NO TOKEN WERE CACHED")]
    lines += paragraph(f"planned with {percent(hit)} of input tokens found in the cache; with none:", width=width)
    cold = sizing.cold
    if cold is not None:
        factor = cold.cost.monthly_total / sizing.outcome.cost.monthly_total if sizing.outcome.cost.monthly_total else 0
        text = (
            f"{chips_words(cold)} for {money(cold.cost.monthly_total, cold.cost.currency)} a month "
            f"({short(factor)} times the cost) for the same rate and promises"
        )
        return lines + paragraph(text, width=width, indent="  ")
    remarks = [r for r in sizing.remarks if "0 % hit rate" in r]
    return [*lines, *(line for r in remarks for line in paragraph(r, width=width, indent="  "))] if remarks else []


def _certainty(sizing: Sizing, width: int, paint: Paint, *, plan_file: str | None = None) -> list[str]:
    outcome = sizing.outcome
    texts = []
    weakest = weakest_basis(outcome)
    if weakest is not None:
        names = [item.name for item in outcome.assumptions if item.basis == weakest]
        texts.append(f"weakest numbers are {weakest.label}: {', '.join(names)}")
    texts += [note for note in outcome.notes if not note.startswith("TTFT counts")]
    texts += [r for r in sizing.remarks if "0 % hit rate" not in r]
    if outcome.solver is not None:
        solver = outcome.solver
        texts.append(f"{searched(solver)}; {seconds(solver.seconds)}")
    texts += filter(None, [unproven_baseline(sizing)])
    name = plan_file or "plan.json"
    first = "" if plan_file else f"size again with --out {name}; then "
    texts.append(
        f"check it: {first}pddplan simulate {name} plays it under random load, and pddplan bcr sure --plan {name} "
        "shows what the assumptions below can do to cost and BCR"
    )
    lines = [paint.bold("HOW SURE")]
    for text in texts:
        lines += paragraph(plain_text(text), width=width, indent="    ", first="  ")
    return lines


def _assumptions(sizing: Sizing, width: int, paint: Paint) -> list[str]:
    items = of_plan(sizing)
    if not items:
        return []
    columns = [
        Column("assumption", importance=0),
        Column("value", right=True, importance=0),
        Column("range", importance=2),
        Column("basis", importance=1),
        Column("source", importance=3),
    ]
    rows = [[plain_text(cell) for cell in (i.name, i.value, i.range, i.basis, i.source)] for i in items]
    return [paint.bold("ASSUMPTIONS"), *table(columns, rows, width=width, paint=paint)]
