"""From bytes to requests: every oddity on purpose, every bad row by line, the same result however it is cut."""

from __future__ import annotations

import gzip
import io
import json
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from pddplan.errors import InputError
from pddplan.traces.caching import CachePolicy, replay
from pddplan.traces.reading import ReadOptions, read_source, read_trace
from pddplan.traces.recognise import parse_columns
from pddplan.traces.source import from_bytes
from pddplan.traces.trace import Trace

GOOD = {"timestamp": 0, "input_length": 1024, "output_length": 5, "hash_ids": [1, 2]}


def line(**changes: Any) -> str:
    return json.dumps({**GOOD, **changes})


def read(text: str | bytes, **options: Any) -> Trace:
    data = text.encode() if isinstance(text, str) else text
    return read_source(from_bytes(data, name="t"), ReadOptions(**options))


def fault(text: str | bytes, **options: Any) -> InputError:
    with pytest.raises(InputError) as caught:
        read(text, **options)
    return caught.value


def many(count: int, *, seed: int = 3) -> str:
    """Conversations with shared prefixes, four arrivals per second."""
    draw, rows, fresh = random.Random(seed), [], 10
    threads: list[list[int]] = [[0]]
    for i in range(count):
        ids = list(draw.choice(threads))
        grown = draw.randint(1, 4)
        ids += range(fresh, fresh + grown)
        fresh += grown
        threads = [*threads[-20:], ids]
        length = 512 * len(ids) - draw.randint(0, 511)
        rows.append(line(timestamp=i * 250, input_length=length, output_length=draw.randint(1, 900), hash_ids=ids))
    return "\n".join(rows) + "\n"


class TestContainers:
    TEXT = many(300)

    def test_plain_packed_and_standard_input_agree(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        data = self.TEXT.encode()
        (tmp_path / "a.jsonl").write_bytes(data)
        (tmp_path / "b.gz").write_bytes(gzip.compress(data[:999]) + gzip.compress(data[999:]))
        (tmp_path / "c.zst").write_bytes(zstandard.compress(data))
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        traces = [read_trace(tmp_path / name) for name in ("a.jsonl", "b.gz", "c.zst")] + [read_trace("-")]
        for trace in traces:
            assert trace.count == 300
            assert np.array_equal(trace.input_tokens, traces[0].input_tokens)
        assert len({trace.sha256 for trace in traces}) == 3  # of the bytes as they lie in the file

    @pytest.mark.parametrize("block_bytes", [200, 5_000, 10**9])
    @pytest.mark.parametrize("chunk_blocks", [10, 700, 10**9])
    def test_results_do_not_depend_on_how_it_is_cut(self, block_bytes: int, chunk_blocks: int) -> None:
        trace = read(self.TEXT, block_bytes=block_bytes)
        reference = read(self.TEXT)
        policy = CachePolicy(capacity_blocks=60, keep_generated=True)
        got, wanted = replay(trace, policy, chunk_blocks=chunk_blocks), replay(reference, policy)
        assert np.array_equal(got.hit_tokens, wanted.hit_tokens)
        assert got.curve() == wanted.curve()

    def test_csv_and_parquet_agree(self, tmp_path: Path) -> None:
        import polars as pl

        frame = pl.DataFrame({"when": [0.5, 1.5, 9.0], "isl": [10, 20, 30], "osl": [1, 2, 3]})
        frame.write_csv(tmp_path / "a.csv")
        frame.write_parquet(tmp_path / "a.parquet")
        frame.write_ndjson(tmp_path / "a.jsonl")
        options = ReadOptions(columns=parse_columns("time=when"))
        traces = [read_trace(tmp_path / f"a.{ending}", options) for ending in ("csv", "parquet", "jsonl")]
        for trace in traces:
            assert trace.format == "columns"
            assert trace.input_tokens.tolist() == [10, 20, 30]
            assert trace.time_s is not None
            assert trace.time_s.tolist() == [0.0, 1.0, 8.5]

    def test_a_scratch_file_holds_blocks_that_do_not_fit(self, monkeypatch: pytest.MonkeyPatch) -> None:
        in_memory = replay(read(self.TEXT), CachePolicy(capacity_blocks=50))
        monkeypatch.setattr("pddplan.traces.blocks.MEMORY_BYTES", 1000)
        on_disk = replay(read(self.TEXT), CachePolicy(capacity_blocks=50))
        assert np.array_equal(in_memory.hit_tokens, on_disk.hit_tokens)

    def test_a_packed_file_cut_off_gives_what_is_there(self) -> None:
        data = gzip.compress(self.TEXT.encode())
        trace = read(data[: len(data) // 2])
        assert 0 < trace.count < 300
        assert trace.oddities["packed file ends in the middle (read as far as it goes)"] == 1
        assert trace.oddities["last line cut off (left out)"] == 1

    def test_a_damaged_packed_file_is_refused(self) -> None:
        data = bytearray(gzip.compress(self.TEXT.encode()))
        data[len(data) // 2] ^= 0xFF
        data[len(data) // 2 + 1] ^= 0xFF
        assert "damaged" in str(fault(bytes(data)))


class TestOddities:
    """Handled, and counted."""

    def test_zero_output_counts_as_one_token(self) -> None:
        trace = read(line() + "\n" + line(timestamp=5, output_length=0) + "\n")
        assert trace.output_tokens.tolist() == [5, 1]
        assert trace.oddities["zero output tokens (counted as 1)"] == 1

    def test_rows_out_of_order_are_sorted_and_ties_keep_file_order(self) -> None:
        rows = [line(timestamp=t, output_length=o) for t, o in ((9, 1), (3, 2), (9, 3), (3, 4))]
        trace = read("\n".join(rows))
        assert trace.output_tokens.tolist() == [2, 4, 1, 3]
        assert trace.oddities["rows out of order of time (sorted)"] == 2

    def test_time_starts_at_the_first_arrival(self) -> None:
        trace = read(line(timestamp=1178625) + "\n" + line(timestamp=1179625) + "\n")
        assert trace.time_s is not None
        assert trace.time_s.tolist() == [0.0, 1.0]

    def test_ids_may_round_up_or_down(self) -> None:
        trace = read(line(input_length=1000) + "\n" + line(timestamp=1, input_length=1500) + "\n", block_tokens=512)
        assert trace.count == 2
        assert trace.oddities["last partial block has no id"] == 1

    def test_byte_order_mark_and_missing_line_end(self) -> None:
        trace = read(b"\xef\xbb\xbf" + line().encode())
        assert trace.oddities["byte-order mark at the start"] == 1
        assert trace.oddities["no line end after the last row"] == 1

    def test_a_cut_off_last_line_is_left_out(self) -> None:
        trace = read(line() + "\n" + line(timestamp=9)[:25])
        assert trace.count == 1
        assert trace.oddities["last line cut off (left out)"] == 1

    def test_blank_lines_are_nothing(self) -> None:
        assert read(f"{line()}\n\n\n{line(timestamp=4)}\n").count == 2

    def test_duplicates_are_kept_and_counted(self) -> None:
        trace = read("\n".join([line(), line(hash_ids=[1, 3]), line()]))
        assert trace.oddities["exact duplicates of another row (kept)"] == 1

    def test_failed_requests_are_left_out(self) -> None:
        text = (
            "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
            "5,ChatGPT,472,18,490,Conversation log\n45,ChatGPT,1087,0,1087,Conversation log\n"
        )
        trace = read(text)
        assert trace.count == 1
        assert trace.oddities["failed requests (left out)"] == 1
        log = "timestamp,status,prompt_tokens,completion_tokens\n1.5,success,10,2\n2.5,failure,10,2\n"
        assert read(log).count == 1

    def test_unsigned_and_text_ids(self) -> None:
        big = 2**64 - 1
        trace = read("\n".join(line(timestamp=t, hash_ids=[big, 7]) for t in range(3)))
        assert replay(trace, CachePolicy()).hit_tokens.tolist() == [0, 1024, 1024]
        trace = read("\n".join(line(timestamp=t, hash_ids=["ab", t]) for t in range(3)))
        assert replay(trace, CachePolicy()).hit_tokens.tolist() == [0, 512, 512]


class TestBadRows:
    @pytest.mark.parametrize(
        ("row", "what"),
        [
            ("not json", "is not whole JSON"),
            ("[1, 2]", "is not a JSON object"),
            (line(input_length="many"), "input_length must be a number, got 'many'"),
            (line(input_length=-4, hash_ids=[]), "whole number from 1"),
            (line(input_length=0, hash_ids=[]), "whole number from 1"),
            (line(input_length=1024.5), "whole number from 1"),
            ('{"timestamp": 1, "input_length": 1e400, "output_length": 5, "hash_ids": [1]}', "whole number from 1"),
            ('{"timestamp": NaN, "input_length": 1024, "output_length": 5, "hash_ids": [1, 2]}', "time cannot be read"),
            (line(output_length=-1), "output tokens must be"),
            (line(hash_ids=None), "must be a list"),
            (line(hash_ids=[1.5, 2]), "whole numbers"),
            (line(hash_ids=[1]), "number of block ids must be input tokens / 512"),
            ('{"timestamp": 1, "input_length": 1024, "hash_ids": [1, 2]}', "has no 'output_length'"),
        ],
    )
    def test_a_bad_row_names_its_line(self, row: str, what: str) -> None:
        text = f"{line()}\n\n{row}\n{line(timestamp=9)}\n"
        error = fault(text, strict=True)
        assert error.problems[0].where == "t:3"
        assert what in error.problems[0].what
        assert error.exit_code == 2
        assert read(text, max_skip_fraction=0.5).count == 2

    def test_a_few_bad_rows_are_left_out_and_counted(self) -> None:
        text = many(300) + "garbage\n" + line(timestamp=10**6, input_length=-1, hash_ids=[]) + "\n"
        trace = read(text)
        assert trace.count == 300
        assert sum(trace.skipped.values()) == 2

    def test_too_many_bad_rows_are_refused(self) -> None:
        error = fault(f"{line()}\nx\n{line()}\n")
        assert "1 of 3 rows cannot be used" in error.problems[0].what
        assert "--max-skip" in error.problems[0].fix
        assert error.problems[1].where == "t:2"

    def test_csv_rows(self) -> None:
        text = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,48,1\nyesterday,4,1\n2023,5\n"
        error = fault(text)
        assert [problem.where for problem in error.problems[1:]] == ["t:3", "t:4"]

    def test_quoted_cells_may_span_lines(self) -> None:
        text = 'ts,prompt_tokens,completion_tokens,text\n1,100,2,"a\nb, ""c"""\n2,x,3,d\n'
        assert fault(text, strict=True).problems[0].where == "t:4"

    @pytest.mark.parametrize("text", ["", "\n \n", "{}", "[", "[" * 99999, "a,b\n1,2\n", "\x00\x01", '{"requests": 1}'])
    def test_no_trace_at_all(self, text: str) -> None:
        assert fault(text).problems[0].fix

    @given(st.binary(max_size=300))
    def test_no_bytes_escape_as_a_bug(self, data: bytes) -> None:
        try:
            read(data)
        except InputError as error:
            assert error.problems

    @given(st.lists(st.sampled_from(['"', "{", "}", "[1]", ":", ",", "1e999", "null", line(), "\n"]), max_size=30))
    def test_no_json_escapes_as_a_bug(self, parts: list[str]) -> None:
        try:
            read(line() + "\n" + "".join(parts))
        except InputError as error:
            assert error.problems


class TestTimes:
    @pytest.mark.parametrize(
        ("times", "unit", "expected"),
        [
            ([0, 1500, 3000], "ms", [0, 1.5, 3.0]),
            ([0.0, 1.5, 3.25], "s", [0, 1.5, 3.25]),
            ([0, 0, 0, 1, 1, 2] * 400, "s", None),
            ([i * 100.25 for i in range(500)], "ms", None),
            ([i * 7.25 for i in range(500)], "s", None),
            ([1700000000000, 1700000001000, 1700000003000], "ms", [0, 1, 3]),
            ([1700000000.5, 1700000001.5, 1700000003.5], "s", [0, 1, 3]),
        ],
    )
    def test_the_unit_is_found_and_said(self, times: list[float], unit: str, expected: list[float] | None) -> None:
        trace = read("\n".join(line(timestamp=t) for t in sorted(times)))
        assert any(note.startswith(f"times read as {unit} ") for note in trace.notes)
        if expected is not None:
            assert trace.time_s is not None
            assert trace.time_s.tolist() == pytest.approx(expected)

    def test_the_user_overrules(self) -> None:
        trace = read("\n".join(line(timestamp=t) for t in (0, 60)), time_unit="s")
        assert trace.span_s == 60

    def test_calendar_times(self) -> None:
        rows = [
            "2023-11-16 18:17:03.9799600",
            "2023-11-16T18:17:04.9799600Z",
            "2023-11-16T19:17:06.97996+01:00",
            "2023-11-16 18:17:07",
        ]
        text = "TIMESTAMP,ContextTokens,GeneratedTokens\r\n" + "\r\n".join(f"{t},10,1" for t in rows)
        trace = read(text)
        assert trace.time_s is not None
        assert trace.time_s.tolist() == pytest.approx([0, 1, 3, 3.02004], abs=1e-5)
        assert trace.clock_start_s == pytest.approx(18 * 3600 + 17 * 60 + 3.98, abs=0.01)


class TestFormats:
    def test_columns_that_do_not_exist(self) -> None:
        error = fault("a,b\n1,2\n", columns={"input": "aa", "output": "b"})
        assert "did you mean 'a'" in error.problems[0].what

    def test_unknown_format(self) -> None:
        assert "did you mean 'mooncake'" in fault(line(), format="moncake").problems[0].what

    def test_named_format_that_does_not_fit(self) -> None:
        assert "is not in format azure" in fault(line(), format="azure").problems[0].what

    def test_bad_column_map(self) -> None:
        with pytest.raises(InputError) as caught:
            parse_columns("inptu=a")
        assert "did you mean 'input'" in caught.value.problems[0].what

    def test_ids_in_csv_cells(self) -> None:
        text = 'timestamp,input_length,output_length,hash_ids\n0,1024,1,"[1, 2]"\n9,1024,1,"[1, 3]"\n'
        trace = read(text)
        assert replay(trace, CachePolicy()).hit_tokens.tolist() == [0, 512]

    def test_chats_form_conversations(self) -> None:
        rows = [
            {"chat_id": c, "parent_chat_id": p, "timestamp": float(c), "input_length": 16, "output_length": 1}
            | {"type": "text", "turn": 1, "hash_ids": [c]}
            for c, p in ((0, -1), (1, -1), (2, 0), (3, 2), (4, 1))
        ]
        trace = read("\n".join(json.dumps(row) for row in rows))
        assert trace.format == "qwen-bailian"
        assert trace.session is not None
        assert trace.session.tolist() == [0, 1, 0, 0, 1]

    def test_sessions_of_agents_have_ids_of_their_own(self) -> None:
        session = {
            "id": "s",
            "block_size": 64,
            "hash_id_scope": "local",
            "requests": [
                {"t": 0.0, "type": "n", "in": 130, "out": 3, "hash_ids": [1, 2]},
                {"t": 5.0, "agent_id": "a", "requests": [{"t": 2.0, "in": 64, "out": 0, "hash_ids": [1]}]},
            ],
        }
        text = json.dumps(session) + "\n" + json.dumps({**session, "id": "u"}) + "\n"
        trace = read(text)
        assert trace.format == "weka"
        assert trace.count == 4
        assert trace.drawn_times is not None
        # the second session finds nothing of the first; each sub-agent finds the block of its own session
        assert sorted(replay(trace, CachePolicy()).hit_tokens.tolist()) == [0, 0, 64, 64]

    def test_keys_inside_objects(self) -> None:
        rows = [
            {
                "ts": 1.5 * i,
                "usage": {"prompt_tokens": 100 + i, "completion_tokens": 3, "more": {"cached_tokens": 40}},
            }
            for i in range(4)
        ]
        trace = read("\n".join(json.dumps(row) for row in rows))
        assert trace.input_tokens.tolist() == [100, 101, 102, 103]
        assert trace.hit_tokens is not None
        assert trace.hit_tokens.tolist() == [40] * 4
        named = read("\n".join(json.dumps(row) for row in rows), columns={"input": "usage.more.cached_tokens"})
        assert named.input_tokens.tolist() == [40] * 4

    @pytest.mark.parametrize("indent", [None, 2])
    def test_one_json_array(self, indent: int | None) -> None:
        rows = [json.loads(line(timestamp=t)) for t in (0, 7)]
        trace = read(json.dumps(rows, indent=indent))
        assert (trace.format, trace.count) == ("mooncake", 2)
        error = fault(json.dumps([*rows, 5], indent=indent), strict=True)
        assert error.problems[0].where == "t:3"

    def test_requests_without_a_session_stand_alone(self) -> None:
        text = "timestamp,session_id,prompt_tokens,completion_tokens\n1.5,,10,2\n2.5,,30,2\n3.5,a,10,2\n4.5,a,40,2\n"
        trace = read(text)
        assert trace.session is not None
        assert len(set(trace.session.tolist())) == 3

    def test_unsigned_ids_in_parquet(self, tmp_path: Path) -> None:
        import polars as pl

        ids = pl.Series([[2**64 - 1, 5], [2**64 - 1, 6]], dtype=pl.List(pl.UInt64))
        frame = pl.DataFrame(
            {"timestamp": [0, 9], "input_length": [1024, 1024], "output_length": [1, 1], "hash_ids": ids}
        )
        frame.write_parquet(tmp_path / "a.parquet")
        assert replay(read_trace(tmp_path / "a.parquet"), CachePolicy()).hit_tokens.tolist() == [0, 512]
