"""``pddplan hardware`` and ``pddplan model``: what they print, as text and as JSON, and how they refuse."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from pddplan.cli.main import run
from pddplan.performance.kv import kv_size
from pddplan.profiles.llm_profile import load_llm

CONFIG: dict[str, Any] = {
    "model_type": "qwen3_moe",
    "hidden_size": 2048,
    "num_hidden_layers": 48,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 768,
    "intermediate_size": 6144,
    "vocab_size": 151936,
    "torch_dtype": "bfloat16",
}


def told(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert run(list(arguments)) == code
    captured = capsys.readouterr()
    return captured.err if code else captured.out


def data(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    return json.loads(told(capsys, *arguments, "--json"))


def test_list_of_chips(capsys: pytest.CaptureFixture[str]) -> None:
    text = told(capsys, "hardware", "list")
    assert "h200-sxm" in text
    assert "ascend-910c" in text
    assert "sources disagree" in text
    assert all(len(line) <= 100 for line in text.splitlines())
    only = data(capsys, "hardware", "list", "--vendor", "amd")
    assert {chip["id"] for chip in only["chips"]} == {"mi300x", "mi325x", "mi355x"}


def test_doubtful_numbers_are_marked(capsys: pytest.CaptureFixture[str]) -> None:
    text = told(capsys, "hardware", "show", "mlu690")
    assert "TFLOP/s?" in text
    assert "VERY DOUBTFUL" in text
    shown = data(capsys, "hardware", "show", "mlu690")
    assert "memory_bytes" in shown["doubtful"]
    assert shown["provenance"]["memory_bytes"]["doubtful"] is True


def test_show_gives_the_source_of_each_number(capsys: pytest.CaptureFixture[str]) -> None:
    text = told(capsys, "hardware", "show", "H100_SXM")
    assert "H100 SXM 80GB" in text
    assert "1.30-6.88 USD/h" in text
    assert "published [1]" in text
    assert "aiconfigurator-core" in text
    assert "No price is known" in told(capsys, "hardware", "show", "gaudi2")


def test_comparison_names_the_role_and_why(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("hardware", "compare", "h100", "h200", "h20", "--model", "llama-3.1-70b")
    text = told(capsys, *arguments)
    assert "against H100 SXM 80GB" in text
    assert "h200-sxm: suits decode" in text
    assert "h20-96g: dearer than the reference, least so at decode" in text
    assert "█" in text
    found = data(capsys, *arguments)
    by_id = {row["id"]: row for row in found["chips"]}
    assert by_id["h100-sxm"]["axes"]["memory"] == 1
    assert by_id["h20-96g"]["role"] == "decode"
    assert by_id["h200-sxm"]["axes"]["bandwidth"] == pytest.approx(4800 / 3350)
    assert by_id["h200-sxm"]["rates"]["decode_tokens_per_money"] > 0


def test_comparison_with_a_chip_that_lacks_a_peak_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    found = data(capsys, "hardware", "compare", "dgx-spark", "--reference", "h100-sxm")
    by_id = {row["id"]: row for row in found["chips"]}
    assert by_id["dgx-spark"]["role"] is None
    assert "no bf16 peak" in by_id["dgx-spark"]["why"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("hardware", "show", "h10"), "unknown chip 'h10'; did you mean 'h100'?"),
        (("hardware", "list", "--vendor", "nvdia"), "did you mean 'nvidia'?"),
        (("hardware", "compare", "h100", "--model", "nothing"), "unknown model 'nothing'"),
        (("hardware", "compare", "h100", "--kv", "fp9"), "unknown KV dtype 'fp9'"),
        (("hardware", "compare", "h100", "--weights", "fp9"), "unknown weights dtype 'fp9'"),
        (("hardware", "compare", "h100", "--tpot", "nan"), "--tpot must be a finite number"),
        (("hardware", "compare", "h100", "--context", "0"), "--context"),
        (("model", "show", "deepseek-v33"), "did you mean 'deepseek-v3"),
        (("model", "show", "deepseek-v3", "--length", "0"), "--length"),
        (("model", "show", "nowhere/config.json"), "there is no such file"),
        (("model", "import", "nowhere.json"), "there is no such file"),
    ],
)
def test_bad_usage(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], says: str) -> None:
    assert says in told(capsys, *arguments, code=2)


def test_show_a_model(capsys: pytest.CaptureFixture[str]) -> None:
    text = told(capsys, "model", "show", "deepseek-v4-pro")
    for part in ("5,031", "4.56 MB", "334 MB", "5.28 GB", "850 GB", "GFLOP per token", "at 64K", "at 1M", "published"):
        assert part in text, part
    facts = data(capsys, "model", "show", "deepseek-v4-pro")
    assert facts["kv_bytes_per_token"] == pytest.approx(5031, rel=1e-3)
    assert facts["fixed_state_bytes"] == 4_559_872
    assert facts["kv"]["bf16"]["kv_bytes"]["1048576"] == pytest.approx(10.33e9, rel=1e-3)
    assert facts["weight_bytes"] == pytest.approx(sum(part["bytes"] for part in facts["weights"].values()), rel=0.01)
    assert facts["flops_per_token"] == pytest.approx(sum(facts["flops_per_token_by_part"].values()))


def test_show_in_other_dtypes_and_lengths(capsys: pytest.CaptureFixture[str]) -> None:
    facts = data(capsys, "model", "show", "llama-3.1-8b", "--kv", "fp8", "--weights", "fp8", "--length", "1000")
    assert facts["kv_dtype"] == "fp8"
    assert facts["kv_bytes"] == {"1000": 65_536_000.0}
    assert facts["weights"]["dense"]["dtype"] == "fp8"
    assert facts["weights"]["head"]["dtype"] == "bf16"


def test_list_of_models(capsys: pytest.CaptureFixture[str]) -> None:
    assert "deepseek-v3" in told(capsys, "model", "list")
    models = {row["id"]: row for row in data(capsys, "model", "list")["models"]}
    for name in ("deepseek-v4-pro", "deepseek-v3", "qwen3-235b-a22b", "llama-3.1-70b"):
        assert models[name]["kv_bytes_per_token"] == kv_size(load_llm(name)).growing_bytes_per_token


def test_import_writes_a_profile_that_can_be_planned_with(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    config, out = tmp_path / "config.json", tmp_path / "profiles" / "mine.yaml"
    out.parent.mkdir()
    config.write_text(json.dumps(CONFIG), encoding="utf-8")
    text = told(capsys, "model", "import", str(config), "--id", "mine", "--out", str(out))
    assert "30.5B in total" in text
    shown = data(capsys, "model", "show", "mine", "--profiles", str(out.parent))
    assert shown["total_parameters"] == pytest.approx(30.5e9, rel=0.01)
    direct = data(capsys, "model", "show", str(config))
    assert direct["kv_bytes_per_token"] == shown["kv_bytes_per_token"] == 98_304


def test_import_prints_the_profile_and_remarks_apart(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps({k: v for k, v in CONFIG.items() if k != "torch_dtype"}), encoding="utf-8")
    assert run(["model", "import", str(config)]) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("schema: model/1")
    assert "assumed: dtype = bfloat16" in captured.err
    facts = data(capsys, "model", "import", str(config))
    assert facts["assumed"] == {"dtype": "bfloat16"}


def test_import_from_standard_input(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    class Standard:
        buffer = io.BytesIO(json.dumps(CONFIG).encode())

    monkeypatch.setattr("sys.stdin", Standard())
    assert data(capsys, "model", "import", "-", "--id", "piped")["id"] == "piped"


def test_import_refuses_with_everything_that_is_missing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    config, out = tmp_path / "config.json", tmp_path / "mine.yaml"
    config.write_text(json.dumps({"model_type": "qwen3_moe", "num_hidden_layers": 2}), encoding="utf-8")
    text = told(capsys, "model", "import", str(config), "--out", str(out), code=2)
    for key in ("hidden_size", "vocab_size", "num_attention_heads", "num_key_value_heads"):
        assert f"{key} is missing" in text
    assert not out.exists()


def test_a_folder_as_it_comes_from_a_hub(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = tmp_path / "My-Model-NVFP4"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    quantised = {"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]}}
    (folder / "hf_quant_config.json").write_text(json.dumps(quantised), encoding="utf-8")
    facts = data(capsys, "model", "import", str(folder))
    assert facts["id"] == "My-Model-NVFP4"
    assert facts["weights"]["experts"]["dtype"] == "fp4"
    assert data(capsys, "model", "show", str(folder))["kv_dtype"] == "fp8"


def test_lists_as_csv(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = tmp_path / "chips.csv"
    assert "h200-sxm" in told(capsys, "hardware", "list", "--csv", str(out))
    rows = list(csv.DictReader(out.read_text(encoding="utf-8").splitlines()))
    h200 = next(row for row in rows if row["id"] == "h200-sxm")
    assert (h200["memory_gb"], h200["peak_fp4_tflop_per_s"], h200["price_low_per_chip_hour"]) == ("141", "", "1.6")
    text = told(capsys, "model", "list", "--csv", "-")
    models = {row["id"]: row for row in csv.DictReader(text.splitlines())}
    assert float(models["llama-3.1-8b"]["kv_bytes_per_token"]) == 131_072
    assert "more than one output" in told(capsys, "model", "list", "--csv", "-", "--json", code=2)
