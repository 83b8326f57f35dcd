"""Routing as thresholds: those of samples are found again, and where there is none nothing is claimed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pddplan.domain.plan import Path, PathKind, Plan
from pddplan.domain.workload import RequestClasses, Workload
from pddplan.report.decisions import decided, rules, rules_json
from tests import samples

TOKENS = np.array([500.0, 2_000.0, 8_000.0, 32_000.0])


def traffic(output_tokens: tuple[float, ...] = (800.0, 800.0, 800.0, 800.0)) -> Workload:
    classes = RequestClasses(
        weight=np.full(4, 0.25),
        input_tokens=np.full(4, 64_000.0),
        miss_prefill_tokens=TOKENS,
        miss_decode_tokens=TOKENS,
        output_tokens=np.array(output_tokens),
    )
    return replace(samples.workload(), classes=classes)


def routed(share: list[list[float]]) -> Plan:
    paths = (
        Path("direct", PathKind.P_MD, "p", decode="d", line="a-b"),
        Path("relayed", PathKind.P_RLD_MD, "p", relay="r", decode="d", line="a-b"),
        Path("ended", PathKind.P_RLD, "p", relay="r"),
    )
    return replace(samples.plan(), paths=paths[: len(share)], share=np.array(share))


def test_large_transfers_over_the_relay() -> None:
    (rule,) = rules(routed([[1, 1, 0, 0], [0, 0, 1, 1]]), traffic())
    assert (rule.about, rule.tokens) == ("relay", "to transfer")
    assert rule.at_least is not None
    assert 2_000 < rule.at_least < 8_000
    assert rule.share == pytest.approx(0.5)
    assert rule.matches == pytest.approx(1.0)


def test_the_threshold_lies_inside_a_class_that_both_ways_share() -> None:
    found = [
        rules(routed([[1, 1 - part, 0, 0], [0, part, 1, 1]]), traffic())[0].at_least or 0.0 for part in (0.1, 0.5, 0.9)
    ]
    assert found == sorted(found, reverse=True)
    assert all(1_250 <= limit <= 5_000 for limit in found)


def test_no_threshold_where_sizes_do_not_decide() -> None:
    (rule,) = rules(routed([[0, 1, 0, 1], [1, 0, 1, 0]]), traffic())
    assert rule.tokens is None
    assert "no single threshold" in str(rule)


def test_one_way_for_all_is_no_decision() -> None:
    assert rules(routed([[1, 1, 1, 1]]), traffic()) == ()


def test_odd_traffic_is_told_with_its_cut() -> None:
    mix = traffic((800.0, 800.0, 800.0, 300.0))
    found = {rule.about: rule for rule in rules(routed([[1, 1, 1, 0], [0, 0, 0, 0], [0, 0, 0, 1]]), mix)}
    odd = found["odd traffic"]
    assert (odd.at_least, odd.at_most) == (32_000.0, 300.0)
    assert "end on the relay" in str(odd)


def test_text_and_json_say_the_same() -> None:
    plan = routed([[1, 1, 0, 0], [0, 0, 1, 1]])
    text = decided(replace(samples.outcome(), plan=plan), traffic())
    record = rules_json(plan, traffic())
    assert len(record) == 1
    assert any("relay: requests with 5,000 tokens or more to transfer" in line for line in text)
    assert record[0]["at_least"] == pytest.approx(5_000)


def _over_two_lines(share: list[list[float]]) -> Plan:
    plan = samples.plan()
    paths = (
        Path("thick", PathKind.P_MD, "p", decode="d", line="a-b"),
        Path("thin", PathKind.P_MD, "p", decode="d", line="a-c"),
    )
    return replace(plan, paths=paths, share=np.array(share))


def test_who_takes_which_of_two_ways_of_one_kind() -> None:
    (rule,) = rules(_over_two_lines([[1, 1, 1, 0], [0, 0, 0, 1]]), traffic())
    assert (rule.about, rule.tokens) == ("way", "to prefill")
    assert rule.at_least is not None
    assert 8_000 < rule.at_least < 32_000
    assert str(rule).endswith("take a/h100 → b/h200 over a-c")
    (mixed,) = rules(_over_two_lines([[1, 0, 1, 0.4], [0, 1, 0, 0.6]]), traffic())
    assert mixed.tokens is None
    assert "by no single threshold" in str(mixed)
    assert rules(_over_two_lines([[1, 1, 1, 1], [0, 0, 0, 0]]), traffic()) == ()
