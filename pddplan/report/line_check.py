"""``pddplan wan check`` as text, JSON and CSV."""

from __future__ import annotations

import csv
import io
import math
from typing import Any

import numpy as np

from pddplan.domain.outcome import Percentiles
from pddplan.evaluate.line_check import HANDOVER_TOKENS, LineCheck, TierCheck
from pddplan.report.numbers import finite_or_none, money, percent, plain_text, seconds, short
from pddplan.report.text_table import Column, Paint, paragraph, table
from pddplan.units import GIGA, KILO, MEGA, gbps_to_bytes_per_s

MOST_CLASSES = 12
"""Rows by class on the terminal; all of them are in JSON and CSV."""
COLUMNS = (
    "table",
    "row",
    "share",
    "input_tokens",
    "sent_tokens",
    "payload_bytes",
    "gbps",
    "usable_gbps",
    "transfer_gbps",
    "limit",
    "lines",
    "mean_utilization",
    "peak_utilization",
    "one_line_down_utilization",
    "feasible",
    "largest_rps",
    "transfer_p50_s",
    "transfer_p90_s",
    "transfer_p99_s",
    "monthly_cost",
    "currency",
)


def render_line_check(check: LineCheck, *, width: int, paint: Paint | None = None) -> str:
    """The check on a terminal: verdict first, what was assumed last."""
    paint = paint or Paint()
    blocks = [
        _verdict(check, width, paint),
        _bytes(check, width),
        _tiers(check, width, paint),
        _classes(check, width, paint),
        _hit_rates(check, width, paint),
        _remarks(check, width),
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _verdict(check: LineCheck, width: int, paint: Paint) -> list[str]:
    line = check.line
    where = f"{plain_text(line.from_site)} to {plain_text(line.to_site)}"
    head = f"{plain_text(check.workload)} · {plain_text(check.llm)} · line {plain_text(line.id)} ({where})"
    lines = [paint.dim(row) for row in paragraph(head, width=width)]
    chosen = check.chosen
    if chosen is None:
        return lines + paragraph("The line has no tier: add tiers to the sites file, or ask with --link.", width=width)
    need = f"KV needs {short(check.mean_gbps)} Gbit/s on average, {short(check.peak_gbps)} at peak"
    with_cache = "with the decode-side cache (DRC)" if check.drc else "without decode-side cache (all input crosses)"
    lines_up = f"{chosen.count} x {chosen.gbps:g} Gbit/s" if chosen.count > 1 else f"{chosen.gbps:g} Gbit/s"
    if chosen.feasible:
        said = f"{lines_up} CARRIES IT at {percent(chosen.peak_utilization)} peak utilisation"
        tone = paint.good
    else:
        peak = percent(chosen.peak_utilization)
        said = f"{lines_up} DOES NOT CARRY IT: {peak} at peak, {percent(check.ceiling)} allowed"
        tone = paint.bad
    text = f"{said}. {need}, {with_cache}, at {short(check.rate_rps)} req/s; it can carry "
    text += f"{short(chosen.largest_rps)} req/s within {percent(check.ceiling)} of the line. "
    text += (
        f"A transfer takes {_times(chosen.transfer)} (P50 / P90 / P99)."
        if math.isfinite(chosen.transfer.p99)
        else "Transfers would never end."
    )
    return lines + [tone(row) for row in paragraph(text, width=width)]


def _bytes(check: LineCheck, width: int) -> list[str]:
    fixed = f" + {_bytes_text(check.fixed_bytes)} per request that no cache saves" if check.fixed_bytes > 0 else ""
    said = f"KV: {short(check.growing_bytes_per_token / KILO)} KB per token{fixed}; mean payload "
    said += f"{_bytes_text(check.payload_mean_bytes)}."
    cut = f"DRC: {_times_fewer(check.growing_cut)} fewer growing bytes"
    if check.fixed_bytes > 0:
        cut += f", {_times_fewer(check.whole_cut)} with windows and state"
    cut += f"; without it {short(check.peak_gbps_without_drc)} Gbit/s at peak."
    effect = [
        f"TTFT {name}: a transfer takes {seconds(taken)}, {percent(taken / limit)} of the {seconds(limit)} promised "
        "(on P-MD; a relay hides it)."
        for name, limit, taken in check.ttft_promises_s
        if math.isfinite(taken)
    ]
    ids = (
        f"Hand-over of {HANDOVER_TOKENS:.0f} tokens from a relay to main decode: as token IDs "
        f"{_bytes_text(check.handover_ids_bytes)}, {seconds(check.handover_ids_s)} and one decode step that makes "
        f"their KV anew; as KV {_bytes_text(check.handover_kv_bytes)}, {_times(check.handover_kv)} "
        "(P50 / P90 / P99) on the line, and a copy into the device on top."
    )
    return [row for text in (said, cut, ids, *effect) for row in paragraph(text, width=width)]


def _tiers(check: LineCheck, width: int, paint: Paint) -> list[str]:
    columns = [
        Column("tier Gbit/s", right=True, importance=0),
        Column("usable", right=True, importance=3),
        Column("one transfer", right=True, importance=2),
        Column("bound by", importance=4),
        Column("mean", right=True, importance=3),
        Column("peak", right=True, importance=0),
        Column("one down", right=True, importance=2),
        Column("verdict", importance=0),
        Column("max req/s", right=True, importance=1),
        Column("P50", right=True, importance=3),
        Column("P90", right=True, importance=2),
        Column("P99", right=True, importance=0),
        Column("a month", right=True, importance=1),
    ]
    rows = [
        [
            f"{tier.count} x {tier.gbps:g}" if tier.count > 1 else f"{tier.gbps:g}",
            short(tier.usable_gbps),
            short(tier.transfer_gbps),
            tier.limit,
            percent(tier.mean_utilization),
            percent(tier.peak_utilization),
            percent(tier.one_down_utilization) if tier.count > 1 else "-",
            "carries it" if tier.feasible else "full" if tier.peak_utilization >= 1 else "too full",
            short(tier.largest_rps),
            *(seconds(value) for value in (tier.transfer.p50, tier.transfer.p90, tier.transfer.p99)),
            money(tier.monthly_cost, tier.currency) if math.isfinite(tier.monthly_cost) else "no price",
        ]
        for tier in check.tiers
    ]
    if all(tier.count == 1 for tier in check.tiers):
        columns.pop(6)
        rows = [row[:6] + row[7:] for row in rows]
    return table(columns, rows, width=width, paint=paint)


def _classes(check: LineCheck, width: int, paint: Paint) -> list[str]:
    classes, chosen = check.classes, check.chosen
    columns = [
        Column("request class", importance=0),
        Column("share", right=True, importance=0),
        Column("input tokens", right=True, importance=2),
        Column("sent tokens", right=True, importance=0),
        Column("payload", right=True, importance=0),
        Column("alone on the line", right=True, importance=1),
    ]
    order = np.argsort(-classes.weight * check.payload_bytes, kind="stable")
    kept = np.sort(order[:MOST_CLASSES])
    rate = gbps_to_bytes_per_s(chosen.transfer_gbps) if chosen is not None else math.inf
    rows = [
        [
            plain_text(classes.label[k]) if classes.label else f"class {k + 1}",
            percent(float(classes.weight[k])),
            f"{classes.input_tokens[k]:,.0f}",
            f"{check.sent_tokens[k]:,.0f}",
            _bytes_text(float(check.payload_bytes[k])),
            seconds(float(check.payload_bytes[k]) / rate),
        ]
        for k in kept
    ]
    shown = table(columns, rows, width=width, paint=paint)
    left = classes.count - len(rows)
    return shown + ([f"({left} more classes, with fewer bytes: see --json or --csv)"] if left > 0 else [])


def _hit_rates(check: LineCheck, width: int, paint: Paint) -> list[str]:
    if check.chosen is None:
        return []
    columns = [
        Column("if all hit at the decode side", right=True, importance=0),
        Column("payload", right=True, importance=1),
        Column("peak Gbit/s", right=True, importance=0),
        Column(f"of {check.chosen.count * check.chosen.gbps:g}", right=True, importance=0),
        Column("max req/s", right=True, importance=1),
        Column("P50", right=True, importance=2),
        Column("P90", right=True, importance=2),
        Column("P99", right=True, importance=1),
    ]
    rows = [
        [
            percent(row.hit_rate),
            _bytes_text(row.payload_bytes),
            short(row.peak_gbps),
            percent(row.peak_utilization),
            short(row.largest_rps),
            *(seconds(value) for value in (row.transfer.p50, row.transfer.p90, row.transfer.p99)),
        ]
        for row in check.hit_rates
    ]
    return table(columns, rows, width=width, paint=paint)


def _remarks(check: LineCheck, width: int) -> list[str]:
    line = check.line
    said = [
        f"Utilisation counts what all transfers share: {percent(line.protocol_efficiency)} of the line is payload.",
        f"One transfer uses {line.tcp_flows} TCP flows with {_bytes_text(line.tcp_window_bytes)} windows at "
        f"{seconds(line.rtt_s)} RTT and loss {line.loss_fraction:g}.",
        "Transfers share the line equally and arrive independently here; the prefill pool of a plan feeds the line "
        "more evenly, so pddplan size may say a little less at P99.",
        "Times run from the end of prefill to the last byte; layer-wise sending would hide part of them.",
    ]
    bound = next((tier for tier in check.tiers if tier.limit != "line"), None)
    if bound is not None:
        cause = "the TCP window over the RTT (BDP)" if bound.limit == "window" else "packet loss (Mathis)"
        said.append(
            f"From {bound.gbps:g} Gbit/s on one transfer is bound by {cause} at {short(bound.transfer_gbps)} Gbit/s, "
            "not by the tier: a thicker line carries more transfers at once, not each of them faster."
        )
    if line.background_fraction > 0:
        said.append(f"{percent(line.background_fraction)} of the line is taken by other traffic.")
    if line.noise_mean_s > 0:
        said.append(f"Congestion outside our control adds {seconds(line.noise_mean_s)} on average to every transfer.")
    return [row for text in said for row in paragraph(text, width=width, indent="  ", first="- ")]


def line_check_json(check: LineCheck) -> dict[str, Any]:
    """The check as plain data; times in seconds, sizes in bytes, rates in Gbit/s; null = never or not applicable."""
    classes = check.classes
    return {
        "schema": "wan-check/1",
        "status": "carries it" if check.chosen is not None and check.chosen.feasible else "does not carry it",
        "workload": check.workload,
        "llm": check.llm,
        "line": {
            "id": check.line.id,
            "from": check.line.from_site,
            "to": check.line.to_site,
            "rtt_s": check.line.rtt_s,
            "loss_fraction": check.line.loss_fraction,
            "protocol_efficiency": check.line.protocol_efficiency,
            "tcp_flows": check.line.tcp_flows,
            "tcp_window_bytes": check.line.tcp_window_bytes,
        },
        "drc": check.drc,
        "rate_rps": check.rate_rps,
        "peak_rps": check.peak_rps,
        "ceiling": check.ceiling,
        "kv": {"growing_bytes_per_token": check.growing_bytes_per_token, "fixed_bytes": check.fixed_bytes},
        "payload_mean_bytes": check.payload_mean_bytes,
        "mean_gbps": check.mean_gbps,
        "peak_gbps": check.peak_gbps,
        "peak_gbps_without_drc": check.peak_gbps_without_drc,
        "drc_cut_growing": finite_or_none(check.growing_cut),
        "drc_cut_whole": finite_or_none(check.whole_cut),
        "ttft_effect": [
            {"quantile": name, "promised_s": limit, "transfer_s": finite_or_none(taken)}
            for name, limit, taken in check.ttft_promises_s
        ],
        "handover": {
            "tokens": HANDOVER_TOKENS,
            "token_ids_bytes": check.handover_ids_bytes,
            "kv_bytes": check.handover_kv_bytes,
            "kv_s": _percentiles_json(check.handover_kv),
            "token_ids_s": check.handover_ids_s,
        },
        "chosen": _tier_json(check.chosen) if check.chosen is not None else None,
        "tiers": [_tier_json(tier) for tier in check.tiers],
        "classes": [
            {
                "label": classes.label[k] if classes.label else f"class {k + 1}",
                "share": float(classes.weight[k]),
                "input_tokens": float(classes.input_tokens[k]),
                "sent_tokens": float(check.sent_tokens[k]),
                "payload_bytes": float(check.payload_bytes[k]),
            }
            for k in range(classes.count)
        ],
        "hit_rates": [
            {
                "hit_rate": row.hit_rate,
                "payload_bytes": row.payload_bytes,
                "peak_gbps": row.peak_gbps,
                "peak_utilization": finite_or_none(row.peak_utilization),
                "largest_rps": finite_or_none(row.largest_rps),
                "transfer_s": _percentiles_json(row.transfer),
            }
            for row in check.hit_rates
        ],
    }


def line_check_csv(check: LineCheck) -> str:
    """All three tables under one header: rows ``tier``, ``class`` and ``hit rate``."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    for tier in check.tiers:
        writer.writerow(
            {
                "table": "tier",
                "row": f"{tier.gbps:g} Gbit/s",
                "gbps": tier.gbps,
                "usable_gbps": tier.usable_gbps,
                "transfer_gbps": tier.transfer_gbps,
                "limit": tier.limit,
                "lines": tier.count,
                "mean_utilization": tier.mean_utilization,
                "peak_utilization": tier.peak_utilization,
                "one_line_down_utilization": _cell(tier.one_down_utilization),
                "feasible": str(tier.feasible).lower(),
                "largest_rps": _cell(tier.largest_rps),
                "monthly_cost": _cell(tier.monthly_cost),
                "currency": tier.currency,
                **_percentile_cells(tier.transfer),
            }
        )
    classes = check.classes
    for k in range(classes.count):
        writer.writerow(
            {
                "table": "class",
                "row": (classes.label[k] if classes.label else f"class {k + 1}").lstrip("=+-@\t\r"),
                "share": float(classes.weight[k]),
                "input_tokens": float(classes.input_tokens[k]),
                "sent_tokens": float(check.sent_tokens[k]),
                "payload_bytes": float(check.payload_bytes[k]),
            }
        )
    for row in check.hit_rates:
        writer.writerow(
            {
                "table": "hit rate",
                "row": f"{row.hit_rate:g}",
                "payload_bytes": row.payload_bytes,
                "gbps": row.peak_gbps,
                "peak_utilization": row.peak_utilization,
                "largest_rps": _cell(row.largest_rps),
                **_percentile_cells(row.transfer),
            }
        )
    return out.getvalue()


def _tier_json(tier: TierCheck) -> dict[str, Any]:
    return {
        "gbps": tier.gbps,
        "lines": tier.count,
        "usable_gbps": tier.usable_gbps,
        "transfer_gbps": tier.transfer_gbps,
        "limit": tier.limit,
        "mean_utilization": finite_or_none(tier.mean_utilization),
        "peak_utilization": finite_or_none(tier.peak_utilization),
        "one_line_down_utilization": finite_or_none(tier.one_down_utilization),
        "feasible": tier.feasible,
        "largest_rps": finite_or_none(tier.largest_rps),
        "transfer_s": _percentiles_json(tier.transfer),
        "monthly_cost": finite_or_none(tier.monthly_cost),
        "currency": tier.currency,
    }


def _percentiles_json(times: Percentiles) -> dict[str, float | None]:
    return {
        "p50": finite_or_none(times.p50),
        "p90": finite_or_none(times.p90),
        "p99": finite_or_none(times.p99),
        "mean": finite_or_none(times.mean),
    }


def _percentile_cells(times: Percentiles) -> dict[str, float | str]:
    return {
        f"transfer_{name}_s": _cell(value)
        for name, value in (("p50", times.p50), ("p90", times.p90), ("p99", times.p99))
    }


def _cell(value: float) -> float | str:
    return value if math.isfinite(value) else ""


def _bytes_text(value_bytes: float) -> str:
    for unit, name in ((GIGA, "GB"), (MEGA, "MB"), (KILO, "KB")):
        if value_bytes >= unit:
            return f"{short(value_bytes / unit)} {name}"
    return f"{short(value_bytes)} B"


def _times(transfer: Percentiles) -> str:
    return f"{seconds(transfer.p50)} / {seconds(transfer.p90)} / {seconds(transfer.p99)}"


def _times_fewer(factor: float) -> str:
    return f"{short(factor)}x" if math.isfinite(factor) else "infinitely"
