"""Sites files become records; faults name file, line and key."""

from __future__ import annotations

from pathlib import Path

import pytest

from pddplan.domain.provenance import Basis
from pddplan.errors import InputError
from pddplan.profiles.sites_profile import load_finance, load_sites, sites_of
from pddplan.profiles.yaml_source import loads

PLAIN = """
schema: sites/1
name: mine
sites:
  a: {chips: {H100_SXM: {max_chips: 16, roles: [P, RLD], price_per_chip_hour: 2}}, power_limit_kw: 50}
  b: {chips: {h200-sxm: }}
lines:
  a-b: {from: a, to: b, rtt_ms: 12, loss_fraction: 0.0001, tcp_window_mib: 4,
        tiers: [{gbps: 100, monthly_cost: 9000}, {gbps: 10, monthly_cost: 2000, currency: CNY}]}
finance: {currency: EUR, usd_per_currency: 1.1, usd_per: {CNY: 0.14}, spare_fraction: 0.1}
"""


def test_plain_numbers_become_base_units() -> None:
    sites = sites_of(loads(PLAIN))
    line = sites.lines["a-b"]
    assert sites.sites["a"].chips["h100-sxm"].roles == ("P", "RLD")
    assert sites.sites["a"].chips["h100-sxm"].price_per_chip_hour == 2.0
    assert sites.sites["b"].chips["h200-sxm"].max_chips is None
    assert line.rtt_s == pytest.approx(0.012)
    assert line.tcp_window_bytes == 4 * 1024 * 1024
    assert [(t.gbps, t.currency) for t in line.tiers] == [(10.0, "CNY"), (100.0, "EUR")]
    assert sites.finance.spare_fraction == 0.1
    assert sites.finance.hours_per_month == 730.0
    assert sites.origins["lines.a-b.rtt_ms"].basis is Basis.ASSUMED
    assert (
        "given in the file"
        in sites.provenance["sites.a.chips.h100-sxm.price_per_chip_hour".replace("h100-sxm", "H100_SXM")]
    )


def test_bundled_sites_are_the_ones_of_the_issue() -> None:
    sites = load_sites()
    line = sites.lines["a-b"]
    assert [tier.gbps for tier in line.tiers] == [10, 25, 40, 100, 200, 400]
    costs = [tier.monthly_cost for tier in line.tiers]
    assert costs == sorted(costs)
    per_gbps = [tier.monthly_cost / tier.gbps for tier in line.tiers]
    assert per_gbps == sorted(per_gbps, reverse=True)
    price_a = sites.sites["a"].chips["h100-sxm"].price_per_chip_hour
    price_b = sites.sites["b"].chips["h200-sxm"].price_per_chip_hour
    assert price_a
    assert price_b
    assert 1.2 <= price_b / price_a <= 1.3
    assert sites.provenance["lines.a-b"]
    assert all(tier.source for tier in line.tiers)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("to: b", "to: c", "runs to an unknown site 'c'"),
        ("to: b", "to: a", "starts and ends at the same site"),
        ("gbps: 10,", "gbps: 100,", "two tiers of the same rate"),
        ("rtt_ms: 12", "rtt_ms: 0", "m.yaml:8: lines.a-b.rtt_ms\n  must be greater than 0, got 0"),
        ("rtt_ms: 12", "rtt_s: 12", "unknown key 'rtt_s'; did you mean 'rtt_ms'?"),
        ("max_chips: 16", "max_chips: lots", "must be a whole number, got text 'lots'"),
        ("max_chips: 16", "max_chips: -1", "must be at least 0"),
        ("[P, RLD]", "[P, MDD]", "did you mean 'MD'?"),
        ("loss_fraction: 0.0001", "loss_fraction: 1", "must be less than 1"),
        ("currency: EUR", "currency: euro", "currency"),
        (
            "a: {chips: {H100_SXM: {max_chips: 16, roles: [P, RLD], price_per_chip_hour: 2}}",
            "a: {chips: {}",
            "at least 1",
        ),
        ("schema: sites/1", "schema: chip/1", "expected a file with schema 'sites/1'"),
    ],
)
def test_faults(old: str, new: str, words: str) -> None:
    assert old in PLAIN
    with pytest.raises(InputError) as caught:
        sites_of(loads(PLAIN.replace(old, new), name="m.yaml"))
    assert words in str(caught.value)
    assert "m.yaml:" in str(caught.value)


def test_finance_by_name(tmp_path: Path) -> None:
    path = tmp_path / "cheap.yaml"
    path.write_text("schema: finance/1\nname: cheap\nfinance: {hours_per_month: 700, acquisition: purchase}\n")
    finance, origins = load_finance(path)
    assert (finance.hours_per_month, finance.acquisition) == (700.0, "purchase")
    assert "finance.hours_per_month" in origins
