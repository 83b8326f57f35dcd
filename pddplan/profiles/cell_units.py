"""Cells of chip tables with a unit behind the number: turned into the unit of their column, or refused."""

from __future__ import annotations

import re

from pddplan.performance.delimited_table import parse_number
from pddplan.units import BITS_PER_BYTE, GIGA, KIB, KILO, MEGA, TERA

_PREFIXES = {"": 1.0, "k": KILO, "m": MEGA, "g": GIGA, "t": TERA, "p": KILO * TERA}
_CELL = re.compile(r"(?P<number>[+-]?[\d.,_' ]+(?:[eE][+-]?\d+)?)\s*(?P<unit>[A-Za-z][A-Za-z/]*)")
_UNIT = re.compile(r"(?P<prefix>[kKMGTP]?)(?P<binary>i?)(?P<kind>B|b|bit|FLOPS?|FLOP/s|OPS?|OP/s|W)(?P<rate>/s|ps|)")
_KINDS = {"B": "bytes", "b": "bits", "bit": "bits", "W": "watts"}
_COLUMNS = (
    (re.compile(r"tflops|tops"), "operations", TERA),
    (re.compile(r"^(mem|hbm)_gb$"), "bytes", GIGA),
    (re.compile(r"^(scaleout|nic)_gbps$"), "bits/s", GIGA),
    (re.compile(r"gbs|gbps"), "bytes/s", GIGA),
    (re.compile(r"^tdp_w$"), "watts", 1.0),
)
"""What the columns of a chip table hold, by their names; the first match counts."""


def number_in_column(text: str, column: str) -> float:
    """A number in the unit of its column: ``4.8 TB/s`` in ``mem_bw_gbs`` is 4800.

    Raises:  ValueError for what is no number, or has a unit that the column cannot hold.
    """
    try:
        return parse_number(text)
    except ValueError:
        found = _CELL.fullmatch(text.strip())
        if found is None:
            raise
    unit = _UNIT.fullmatch(_as_printed(found["unit"]))
    held = next(((kind, factor) for name, kind, factor in _COLUMNS if name.search(column)), None)
    if unit is None or held is None:
        raise ValueError(text)
    kind = _KINDS.get(unit["kind"], "operations")
    if kind in ("bytes", "bits") and unit["rate"]:
        kind += "/s"
    prefix = unit["prefix"].lower()
    scale = KIB ** ("kmgtp".index(prefix) + 1) if unit["binary"] and prefix else _PREFIXES[prefix]
    value = parse_number(found["number"]) * scale
    if (kind, held[0]) == ("bits/s", "bytes/s"):
        value, kind = value / BITS_PER_BYTE, "bytes/s"
    if (kind, held[0]) == ("bytes/s", "bits/s"):
        value, kind = value * BITS_PER_BYTE, "bits/s"
    if kind != held[0]:
        raise ValueError(text)
    return value / held[1]


def _as_printed(unit: str) -> str:
    """Units of operations and watts in one spelling; b and B stay what they are."""
    upper = unit.upper()
    if "OP" in upper:
        return re.sub(r"/S$", "/s", upper)
    return re.sub(r"(?i)/s(ec)?$", "/s", unit)
