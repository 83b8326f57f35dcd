"""The page: whole, small, harmless, loading nothing."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from pddplan.domain.outcome import Violation
from pddplan.report.html import longest_time_s, render
from pddplan.sizing import Sizing
from tests import samples

CURVE = [(0.0, 0.0), (1.0, 0.5), (8.0, 0.9), (19.6, 0.99), (23.0, 0.995)]
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
EVIL = "<img src=x onerror=\"document.title='pwned'\"></title><script>document.title='pwned'</script>\u202e&amp;"
VOID = {"meta", "br", "img", "line", "rect", "circle", "polyline"}


class Tree(HTMLParser):
    """Collects tags and checks that they nest."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [v or "" for k, v in attrs if k in ("src", "href", "xlink:href", "action", "data")]
        assert not [k for k, _ in attrs if k.startswith("on")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def parsed(text: str) -> Tree:
    tree = Tree()
    tree.feed(text)
    tree.close()
    assert not tree.open
    return tree


def evil_sizing() -> Sizing:
    sizing = samples.sizing()
    pools = tuple(replace(p, site=EVIL, chip=EVIL) for p in sizing.outcome.plan.pools)
    items = tuple(replace(i, item=EVIL, source=EVIL, site=EVIL) for i in sizing.outcome.cost.items)
    outcome = replace(
        sizing.outcome,
        plan=replace(sizing.outcome.plan, pools=pools),
        cost=replace(sizing.outcome.cost, items=items),
        notes=(EVIL,),
    )
    workload = replace(sizing.inputs.workload, name=EVIL)
    return replace(sizing, outcome=outcome, inputs=replace(sizing.inputs, workload=workload), remarks=(EVIL,))


def test_page_is_whole_and_says_what_matters() -> None:
    text = render(samples.sizing(), ttft_curve=CURVE)
    tree = parsed(text)
    assert tree.tags.count("svg") == 3
    assert tree.tags.count("table") == 6
    for words in (
        "76 chips serve 10.0 requests per second",
        "131,000 USD",
        "P99 promised 20.0 s",
        "handover_overhead_s",
    ):
        assert words in text
    assert len(text) < 2_000_000
    for drawing in re.findall(r"<svg[^>]*>", text):
        assert "aria-label=" in drawing


def test_nothing_comes_from_outside_and_nothing_runs() -> None:
    text = render(evil_sizing(), ttft_curve=CURVE)
    tree = parsed(text)
    assert tree.addresses == []
    assert not {"script", "iframe", "img", "link", "object"} & set(tree.tags)
    assert "url(" not in text
    assert "default-src 'none'" in text


def test_broken_promises_and_missing_parts() -> None:
    sizing = samples.sizing()
    broken = replace(sizing.outcome, violations=(Violation("TTFT P99", 15.0, 19.6, "s"),), binding=(), assumptions=())
    text = render(replace(sizing, outcome=broken, baseline=None, cold=None))
    parsed(text)
    assert "Promises broken: TTFT P99" in text
    assert "What binds" not in text


def test_curve_reaches_past_the_promises() -> None:
    sizing = samples.sizing()
    assert longest_time_s(sizing) == pytest.approx(1.15 * 20.0)
    never = replace(sizing.outcome, ttft=replace(sizing.outcome.ttft, p99=float("inf")))
    assert longest_time_s(replace(sizing, outcome=never)) == pytest.approx(1.15 * 20.0)


@pytest.mark.skipif(BROWSER is None, reason="no browser is installed")
def test_browser_shows_it_without_running_names(tmp_path: Path) -> None:
    page = tmp_path / "plan.html"
    page.write_text(render(evil_sizing(), ttft_curve=CURVE), encoding="utf-8")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    command = [str(BROWSER), *flags, "--virtual-time-budget=2000", "--dump-dom", page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    title = re.search(r"<title>(.*?)</title>", done.stdout, re.DOTALL)
    assert title
    assert title.group(1).startswith("Plan for &lt;img")
