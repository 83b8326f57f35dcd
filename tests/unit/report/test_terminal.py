"""The terminal report: fits its width, reads without colour, says when splitting loses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from pddplan.domain.outcome import Outcome, Violation
from pddplan.domain.workload import Promises
from pddplan.report.legend import key, unit_price
from pddplan.report.terminal import render
from pddplan.report.text_table import Column, Paint, Screen, table, wants_colour
from pddplan.report.verdict import compare, cost_of_line, cost_of_pool
from pddplan.sizing import Sizing
from tests import samples


@pytest.mark.parametrize("width", [60, 80, 100, 120, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    lines = render(samples.sizing(), width=width).splitlines()
    assert max(cell_len(line) for line in lines) <= width


def test_sentences_about_the_relay_fit_as_well() -> None:
    sized = samples.sizing()
    for share in (0.0, 0.06):
        outcome = replace(sized.outcome, plan=replace(sized.outcome.plan, topology="pdd"), relay_token_share=share)
        lines = render(replace(sized, outcome=outcome), width=60).splitlines()
        assert max(cell_len(line) for line in lines) <= 60


@pytest.mark.parametrize("width", [60, 100])
def test_golden_report(width: int, golden: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pddplan.report.assumptions.validated_error", lambda *, moe: 0.2)  # a new fit moves it
    golden(f"terminal-report-{width}.txt", render(samples.sizing(), width=width))


def test_verdict_comes_first_and_assumptions_last() -> None:
    text = render(samples.sizing(), width=100)
    titles = [line.split("   ")[0] for line in text.splitlines() if line.isupper() or line.split("   ")[0].isupper()]
    order = ["POOLS", "LINE", "ROUTING", "LATENCY", "COST", "WHAT BINDS", "IF NO TOKEN WERE CACHED", "HOW SURE"]
    assert [t for t in titles if t in (*order, "ASSUMPTIONS")] == [*order, "ASSUMPTIONS"]
    assert "PLAN (pdd): 76 chips serve 10.0 req/s within all promises" in text.splitlines()[1]


def test_plain_text_without_colour_and_same_text_with() -> None:
    plain = render(samples.sizing(), width=100)
    coloured = render(samples.sizing(), width=100, paint=Paint(on=True))
    assert "\x1b" not in plain
    assert "\x1b[" in coloured
    for code in ("\x1b[1m", "\x1b[2m", "\x1b[32m", "\x1b[33m", "\x1b[31;1m", "\x1b[0m"):
        coloured = coloured.replace(code, "")
    assert coloured == plain


def test_ascii_only() -> None:
    render(samples.sizing(), width=100, ascii_only=True).encode("ascii")


def _cheaper(outcome: Outcome) -> Outcome:
    return replace(outcome, bcr=outcome.bcr * 2, cost=replace(outcome.cost, monthly_total=60_000.0))


def test_says_when_splitting_loses() -> None:
    sizing = samples.sizing()
    text = render(replace(sizing, baseline=_cheaper(samples.aggregated())), width=200)
    assert "SPLITTING THIS WAY LOSES" in text


def test_without_promises_none_is_said_to_be_kept() -> None:
    sizing = samples.sizing()
    workload = replace(sizing.inputs.workload, promises=Promises())
    text = render(replace(sizing, inputs=replace(sizing.inputs, workload=workload)), width=200)
    assert "with no promise to keep" in text
    assert "within all promises" not in text
    assert "No promise was made: --ttft-p90" in text


def test_points_to_any_where_not_all_paths_were_looked_at() -> None:
    sizing = samples.sizing()
    assert "--topology any" in render(sizing, width=200)
    assert "--topology any" not in render(replace(sizing, topology="any"), width=200)


def test_what_was_written_is_what_to_check_next() -> None:
    sizing = samples.sizing()
    assert "size again with --out plan.json" in " ".join(render(sizing, width=200).split())
    text = " ".join(render(sizing, width=200, plan_file="mine.json").split())
    assert "pddplan simulate mine.json" in text
    assert "size again" not in text


def test_tells_why_nothing_is_used_whole() -> None:
    sizing = samples.sizing()
    text = " ".join(render(replace(sizing, outcome=replace(sizing.outcome, binding=())), width=200).split())
    assert "with one fewer, a/P would be" in text
    busy = {load.pool: load.utilization for load in sizing.outcome.pools}
    pool = next(pool for pool in sizing.outcome.plan.pools if pool.instances > 1)
    fewer = busy[pool.id] * pool.instances / (pool.instances - 1)
    assert f"{pool.site}/{pool.role} would be {fewer:.0%} busy".replace("%", " %") in text


def test_nothing_is_said_of_a_cache_that_hits_nothing() -> None:
    sizing = samples.sizing()
    classes = sizing.inputs.workload.classes
    missing = replace(classes, miss_prefill_tokens=classes.input_tokens, miss_decode_tokens=classes.input_tokens)
    cold = replace(sizing.inputs, workload=replace(sizing.inputs.workload, classes=missing))
    assert "IF NO TOKEN WERE CACHED" in render(sizing, width=100)
    assert "IF NO TOKEN WERE CACHED" not in render(replace(sizing, inputs=cold), width=100)


def test_the_legend_names_what_is_there_and_nothing_else() -> None:
    outcome = samples.outcome()
    words = key(outcome)
    assert "P prefill" in words
    assert "MD main decode" in words
    assert "AGG" not in words
    assert "AGG prefill and decode together" in key(samples.aggregated())


def test_an_aggregated_plan_is_not_said_to_split() -> None:
    sizing = samples.sizing()
    text = render(replace(sizing, outcome=samples.aggregated(), topology="any"), width=200)
    assert "it is an aggregated plan" in text
    assert "splitting this way" not in text


def test_prices_say_for_how_long() -> None:
    shown = [unit_price(item) for item in samples.outcome().cost.items]
    assert any(text.endswith("/ chip-hour") for text in shown)
    assert any(text.endswith("/ line-month") for text in shown)


def test_says_when_promises_break() -> None:
    sizing = samples.sizing()
    broken = replace(sizing.outcome, violations=(Violation("TTFT P99", 15.0, 19.6, "s"),), goodput_rps=0.0, bcr=0.0)
    text = render(replace(sizing, outcome=broken), width=200)
    assert "PROMISES BROKEN (TTFT P99)" in text


def test_nothing_to_compare_with() -> None:
    lonely = Sizing(inputs=samples.inputs(), topology="pdd", outcome=samples.outcome(), remarks=("no baseline: x",))
    text = render(lonely, width=100)
    assert "no aggregated baseline" in text
    assert "no baseline: x" in text


def test_hostile_names_cannot_steer_the_terminal() -> None:
    sizing = samples.sizing()
    workload = replace(sizing.inputs.workload, name="\x1b[2J evil \r\n\u202e name" + "x" * 300)
    text = render(replace(sizing, inputs=replace(sizing.inputs, workload=workload)), width=60)
    assert "\x1b" not in text
    assert "\r" not in text
    assert max(cell_len(line) for line in text.splitlines()) <= 60


def test_costs_of_pools_and_lines_add_up() -> None:
    outcome = samples.outcome()
    pools = sum(cost_of_pool(outcome, i) for i in range(len(outcome.plan.pools)))
    assert pools + cost_of_line(outcome, "a-b") == pytest.approx(outcome.cost.monthly_total)


def test_comparison_by_hand() -> None:
    found = compare(samples.outcome(), samples.aggregated())
    assert found is not None
    assert found.bcr_gain == pytest.approx(140_160 / 131_340 - 1)
    assert found.yearly_saving == pytest.approx(12 * (140_160 - 131_340))
    assert found.cost_difference_fraction == pytest.approx(131_340 / 140_160 - 1)
    assert compare(samples.outcome(), replace(samples.aggregated(), goodput_rps=0.0)) is None


@given(st.lists(st.tuples(st.text(max_size=30), st.text(max_size=30)), min_size=1, max_size=5), st.integers(20, 80))
def test_tables_fit(rows: list[tuple[str, str]], width: int) -> None:
    clean = [tuple("".join(c if c.isprintable() else "?" for c in cell) for cell in row) for row in rows]
    columns = [Column("first", importance=0), Column("second", importance=1)]
    assert all(cell_len(line) <= width for line in table(columns, clean, width=width))


def test_colour_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "xterm")
    assert wants_colour(True)
    assert not wants_colour(False)
    monkeypatch.setenv("NO_COLOR", "1")
    assert not wants_colour(True)
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert wants_colour(False)


def test_screen_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "1000")
    with (tmp_path / "x").open("w", encoding="latin-1") as stream:
        screen = Screen.of(stream)
    assert screen.width == 200
    assert screen.ascii_only
    assert not screen.paint.on
