"""From a trace to a workload: what it rests on is said, and nothing is made up."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from pddplan.domain.provenance import Basis, Provenance
from pddplan.domain.workload import OddTraffic
from pddplan.errors import InputError
from pddplan.profiles import yaml_source
from pddplan.profiles.workload_profile import dump_workload, parse_workload
from pddplan.traces.arrivals import Scaling
from pddplan.traces.caching import CachePolicy, Routing
from pddplan.traces.importer import Imported, ImportSettings, cache_knee, describe, import_file, import_trace
from pddplan.traces.misses import HitAssumption
from pddplan.traces.reading import ReadOptions, read_source
from pddplan.traces.servegen import parse_distribution, read_profile
from pddplan.traces.source import from_bytes
from pddplan.traces.tally import odd_share
from pddplan.traces.trace import Trace

SETTINGS = ImportSettings(llm="deepseek-v3", name="w")


def read(text: str) -> Trace:
    return read_source(from_bytes(text.encode(), name="t.jsonl"), ReadOptions())


def chat(count: int = 200, *, gap_ms: int = 500) -> str:
    rows = [
        {
            "timestamp": gap_ms * i,
            "input_length": 512 * (i % 5 + 1),
            "output_length": i % 90 + 1,
            "hash_ids": [1000 * (i % 4) + k for k in range(i % 5 + 1)],
        }
        for i in range(count)
    ]
    return "\n".join(json.dumps(row) for row in rows)


def numbers(imported: Imported) -> dict[str, Provenance]:
    found: dict[str, Provenance] = imported.workload.provenance["numbers"]
    return found


def test_everything_measured_is_marked_so() -> None:
    imported = import_trace(read(chat()), SETTINGS)
    assert numbers(imported)["arrival.rate_rps"].basis is Basis.MEASURED
    assert numbers(imported)["requests"].basis is Basis.DERIVED
    assert imported.workload.arrival.rate_rps == pytest.approx(2.0)
    assert sum(imported.tally.bin_share) == pytest.approx(1)
    assert cache_knee(imported) is not None
    assert imported.workload.cache_curve is not None
    assert imported.workload.cache_curve[-1][1] == pytest.approx(imported.token_hit_fraction)


@pytest.mark.parametrize(("scaling", "words"), [(Scaling.USERS, "independent users"), (Scaling.CLOCK, "faster clock")])
def test_another_rate_is_the_users_and_its_variability_derived(scaling: Scaling, words: str) -> None:
    settings = ImportSettings(llm="deepseek-v3", name="w", rate_rps=30.0, scaling=scaling)
    imported = import_trace(read(chat()), settings)
    assert imported.workload.arrival.rate_rps == 30.0
    assert imported.arrival is not None
    assert imported.arrival.factor == pytest.approx(15.0)
    assert numbers(imported)["arrival.scv"].basis is Basis.DERIVED
    assert words in numbers(imported)["arrival.scv"].source


def test_without_times_the_rate_must_be_stated_and_poisson_is_an_assumption() -> None:
    trace = read("num_prefill_tokens,num_decode_tokens\n" + "\n".join(f"{100 + i},{i % 7 + 1}" for i in range(90)))
    settings = ImportSettings(llm="deepseek-v3", name="w", assumed=HitAssumption(0.5, 0.5))
    with pytest.raises(InputError) as caught:
        import_trace(trace, settings)
    assert "--scale-to-rps" in caught.value.problems[0].fix
    stated = ImportSettings(llm="deepseek-v3", name="w", assumed=HitAssumption(0.5, 0.5), rate_rps=4.0)
    imported = import_trace(trace, stated)
    assert numbers(imported)["arrival.scv"].basis is Basis.ASSUMED
    assert numbers(imported)["requests"].basis is Basis.ASSUMED
    assert any("hit rate 0" in note for note in imported.workload.provenance["notes"])
    assert imported.workload.cache_curve is None
    assert parse_workload(yaml_source.loads(dump_workload(imported.workload))).arrival.rate_rps == 4.0


def test_the_record_says_how() -> None:
    settings = ImportSettings(
        llm="deepseek-v3",
        name="w",
        prefill_cache=CachePolicy(capacity_blocks=8, instances=2, routing=Routing.ROUND_ROBIN, ttl_s=60.0),
        decode_cache=None,
    )
    imported = import_trace(read(chat()), settings)
    record = imported.workload.provenance["trace"]
    assert record["parameters"]["prefill_cache"] == (
        "8 blocks = 4,096 tokens, LRU, 2 instances with round-robin routing, time to live 60 s"
    )
    assert record["parameters"]["decode_cache"].startswith("none")
    classes = imported.workload.classes
    assert classes.mean(classes.miss_decode_tokens) == pytest.approx(classes.mean(classes.input_tokens), rel=0.005)


def test_a_policy_in_words() -> None:
    assert describe(CachePolicy(keep_generated=True), 16) == "unbounded, LRU, keeps generated tokens"
    assert "sticky sessions" in describe(CachePolicy(instances=3), 16)


def test_odd_traffic_is_long_to_send_and_short_to_answer() -> None:
    transfer, output = np.array([20_000, 20_000, 100]), np.array([10, 900, 10])
    assert odd_share(transfer, output, OddTraffic()) == pytest.approx(1 / 3)


def test_a_file_at_once(tmp_path: Path) -> None:
    (tmp_path / "chat.jsonl").write_text(chat())
    assert import_file(tmp_path / "chat.jsonl", SETTINGS).trace.count == 200


def test_every_written_number_has_a_source_and_reads_back() -> None:
    workload = import_trace(read(chat(400)), SETTINGS).workload
    text = dump_workload(workload)
    again = parse_workload(yaml_source.loads(text))
    assert dump_workload(again) == text
    assert again.cache_curve is not None


class TestAgentSessions:
    def session(self, requests: object) -> str:
        return json.dumps({"id": "s", "block_size": 64, "hash_id_scope": "local", "requests": requests})

    def test_drawn_starts_are_not_called_measured(self) -> None:
        turns = [{"t": 5.0 * i, "in": 64 * (i + 1), "out": 9, "hash_ids": list(range(i + 1))} for i in range(5)]
        trace = read("\n".join(self.session(turns) for _ in range(4)))
        imported = import_trace(trace, SETTINGS)
        assert numbers(imported)["arrival.rate_rps"].basis is Basis.DERIVED
        assert "drawn" in numbers(imported)["arrival.rate_rps"].source

    @pytest.mark.parametrize(
        ("requests", "what"),
        [
            (5, "no list of requests"),
            ([7], "request 0 is not an object"),
            ([{"t": "soon", "in": 64, "out": 1, "hash_ids": [1]}], "t must be a number"),
            ([{"t": 1, "in": 64, "out": 1, "hash_ids": "x"}], "hash_ids must be a list"),
            ([{"t": 1, "in": 64, "out": 1, "hash_ids": [-1]}], "hash_ids must be a list"),
            ([{"agent_id": "a", "requests": []}], "without start"),
            ([{"t": 1, "in": 640, "out": 1, "hash_ids": [1]}], "input tokens / 64"),
            ([{"t": 1, "in": None, "out": 1, "hash_ids": [1]}], "input tokens must be"),
        ],
    )
    def test_bad_sessions(self, requests: object, what: str) -> None:
        with pytest.raises(InputError) as caught:
            read_source(from_bytes(self.session(requests).encode(), name="t"), ReadOptions(strict=True))
        assert caught.value.problems[0].where == "t:1"
        assert what in caught.value.problems[0].what

    def test_one_object_over_many_lines(self) -> None:
        turns = [{"t": 0.0, "in": 64, "out": 1, "hash_ids": [1]}]
        text = json.dumps(json.loads(self.session(turns)), indent=1)
        assert read(text).count == 1
        with pytest.raises(InputError, match="cut off"):
            read(text[:-3])


def test_rounds_without_what_matters_are_named() -> None:
    good = {
        "input_tokens_total": 10,
        "prefix_tokens": 4,
        "output_tokens": 2,
        "session_id": "a",
        "timing_events": [{"timestamp": "2026-06-01T05:40:29.420Z"}, {"timestamp": "2026-06-01T05:40:20.151Z"}],
    }
    bad = {**good, "timing_events": []}
    trace = read("\n".join(json.dumps(row) for row in (good, good)))
    assert trace.hit_tokens is not None
    assert trace.hit_tokens.tolist() == [4, 4]
    with pytest.raises(InputError) as caught:
        read_source(from_bytes("\n".join(map(json.dumps, (good, bad))).encode(), name="t"), ReadOptions(strict=True))
    assert caught.value.problems[0].where == "t:2"


class TestClientProfiles:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        rows = "".join(f"{600 * i},{i % 3},{1.5},Gamma,0,0\n" for i in range(144))
        (tmp_path / "chunk-1-trace.csv").write_text(rows)
        lengths = {"input_tokens": "{100: 0.5, 300: 0.5}", "output_tokens": "{10: 1.0}"}
        (tmp_path / "chunk-1-dataset.json").write_text(
            json.dumps({"0": lengths, "43200": {"input_tokens": "{}", "output_tokens": "{}"}})
        )
        return tmp_path

    def test_by_hand(self, folder: Path) -> None:
        trace = read_profile(folder)
        assert trace.input_tokens.mean() == pytest.approx(200)
        assert set(trace.output_tokens.tolist()) == {10}
        assert trace.given_arrival is not None
        assert trace.given_arrival.trace_rate_rps == pytest.approx(1.0)
        assert trace.given_arrival.peak_to_mean == pytest.approx(2.0)
        assert trace.given_arrival.scv == pytest.approx(2.25)
        assert trace.oddities["idle windows"] == 48
        settings = ImportSettings(llm="deepseek-v3", name="w", assumed=HitAssumption(0.2, 0.2))
        imported = import_trace(trace, settings)
        assert imported.workload.arrival.rate_rps == pytest.approx(1.0)
        assert numbers(imported)["arrival.scv"].basis is Basis.PUBLISHED

    @pytest.mark.parametrize(
        ("name", "text", "what"),
        [
            ("chunk-1-trace.csv", "0,1,1,Gamma,0,0\n600,x,1,Gamma,0,0\n", "window start, rate, CV"),
            ("chunk-1-trace.csv", "0,1,1,Gamma,0,0\n", "at least two windows"),
            ("chunk-1-trace.csv", "0,0,0,,0,0\n600,0,0,,0,0\n", "no client sends"),
            ("chunk-1-dataset.json", "{", "not whole JSON"),
            ("chunk-1-dataset.json", '{"0": {"input_tokens": "{1: 1}"}}', "keys are missing"),
            ("chunk-1-dataset.json", '{"0": {"input_tokens": "{a: 1}", "output_tokens": "{}"}}', "cannot read 'a: 1'"),
        ],
    )
    def test_faults(self, folder: Path, name: str, text: str, what: str) -> None:
        (folder / name).write_text(text)
        with pytest.raises(InputError) as caught:
            read_profile(folder)
        assert what in caught.value.problems[0].what

    def test_a_pair_is_needed(self, folder: Path) -> None:
        (folder / "chunk-1-dataset.json").unlink()
        with pytest.raises(InputError, match="no such file"):
            read_profile(folder / "chunk-1-trace.csv")
        with pytest.raises(InputError, match="is a pair"):
            read_profile(folder / "other.csv")

    @pytest.mark.parametrize("text", ["", "[1]", "{1: __import__('os')}", "{1: nan}", "{1: -1}", "{1: 1e999}"])
    def test_distributions_are_read_not_run(self, text: str) -> None:
        with pytest.raises(ValueError, match="distribution|cannot"):
            parse_distribution(text)

    @pytest.mark.parametrize("text", ["{81: 0.5, 82: 0.5}", '{"81": 0.5, "82": 0.5}', {"81": 0.5, "82": 0.5}])
    def test_distributions_as_text_or_as_json(self, text: object) -> None:
        assert parse_distribution(text) == {81: 0.5, 82: 0.5}
