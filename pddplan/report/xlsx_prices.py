"""Unit prices on the first sheet of a workbook, and what of a bill hangs on them.

Spare chips and chips already owned are priced as their kind is, a purchase is its price spread over its years, and
support is a share of the rows above it: who changes one yellow cell finds it in every row that it concerns.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

from pddplan.domain.outcome import CostItem, Outcome
from pddplan.domain.plan import Pool, Role
from pddplan.domain.sites import SiteChip
from pddplan.sizing import Sizing
from pddplan.units import MONTHS_PER_YEAR

if TYPE_CHECKING:
    from pddplan.report.xlsx import Book

RENT, PURCHASE = "rent", "purchase"
CAPITAL = (RENT, PURCHASE, "chips (owned)")
SPARE = "spare chips"
OWNED = "chips already owned"
SUPPORT = "support"


def price_key(item: CostItem) -> Hashable:
    """What makes two cost items the same price; support is one share of all that it is for."""
    if _what(item) == SUPPORT:
        return (SUPPORT, item.unit_price)
    return (item.site, item.item, item.unit_price, item.unit)


def price_rows(book: Book, sheet: Any, row: int, *, items: Sequence[CostItem], sizing: Sizing) -> int:
    """Write the prices of all items, from a row on; the next free row.

    The rent of a decode chip hangs on that of the prefill chip by its premium.
    """
    prices = {price_key(item): item for item in items}
    leaders = {key: leader for key, item in prices.items() if (leader := _leader(item, prices)) is not None}
    first, second = _rents(sizing.outcome)
    premium = second is not None and first is not None and prices[first].unit_price > 0
    for key, item in sorted(prices.items(), key=lambda pair: pair[0] == second):  # the price it hangs on goes first
        site_chip = _site_chip(item, sizing)
        if key in leaders:
            continue
        if premium and key == second and first is not None:
            base = prices[first].unit_price
            name = f"premium of {item.item.split(':')[0]} over {prices[first].item.split(':')[0]}"
            row = book.input_row(sheet, row, "premium", name, item.unit_price / base - 1, "from the two prices")
            formula = f"={book.cells['price', first]}*(1+{book.cells['premium']})"
            row = _worked_out(book, sheet, row, key=key, item=item, formula=formula)
        elif _what(item) == PURCHASE and site_chip is not None and site_chip.purchase_price_per_chip is not None:
            row = _purchase_rows(book, sheet, row, key=key, item=item, sizing=sizing)
        else:
            row = book.input_row(sheet, row, ("price", key), _label(item), item.unit_price, item.source)
    for key, leader in leaders.items():
        book.cells["price", key] = book.cells["price", leader]
    for item in prices.values():
        site_chip = _site_chip(item, sizing)
        if _what(item) == OWNED and site_chip is not None:
            label = f"chips of {_name(item)} already owned at {item.site}"
            row = book.input_row(
                sheet, row, ("owned", item.site, _name(item)), label, site_chip.owned_chips, "sites file"
            )
    return row


def quantity_formula(book: Book, items: Sequence[CostItem], place: int, *, first: int) -> str | None:
    """Formula of a quantity that hangs on rows of the same bill; None where it does not.

    Parameters:  items of the bill; place of the item among them; first, row (from 1) of the first item
    """
    item = items[place]
    if _what(item) == SUPPORT:
        start = place
        while start and _owner(items[start - 1]) == _owner(item) and _what(items[start - 1]) != SUPPORT:
            start -= 1
        return f"=SUM(H{first + start}:H{first + place - 1})" if start < place else None
    cell = book.cells.get(("owned", item.site, _name(item)))
    if _what(item) == OWNED and cell is not None:
        held = [
            f"D{first + other}"
            for other, one in enumerate(items)
            if (one.site, _name(one)) == (item.site, _name(item))
            and (_what(one) in CAPITAL or _what(one).startswith(SPARE))
        ]
        return f"=-MIN({cell},SUM({','.join(held)}))" if held else None
    return None


def drivers(outcome: Outcome) -> list[tuple[object, float] | None]:
    """What the quantity of each cost item is proportional to: chips of a pool, lines of a kind, or nothing here."""
    pools: dict[tuple[str, str, str], list[int]] = {}
    for index, pool in enumerate(outcome.plan.pools):
        if pool.chips:
            pools.setdefault(_triple(pool), []).append(index)
    lines = {line.line: index for index, line in enumerate(outcome.plan.lines) if line.count}
    items_of: dict[tuple[str, str, str], int] = {}
    for item in outcome.cost.items:
        items_of[_owner(item)] = items_of.get(_owner(item), 0) + 1
    seen: dict[tuple[str, str, str], int] = {}
    found: list[tuple[object, float] | None] = []
    for item in outcome.cost.items:
        key, name = _owner(item), _name(item)
        if key in pools:
            position = seen.get(key, 0)
            seen[key] = position + 1
            per_pool = max(items_of[key] // len(pools[key]), 1)
            index = pools[key][min(position // per_pool, len(pools[key]) - 1)]
            found.append((("chips", index), item.quantity / outcome.plan.pools[index].chips))
        elif item.role == "line" and name in lines:
            index = lines[name]
            found.append((("lines", index), item.quantity / outcome.plan.lines[index].count))
        else:
            found.append(None)
    return found


def _purchase_rows(book: Book, sheet: Any, row: int, *, key: Hashable, item: CostItem, sizing: Sizing) -> int:
    """The price of a chip, over how many years it is paid back, and the charge of a month that follows from them."""
    sites = sizing.inputs.sites
    price = sites.sites[item.site].chips[_name(item)].purchase_price_per_chip or 0.0
    path = f"sites.{item.site}.chips.{_name(item)}.purchase_price_per_chip"
    label = f"purchase price of {_name(item)} at {item.site} [{item.currency} per chip]"
    row = book.input_row(sheet, row, ("bought", key), label, price, sites.provenance.get(path, "sites file"))
    for name, text, value in (
        ("years", "years over which a purchase is paid back", sites.finance.amortisation_years),
        ("residual", "share of its price left at the end", sites.finance.residual_fraction),
        ("capital", "cost of capital, share a year", sites.finance.cost_of_capital_fraction),
    ):
        if name not in book.cells:
            row = book.input_row(sheet, row, name, text, value, "finance settings of the sites file")
    bought, years, residual, capital = (book.cells[k] for k in (("bought", key), "years", "residual", "capital"))
    rate, months = f"(1+{capital})^(1/{MONTHS_PER_YEAR})-1", f"{years}*{MONTHS_PER_YEAR}"
    formula = f"=-PMT({rate},{months},{bought},-{bought}*{residual})"
    return _worked_out(book, sheet, row, key=key, item=item, formula=formula)


def _worked_out(book: Book, sheet: Any, row: int, *, key: Hashable, item: CostItem, formula: str) -> int:
    """A price that follows from cells above it."""
    sheet.write_string(row, 0, f"{_label(item)}, from the cells above")
    sheet.write_formula(row, 1, formula, book.form(num_format="#,##0.00####"), item.unit_price)
    sheet.write_string(row, 2, item.source)
    book.cells["price", key] = f"Inputs!$B${row + 1}"
    return row + 1


def _label(item: CostItem) -> str:
    if _what(item) == SUPPORT:
        return "support and operation, share of what they are for"
    return f"price of {item.item} at {item.site} [{item.currency} per {item.unit}-{_period(item)}]"


def _period(item: CostItem) -> str:
    return "month" if item.hours == 1 else "hour"


def _leader(item: CostItem, prices: dict[Hashable, CostItem]) -> Hashable | None:
    """The price of the kind of chip that a spare or an owned chip is one of."""
    if not (_what(item) == OWNED or _what(item).startswith(SPARE)):
        return None
    same = (item.site, item.unit_price, item.unit, item.hours)
    for key, other in prices.items():
        alike = (other.site, other.unit_price, other.unit, other.hours) == same and _name(other) == _name(item)
        if alike and _what(other) in CAPITAL:
            return key
    return None


def _rents(outcome: Outcome) -> tuple[Hashable | None, Hashable | None]:
    """Price keys of the rent of the first prefill chip, and of the first decode chip of another kind."""
    rents = [i for i in outcome.cost.items if _what(i) == RENT]
    prefill = next((i for i in rents if i.role == str(Role.PREFILL)), None)
    if prefill is None:
        return None, None
    decode = next((i for i in rents if i.role == str(Role.DECODE) and i.item != prefill.item), None)
    return price_key(prefill), price_key(decode) if decode is not None else None


def _site_chip(item: CostItem, sizing: Sizing) -> SiteChip | None:
    site = sizing.inputs.sites.sites.get(item.site)
    return site.chips.get(_name(item)) if site is not None else None


def _name(item: CostItem) -> str:
    """The chip or line that an item is for."""
    return item.item.split(":")[0]


def _what(item: CostItem) -> str:
    return item.item.partition(":")[2].strip()


def _owner(item: CostItem) -> tuple[str, str, str]:
    return (item.site, item.role, _name(item))


def _triple(pool: Pool) -> tuple[str, str, str]:
    return (pool.site, str(pool.role), pool.chip)
