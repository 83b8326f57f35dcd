"""The reference table of KV bytes (36 models) and the configuration files it was computed from."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from pddplan.performance.kv import kv_size
from pddplan.performance.parameters import counted_parameters, total_parameters
from pddplan.profiles.hf_config import import_config
from pddplan.profiles.llm_profile import llm_ids, load_llm
from pddplan.report.model_facts import model_facts
from pddplan.units import GIB, GIGA, KIB, MIB, TERA

COLUMNS = ("attention", "layers", "total", "active", "slope_bf16", "slope_fp8", "fixed_bf16", "fixed_fp8", "at_64k")


def table(shared_dir: Path) -> dict[str, dict[str, str]]:
    rows = {}
    for line in (shared_dir / "reference" / "models.md").read_text(encoding="utf-8").splitlines():
        found = re.match(r"\| [^|]* \(`([^`]+)`\) \|(.*)\|$", line.strip())
        if found:
            rows[found[1]] = dict(zip(COLUMNS, (cell.strip() for cell in found[2].split("|")), strict=False))
    return rows


def number(cell: str) -> float:
    return float(cell.replace(",", "").removesuffix(" GB"))


def published(cell: str) -> float | None:
    found = re.match(r"([\d.]+)([TB])", cell)
    return None if found is None else float(found[1]) * (TERA if found[2] == "T" else GIGA)


@pytest.fixture(scope="module")
def configs(shared_dir: Path) -> dict[str, Path]:
    return {path.stem: path for path in sorted((shared_dir / "reference" / "model_configs").glob("*.json"))}


def test_every_configuration_imports_and_equals_its_bundled_profile(configs: dict[str, Path]) -> None:
    assert len(configs) == 48
    for name, path in configs.items():
        imported, bundled = import_config(path, model_id=name).llm, load_llm(name)
        same = replace(
            imported,
            name=bundled.name,
            aliases=bundled.aliases,
            published_parameters=bundled.published_parameters,
            published_active_parameters=bundled.published_active_parameters,
            published_convention=bundled.published_convention,
            published_active_convention=bundled.published_active_convention,
        )
        assert same == bundled, name


def test_kv_bytes_of_every_model_in_the_table(shared_dir: Path, configs: dict[str, Path]) -> None:
    rows = table(shared_dir)
    assert len(rows) == 36
    for name, row in rows.items():
        llm = import_config(configs[name]).llm
        for dtype in ("bf16", "fp8"):
            size = kv_size(llm, dtype)
            assert size.growing_bytes_per_token == pytest.approx(number(row[f"slope_{dtype}"]), rel=1e-3), name
            assert size.fixed_bytes == pytest.approx(number(row[f"fixed_{dtype}"]), rel=1e-9), name
            for length in (8 * KIB, 64 * KIB, 128 * KIB, MIB):
                line = number(row[f"slope_{dtype}"]) * length + number(row[f"fixed_{dtype}"])
                assert float(size.sequence_bytes(length)) == pytest.approx(line, rel=0.02), (name, length)
        at_64k = float(kv_size(llm, "bf16").sequence_bytes(64 * KIB))
        assert at_64k / GIGA == pytest.approx(number(row["at_64k"]), abs=0.0051), name


PRINTED_LOWER = {"kimi-linear-48b-a3b": "48 billion printed, 49.1 billion in the checkpoint's own listing"}


def test_total_parameters_of_every_model_in_the_table(shared_dir: Path, configs: dict[str, Path]) -> None:
    """Within 2 % of the printed total, or of its last printed digit where that is coarser (1T)."""
    for name, row in table(shared_dir).items():
        total = published(row["total"])
        if total is None:
            continue
        decimals = len(row["total"].split("/")[0].strip()[:-1].partition(".")[2])
        digit = (TERA if "T" in row["total"] else GIGA) / 10**decimals
        allowed = max(0.025 if name in PRINTED_LOWER else 0.02, digit / 2 / total)
        assert total_parameters(import_config(configs[name]).llm) == pytest.approx(total, rel=allowed), name


NEAR = {
    "deepseek-v2-lite": "2.45B with the head is printed as 2.4B",
    "minimax-m3": "23.5B in layers is printed as 23B; sizes of its index are assumed",
}
"""Printed active parameters that no usual count gives within 2 % or half a last digit: named in their profiles."""


@pytest.mark.parametrize("name", llm_ids())
def test_printed_parameters_are_reached_as_their_maker_counts_them(name: str) -> None:
    """Within 2 %, or within half the last printed digit where that is coarser."""
    facts = model_facts(load_llm(name))["published_counts"]
    for which in ("total", "active"):
        printed = facts[which]
        if printed is None:
            continue
        assert printed["counts"] is not None, which
        allowed = 0.025 if which == "active" and name in NEAR else 0.02
        assert abs(printed["difference"]) <= allowed or printed["equal_when_rounded"], (which, printed)


def test_active_parameters_of_every_model_in_the_table(shared_dir: Path, configs: dict[str, Path]) -> None:
    """The table prints what the profiles have, in fewer digits; its models import with the same counts."""
    for name, row in table(shared_dir).items():
        printed, bundled = published(row["active"]), load_llm(name)
        if printed is None or not bundled.is_moe or bundled.published_active_convention is None:
            continue
        imported = import_config(configs[name]).llm
        ours = counted_parameters(imported, bundled.published_active_convention.counts, active=True)
        unit = 0.1 * GIGA if "." in row["active"] else GIGA
        apart = {"mistral-large-3-675b": 41 - 39, "gemma-4-26b-a4b": 4 - 3.8}.get(name, 0) * GIGA
        assert ours == pytest.approx(printed - apart, rel=0.02, abs=unit / 2), name


def test_deepseek_v4_figures_published_apart() -> None:
    pro = load_llm("deepseek-v4-pro")
    # vLLM blog 2026-04-24: 9.62 GiB in bf16 and about half of it as served, at 2**20 tokens
    assert float(kv_size(pro, "bf16").sequence_bytes(MIB)) / GIB == pytest.approx(9.62, rel=0.002)
    assert float(kv_size(pro, "fp8").sequence_bytes(MIB)) / GIB == pytest.approx(4.92, rel=0.01)
    v32 = load_llm("deepseek-v3.2")
    assert float(kv_size(v32, "bf16").sequence_bytes(MIB)) / GIB == pytest.approx(83.9, rel=0.002)
    # DESIGN: 5,031 B per token growing and 4.56 MB of windows; windows dominate a short increment
    served = kv_size(pro)
    assert served.kv_dtype == "fp8"
    assert served.growing_bytes_per_token == pytest.approx(5031, rel=1e-3)
    assert served.fixed_bytes == 4_559_872
    short = float(served.increment_bytes(total_tokens=65_536, missing_tokens=100))
    assert served.fixed_bytes / short > 0.8
    # 80 sequences of 64K as served: 26.7 GB
    assert 80 * float(served.sequence_bytes(64 * KIB)) / GIGA == pytest.approx(26.7, rel=0.01)


@pytest.mark.parametrize(("tokens", "mib"), [(KIB, 190.8), (8 * KIB, 308.9), (32 * KIB, 701.3), (128 * KIB, 2316.3)])
def test_the_hybrid_of_the_prfaas_paper(tokens: int, mib: float) -> None:
    size = kv_size(load_llm("prfaas-1t-hybrid"), "bf16")
    assert float(size.sequence_bytes(tokens)) / MIB == pytest.approx(mib, rel=0.02)
