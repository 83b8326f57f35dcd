"""What a reader must be told beside the numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pddplan.domain.outcome import Percentiles
from pddplan.optimize.objective import Limits
from pddplan.report.cautions import asked_limits, cautions
from pddplan.report.html import render as page
from pddplan.report.json_plan import plan_json
from pddplan.report.terminal import render
from pddplan.report.verdict import whole_instances
from pddplan.sizing import Sizing
from tests import samples


def _starving(p50_s: float) -> Sizing:
    """A plan whose few relayed requests wait, while the promises to all are kept."""
    base = samples.sizing()
    slow = {**base.outcome.ttft_by_path, "relayed": Percentiles(p50_s, 2 * p50_s, 3 * p50_s, p50_s)}
    shares = {"direct": 0.995, "relayed": 0.005}
    return replace(base, outcome=replace(base.outcome, ttft_by_path=slow, path_share=shares))


@pytest.mark.parametrize(("p50_s", "told"), [(19.0, False), (21.0, True)])  # 20 s are promised at P99
def test_requests_that_wait_longer_than_any_promise_are_told_of(p50_s: float, told: bool) -> None:
    said = cautions(_starving(p50_s))
    assert len(said) == told
    assert all("0.5 % of requests (P-RLD-MD on a/h100" in text for text in said)


def test_every_report_shows_a_caution() -> None:
    sizing = _starving(900.0)
    words = "wait 900 s or longer"
    assert words in " ".join(render(sizing, width=200).split())
    assert words in page(sizing)
    assert any(words in remark for remark in plan_json(sizing)["remarks"])


@pytest.mark.parametrize(("longest", "told"), [(61_000, False), (60_999, True), (None, False)])
def test_prompts_beyond_the_context_of_the_model_are_told_of(longest: int | None, told: bool) -> None:
    base = samples.sizing()
    sizing = replace(base, inputs=replace(base.inputs, llm=replace(base.inputs.llm, max_context_tokens=longest)))
    said = cautions(sizing)
    assert len(said) == told
    assert all("80 % of requests have up to 61,000 tokens" in text for text in said)
    assert np.max(sizing.inputs.workload.classes.input_tokens) == 60_000


def test_limits_that_were_asked_for_are_told_and_those_by_default_are_not() -> None:
    sizing = samples.sizing()
    assert asked_limits(sizing) == asked_limits(replace(sizing, limits=Limits())) == ""
    held = asked_limits(replace(sizing, limits=Limits(redundant_instances=1, survive_line_loss=True, max_chips=90)))
    for option in ("--spare", "--survive-line-loss", "--max-chips"):
        assert option in held


def test_replicas_in_reserve_are_no_reason_for_the_next_one() -> None:
    """Five instances at 83 %: with one in reserve, one fewer means three that carry the load."""
    outcome = samples.outcome()
    assert "a/P would have none" not in whole_instances(outcome, Limits(redundant_instances=1))
    assert f"a/P would be {0.83 * 5 / 3:.0%} busy".replace("%", " %") in whole_instances(
        outcome, Limits(redundant_instances=1)
    )
    assert "a/P would have none" in whole_instances(outcome, Limits(redundant_instances=4))
