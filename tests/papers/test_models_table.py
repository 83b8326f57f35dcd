"""The reference table of KV bytes (36 models) and the configuration files it was computed from."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from pddplan.performance.kv import kv_size
from pddplan.performance.parameters import active_parameters, parameters, total_parameters
from pddplan.profiles.hf_config import import_config
from pddplan.profiles.llm_profile import llm_ids, load_llm
from pddplan.units import GIB, GIGA, KIB, MIB, TERA

COLUMNS = ("attention", "layers", "total", "active", "slope_bf16", "slope_fp8", "fixed_bf16", "fixed_fp8", "at_64k")
ROUNDED_ACTIVE = 0.5
"""Active parameters are printed in whole billions, so they may be off by half of one."""


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


# What the makers' counts hold beside the language model, so that our count of it must be lower.
COUNTED_WITH_MORE = {
    "qwen3.5-397b-a17b": "vision tower and MTP block",
    "mistral-large-3-675b": "vision tower; sizes unverified",
    "minimax-m2.5": "neither embeddings nor head",
    "glm-4.5": "neither embeddings nor head",
    "glm-4.5-air": "neither embeddings nor head",
}


def test_active_parameters_of_every_model_in_the_table(shared_dir: Path, configs: dict[str, Path]) -> None:
    """Within 2 % of the printed figure or of its last digit, with or without embeddings as the maker counts."""
    for name, row in table(shared_dir).items():
        printed = published(row["active"])
        llm = import_config(configs[name]).llm
        if printed is None or not llm.is_moe:
            continue
        count = parameters(llm)
        ways = [active_parameters(llm), active_parameters(llm) + (count.embedding if count.head else 0.0)]
        ways.append(count.active_experts + count.outside_experts - count.embedding - count.head)
        nearest = min(abs(way / printed - 1) for way in ways)
        rounding = ROUNDED_ACTIVE * GIGA / printed
        assert nearest <= max(0.02, rounding) + (0.03 if name in COUNTED_WITH_MORE else 0.0), name


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


def test_bundled_profiles_keep_to_what_their_makers_print() -> None:
    for name in llm_ids():
        llm = load_llm(name)
        if llm.published_parameters is not None and name not in ("kimi-linear-48b-a3b", "mistral-large-4-1t-a52b"):
            # those two print 48B for 49.1B and 1T for 1.05T
            assert total_parameters(llm) == pytest.approx(llm.published_parameters, rel=0.02), name
