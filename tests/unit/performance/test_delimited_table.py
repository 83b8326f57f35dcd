"""Tables as people save them must read like the plain one; what is ambiguous is refused, nothing is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from pddplan.errors import InputError
from pddplan.performance.delimited_table import parse_number, plain_name, read_rows
from pddplan.performance.measurement import read_measurements

HEADER = "kind,model,chip,tp,isl_tokens,osl_tokens,batch_or_concurrency,value,unit,note,my remark"
ROW = "tpot,llama-3.1-8b,h100_sxm,1,1024,512,16,12.5,ms,mode=static,kept"
PLAIN = f"{HEADER}\n{ROW}\n"


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "t.csv"
    path.write_bytes(text.encode())
    return path


@pytest.mark.parametrize(
    "text",
    [
        "\ufeff" + PLAIN,
        PLAIN.replace("\n", "\r\n"),
        PLAIN.replace(",", ";").replace("12.5", "12,5"),
        PLAIN.replace(",", "\t"),
        PLAIN.replace(HEADER, HEADER.upper()),
        PLAIN.replace(HEADER, HEADER.replace(",", " , ")).replace(ROW, ROW.replace(",", ", ")),
        PLAIN.replace("isl_tokens", "ISL Tokens").replace("osl_tokens", "osl-tokens"),
        PLAIN.replace("\n", "\n\n"),
        PLAIN.replace(HEADER, HEADER + ",,").replace(ROW, ROW + ",,"),
        PLAIN.replace("1024", '"1,024"').rstrip(),
        PLAIN.replace("mode=static", "MODE=static"),
    ],
)
def test_other_ways_to_save_a_table_read_like_the_plain_one(tmp_path: Path, text: str) -> None:
    plain = read_measurements(write(tmp_path, PLAIN))[0].measurement
    rows = read_measurements(write(tmp_path, text))
    assert len(rows) == 1
    found = rows[0].measurement
    assert found is not None
    assert plain is not None
    fields = ("kind", "mode", "model", "chip", "shape", "input_tokens", "output_tokens", "batch", "value", "remark")
    assert [getattr(found, name) for name in fields] == [getattr(plain, name) for name in fields]
    assert "kept" in [cell.strip() for cell in rows[0].text.values()]


def test_cells_beyond_the_header_are_said(tmp_path: Path) -> None:
    found = read_measurements(write(tmp_path, PLAIN.rstrip() + ",more,\n"))[0].measurement
    assert found is not None
    assert found.remark == "1 cells beyond the header not read"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (PLAIN.replace("my remark", "Model"), "column model stands twice"),
        (PLAIN.replace("llama", '"llama'), "a quotation mark is opened and never closed"),
        (PLAIN.replace("chip", "gpu_type"), "no column chip"),
        ("", "no column kind, model, chip"),
    ],
)
def test_what_cannot_be_told_apart_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        read_measurements(write(tmp_path, text))
    assert said in caught.value.problems[0].what


def test_rows_name_the_line_on_which_they_begin(tmp_path: Path) -> None:
    text = 'a,b\n1,"two\nlines"\n\n3,4\n'
    rows = read_rows(write(tmp_path, text), limit=1000)
    assert [row.where.rpartition(":")[2] for row in rows] == ["2", "5"]
    assert rows[0].cells["b"] == "two\nlines"


@pytest.mark.parametrize(
    ("text", "decimal_comma", "value"),
    [
        ("1,024", False, 1024),
        ("1,024.5", False, 1024.5),
        ("1,024", True, 1.024),
        (" 7 ", False, 7),
        ("1e3", False, 1e3),
    ],
)
def test_numbers_with_signs_of_their_own(text: str, decimal_comma: bool, value: float) -> None:
    assert parse_number(text, decimal_comma=decimal_comma) == value


@pytest.mark.parametrize("text", ["12,5", "1_0", "1,02", "fast", "", "1 2"])
def test_what_is_no_number(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        parse_number(text)


def test_plain_names() -> None:
    assert plain_name(" ISL Tokens") == "isl_tokens"
