"""What ``pddplan model show`` says of parameters: the usual ways to count them, and the maker's own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pddplan.profiles.llm_profile import load_llm
from pddplan.report.model_facts import model_facts, model_text
from pddplan.report.text_table import Paint, Screen

SCREEN = Screen(100, Paint(), ascii_only=True)


def test_the_makers_count_stands_beside_ours_counted_the_same_way() -> None:
    llm = load_llm("glm-4.5")
    facts = model_facts(llm)
    ways = facts["active_parameters_by_count"]
    assert ways["in_layers"] < ways["with_head"] == facts["active_parameters"] < ways["with_head_and_embedding"]
    printed = facts["published_counts"]["active"]
    assert printed["counts"] == ["layers", "mtp"]
    assert printed["ours"] == pytest.approx(32e9, rel=0.02)
    assert printed["equal_when_rounded"]
    text = model_text(llm, facts, screen=SCREEN)
    assert "per token: 32.1B in layers, 32.9B with head, 33.6B with head and embedding" in text
    assert "published 355B in total (layers, mtp): ours so counted 355B" in text


def test_without_a_known_convention_the_usual_count_is_compared() -> None:
    llm = replace(load_llm("glm-4.5"), published_convention=None, published_active_convention=None)
    facts = model_facts(llm)
    printed = facts["published_counts"]["total"]
    assert (printed["counts"], printed["rounded_to"], printed["ours"]) == (None, None, facts["total_parameters"])
    assert "published 355B in total: ours so counted 353B, -0.62 %" in model_text(llm, facts, screen=SCREEN)


def test_nothing_printed_and_dense_models_say_less() -> None:
    nothing = load_llm("prfaas-1t-hybrid")
    assert model_facts(nothing)["published_counts"] == {"total": None, "active": None}
    assert "published" not in model_text(nothing, model_facts(nothing), screen=SCREEN).split("weights")[0]
    dense = load_llm("qwen3-32b")
    assert "per token:" not in model_text(dense, model_facts(dense), screen=SCREEN)
