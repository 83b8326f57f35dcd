"""Parts that the reports of studies share."""

from __future__ import annotations

import json
import math

from pddplan.profiles.token_prices import token_price_for
from pddplan.report.bcr_parts import bullets, joined, price_text, title
from pddplan.report.json_plan import finite
from pddplan.report.text_table import Paint, Screen

SCREEN = Screen(60, Paint(), ascii_only=True)


def test_json_gets_null_for_what_it_cannot_say() -> None:
    got = finite({"a": math.inf, "b": [1.0, math.nan, {"c": -math.inf}], "d": (True, "x", None, 3)})
    assert got == {"a": None, "b": [1.0, None, {"c": None}], "d": [True, "x", None, 3]}
    json.dumps(got, allow_nan=False)


def test_text_is_wrapped_and_plain() -> None:
    lines = [*title("HEAD " * 20, SCREEN), *bullets(["word " * 30, "control \x1b[31m character"], SCREEN)]
    assert max(len(line) for line in lines) <= 60
    assert not any("\x1b" in line for line in lines)
    assert joined([["a │ b"], [], ["c"]], SCREEN) == "a | b\n\nc\n"


def test_prices_say_where_they_come_from() -> None:
    price, assumed = token_price_for("llama-3.1-70b")
    text = price_text(price, assumed=assumed)
    assert "assumed" in text
    assert str(price.source) in text
