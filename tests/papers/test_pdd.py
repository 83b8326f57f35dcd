"""PDD (technical report, July 2026): the deployment of the report, from published inputs and five calibrated numbers.

Question, fleet, figures and bars are those of ``benchmarks/published_pdd.py``, from which the page is written.
Calibrated are the two prefill numbers and the decode slots of H100 (on the baseline of the report alone), the decode
slots of H200, and the TCP window of one transfer. Chip counts, throughput, BCR, relay share and the gains over direct
transfer are then predictions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import published_pdd as pdd
from benchmarks.published_figures import Figure
from pddplan import api
from pddplan.domain.outcome import Outcome
from pddplan.domain.plan import Role
from pddplan.evaluate.evaluate import evaluate
from pddplan.evaluate.flows import decode_works, system
from pddplan.evaluate.problem import Problem
from pddplan.evaluate.stages import decode_cap
from pddplan.profiles.lookup import bundled_root


@pytest.fixture(scope="module", autouse=True)
def profiles() -> Iterator[None]:
    with pdd.profiles():
        yield


@pytest.fixture(scope="module")
def report() -> pdd.Report:
    return pdd.report()


@pytest.fixture(scope="module")
def deployment(report: pdd.Report) -> Outcome:
    return report.plan


def question() -> Problem:
    return api.problem_of(pdd.question(pdd.RATE_RPS))


@pytest.mark.parametrize("figure", pdd.FIGURES, ids=lambda figure: figure.what)
def test_figure(figure: Figure[pdd.Report], report: pdd.Report) -> None:
    assert figure.holds(report), figure.row(report)


def test_published_fleet_keeps_its_promises(report: pdd.Report) -> None:
    """What the slots of H200 are calibrated on."""
    assert report.relayed.violations == ()


def test_what_is_proven_of_the_fleet(report: pdd.Report) -> None:
    """Relays make looser bounds; the page prints each gap as it is."""
    for outcomes, gap in (
        ((report.baseline, report.same_baseline), 1e-3),
        ((report.plan, report.same_chips), 0.05),
    ):
        for outcome in outcomes:
            assert outcome.solver is not None
            assert outcome.solver.gap < gap


@pytest.mark.parametrize("own", pdd.INPUTS, ids=lambda own: own.name)
def test_each_number_is_moved_by_itself(own: pdd.Input) -> None:
    """The table of the page moves what it says, and nothing else."""
    inputs = pdd.question()
    moved = own.moved(inputs, 1.2)
    for other in pdd.INPUTS:
        times = other.value(moved) / other.value(inputs)
        assert times == pytest.approx(1.2 if other is own else 1.0), other.name


def test_calibrated_numbers_decide_as_the_page_tells() -> None:
    """Slower prefill overloads the published fleet; a smaller window lengthens the relay, and the gain over direct."""
    inputs = pdd.question(pdd.RATE_RPS)
    by_name = {own.name: own for own in pdd.INPUTS}

    def fleet(name: str, factor: float, *, relayed: bool) -> Outcome:
        problem = api.problem_of(by_name[name].moved(inputs, factor))
        return pdd.published_fleet(problem, relayed=relayed)

    assert math.isinf(fleet("prefill, missing tokens per second", 0.8, relayed=True).ttft.p99)
    shares = [
        fleet("TCP window of a transfer (at 30 ms)", factor, relayed=True).relay_token_share
        for factor in (0.8, 1.0, 1.2)
    ]
    assert shares == sorted(shares, reverse=True)


def test_relay_is_fuller_than_its_own_pace_would_allow(deployment: Outcome) -> None:
    """It writes few tokens of an answer; whole answers keep their promise all the same."""
    (relay,) = (pool for pool in deployment.plan.pools if pool.role is Role.RELAY)
    paced = replace(relay, role=Role.DECODE, batch=None)
    work = system(question(), deployment.plan).works[relay.id]
    assert relay.batch is not None
    assert relay.batch > decode_cap(question(), paced, work).batch
    assert deployment.tpot is not None
    assert deployment.tpot.p90 <= pdd.TPOT_S * (1 + 1e-6)


def test_relay_line_and_main_decode_settle(deployment: Outcome) -> None:
    """A relay that waits longer holds shorter: what the pools are asked for must be what their states make of it."""
    problem = question()
    solved = system(problem, deployment.plan)
    again = decode_works(problem, deployment.plan, solved.flow_rps, solved.results)
    for pool_id, work in solved.works.items():
        assert again[pool_id].extra_holding_s == pytest.approx(work.extra_holding_s, rel=0.01)
        assert again[pool_id].tokens_per_request == pytest.approx(work.tokens_per_request, rel=0.01)


def test_without_decode_cache_the_line_is_hopeless() -> None:
    """Published: no DRC needs far more than economical 10-100 Gbit/s; with it traffic falls up to tenfold."""
    problem = question()
    with_cache = pdd.published_fleet(problem, relayed=False)
    (way,) = with_cache.plan.paths
    without = evaluate(problem, replace(with_cache.plan, paths=(replace(way, decode_cache=False),)))
    ratio = without.lines[0].mean_gbps / with_cache.lines[0].mean_gbps
    assert 8 <= ratio <= 10.5
    assert without.violations


def test_calibrated_files_say_so() -> None:
    root = Path(bundled_root() / "workloads" / "published" / "pdd")
    for path in root.rglob("*.yaml"):
        assert "kind: calibrated" in path.read_text(encoding="utf-8"), path
