"""Workload files: what is bundled, what is refused, and that writing and reading agree."""

from __future__ import annotations

import numpy as np
import pytest

from pddplan.domain.provenance import Basis
from pddplan.domain.workload import Workload
from pddplan.errors import InputError
from pddplan.profiles import lookup, yaml_source
from pddplan.profiles.workload_profile import assumptions, dump_workload, load_workload, parse_workload, rounded

PLAIN = """schema: workload/1
name: mine
llm: deepseek-v3
arrival: {rate_rps: 5, scv: 1.2}
promises: {ttft_p90_s: 3, ttft_p99_s: 6}
requests:
  kind: table
  rows:
    - [1, 1000, 500, 400, 200]
    - [3, 3000, 500, 400, 100]
"""


def parse(text: str) -> Workload:
    return parse_workload(yaml_source.loads(text, name="w.yaml"))


def faults(text: str) -> dict[str | None, str]:
    with pytest.raises(InputError) as caught:
        parse(text)
    return {problem.where: problem.what for problem in caught.value.problems}


class TestBundled:
    def test_agentic_64k_says_what_the_report_says(self) -> None:
        workload = load_workload("agentic-64k")
        classes = workload.classes
        hit = 1 - classes.miss_prefill_tokens / classes.input_tokens
        assert workload.llm == "deepseek-v4-pro"
        assert classes.mean(hit) == pytest.approx(0.90, abs=0.01)
        assert 0.70 <= classes.weight[hit > 0.95].sum() <= 0.80
        assert classes.mean(classes.input_tokens + classes.output_tokens) == pytest.approx(65536)
        assert set(classes.output_tokens.tolist()) == {1024.0}

    def test_its_promises_hold_for_the_systems_the_report_calls_good_and_not_for_direct_transfer(self) -> None:
        promises = load_workload("agentic-64k").promises.ttft()
        for p90, p99, keeps in ((10.4, 17.2, True), (9.8, 14.4, True), (18.3, 29.7, False)):
            assert (p90 <= promises[0.9] and p99 <= promises[0.99]) is keeps

    @pytest.mark.parametrize("name", lookup.names(lookup.Kind.WORKLOAD))
    def test_every_bundled_workload_is_sound_and_survives_writing(self, name: str) -> None:
        workload = load_workload(name)
        c = workload.classes
        assert c.weight.sum() == pytest.approx(1)
        assert c.count <= 64
        assert (c.miss_prefill_tokens <= c.input_tokens).all()
        assert (c.miss_decode_tokens <= c.input_tokens).all()
        assert (c.output_tokens >= 1).all()
        assert lookup.find(lookup.Kind.LLM, workload.llm).exists()
        text = dump_workload(workload)
        again = parse(text)
        assert dump_workload(again) == text
        assert again.promises == workload.promises
        assert again.arrival.rate_rps == pytest.approx(workload.arrival.rate_rps, rel=1e-6)
        assert np.allclose(again.classes.miss_prefill_tokens, c.miss_prefill_tokens, rtol=1e-6)
        assert assumptions(again).keys() >= {k for k in assumptions(workload) if not k.startswith("requests.")}

    def test_the_one_from_a_trace_holds_no_ids(self) -> None:
        path = lookup.find(lookup.Kind.WORKLOAD, "weka-agentic")
        text = path.read_text()
        assert "trace_0" not in text  # session names
        assert "hash_ids:" not in text
        assert load_workload("weka-agentic").provenance["trace"]["sha256"]


class TestPlain:
    def test_plain_numbers_count_as_given(self) -> None:
        workload = parse(PLAIN)
        assert workload.classes.weight.tolist() == [0.25, 0.75]
        assert workload.classes.input_tokens.tolist() == [1000, 3000]
        assert workload.provenance["numbers"]["arrival.rate_rps"].basis is Basis.ASSUMED

    def test_columns_in_another_order(self) -> None:
        columns = "columns: [output_tokens, weight, miss_decode_tokens, miss_prefill_tokens, input_tokens]"
        text = PLAIN.replace("  rows:", f"  {columns}\n  rows:").replace("[3, 3000, 500, 400, 100]", "[9, 3, 2, 4, 8]")
        text = text.replace("[1, 1000, 500, 400, 200]", "[5, 1, 1, 2, 4]")
        classes = parse(text).classes
        assert classes.output_tokens.tolist() == [5, 9]
        assert classes.input_tokens.tolist() == [4, 8]
        assert classes.miss_decode_tokens.tolist() == [1, 2]


class TestRefused:
    def test_all_faults_of_a_file_at_once(self) -> None:
        text = PLAIN.replace("rate_rps: 5", "rate_rp: 5").replace("scv: 1.2", "scv: lots")
        found = faults(text)
        assert "did you mean 'rate_rps'" in found["w.yaml:4: arrival.rate_rp"]
        assert "must be a number, got text 'lots'" in found["w.yaml:4: arrival.scv"]
        assert found["w.yaml:4: arrival.rate_rps"] == "this key is missing"

    @pytest.mark.parametrize(
        ("old", "new", "where", "what"),
        [
            ("rate_rps: 5", "rate_rps: 0", "w.yaml:4: arrival.rate_rps", "greater than 0"),
            ("rate_rps: 5", "rate_rps: -1", "w.yaml:4: arrival.rate_rps", "greater than 0"),
            ("rate_rps: 5", "rate_rps: .nan", "w.yaml:4: arrival.rate_rps", "finite"),
            ("rate_rps: 5", "rate_rps: .inf", "w.yaml:4: arrival.rate_rps", ""),
            ("rate_rps: 5", "rate_rps: 1e308", "w.yaml:4: arrival.rate_rps", "at most"),
            ("rate_rps: 5", "rate_rps: [5]", "w.yaml:4: arrival.rate_rps", "must be a mapping"),
            ("rate_rps: 5", "rate_rps: true", "w.yaml:4: arrival.rate_rps", "must be a number"),
            ("ttft_p99_s: 6", "ttft_p99_s: 2", "w.yaml:5: promises", "higher percentile"),
            ("kind: table", "kind: tabel", "w.yaml:7: requests.kind", "did you mean 'table'"),
            ("[1, 1000, 500, 400, 200]", "[1, 1000, 5000, 400, 200]", "w.yaml:9: requests.rows[0]", "exceeds"),
            ("[1, 1000, 500, 400, 200]", "[1, 1000, 500, 4000, 200]", "w.yaml:9: requests.rows[0]", "exceeds"),
            ("[1, 1000, 500, 400, 200]", "[1, 0, 0, 0, 200]", "w.yaml:9: requests.rows[0]", "greater than 0"),
            ("[1, 1000, 500, 400, 200]", "[1, 1000, 500, 400, 0]", "w.yaml:9: requests.rows[0]", "greater than 0"),
            ("[1, 1000, 500, 400, 200]", "[1, 1000]", "w.yaml:9: requests.rows[0]", "has 2 numbers"),
            ("[1, 1000, 500, 400, 200]", "[-1, 1000, 500, 400, 200]", "w.yaml:9: requests.rows[0]", "at least 0"),
        ],
    )
    def test_wrong_values(self, old: str, new: str, where: str, what: str) -> None:
        found = faults(PLAIN.replace(old, new))
        place = next((place for place in found if place and place.startswith(where)), None)
        assert place is not None, found
        assert what in found[place]

    def test_weights_that_sum_to_nothing(self) -> None:
        text = PLAIN.replace("[1, 1000", "[0, 1000").replace("[3, 3000", "[0, 3000")
        assert "w.yaml:8: requests.rows" in faults(text)

    def test_bins_with_a_gap(self) -> None:
        text = PLAIN.split("requests:")[0] + (
            "requests:\n  kind: hit-rate-bins\n  input_tokens: 100\n  output_tokens: 5\n  bins:\n"
            "    - {hit_from: 0, hit_to: 0.5, share: 0.5}\n    - {hit_from: 0.6, hit_to: 1, share: 0.5}\n"
        )
        assert "without gaps" in faults(text)["w.yaml:10: requests.bins"]

    def test_lognormal_without_probability_between_its_limits(self) -> None:
        text = PLAIN.split("requests:")[0] + (
            "requests:\n  kind: lognormal\n  mu: 90\n  sigma: 0.1\n  low_tokens: 1\n  high_tokens: 10\n"
            "  output_tokens: 5\n  hit_rate: 0\n"
        )
        assert any("probability" in what for what in faults(text).values())

    def test_another_kind_of_file(self) -> None:
        assert "workload/1" in next(iter(faults("schema: chip/1\nname: x\n").values()))


def test_rounding_keeps_token_counts() -> None:
    assert rounded(1234567.0) == 1234567
    assert isinstance(rounded(64.0), int)
    assert rounded(0.123456789) == 0.1234568


MIX = """\
schema: workload/1
name: two-kinds
llm: qwen3-235b-a22b
arrival: {rate_rps: 5, scv: 1}
promises:
  ttft_p99_s: 20
  by_class:
    chat: {ttft_p99_s: 1.5, tpot_s: 0.03}
requests:
  kind: mix
  parts:
    chat: {share: 3, requests: {kind: uniform, input_tokens: 1000, output_tokens: 200, hit_rate: 0.5}}
    agents:
      share: 1
      requests: {kind: table, rows: [[1, 60000, 6000, 3000, 800], [1, 30000, 3000, 1000, 400]]}
"""


class TestTrafficClasses:
    def test_parts_of_a_mix_keep_names_and_shares(self) -> None:
        workload = parse(MIX)
        classes = workload.classes
        assert classes.groups == ("chat", "agents")
        assert classes.mean(classes.members("chat")) == pytest.approx(0.75)
        assert classes.mean(classes.output_tokens * classes.members("agents")) == pytest.approx(0.25 * 600)
        named = {promise.name: promise.limit_s for promise in workload.promises.made()}
        assert named == {"TTFT P99": 20, "chat TTFT P99": 1.5, "chat TPOT P90": 0.03}

    def test_written_and_read_again(self) -> None:
        workload = parse(MIX)
        again = parse(dump_workload(workload))
        assert again.classes.group == workload.classes.group
        assert again.promises == workload.promises

    def test_groups_of_a_table(self) -> None:
        rows = "rows: [[1, 60000, 6000, 3000, 800], [1, 30000, 3000, 1000, 400]]"
        table = MIX[: MIX.index("requests:")] + f"requests: {{kind: table, groups: [chat, agents], {rows}}}\n"
        assert parse(table).classes.group == ("chat", "agents")
        with pytest.raises(InputError, match="one traffic class per row"):
            parse(table.replace("[chat, agents]", "[chat]"))

    def test_promises_to_classes_that_are_not_there(self) -> None:
        with pytest.raises(InputError, match="no traffic class 'chta'; did you mean 'chat'"):
            parse(MIX.replace("    chat: {ttft_p99_s", "    chta: {ttft_p99_s"))
        with pytest.raises(InputError, match="higher percentile is promised faster"):
            parse(MIX.replace("chat: {ttft_p99_s: 1.5,", "chat: {ttft_p99_s: 1.5, ttft_p90_s: 3,"))
