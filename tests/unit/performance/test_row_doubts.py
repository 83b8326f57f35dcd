"""A row that says more than its prediction can follow is predicted with a remark, or refused with the reason."""

from __future__ import annotations

import pytest

from pddplan.performance.measurement import parse_row
from pddplan.performance.predict import predict_row
from pddplan.profiles.catalog import ProfileCatalog

CATALOG = ProfileCatalog()
BASE = {
    "kind": "tpot", "model": "llama-3.1-8b", "chip": "h100_sxm", "n_chips": "1", "tp": "1", "framework": "vllm 0.10",
    "date": "2025-09", "isl_tokens": "1024", "osl_tokens": "512", "batch_or_concurrency": "16", "unit": "ms",
    "note": "mode=closed_loop",
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"weights_dtype": "fp8", "chip": "a100_sxm_80"}, "has no fp8 units"),
        ({"weights_dtype": "nvfp4"}, "has no fp4 units"),
        ({"tp": "3", "n_chips": "3"}, "32 heads cannot be shared out evenly over tp 3"),
        ({"tp": "8", "n_chips": "4"}, "n_chips is 4, but the layout takes 8"),
        ({"tp": "7", "n_chips": "8"}, "n_chips is 8, but the layout takes 7"),
        ({"model": "mixtral-8x7b", "tp": "8", "ep": "3", "n_chips": "8"}, "layout read as tp 8, pp 1, dp 1, ep 2"),
        ({"pp": "100", "n_chips": "100"}, "pp 100 is more than the 32 layers"),
        ({"chip": "groq-lpu", "tp": "2", "n_chips": "2"}, "no link between groq-lpu chips is known: PCIe assumed"),
        ({"isl_tokens": "1000000"}, "more than the 131072"),
        ({"note": "mode=closed_loop;spec=eagle3"}, "speculative decoding (spec=eagle3)"),
        ({"note": "mode=closed_loop;stat=p99"}, "the value is a p99"),
    ],
)
def test_odd_rows_are_predicted_with_a_remark(changes: dict[str, str], said: str) -> None:
    prediction = predict_row(parse_row({**BASE, **changes}, where="t.csv:2"), CATALOG)
    assert prediction.value is not None
    assert said in prediction.remark


def test_an_even_row_has_no_remark() -> None:
    assert predict_row(parse_row({**BASE, "note": "mode=closed_loop;spec=none"}, where="t.csv:2"), CATALOG).remark == ""


@pytest.mark.parametrize("osl", ["", "0", "1"])
def test_time_per_token_of_a_loop_needs_answers_of_two_tokens(osl: str) -> None:
    prediction = predict_row(parse_row({**BASE, "osl_tokens": osl}, where="t.csv:2"), CATALOG)
    assert prediction.value is None
    assert prediction.remark.startswith("osl_tokens is ")
