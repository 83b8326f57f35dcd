"""The table of token prices: complete, consistent, and strict about mistakes."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from pddplan.errors import InputError
from pddplan.profiles.token_prices import load_token_prices, token_price_for, token_price_named

HEAD = """\
schema: token-prices/1
name: mine
sources: {list: {kind: published, title: a list, read_on: "2026-11"}}
currency: USD
default: a
prices:
"""
ROW = '  - {model: {value: a, source: list}, provider: me, miss_per_mtok: 1, output_per_mtok: 2, date: "2026"}\n'


def test_bundled_table_agrees_with_the_reference(shared_dir: Path) -> None:
    with (shared_dir / "reference" / "token_prices.csv").open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    table = {price.model: price for price in load_token_prices()}
    assert len(table) == len(rows)
    for row in rows:
        price = table[row["model"]]
        assert price.miss_per_mtok == float(row["input_miss_usd_per_mtok"])
        assert price.output_per_mtok == float(row["output_usd_per_mtok"])
        if row["input_cached_usd_per_mtok"]:
            assert price.cached_over_miss == pytest.approx(float(row["cached_over_miss"]), abs=6e-5)
        else:
            assert price.cached_per_mtok is None


def test_every_price_is_dated_and_sourced() -> None:
    for price in load_token_prices():
        assert price.date
        assert price.source
        assert price.currency == "USD"


def test_rows_by_model_and_by_name() -> None:
    price, assumed = token_price_for("DeepSeek_V4 Pro")
    assert (price.model, assumed) == ("DeepSeek-V4-Pro, off-peak", False)
    _, assumed = token_price_for("llama-3.1-70b")
    assert assumed
    assert token_price_named("kimi-k3").output_per_mtok == 15.0
    with pytest.raises(InputError, match="did you mean 'kimi-k3'"):
        token_price_named("kimi-k4")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (HEAD, "prices"),
        (HEAD + ROW.replace("miss_per_mtok: 1", "miss_per_mtok: -1"), "must be at least 0"),
        (HEAD + ROW.replace("miss_per_mtok: 1", "mis_per_mtok: 1"), "did you mean 'miss_per_mtok'"),
        (HEAD + ROW.replace("source: list", "source: lists"), "unknown source 'lists'"),
        (HEAD.replace("default: a", "default: b") + ROW, "no price row is called 'b'"),
        (HEAD + ROW + ROW, "two rows have the same model name"),
        (HEAD.replace("prices:", "for_models: {x: y}\nprices:") + ROW, "no price row is called 'y'"),
    ],
)
def test_mistakes_are_named_with_their_place(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load_token_prices(path)
    assert words in str(caught.value)
    assert "mine.yaml" in str(caught.value)
