"""``pddplan sites``: what can be bought where, and a file to start from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pddplan import api
from pddplan.cli import main
from pddplan.profiles.sites_profile import load_sites


def run(*arguments: str) -> int:
    return main.run(list(arguments))


def test_every_bundled_file_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("sites", "list") == 0
    shown = capsys.readouterr().out
    assert "two-sites" in shown
    assert "prfaas" in shown
    assert "h200-sxm (1,024)" in shown


def test_prices_shown_are_those_a_plan_pays(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("sites", "show", "two-sites", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    paid = {item.item.split(":")[0]: item.unit_price for item in api.size(compare=False).outcome.cost.items}
    assert told["sites"]["a"]["h100-sxm"]["price"] == paid["h100-sxm"]
    assert told["sites"]["b"]["h200-sxm"]["price"] == paid["h200-sxm"]
    assert paid["a-b"] in [tier["monthly_cost"] for tier in told["lines"]["a-b"]["tiers"]]


def test_text_names_price_source_and_missing_price(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    body = "schema: sites/1\nname: one\nsites:\n  a:\n    chips:\n      gaudi2: {max_chips: 8}\n      h100-sxm: {}\n"
    (tmp_path / "one.yaml").write_text(body)
    assert run("sites", "show", str(tmp_path / "one.yaml")) == 0
    shown = capsys.readouterr().out
    assert "give price_per_chip_hour" in shown
    assert "no limit" in shown
    assert "chip-hour" in shown


def test_a_copy_is_the_file_itself_and_replaces_nothing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    target = tmp_path / "my-sites.yaml"
    assert run("sites", "copy", "two-sites", "--out", str(target)) == 0
    assert load_sites(target).sites == load_sites("two-sites").sites
    assert target.read_text().startswith("#")
    target.write_text("mine")
    assert run("sites", "copy", "two-sites", "--out", str(target)) == 2
    assert target.read_text() == "mine"
    assert "such a file already" in capsys.readouterr().err


def test_unknown_sites_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("sites", "show", "two-site") == 2
    assert "did you mean 'two-sites'" in capsys.readouterr().err
