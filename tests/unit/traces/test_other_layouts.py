"""One trace saved in many ways must give one workload; what cannot be told is refused with a way out."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pddplan.errors import InputError
from pddplan.traces.caching import CachePolicy, replay
from pddplan.traces.reading import ReadOptions, read_trace
from pddplan.traces.trace import Trace

BLOCK = 48
START = datetime.datetime(2026, 3, 29, 0, 59, tzinfo=datetime.UTC)
ROWS: list[dict[str, Any]] = [
    {
        "timestamp": 700 * n,
        "input_length": 10 + 37 * n % 1000,
        "output_length": 1 + n % 7,
        "hash_ids": [k if k < 3 else 1000 * n + k for k in range(-(-(10 + 37 * n % 1000) // BLOCK))],
    }
    for n in range(60)
]


def lines(rows: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def timed(write: Callable[[float], object]) -> str:
    return lines([{**row, "timestamp": write(row["timestamp"] / 1000)} for row in ROWS])


def calendar(form: str, hours: float = 0.0) -> Callable[[float], str]:
    zone = datetime.timezone(datetime.timedelta(hours=hours))
    return lambda seconds: (START + datetime.timedelta(seconds=seconds)).astimezone(zone).strftime(form)


def read(tmp_path: Path, text: str, name: str = "t.jsonl", **options: Any) -> Trace:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return read_trace(path, ReadOptions(**options))


def facts(trace: Trace) -> dict[str, Any]:
    seconds = np.concatenate(list(trace.times()))
    return {
        "rows": trace.rows.count,
        "input": int(trace.rows.column("input").sum()),
        "block": trace.block_tokens,
        "hits": int(replay(trace, CachePolicy()).hit_tokens.sum()) if trace.blocks else None,
        "times": [round(float(t - seconds[0]), 3) for t in (seconds[1], seconds[30], seconds[-1])],
    }


@pytest.mark.parametrize(
    "text",
    [
        lines([dict(reversed(list(row.items()))) | {"model": "m", "messages": [{"role": "user"}]} for row in ROWS]),
        lines([{**row, "hash_ids": [f"{i * 7919:016x}" for i in row["hash_ids"]]} for row in ROWS]),
        lines([{**row, "hash_ids": [-i for i in row["hash_ids"]]} for row in ROWS]),
        lines([{**row, "hash_ids": [i * 0x9E3779B97F4A7C15 % 2**64 for i in row["hash_ids"]]} for row in ROWS]),
        json.dumps(ROWS),
        json.dumps({"requests": ROWS}),
        json.dumps({"name": "x", "data": ROWS}, indent=1),
        timed(lambda s: s),
        timed(lambda s: 1.7e9 + s),
        timed(lambda s: int(1e6 * s)),
        timed(lambda s: int(1e9 * s)),
        timed(calendar("%Y-%m-%dT%H:%M:%S.%fZ")),
        timed(calendar("%Y-%m-%d %H:%M:%S.%f%z", hours=5.5)),
        timed(calendar("%Y%m%dT%H%M%S.%fZ")),
    ],
    ids=lambda text: text[:60],
)
def test_one_trace_in_many_layouts(tmp_path: Path, text: str) -> None:
    """Also the odd block size, which only the numbers of ids tell."""
    assert facts(read(tmp_path, text)) == facts(read(tmp_path, lines(ROWS), block_tokens=BLOCK))


def test_elements_of_a_list_are_counted(tmp_path: Path) -> None:
    rows = [*ROWS[:7], {**ROWS[7], "input_length": -3}, *ROWS[8:]]
    for wrapped in (rows, {"requests": rows}):
        with pytest.raises(InputError) as caught:
            read(tmp_path, json.dumps(wrapped), strict=True)
        assert (caught.value.problems[0].where or "").endswith("t.jsonl:8")


def test_a_request_that_holds_lists_is_a_request(tmp_path: Path) -> None:
    rows = [{"ts": 1.5 * n, "prompt_tokens": 5 + n, "completion_tokens": 4, "data": [{"a": 1}]} for n in range(30)]
    assert read(tmp_path, lines(rows)).rows.count == 30


def test_tables_without_names_are_mapped_by_place(tmp_path: Path) -> None:
    text = "".join(f"{n * 0.7:.1f},{row['input_length']},{row['output_length']}\n" for n, row in enumerate(ROWS))
    found = read(tmp_path, text, "t.csv", columns={"time": "1", "input": "2", "output": "3"})
    assert facts(found)["rows"] == 60
    assert facts(found)["input"] == sum(row["input_length"] for row in ROWS)
    with pytest.raises(InputError) as caught:
        read(tmp_path, text, "t.csv")
    assert "time=1,input=2,output=3" in (caught.value.problems[0].fix or "")


def test_slow_traces_of_few_requests_keep_the_usual_unit(tmp_path: Path) -> None:
    rows = [{**row, "timestamp": 3_600_000 * n} for n, row in enumerate(ROWS[:10])]
    seconds = np.concatenate(list(read(tmp_path, lines(rows), block_tokens=BLOCK).times()))
    assert seconds[-1] - seconds[0] == 9 * 3600


def session(kind: Callable[[int], object], **more: object) -> dict[str, Any]:
    requests = [
        {
            "t": 10.0 * n,
            "type": "n",
            "model": "m",
            "in": 64 * (n + 1),
            "out": 5,
            "hash_ids": [kind(i) for i in range(n + 1)],
        }
        for n in range(5)
    ]
    return {"id": "a", "block_size": 64, "hash_id_scope": "local", "requests": requests, **more}


@pytest.mark.parametrize(("scope", "blocks"), [("local", 10), ("global", 5)])
def test_block_ids_of_sessions_may_be_texts(tmp_path: Path, scope: str, blocks: int) -> None:
    for kind in (int, lambda i: f"b{i}"):
        sessions = [session(kind, id=name, hash_id_scope=scope) for name in "ab"]
        trace = read(tmp_path, lines(sessions))
        assert (trace.rows.count, replay(trace, CachePolicy()).distinct_blocks) == (10, blocks)


def test_numbers_and_texts_do_not_mix(tmp_path: Path) -> None:
    mixed = session(int)
    mixed["requests"][3]["hash_ids"] = ["x"] * 4
    trace = read(tmp_path, lines([mixed]), max_skip_fraction=0.5)
    assert (trace.rows.count, trace.skipped) == (4, {"unreadable": 1})


def test_rounds_without_times_are_read_and_a_lacking_key_is_named(tmp_path: Path) -> None:
    rounds = [
        {"session_id": "s", "input_tokens_total": 100 + n, "prefix_tokens": n, "output_tokens": 5} for n in range(20)
    ]
    assert not read(tmp_path, lines(rounds)).has_time
    rounds[3]["output_tokens"] = None  # type: ignore[assignment]
    with pytest.raises(InputError) as caught:
        read(tmp_path, lines(rounds), strict=True)
    assert caught.value.problems[0].what == "output_tokens is missing"


def cells(name: Callable[[int], object], between: str = " ", blank: str = "") -> str:
    """The trace as CSV, block ids in one cell."""
    rows = []
    for row in ROWS:
        ids = between.join(str(name(i)) for i in row["hash_ids"])
        rows.append(f'{row["timestamp"]},{row["input_length"]},{row["output_length"]},"[{ids}]"\n')
    return "timestamp,input_length,output_length,hash_ids\n" + blank.join(rows)


@pytest.mark.parametrize("blank", ["", "\n"], ids=["fast", "slow"])
@pytest.mark.parametrize(
    "text",
    [
        lambda blank: cells(int, blank=blank),
        lambda blank: cells(lambda i: f"{'abcdefg'[i % 7]}{i // 7}", ", ", blank),
        lambda blank: cells(lambda i: f"'{i * 2**40:032x}'", ",", blank),
        lambda blank: cells(lambda i: 2**63 + i, ", ", blank),
    ],
)
def test_ids_in_a_cell_may_be_words(tmp_path: Path, text: Callable[[str], str], blank: str) -> None:
    """Letters count: ``a1`` and ``b1`` are two blocks. A blank line sends a file the slow way, with the same result."""
    found = facts(read(tmp_path, text(blank), "t.csv", block_tokens=BLOCK))
    assert found == facts(read(tmp_path, lines(ROWS), block_tokens=BLOCK))


def test_parquet_with_objects_in_columns_and_bytes_as_ids(tmp_path: Path) -> None:
    pl = pytest.importorskip("polars")
    path = tmp_path / "t.parquet"
    rows = [
        {
            "created": row["timestamp"] / 1000,
            "usage": {"prompt_tokens": row["input_length"], "completion_tokens": row["output_length"]},
            "block_hashes": [i.to_bytes(16, "big") for i in row["hash_ids"]],
        }
        for row in ROWS
    ]
    pl.DataFrame(rows).write_parquet(path)
    assert facts(read_trace(path, ReadOptions(block_tokens=BLOCK))) == facts(
        read(tmp_path, lines(ROWS), block_tokens=BLOCK)
    )
