"""A unit behind a number is turned into that of the column, or refused when the column cannot hold it."""

from __future__ import annotations

import pytest

from pddplan.profiles.cell_units import number_in_column


@pytest.mark.parametrize(
    ("text", "column", "value"),
    [
        ("400", "bf16_tflops", 400),
        ("400 TFLOPS", "bf16_tflops", 400),
        ("2.5 PFLOP/s", "peak_fp8_tflops_dense", 2500),
        ("1979 TOPS", "int8_tops", 1979),
        ("96 GB", "mem_gb", 96),
        ("96 GiB", "hbm_gb", 96 * 1.073741824),
        ("4.8 TB/s", "mem_bw_gbs", 4800),
        ("3,350 GB/s", "hbm_gbps", 3350),
        ("900GB/s", "scaleup_gbs_uni", 900),
        ("3.2 Tbps", "scaleup_gbps_unidirectional", 400),
        ("400 Gbps", "scaleout_gbps", 400),
        ("50 GB/s", "scaleout_gbps", 400),
        ("1.2 kW", "tdp_w", 1200),
        ("8e2", "mem_gb", 800),
    ],
)
def test_units_are_turned_into_that_of_the_column(text: str, column: str, value: float) -> None:
    assert number_in_column(text, column) == pytest.approx(value)


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("400 GB", "bf16_tflops"),
        ("96 GB/s", "mem_gb"),
        ("8 heads", "n_heads"),
        ("fast", "mem_gb"),
        ("4 parsecs", "mem_gb"),
    ],
)
def test_units_that_a_column_cannot_hold_are_refused(text: str, column: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        number_in_column(text, column)
