"""What there is to say about chips: lists, one chip with its sources, and a comparison on four axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pddplan.domain.chip import Chip, Price
from pddplan.domain.provenance import Provenance
from pddplan.performance.roles import RoleAdvice, RoleRates
from pddplan.report.numbers import bar, finite_or_none, short
from pddplan.report.text_table import Column, Screen, paragraph, table
from pddplan.units import GIGA, MEGA, MS_PER_S, TERA, bytes_per_s_to_gbps

DTYPES = ("bf16", "fp8", "fp4", "int8")
BAR_CELLS = 12


@dataclass(frozen=True, slots=True)
class Compared:
    """One chip beside the reference."""

    chip: Chip
    axes: Mapping[str, float]
    """Ratio to the reference per axis; compute per dtype as ``compute bf16`` and so on."""
    rates: RoleRates | None
    advice: RoleAdvice | None
    problem: str | None = None
    """Why there is no advice, where there is none."""


def chip_facts(chip: Chip) -> dict[str, Any]:
    """Numbers of a chip in base units with their origins, ready for JSON."""
    return {
        "id": chip.id,
        "name": chip.name,
        "vendor": chip.vendor,
        "year": chip.year,
        "aliases": list(chip.aliases),
        "peak_flop_per_s": dict(chip.peak_flop_per_s),
        "memory_bytes": chip.memory_bytes,
        "memory_bandwidth_bytes_per_s": chip.memory_bandwidth_bytes_per_s,
        "scaleup_bytes_per_s": chip.scaleup_bytes_per_s,
        "scaleup_domain_chips": chip.scaleup_domain_chips,
        "fabric": chip.fabric.value,
        "nic_bytes_per_s": chip.nic_bytes_per_s,
        "tdp_w": chip.tdp_w,
        "price": price_facts(chip.price),
        "doubtful": list(chip.doubtful),
        "provenance": {
            name: {
                "basis": origin.basis.label,
                "source": origin.source,
                "date": origin.date,
                "note": origin.note,
                "low": origin.low,
                "high": origin.high,
                "doubtful": origin.doubtful,
            }
            for name, origin in sorted(chip.provenance.items())
        },
    }


def price_facts(price: Price | None) -> dict[str, Any] | None:
    """Rent as data."""
    if price is None:
        return None
    return {
        "low_per_chip_hour": price.low_per_chip_hour,
        "high_per_chip_hour": price.high_per_chip_hour,
        "currency": price.currency,
        "date": price.date,
        "source": price.source,
    }


def list_text(chips: Sequence[Chip], *, screen: Screen) -> str:
    """One row per chip; a question mark follows numbers on which sources disagree."""
    columns = [
        Column("chip", importance=0),
        Column("vendor", importance=5),
        Column("bf16", right=True, importance=0),
        Column("fp8", right=True, importance=1),
        Column("fp4", right=True, importance=3),
        Column("int8", right=True, importance=4),
        Column("GB", right=True, importance=0),
        Column("GB/s", right=True, importance=0),
        Column("scale-up", right=True, importance=1),
        Column("NIC", right=True, importance=3),
        Column("W", right=True, importance=4),
        Column("USD/h", right=True, importance=1),
    ]
    rows = [_list_row(chip) for chip in chips]
    lines = table(columns, rows, width=screen.width, paint=screen.paint)
    legend = (
        "Dense TFLOP/s (int8: TOP/s); scale-up in GB/s per direction x chips (m mesh, t torus, p PCIe); NIC in Gbit/s "
        "per chip; rent per chip-hour, low to high. '?' = sources disagree or the number is an assumption."
    )
    return "\n".join([*lines, "", *paragraph(legend, width=screen.width)]) + "\n"


def _list_row(chip: Chip) -> list[str]:
    peaks = [
        _marked(chip, f"peak_flop_per_s.{dtype}", short(chip.peak_flop_per_s[dtype] / TERA))
        if dtype in chip.peak_flop_per_s
        else "-"
        for dtype in DTYPES
    ]
    wiring = {"mesh": " m", "torus": " t", "pcie": " p"}.get(chip.fabric.value, "")
    scaleup = f"{short(chip.scaleup_bytes_per_s / GIGA)} x {chip.scaleup_domain_chips:,}{wiring}"
    nic = "-" if chip.nic_bytes_per_s is None else short(bytes_per_s_to_gbps(chip.nic_bytes_per_s))
    return [
        chip.id,
        chip.vendor,
        *peaks,
        _marked(chip, "memory_bytes", short(chip.memory_bytes / GIGA)),
        _marked(chip, "memory_bandwidth_bytes_per_s", f"{chip.memory_bandwidth_bytes_per_s / GIGA:,.0f}"),
        _marked(chip, "scaleup_bytes_per_s", scaleup),
        _marked(chip, "nic_bytes_per_s", nic),
        "-" if chip.tdp_w is None else f"{chip.tdp_w:,.0f}",
        _marked(chip, "price", _price(chip.price)),
    ]


def show_text(chip: Chip, *, screen: Screen) -> str:
    """One chip with the source of each number."""
    lines = [screen.paint.bold(chip.name) + f"  ({chip.id}, {chip.vendor}{f', {chip.year}' if chip.year else ''})"]
    if chip.aliases:
        lines.append(f"also known as {', '.join(chip.aliases)}")
    sources = list(dict.fromkeys((o.source, o.date or "not dated") for o in chip.provenance.values()))
    columns = [Column("number", importance=0), Column("value", right=True, importance=0), Column("basis", importance=0)]
    rows = []
    remarks: dict[str, list[str]] = {}
    for name, label, value in _numbers(chip):
        origin = chip.provenance.get(name)
        if origin is None:
            rows.append([label, value, "not stated"])
            continue
        place = sources.index((origin.source, origin.date or "not dated")) + 1
        rows.append([label, _marked(chip, name, value), f"{origin.basis.label} [{place}]"])
        remark = _remark(name, origin)
        if remark:
            remarks.setdefault(remark, []).append(label)
    lines += ["", *table(columns, rows, width=screen.width, paint=screen.paint), "", "sources"]
    for place, (source, date) in enumerate(sources, start=1):
        lines += paragraph(f"[{place}] {source} ({date})", width=screen.width, indent="      ", first="  ")
    if remarks:
        lines += ["", "remarks"]
        for remark, labels in remarks.items():
            lines += paragraph(f"{', '.join(labels)}: {remark}", width=screen.width, indent="    ", first="  ")
    if chip.price is None:
        lines += ["", "No price is known: give price_per_chip_hour in the sites file to plan with this chip."]
    return "\n".join(lines) + "\n"


def _remark(name: str, origin: Provenance) -> str:
    parts = ["doubtful"] if origin.doubtful else []
    if origin.low is not None and origin.high is not None and name != "price":
        parts.append(f"between {short(origin.low)} and {short(origin.high)}")
    if origin.note:
        parts.append(origin.note)
    return "; ".join(parts)


def _numbers(chip: Chip) -> list[tuple[str, str, str]]:
    found = [
        (f"peak_flop_per_s.{dtype}", f"{dtype} peak, dense", f"{short(chip.peak_flop_per_s[dtype] / TERA)} TFLOP/s")
        for dtype in DTYPES
        if dtype in chip.peak_flop_per_s
    ]
    found += [
        ("memory_bytes", "memory", f"{short(chip.memory_bytes / GIGA)} GB"),
        (
            "memory_bandwidth_bytes_per_s",
            "memory bandwidth",
            f"{chip.memory_bandwidth_bytes_per_s / GIGA:,.0f} GB/s",
        ),
        ("scaleup_bytes_per_s", "scale-up, per direction", f"{short(chip.scaleup_bytes_per_s / GIGA)} GB/s"),
        ("scaleup_domain_chips", f"scale-up domain ({chip.fabric.value})", f"{chip.scaleup_domain_chips:,} chips"),
    ]
    if chip.nic_bytes_per_s is not None:
        found.append(("nic_bytes_per_s", "NIC", f"{short(bytes_per_s_to_gbps(chip.nic_bytes_per_s))} Gbit/s"))
    if chip.tdp_w is not None:
        found.append(("tdp_w", "power (TDP)", f"{chip.tdp_w:,.0f} W"))
    if chip.price is not None:
        found.append(("price", f"rent, {chip.price.date}", f"{_price(chip.price)} {chip.price.currency}/h"))
    return found


def axes_against(chip: Chip, reference: Chip) -> dict[str, float]:
    """Ratio to the reference on the four axes; compute per dtype that both know."""
    found = {
        f"compute {dtype}": chip.peak_flop_per_s[dtype] / reference.peak_flop_per_s[dtype]
        for dtype in DTYPES
        if dtype in chip.peak_flop_per_s and dtype in reference.peak_flop_per_s
    }
    found["memory"] = chip.memory_bytes / reference.memory_bytes
    found["bandwidth"] = chip.memory_bandwidth_bytes_per_s / reference.memory_bandwidth_bytes_per_s
    if reference.scaleup_bytes_per_s > 0:
        found["interconnect"] = chip.scaleup_bytes_per_s / reference.scaleup_bytes_per_s
    return found


def compare_facts(
    compared: Sequence[Compared], *, reference: Chip, llm_id: str, context_tokens: float, tpot_s: float
) -> dict[str, Any]:
    """A comparison as data."""
    return {
        "reference": reference.id,
        "model": llm_id,
        "context_tokens": context_tokens,
        "tpot_s": tpot_s,
        "basis": "roofline from datasheet peaks, without efficiencies, communication and overheads",
        "chips": [
            {
                "id": row.chip.id,
                "axes": dict(row.axes),
                "price": price_facts(row.chip.price),
                "doubtful": list(row.chip.doubtful),
                "rates": None if row.rates is None else _rates(row.rates),
                "role": None if row.advice is None else row.advice.role,
                "prefill_ratio": None if row.advice is None else finite_or_none(row.advice.prefill_ratio),
                "decode_ratio": None if row.advice is None else finite_or_none(row.advice.decode_ratio),
                "ratio_basis": None if row.advice is None else row.advice.basis,
                "why": row.problem if row.advice is None else row.advice.why,
            }
            for row in compared
        ],
    }


def _rates(rates: RoleRates) -> dict[str, Any]:
    return {
        "prefill_tokens_per_s_per_chip": rates.prefill_tokens_per_s,
        "prefill_bound": rates.prefill_bound,
        "decode_tokens_per_s_per_chip": rates.decode_tokens_per_s,
        "decode_bound": rates.decode_bound,
        "batch_limit": rates.batch_limit,
        "chips": rates.chips,
        "batch": rates.batch,
        "step_s": finite_or_none(rates.step_s),
        "prefill_tokens_per_money": rates.prefill_tokens_per_money,
        "decode_tokens_per_money": rates.decode_tokens_per_money,
    }


def compare_text(
    compared: Sequence[Compared],
    *,
    reference: Chip,
    llm_name: str,
    context_tokens: float,
    tpot_s: float,
    screen: Screen,
) -> str:
    """Bars per axis, rates per money, and for each chip the role it suits and why."""
    full, empty = ("#", ".") if screen.ascii_only else ("█", "░")
    lines = [screen.paint.bold(f"against {reference.name}"), ""]
    axes = list(dict.fromkeys(axis for row in compared for axis in row.axes))
    width = max(len(row.chip.id) for row in compared)
    for axis in axes:
        most = max(row.axes.get(axis, 0.0) for row in compared)
        lines.append(axis)
        for row in compared:
            if axis not in row.axes:
                lines.append(f"  {row.chip.id:<{width}}  {'not in both':>{BAR_CELLS}}")
                continue
            ratio = row.axes[axis]
            drawn = bar(ratio / most, BAR_CELLS, full=full, empty=empty)
            lines.append(f"  {row.chip.id:<{width}}  {drawn}  {ratio:.2f} x")
    lines += ["", f"for {llm_name}, {context_tokens:,.0f} tokens of context, TPOT {tpot_s * MS_PER_S:g} ms"]
    columns = [
        Column("chip", importance=0),
        Column("role", importance=0),
        Column("prefill tok/s", right=True, importance=1),
        Column("decode tok/s", right=True, importance=1),
        Column("group", right=True, importance=3),
        Column("batch", right=True, importance=3),
        Column("prefill Mtok/money", right=True, importance=0),
        Column("decode Mtok/money", right=True, importance=0),
    ]
    rows = [_compare_row(row, reference=reference) for row in compared]
    lines += ["  " + line for line in table(columns, rows, width=screen.width - 2, paint=screen.paint)]
    lines.append("")
    for row in compared:
        if row.problem is not None:
            lines += paragraph(f"{row.chip.id}: {row.problem}", width=screen.width, indent="    ", first="  ")
        elif row.advice is not None and row.chip.id != reference.id:
            base = next((other for other in compared if other.chip.id == reference.id), None)
            text = f"{row.chip.id}: {_role_words(row, base)}: {row.advice.why}"
            lines += paragraph(text, width=screen.width, indent="    ", first="  ")
        if row.chip.doubtful:
            labels = {name: label for name, label, _ in _numbers(row.chip)}
            doubt = f"{row.chip.id}: sources disagree on {', '.join(labels.get(n, n) for n in row.chip.doubtful)}"
            lines += paragraph(doubt, width=screen.width, indent="    ", first="  ")
    remark = (
        "Roofline from datasheet peaks: efficiencies, communication and overheads are left out, so compare, do not "
        "size with it. tok/s are per chip; a group is the chips that decode together; Mtok/money: million tokens per "
        "unit of currency, at the low end of the rent."
    )
    lines += ["", *paragraph(remark, width=screen.width)]
    return "\n".join(lines) + "\n"


def _compare_row(row: Compared, *, reference: Chip) -> list[str]:
    rates = row.rates
    if rates is None:
        return [row.chip.id, "-", "-", "-", "-", "-", "-", "-"]
    role = "reference" if row.chip.id == reference.id else (row.advice.role if row.advice else "-")
    return [
        row.chip.id,
        role,
        short(rates.prefill_tokens_per_s),
        short(rates.decode_tokens_per_s) if rates.decode_tokens_per_s else "-",
        f"{rates.chips:,}",
        f"{rates.batch:,}",
        _million(rates.prefill_tokens_per_money, row.chip.price),
        _million(rates.decode_tokens_per_money, row.chip.price),
    ]


def _role_words(row: Compared, base: Compared | None) -> str:
    """The role a chip suits; that it suits none where the reference does both for less money."""
    role = row.advice.role if row.advice is not None else ""
    mine, other = row.rates, base.rates if base is not None else None
    if mine is not None and other is not None:
        pairs = (
            (mine.prefill_tokens_per_money, other.prefill_tokens_per_money),
            (mine.decode_tokens_per_money, other.decode_tokens_per_money),
        )
        if all(own is not None and known is not None and own < known for own, known in pairs):
            where = f"least so at {role}" if role in {"prefill", "decode"} else "alike in both roles"
            return f"dearer than the reference, {where}"
    return {"prefill": "suits prefill", "decode": "suits decode"}.get(role, "suits either role")


def _million(value: float | None, price: Price | None) -> str:
    return "no price" if value is None or price is None else f"{short(value / MEGA)} /{price.currency}"


def _marked(chip: Chip, name: str, text: str) -> str:
    return f"{text}?" if name in chip.doubtful else text


def _price(price: Price | None) -> str:
    if price is None:
        return "-"
    low, high = f"{price.low_per_chip_hour:.2f}", f"{price.high_per_chip_hour:.2f}"
    return low if low == high else f"{low}-{high}"


CHIP_COLUMNS = (
    "id",
    "name",
    "vendor",
    "year",
    "peak_bf16_tflop_per_s",
    "peak_fp8_tflop_per_s",
    "peak_fp4_tflop_per_s",
    "peak_int8_top_per_s",
    "memory_gb",
    "memory_bandwidth_gb_per_s",
    "scaleup_gb_per_s_per_direction",
    "scaleup_domain_chips",
    "fabric",
    "nic_gbps",
    "tdp_w",
    "price_low_per_chip_hour",
    "price_high_per_chip_hour",
    "currency",
    "price_date",
    "doubtful",
)


def list_rows(chips: Sequence[Chip]) -> list[list[str | float | None]]:
    """One row per chip under CHIP_COLUMNS."""
    rows: list[list[str | float | None]] = []
    for chip in chips:
        peaks = [chip.peak_flop_per_s[d] / TERA if d in chip.peak_flop_per_s else None for d in DTYPES]
        price = chip.price
        rows.append(
            [
                chip.id,
                chip.name,
                chip.vendor,
                chip.year,
                *peaks,
                chip.memory_bytes / GIGA,
                chip.memory_bandwidth_bytes_per_s / GIGA,
                chip.scaleup_bytes_per_s / GIGA,
                chip.scaleup_domain_chips,
                chip.fabric.value,
                None if chip.nic_bytes_per_s is None else bytes_per_s_to_gbps(chip.nic_bytes_per_s),
                chip.tdp_w,
                *((price.low_per_chip_hour, price.high_per_chip_hour) if price else (None, None)),
                *((price.currency, price.date) if price else (None, None)),
                " ".join(chip.doubtful),
            ]
        )
    return rows
