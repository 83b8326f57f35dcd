"""Chip files: what they must hold, what is refused, and that bundled ones say what the reference table says."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from pddplan.domain.chip import Fabric
from pddplan.domain.provenance import Basis
from pddplan.errors import InputError
from pddplan.profiles import lookup
from pddplan.profiles.chip_profile import chip_ids, chip_of, load_chip, load_chips, price_of
from pddplan.profiles.yaml_source import loads

MINIMAL = """\
schema: chip/1
name: Example
chip:
  vendor: V
  peak_bf16_dense_tflop_per_s: 500
  memory_gb: 128
  memory_bandwidth_gb_per_s: 4000
  scaleup_gb_per_s_per_direction: 300
  scaleup_domain_chips: 8
  fabric: mesh
"""


def faults(text: str) -> list[str]:
    with pytest.raises(InputError) as caught:
        chip_of(loads(text, name="my.yaml"), chip_id="my")
    return [str(problem) for problem in caught.value.problems]


def test_units_are_converted_once() -> None:
    chip = chip_of(loads(MINIMAL + "  nic_gbps: 400\n", name="my.yaml"), chip_id="my")
    assert chip.peak_flop_per_s == {"bf16": 5e14}
    assert chip.memory_bytes == 128e9
    assert chip.memory_bandwidth_bytes_per_s == 4e12
    assert chip.scaleup_bytes_per_s == 3e11
    assert chip.nic_bytes_per_s == 5e10
    assert chip.fabric is Fabric.MESH
    assert chip.price is None
    assert chip.provenance["memory_bytes"].basis is Basis.ASSUMED


def test_all_faults_of_a_file_with_line_and_key() -> None:
    text = MINIMAL.replace("4000", "-4800").replace("128", "lots").replace("mesh", "string") + "  hbm: 3\n"
    told = "\n".join(faults(text))
    assert "my.yaml:7: chip.memory_bandwidth_gb_per_s" in told
    assert "must be greater than 0, got -4800" in told
    assert "my.yaml:6: chip.memory_gb" in told
    assert "must be a number, got text 'lots'" in told
    assert "unknown key 'hbm'" in told
    assert "fabric" in told


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("  peak_bf16_dense_tflop_per_s: 500\n", ""), "no peak is given"),
        (("  fabric: mesh\n", "  fabric: mesh\n  peak_fp8_dense_tflop_per_s: 1000000\n"), "far above the bf16 peak"),
        (("peak_bf16_dense_tflop_per_s: 500", "peak_bf16_dense_tflop_per_s: .nan"), "must be a finite number"),
        (("peak_bf16_dense_tflop_per_s: 500", "peak_bf16_dense_tflop_per_s: 1e308"), "must be at most"),
        (("scaleup_domain_chips: 8", "scaleup_domain_chips: 8.5"), "must be a whole number"),
        (("schema: chip/1", "schema: model/1"), "expected a file with schema 'chip/1'"),
    ],
)
def test_refused(change: tuple[str, str], says: str) -> None:
    assert any(says in told for told in faults(MINIMAL.replace(*change)))


def priced(price: str) -> str:
    return f"{MINIMAL}  price_per_chip_hour: {price}\nsources: {{x: {{kind: published, title: t}}}}\n"


def test_a_price_has_currency_date_and_range() -> None:
    (told,) = faults(priced("{value: 2, low: 1, high: 3, date: '2026-04', currency: eur, source: x}"))
    assert "chip.price_per_chip_hour.currency" in told
    (told,) = faults(priced("{value: 5, low: 1, high: 3, date: '2026-04', source: x}"))
    assert "lies outside its own range 1 to 3" in told
    (told,) = faults(priced("{value: 2, low: 1, high: 3, source: x}"))
    assert "chip.price_per_chip_hour.date" in told
    assert "missing" in told


def test_every_row_of_the_reference_table_that_is_complete_has_a_profile(shared_dir: Path) -> None:
    with (shared_dir / "reference" / "chips.csv").open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    peaks = {
        "bf16": "peak_bf16_tflops_dense",
        "fp8": "peak_fp8_tflops_dense",
        "fp4": "peak_fp4_tflops_dense",
        "int8": "peak_int8_tops_dense",
    }
    known = set(chip_ids())
    for row in rows:
        complete = any(row[c] for c in peaks.values()) and row["hbm_gb"] and row["hbm_gbps"]
        assert (row["id"] in known) == bool(complete), row["id"]
        if not complete:
            continue
        chip = load_chip(row["id"])
        for dtype, column in peaks.items():
            assert chip.peak_flop_per_s.get(dtype, 0.0) == float(row[column] or 0) * 1e12, (row["id"], dtype)
        assert chip.memory_bytes == float(row["hbm_gb"]) * 1e9
        assert chip.memory_bandwidth_bytes_per_s == float(row["hbm_gbps"]) * 1e9
        if row["scaleup_gbps_unidirectional"]:
            assert chip.scaleup_bytes_per_s == float(row["scaleup_gbps_unidirectional"]) * 1e9
        if row["price_usd_hour_low"]:
            price = price_of(chip)
            assert price.low_per_chip_hour == float(row["price_usd_hour_low"])
            assert (price.currency, price.date) == ("USD", row["price_source_date"])
        if "DOUBTFUL" in row["note"]:
            assert chip.doubtful


def test_ids_of_the_validation_table_are_aliases(shared_dir: Path) -> None:
    with (shared_dir / "validation" / "chips.csv").open(newline="", encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            chip = load_chip(row["chip"])
            assert chip.peak_flop_per_s["bf16"] == float(row["bf16_tflops"]) * 1e12
            assert chip.memory_bandwidth_bytes_per_s == float(row["mem_bw_gbs"]) * 1e9
            if row["reference_id"]:
                assert chip.id == row["reference_id"]


def test_every_bundled_number_has_a_source() -> None:
    for chip in load_chips(chip_ids()).values():
        assert {"memory_bytes", "memory_bandwidth_bytes_per_s", "scaleup_bytes_per_s"} <= set(chip.provenance)
        assert {f"peak_flop_per_s.{d}" for d in chip.peak_flop_per_s} <= set(chip.provenance)
        assert all(origin.source != "given in the file without a source" for origin in chip.provenance.values())
        assert chip.price is None or chip.price.date


def test_a_folder_of_the_user_comes_first(tmp_path: Path) -> None:
    (tmp_path / "h200-sxm.yaml").write_text(MINIMAL, encoding="utf-8")
    (tmp_path / "brand-new.yaml").write_text(MINIMAL.replace("Example", "Brand New"), encoding="utf-8")
    with lookup.use_profiles([tmp_path]):
        assert load_chip("h200-sxm").vendor == "V"
        assert load_chip("brand_new").name == "Brand New"
        assert "brand-new" in chip_ids()
    assert load_chip("h200-sxm").vendor == "NVIDIA"


def test_the_environment_names_folders_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "hardware_profiles"
    folder.mkdir()
    (folder / "mine.yaml").write_text(MINIMAL, encoding="utf-8")
    monkeypatch.setenv("PDDPLAN_PROFILES", str(tmp_path))
    assert load_chip("mine").vendor == "V"


def test_faults_of_several_chips_come_together() -> None:
    with pytest.raises(InputError) as caught:
        load_chips(["h10-sxm", "h200-sxm", "mi30x"])
    told = str(caught.value)
    assert "did you mean 'h100-sxm'?" in told
    assert "did you mean 'mi300x'?" in told


def test_a_missing_price_names_the_chip() -> None:
    with pytest.raises(InputError, match="no price is known for gaudi3"):
        price_of(load_chip("gaudi3"))
