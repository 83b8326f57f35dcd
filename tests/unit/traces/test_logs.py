"""Logs as gateways, engines and providers write them: recognised by their names, or refused in words."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from pddplan.errors import InputError
from pddplan.traces.reading import ReadOptions, read_source
from pddplan.traces.recognise import parse_columns
from pddplan.traces.source import from_bytes
from pddplan.traces.trace import Trace

T0 = 1_748_736_000
CLOCK = "2025-06-01T00:00:{:02d}Z"


def read(text: str, **options: Any) -> Trace:
    return read_source(from_bytes(text.encode(), name="log"), ReadOptions(**options))


def lines(row: Callable[[int], dict[str, Any]], count: int = 20) -> str:
    """Request i has 1000 + i input tokens, 896 of them cached from the second on, and 10 + i output tokens."""
    return "".join(json.dumps(row(i)) + "\n" for i in range(count))


def cached(i: int) -> int:
    return 896 if i else 0


def openai(i: int) -> dict[str, Any]:
    details = {"cached_tokens": cached(i)}
    usage = {"prompt_tokens": 1000 + i, "completion_tokens": 10 + i, "prompt_tokens_details": details}
    return {"id": f"c{i}", "created": T0 + i, "usage": usage}


def anthropic(i: int) -> dict[str, Any]:
    rest = 1000 + i - cached(i)
    usage = {"input_tokens": 4, "cache_creation_input_tokens": rest - 4, "cache_read_input_tokens": cached(i)}
    return {"timestamp": CLOCK.format(i), "sessionId": "s", "message": {"usage": {**usage, "output_tokens": 10 + i}}}


def span(i: int) -> dict[str, Any]:
    values = {"input_tokens": 1000 + i, "output_tokens": 10 + i, "cache_read.input_tokens": cached(i)}
    attributes = [{"key": f"gen_ai.usage.{key}", "value": {"intValue": str(value)}} for key, value in values.items()]
    attributes.append({"key": "gen_ai.conversation.id", "value": {"stringValue": "s"}})
    return {"startTimeUnixNano": str((T0 + i) * 10**9), "attributes": attributes}


def otlp(i: int) -> dict[str, Any]:
    tool = {"startTimeUnixNano": "1", "name": "execute_tool", "attributes": []}
    return {"resourceSpans": [{"scopeSpans": [{"spans": [span(i), tool]}]}]}


LOGS: dict[str, Callable[[int], dict[str, Any]]] = {
    "openai": openai,
    "anthropic": anthropic,
    "opentelemetry": otlp,
    "spans": lambda i: {
        **span(i),
        "attributes": {a["key"]: next(iter(a["value"].values())) for a in span(i)["attributes"]},
    },
    "deepseek": lambda i: {
        "created": T0 + i,
        "usage": {"prompt_tokens": 1000 + i, "completion_tokens": 10 + i, "prompt_cache_hit_tokens": cached(i)},
    },
    "gemini": lambda i: {
        "createTime": CLOCK.format(i),
        "usageMetadata": {
            "promptTokenCount": 1000 + i,
            "candidatesTokenCount": 10 + i,
            "cachedContentTokenCount": cached(i),
        },
    },
    "sglang": lambda i: {
        "timestamp": CLOCK.format(i),
        "out": {
            "meta_info": {"prompt_tokens": 1000 + i, "completion_tokens": 10 + i, "cached_tokens": cached(i)},
        },
    },
    "bedrock": lambda i: {
        "timestamp": CLOCK.format(i),
        "input": {"inputTokenCount": 1000 + i - cached(i), "cacheReadInputTokenCount": cached(i)},
        "output": {"outputTokenCount": 10 + i},
    },
}


@pytest.mark.parametrize("name", LOGS)
def test_usage_is_found_by_its_names(name: str) -> None:
    trace = read(lines(LOGS[name]))
    assert trace.input_tokens.tolist() == [1000 + i for i in range(20)]
    assert trace.output_tokens.tolist() == [10 + i for i in range(20)]
    assert trace.hit_tokens is not None
    assert trace.hit_tokens.tolist() == [cached(i) for i in range(20)]
    assert trace.span_s == pytest.approx(19)


def test_an_input_that_leaves_cached_tokens_out_is_said_so() -> None:
    trace = read(lines(anthropic))
    assert any("input tokens are message.usage.input_tokens + message.usage.cache_read" in note for note in trace.notes)
    columns = parse_columns("input=message.usage.input_tokens,hit=message.usage.cache_read_input_tokens")
    with pytest.raises(InputError, match="map an input that leaves them out as appended"):
        read(lines(anthropic), columns=columns)


def test_events_that_are_no_requests_are_counted_not_refused() -> None:
    trace = read(lines(lambda i: openai(i) if i % 2 else {"type": "user", "text": "hello"}), strict=True)
    assert trace.count == 10
    assert trace.oddities["lines of the log that are no requests (left out)"] == 10


def test_spend_logs() -> None:
    head = "request_id,startTime,endTime,prompt_tokens,completion_tokens,session_id,status\n"
    rows = "".join(
        f"r{i},2025-06-01 00:00:{i:02d},x,{100 + i},{i + 1},s{i % 3},{'failure' if i == 4 else 'success'}\n"
        for i in range(20)
    )
    trace = read(head + rows)
    assert (trace.format, trace.count, trace.span_s) == ("usage-log", 19, 19.0)
    assert trace.oddities == {"failed requests (left out)": 1}


def test_http_codes_of_failure() -> None:
    text = "created_at,prompt_tokens,completion_tokens,status\n" + "".join(
        f"{CLOCK.format(i)},{100 + i},5,{500 if i == 2 else 429 if i == 3 else 200}\n" for i in range(12)
    )
    assert read(text).oddities == {"failed requests (left out)": 2}


def test_sums_over_requests_are_no_trace() -> None:
    text = "start_time,input_tokens,output_tokens,num_model_requests\n1748736000,1000000,50000,900\n"
    with pytest.raises(InputError, match="sums over many"):
        read(text)
    assert read(text, columns=parse_columns("input=input_tokens,output=output_tokens")).count == 1


def test_text_logs_are_refused_as_such() -> None:
    with pytest.raises(InputError, match="no header of a table") as caught:
        read("INFO [logger.py:41] Received request cmpl-1: prompt: 'x', params: SamplingParams(n=1)\n" * 3)
    assert "CSV or JSON" in caught.value.problems[0].fix


MOONCAKE = [
    {"timestamp": 1000 * i, "input_length": 1025 + i, "output_length": 9, "hash_ids": [7, 8, 100 + i]}
    for i in range(12)
]


def mooncake(**change: Callable[[dict[str, Any]], Any]) -> str:
    return "".join(json.dumps({**row, **{key: make(row) for key, make in change.items()}}) + "\n" for row in MOONCAKE)


@pytest.mark.parametrize(
    "spell",
    [
        str,
        lambda k: f"0x{k:016x}",
        float,
        lambda k: (k * 0x9E3779B97F4A7C15) % 2**64,
        lambda k: -k - 1,
        lambda k: k * 2**70 + 3,
    ],
)
def test_block_ids_in_any_spelling(spell: Callable[[int], object]) -> None:
    trace = read(mooncake(hash_ids=lambda row: [spell(k) for k in row["hash_ids"]]))
    _, blocks = trace.block_lists()
    assert len(set(blocks.tolist())) == 14
    assert blocks.reshape(-1, 3)[:, :2].tolist() == [blocks[:2].tolist()] * 12


def test_lists_without_any_id_tell_nothing() -> None:
    trace = read(mooncake(hash_ids=lambda row: []))
    assert trace.blocks is None
    assert trace.oddities["empty lists of block ids (of no use)"] == 12


def test_columns_in_other_case() -> None:
    text = "".join(json.dumps({key.upper(): value for key, value in row.items()}) + "\n" for row in MOONCAKE)
    assert read(text).format == "mooncake"


def test_a_table_with_blank_lines_and_a_broken_end() -> None:
    text = "\nnum_prefill_tokens,num_decode_tokens,num_total_tokens\n\n10,1,11\r\n\r\n20,2,22\n30,3"
    trace = read(text)
    assert trace.input_tokens.tolist() == [10, 20]
    assert trace.oddities["last line cut off (left out)"] == 1
    with pytest.raises(InputError) as caught:
        read(text, strict=True)
    assert caught.value.problems[0].where == "log:7"


def test_the_unit_of_a_format_gives_way_to_times_since_1970() -> None:
    text = "Timestamp,Model,Request tokens,Response tokens\n"
    text += "".join(f"{(T0 + i) * 1000},m,5,5\n" for i in range(5))
    assert read(text).span_s == pytest.approx(4)
    assert read(text, time_unit="s").span_s == pytest.approx(4000)


def test_relative_microseconds() -> None:
    text = "ts,input_tokens,output_tokens\n" + "".join(f"{i * 1_500_000},5,5\n" for i in range(100))
    assert read(text).span_s == pytest.approx(99 * 1.5)


def test_the_share_of_bad_rows_is_rounded_to_whole_ones() -> None:
    text = mooncake() * 8
    text = text.replace('"input_length": 1027', '"input_length": -5', 1)
    assert read(text).skipped == {"bad input tokens": 1}
    with pytest.raises(InputError, match="more than 0.0%"):
        read(text, max_skip_fraction=0.0)


def test_sessions_say_how_long_their_blocks_are() -> None:
    def session(size: int) -> str:
        requests = [{"t": float(i), "in": 128 * (i + 1), "out": 5, "hash_ids": list(range(i + 1))} for i in range(9)]
        return json.dumps({"id": "a", "block_size": size, "hash_id_scope": "local", "requests": requests}) + "\n"

    assert read(session(128)).block_tokens == 128
    with pytest.raises(InputError, match="its blocks hold 64 tokens, those of the first 128"):
        read(session(128) + session(64), strict=True)
