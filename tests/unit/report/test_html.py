"""The page: whole, small, harmless, loading nothing."""

from __future__ import annotations

import itertools
import math
import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pddplan.domain.outcome import Outcome, Violation
from pddplan.domain.token_price import TokenPrice
from pddplan.domain.workload import Promises
from pddplan.economics.bathtub import BathtubCurve
from pddplan.economics.bathtub_reading import BathtubReading
from pddplan.economics.hit_rate import Spread as HitSpread
from pddplan.economics.moves import Move
from pddplan.economics.uncertainty import Bar, Factor, Score
from pddplan.economics.uncertainty import Spread as Draws
from pddplan.report.html import longest_time_s, render
from pddplan.report.latencies import latencies
from pddplan.report.page_charts import Axis, Line, Spot, Swing, chart, round_marks, tornado
from pddplan.simulate.result import Estimates, SimulationResult
from pddplan.simulate.statistics import Estimate
from pddplan.sizing import Sizing
from pddplan.studies.curve import BathtubStudy
from pddplan.studies.in_full import Studies
from pddplan.studies.sureness import Sureness
from tests import samples

CURVE = [(0.0, 0.0), (1.0, 0.5), (8.0, 0.9), (19.6, 0.99), (23.0, 0.995)]
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
EVIL = "<img src=x onerror=\"document.title='pwned'\"></title><script>document.title='pwned'</script>\u202e&amp;"
VOID = {"meta", "br", "img", "line", "rect", "polyline"}


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


def studies() -> Studies:
    """One of everything that a full page shows."""
    estimate = Estimate(1.0, 0.1)
    four = Estimates(estimate, estimate, estimate, Estimate(math.nan, math.nan))
    simulated = SimulationResult(
        seeds=(0,),
        requests=1000,
        measured=900,
        span_s=100.0,
        ttft=four,
        tpot=four,
        e2e=four,
        worst_itl=four,
        ttft_by_path={},
        path_share={},
        relay_token_share=estimate,
        pools=(),
        lines=(),
        series=(),
        unstable=(EVIL,),
        ttft_curve=((0.5, 0.0), (2.0, 0.5), (30.0, 1.0)),
    )
    rates = np.linspace(0.0, 1.0, 11)
    curve = BathtubCurve(hit_rate=rates, revenue=1.0 - 0.5 * rates, cost=1.0 - 0.4 * rates, prefill_s=rates)
    reading = BathtubReading(
        now_hit_rate=0.9,
        now_relative=0.86,
        valley_hit_rate=0.92,
        valley_relative=0.85,
        break_even_hit_rate=0.95,
        in_valley=True,
        notches=(),
    )
    price = TokenPrice(model="list", miss_per_mtok=1.0, cached_per_mtok=0.1, output_per_mtok=2.0)
    bathtub = BathtubStudy(
        workload=EVIL,
        topology="pdd",
        currency="USD",
        price=price,
        price_assumed=True,
        spread=HitSpread.EVEN,
        curve=curve,
        fleet_rate_rps=rates,
        fleet_monthly_cost=1.0,
        reading=reading,
        now_benefit=1.0,
        plan_benefit=1.0,
        boundaries=(),
        chunk_tokens=None,
        tail_packing=None,
        shallower=(Move(EVIL, 0.9, 1.0, 0.05),),
        cache=(),
        memory_price_per_gb_month=0.3,
        remarks=(EVIL,),
    )
    good, bad = Score(0.1, True), Score(0.05, False)
    bars = (
        Bar(Factor("speed of h200", 0.8, 1.0, 1.2), bad, good),
        Bar(Factor("rtt of a-b", 0.1, 0.2, 0.3), good, good),
    )
    spread = Draws(samples=64, bcr_p5=0.05, bcr_p50=0.1, bcr_p95=0.1, holds_fraction=0.7, holds_error=0.1, influence={})
    sure = Sureness(EVIL, "USD", planned=good, bars=bars, spread=spread, factors=(bars[0].factor,), seed=1)
    return Studies(simulated, bathtub, sure, ("no curve: because",))


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


def test_studies_have_sections_only_when_asked() -> None:
    sizing = samples.sizing()
    plain = render(sizing, ttft_curve=CURVE)
    full = render(evil_sizing(), ttft_curve=CURVE, studies=studies())
    tree = parsed(full)
    assert tree.addresses == []
    assert not {"script", "iframe", "img", "link", "object"} & set(tree.tags)
    for title in ("Closed form against simulation", "What the hit rate is worth", "What matters most"):
        assert f"<h2>{title}</h2>" in full
        assert f"<h2>{title}</h2>" not in plain
    assert "stroke-dasharray" in full, "closed form and simulation can be told apart without colour"
    assert "break-even 95" in full
    assert "speed of h200: 0.800 to 1.20; a promise breaks at its low end" in full
    assert "Without effect: rtt of a-b." in full
    assert "No curve: because." in full


def test_a_curve_tells_its_values_when_pointed_at() -> None:
    text = render(samples.sizing(), ttft_curve=CURVE)
    assert "closed form: 8.00 seconds, 90 % of first tokens" in text


def test_words_of_neighbouring_spots_do_not_cover_each_other() -> None:
    spots = [Spot(0.90, 0.92, "now"), Spot(0.95, 0.91, "valley"), Spot(0.96, 0.915, "break-even")]
    axes = {"x": Axis("x", 0.0, 1.0, str), "y": Axis("y", 0.0, 1.0, str)}
    drawing = chart([Line("curve", [(0.0, 0.0), (1.0, 1.0)])], **axes, label="a curve", spots=spots)
    heights = [float(y) for y in re.findall(r'y="([\d.]+)" text-anchor="end">(?:now|valley|break-even)<', drawing)]
    assert len(heights) == 3
    assert all(abs(a - b) >= 14 for a, b in itertools.combinations(heights, 2))


@given(
    st.lists(st.tuples(st.floats(), st.floats()), max_size=6),
    st.tuples(st.floats(-1e300, 1e300), st.floats(-1e300, 1e300)),
)
def test_charts_draw_any_numbers(points: list[tuple[float, float]], ends: tuple[float, float]) -> None:
    axis = Axis("anything", min(ends), max(ends), lambda value: f"{value:g}")
    drawing = chart([Line("a", points), Line("b", points)], x=axis, y=axis, label="a", spots=[Spot(*ends, "here")])
    assert "nan" not in re.sub(r"<title>.*?</title>|>[^<]*<", "", drawing).replace("inf", "nan") or not drawing


def test_a_tornado_without_swing_is_not_drawn() -> None:
    same = Swing("a", 1.0, 1.0, "")
    assert tornado([same], centre=1.0, write=str, label="none") == ""
    assert tornado([Swing("a", 0.5, math.inf, "")], centre=1.0, write=str, label="one").count("<rect") == 1


@pytest.mark.parametrize("shown", [samples.sizing(), samples.sizing().outcome, evil_sizing(), evil_sizing().outcome])
def test_notebooks_show_a_fragment_that_keeps_to_itself(shown: Sizing | Outcome) -> None:
    text = shown._repr_html_()
    tree = parsed(text)
    assert tree.addresses == []
    assert not {"script", "iframe", "img", "html", "body", "link"} & set(tree.tags)
    style = text.partition("<style>")[2].partition("</style>")[0]
    for rule in re.findall(r"([^{}]+)\{", style):
        assert all(selector.strip().startswith(".pddplan") for selector in rule.split(",")), rule
    assert "48" in text


def test_curve_reaches_past_the_promises() -> None:
    sizing = samples.sizing()
    assert longest_time_s(sizing) == pytest.approx(1.15 * 20.0)
    never = replace(sizing.outcome, ttft=replace(sizing.outcome.ttft, p99=float("inf")))
    assert longest_time_s(replace(sizing, outcome=never)) == pytest.approx(1.15 * 20.0)


@pytest.mark.skipif(BROWSER is None, reason="no browser is installed")
def test_browser_shows_it_without_running_names(tmp_path: Path) -> None:
    page = tmp_path / "plan.html"
    page.write_text(render(evil_sizing(), ttft_curve=CURVE, studies=studies()), encoding="utf-8")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    command = [str(BROWSER), *flags, "--virtual-time-budget=2000", "--dump-dom", page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    title = re.search(r"<title>(.*?)</title>", done.stdout, re.DOTALL)
    assert title
    assert title.group(1).startswith("Plan for &lt;img")


@given(st.floats(-1e9, 1e9), st.floats(1e-9, 1e9))
def test_axes_are_marked_with_few_round_numbers_inside_the_ends(low: float, width: float) -> None:
    high = low + width
    marks = round_marks(low, high)
    assert 2 <= len(marks) <= 13 or high - low < 1e-6 * abs(low)
    assert all(low - 1e-6 * width - 1e-9 <= mark <= high + 1e-6 * width + 1e-9 for mark in marks)


@pytest.mark.parametrize(
    ("low", "high", "marks"),
    [(0.0, 20.1, [0, 5, 10, 15, 20]), (0.0, 1.0, [0, 0.2, 0.4, 0.6, 0.8, 1.0]), (3.0, 3.0, [3, 3])],
)
def test_axes_by_hand(low: float, high: float, marks: list[float]) -> None:
    assert round_marks(low, high) == pytest.approx(marks)


def test_the_page_shows_every_promise_and_the_value_of_every_price() -> None:
    sizing = samples.sizing()
    shown = render(sizing, ttft_curve=CURVE)
    for row in latencies(sizing):
        assert f"<td>{row.name}</td>" in shown
    unpromised = replace(sizing.inputs, workload=replace(sizing.inputs.workload, promises=Promises()))
    bare = render(replace(sizing, inputs=unpromised), ttft_curve=CURVE)
    assert "Dots are promises" not in bare
    assert "within all promises" not in bare
