"""What the reports of ``pddplan bcr`` share: titles, lists of remarks, joining blocks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pddplan.domain.token_price import TokenPrice
from pddplan.report.numbers import percent, plain_text, short
from pddplan.report.text_table import Screen, paragraph

_ASCII = str.maketrans(
    {"█": "#", "░": ".", "▒": ":", "│": "|", "┤": "|", "└": "+", "─": "-", "•": "*", "·": ".", "…": "~", "×": "x"}
)


def joined(blocks: Iterable[Sequence[str]], screen: Screen) -> str:
    """Blocks of lines with an empty line between them, in characters the screen knows."""
    text = "\n\n".join("\n".join(block) for block in blocks if block) + "\n"
    return text.translate(_ASCII) if screen.ascii_only else text


def title(text: str, screen: Screen) -> list[str]:
    """A heading, wrapped."""
    return [screen.paint.bold(line) for line in paragraph(plain_text(text), width=screen.width)]


def bullets(texts: Iterable[str], screen: Screen, *, dim: bool = False, indent: str = "  ") -> list[str]:
    """One wrapped item after the other."""
    lines = [
        line
        for text in texts
        for line in paragraph(plain_text(text), width=screen.width, indent=indent + "  ", first=indent)
    ]
    return [screen.paint.dim(line) for line in lines] if dim else lines


def price_text(price: TokenPrice, *, assumed: bool) -> str:
    """Which list price was taken, with its source."""
    kind = "assumed, the model has no row of its own: " if assumed else ""
    return (
        f"token prices ({kind}{price.model}, {price.date}): {short(price.miss_per_mtok)} missed, "
        f"{short(price.cached_per_mtok)} cached ({percent(price.cached_over_miss)}), {short(price.output_per_mtok)} "
        f"output per million, in {price.currency}; {price.source}"
    )
