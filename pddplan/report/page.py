"""Pieces of a self-contained page: escaped text, tables, and drawings in SVG with titles as tooltips.

Nothing here loads anything: no script, no font, no image from outside. Every text from an input file passes
``text``; so markup in names is shown, not run.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass

from pddplan.report.numbers import plain_text

STYLE = """
:root { color-scheme: light dark; --ink:#1b1f24; --soft:#5b6570; --line:#d5dae0; --ground:#ffffff; --card:#f6f8fa;
  --a:#1f6feb; --b:#b35900; --c:#6f42c1; --d:#0b7285;
  --e:#a61e6b; --f:#5f6b1a; --good:#116329; --bad:#b42318; }
@media (prefers-color-scheme: dark) { :root { --ink:#e6edf3; --soft:#9da7b3; --line:#363d47; --ground:#0d1117;
  --card:#161b22; --a:#58a6ff; --b:#f0a24b; --c:#bc8cff;
  --d:#4dd0e1; --e:#ff8ac2; --f:#c9d36b; --good:#56d364; --bad:#ff7b72; } }
* { box-sizing: border-box } body { margin: 0 auto; max-width: 68rem; padding: 1.5rem; color: var(--ink);
  background: var(--ground); font: 16px/1.5 system-ui, sans-serif }
h1 { font-size: 1.5rem; margin: 0 0 .3rem } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem }
p { margin: .3rem 0 } .soft { color: var(--soft) } .good { color: var(--good) } .bad { color: var(--bad) }
.cards { display: flex; flex-wrap: wrap; gap: .8rem; margin: 1rem 0 }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: .6rem 1rem;
  min-width: 9rem }
.card b { display: block; font-size: 1.35rem }
.scroll { overflow-x: auto } table { border-collapse: collapse; width: 100%; font-size: .92rem }
th, td { padding: .25rem .6rem; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
svg { width: 100%; height: auto; display: block } svg text { fill: var(--ink); font: 13px system-ui, sans-serif }
svg .soft { fill: var(--soft) } figure { margin: 0 } figcaption { color: var(--soft); font-size: .88rem }
.legend { display: flex; gap: 1.5rem; font-size: .9rem } svg.key { display: inline-block; width: 40px; height: 10px }
.dot { opacity: 0 } .dot:hover { opacity: 1 } details { margin-top: .6rem } summary { cursor: pointer }
@media print { body { max-width: none; padding: 0 } h2 { break-after: avoid } figure, table { break-inside: avoid } }
"""


def text(value: object) -> str:
    """Text for a page: control characters gone, markup made harmless."""
    return html.escape(plain_text(str(value)), quote=True)


def table(heads: Sequence[str], rows: Sequence[Sequence[object]], *, right: Sequence[int] = ()) -> str:
    """A table; columns in ``right`` hold numbers."""
    kind = dict.fromkeys(right, ' class="n"')
    head = "".join(f'<th scope="col"{kind.get(i, "")}>{text(h)}</th>' for i, h in enumerate(heads))
    body = "".join(
        "<tr>" + "".join(f"<td{kind.get(i, '')}>{text(cell)}</td>" for i, cell in enumerate(row)) + "</tr>"
        for row in rows
    )
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def card(title: str, value: str, note: str = "", tone: str = "") -> str:
    """One number to be seen first."""
    small = f'<span class="soft">{text(note)}</span>' if note else ""
    return f'<div class="card"><span class="soft">{text(title)}</span><b class="{tone}">{text(value)}</b>{small}</div>'


def bars(rows: Sequence[tuple[str, float, str]], *, label: str) -> str:
    """Horizontal bars: name, share from 0 to 1 (more is drawn as all), and what stands behind the bar."""
    step, width, left = 30, 760, 270
    parts = []
    for index, (name, share, behind) in enumerate(rows):
        y = index * step
        length = (width - left - 150) * min(max(share, 0.0), 1.0)
        parts.append(
            f"<g><title>{text(name)}: {text(behind)}</title>"
            f'<text x="{left - 10}" y="{y + 19}" text-anchor="end">{text(name)}</text>'
            f'<rect x="{left}" y="{y + 6}" width="{width - left - 150}" height="18" rx="3" fill="var(--line)"/>'
            f'<rect x="{left}" y="{y + 6}" width="{length:.1f}" height="18" rx="3" fill="var(--a)"/>'
            f'<text x="{width - 140}" y="{y + 19}">{text(behind)}</text></g>'
        )
    height = max(len(rows), 1) * step + 6
    return f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{text(label)}">{"".join(parts)}</svg>'


@dataclass(frozen=True, slots=True)
class Box:
    """A pool in the drawing of the topology."""

    site: str
    role: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Arrow:
    """A flow between two pools, by their position in the list of boxes."""

    start: int
    end: int
    label: tuple[str, ...]
    """Lines of text above the arrow."""
    share: float


_ROLE_COLOUR = {"P": "a", "RLD": "c", "MD": "b", "AGG": "a"}


def topology(boxes: Sequence[Box], arrows: Sequence[Arrow], *, label: str) -> str:
    """Sites as frames side by side, pools as boxes inside, flows as lines as thick as their share."""
    sites = list(dict.fromkeys(box.site for box in boxes))
    column, box_width, box_height, gap = 500, 250, 84, 46
    order = {"P": 0, "AGG": 0, "RLD": 1, "MD": 2}
    place: dict[int, tuple[float, float]] = {}
    frames, deepest = [], 0
    for s, site in enumerate(sites):
        inside = sorted((order.get(b.role, 3), i) for i, b in enumerate(boxes) if b.site == site)
        for position, (_, index) in enumerate(inside):
            place[index] = (s * column + 30, 48 + position * (box_height + gap))
        deepest = max(deepest, len(inside))
        frames.append((s * column + 10, site))
    height = 48 + max(deepest, 1) * (box_height + gap) + 10
    width = max(len(sites), 1) * column
    parts = [
        f'<rect x="{x}" y="8" width="{box_width + 40}" height="{height - 16}" rx="10" fill="none" '
        f'stroke="var(--line)"/>'
        f'<text class="soft" x="{x + 14}" y="30">site {text(site)}</text>'
        for x, site in frames
    ]
    for arrow in arrows:
        (x1, y1), (x2, y2) = place[arrow.start], place[arrow.end]
        same = abs(x1 - x2) < 1
        sx, sy = (
            (x1 + box_width / 2, y1 + box_height) if same else (x1 + (box_width if x2 > x1 else 0), y1 + box_height / 2)
        )
        ex, ey = (x2 + box_width / 2, y2) if same else (x2 + (0 if x2 > x1 else box_width), y2 + box_height / 2)
        words = "".join(
            f'<text x="{(sx + ex) / 2 + (70 if same else 0)}" y="{(sy + ey) / 2 - (-5 if same else 12) - 18 * i}" '
            f'text-anchor="middle">{text(line)}</text>'
            for i, line in enumerate(reversed(arrow.label))
        )
        parts.append(
            f"<g><title>{text(' '.join(arrow.label))}</title>"
            f'<line x1="{sx}" y1="{sy}" x2="{ex}" y2="{ey}" stroke="var(--soft)" '
            f'stroke-width="{1.5 + 6 * min(max(arrow.share, 0.0), 1.0):.1f}" stroke-linecap="round"/>{words}</g>'
        )
    for index, box in enumerate(boxes):
        x, y = place[index]
        words = "".join(
            f'<text x="{x + 12}" y="{y + 24 + 20 * i}"{" font-weight=" + chr(34) + "700" + chr(34) if i == 0 else ""}>'
            f"{text(line)}</text>"
            for i, line in enumerate(box.lines)
        )
        parts.append(
            f"<g><title>{text(' '.join(box.lines))}</title>"
            f'<rect x="{x}" y="{y}" width="{box_width}" height="{box_height}" rx="8" fill="var(--card)" '
            f'stroke="var(--{_ROLE_COLOUR.get(box.role, "a")})" stroke-width="2"/>{words}</g>'
        )
    return f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{text(label)}">{"".join(parts)}</svg>'


def document(title: str, body: str) -> str:
    """The whole page, with a policy that forbids loading or running anything."""
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{text(title)}</title><style>{STYLE}</style></head>\n<body>\n{body}\n</body></html>\n"
    )
