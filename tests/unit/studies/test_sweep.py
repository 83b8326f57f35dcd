"""Sweeps: rows are tidy, a stopped sweep goes on to the same table, every backend gives the same rows."""

from __future__ import annotations

import csv
import json
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from pddplan.cli.main import run as app
from pddplan.errors import InputError
from pddplan.optimize import Limits
from pddplan.questions import load_inputs
from pddplan.report.sweep_file import RowWriter, as_data, cells, done_before, header, key, part_of, table
from pddplan.report.sweep_page import page_of
from pddplan.sizing import Inputs
from pddplan.studies import sweep as study
from pddplan.studies.axes import Axis, grid, parse_axis
from pddplan.studies.levers import Value
from pddplan.studies.sweep import FAULT, PLAN, WORDS, WRONG, Row, Sweep, ask, run

LIMITS = Limits(time_limit_s=60.0, max_nodes=20)
ASKED = ("sweep", "--vary", "rps=2,4,6,8", "-t", "pd", "--backend", "serial")


def load(files: Mapping[str, Value]) -> Inputs:
    model = files.get("model")
    return load_inputs("agentic-64k", llm=str(model) if model is not None else None)


def asked(*texts: str, topology: str | None = "pd") -> Sweep:
    return ask(load, [parse_axis(text) for text in texts], limits=LIMITS, topology=topology)


def unasked(*axes: Axis) -> Sweep:
    """A sweep for tests of files, which size nothing."""
    return Sweep(tuple(axes), LIMITS, fingerprints={(): "0123456789ab"})


def row(value: Value, status: str = PLAN, **figures: float | str) -> Row:
    return Row((value,), status, "", figures, "0123456789ab")


def test_rows_without_a_plan_say_why_and_dearer_chips_cost_more() -> None:
    question = asked("ttft_p99=0.01,17.5", "price.h100-sxm=1.88,3.76")
    rows = {row.values: row for row in run(question, question.points())}
    assert rows[0.01, 1.88].status == "infeasible"
    assert rows[0.01, 1.88].why_not
    assert rows[0.01, 1.88].figures["currency"] == "USD"
    cheap, dear = rows[17.5, 1.88].figures, rows[17.5, 3.76].figures
    assert float(cheap["monthly_cost"]) < float(dear["monthly_cost"])


def test_a_row_is_the_answer_of_size(capsys: pytest.CaptureFixture[str]) -> None:
    assert app(["sweep", "--vary", "rps=9", "-t", "pd", "--json", "--backend", "serial"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["rows"]
    assert app(["size", "--rps", "9", "-t", "pd", "--no-compare", "--json", "--objective", "cost"]) == 0
    sized = json.loads(capsys.readouterr().out)
    assert found["monthly_cost"] == pytest.approx(sized["cost"]["monthly_total"])
    assert found["ttft_p99_s"] == pytest.approx(sized["ttft_s"]["p99"])


def test_backends_and_an_existing_cluster_give_the_same_table() -> None:
    distributed = pytest.importorskip("distributed")
    question = asked("rps=4,8")

    def lines(backend: str, address: str | None = None) -> list[list[str]]:
        rows = run(question, question.points(), backend=backend, jobs=2, address=address)
        return sorted(cells(row, question.axes) for row in rows)

    serial = lines("serial")
    assert lines("threading") == serial
    with distributed.LocalCluster(n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None) as there:
        assert lines("dask", there.scheduler_address) == serial


@pytest.mark.parametrize(
    ("given", "flag", "said"),
    [
        (("--backend", "dusk"), "--backend", "did you mean 'dask'"),
        (("--cluster", "tcp://127.0.0.1:1"), "--cluster", "knows no cluster"),
        (("--jobs", "0"), "--jobs", "answer nothing"),
        (("--resume",), "--resume", "say which with --csv"),
        (("--chip", "h900"), "--chip", "no site offers"),
        (("--max-utilization", "1.5"), "--max-utilization", "(0, 1]"),
        (("--objective", "bcrr"), "--objective", "did you mean 'bcr'"),
        (("--plot", "costs"), "--plot", "did you mean 'cost'"),
        pytest.param(
            ("--backend", "dask", "--cluster", "nowhere"),
            "--cluster",
            "no dask cluster answers at 'nowhere'",
            marks=pytest.mark.skipif(find_spec("distributed") is None, reason="distributed is not installed"),
        ),
    ],
)
def test_what_cannot_run_is_said_at_once(
    given: tuple[str, ...], flag: str, said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pddplan.studies.side_by_side.REACH_WITHIN_S", 0.2)
    assert app(["sweep", "--vary", "rps=4,8", "-t", "pd", *given]) == 2
    told = capsys.readouterr()
    assert flag in told.err
    assert said in told.err
    assert told.out == ""


def test_a_wrong_value_is_a_row_and_an_axis_of_nothing_else_is_refused() -> None:
    question = asked("hit_rate=0.5,1.5")
    rows = {row.values: row for row in run(question, question.points())}
    assert rows[(0.5,)].status == PLAN
    assert rows[(1.5,)].status == WRONG
    assert "between 0 and 1" in rows[(1.5,)].why_not
    with pytest.raises(InputError, match="between 0 and 1"):
        asked("hit_rate=1.5,2")


def test_a_fault_costs_one_row_and_the_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    inner = study.size

    def failing(problem: study.Outcome, **named: object) -> study.Outcome:
        if problem.workload.arrival.rate_rps == 4.0:  # type: ignore[attr-defined]
            raise ZeroDivisionError("=1+1")
        return inner(problem, **named)  # type: ignore[arg-type]

    path = tmp_path / "rows.csv"
    monkeypatch.setattr(study, "size", failing)
    assert app([*ASKED, "--csv", str(path)]) == 1
    assert "1 questions met a fault" in capsys.readouterr().err
    rows = {found["rps"]: found for found in csv.DictReader(path.read_text().splitlines())}
    assert rows["4"]["status"] == FAULT
    assert rows["4"]["why_not"] == "ZeroDivisionError: =1+1"
    assert [rows[rps]["status"] for rps in ("2", "6", "8")] == [PLAN] * 3
    monkeypatch.setattr(study, "size", inner)
    assert app([*ASKED, "--csv", str(path), "--resume"]) == 0
    assert FAULT not in path.read_text()


def test_a_killed_sweep_goes_on_to_the_table_of_one_that_was_not(tmp_path: Path) -> None:
    """A real process, killed without warning after its first row, then interrupted after another."""
    whole, stopped = tmp_path / "whole.csv", tmp_path / "stopped.csv"
    assert app([*ASKED, "--csv", str(whole)]) == 0
    command = [*ASKED, "--csv", str(stopped)]
    script = (
        "import os, signal, sys\n"
        "from pddplan.report.sweep_file import RowWriter\n"
        "add = RowWriter.add\n"
        "def killed(self, row):\n"
        "    add(self, row)\n"
        "    os.kill(os.getpid(), signal.SIG{how})\n"
        "RowWriter.add = killed\n"
        "from pddplan.cli.main import main\n"
        f"sys.argv = ['pddplan', *{command}, *{{more}}]\n"
        "main()\n"
    )

    def killed(how: str, *more: str) -> subprocess.CompletedProcess[str]:
        text = script.format(how=how, more=list(more))
        return subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)

    assert killed("KILL").returncode == -signal.SIGKILL
    assert not stopped.exists()
    assert len(part_of(stopped).read_text().splitlines()) == 2
    interrupted = killed("INT", "--resume")
    assert interrupted.returncode == 130
    assert "2 of 4 rows are kept" in interrupted.stderr
    assert "--resume goes on" in interrupted.stderr
    assert app([*command, "--resume"]) == 0
    assert stopped.read_text() == whole.read_text()
    assert not part_of(stopped).exists()


def test_rows_of_other_inputs_are_not_gone_on_from(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "rows.csv"
    assert app([*ASKED, "--csv", str(path)]) == 0
    for other in (["--ttft-p99", "12"], ["--objective", "bcr"], ["--time-limit", "7"]):
        assert app([*ASKED, *other, "--csv", str(path), "--resume"]) == 2
        assert "of its rows differ" in capsys.readouterr().err
    fewer = ["sweep", "--vary", "rps=2,4", "-t", "pd", "--csv", str(path), "--resume"]
    assert app(fewer) == 2
    assert "not asked for now" in capsys.readouterr().err


def test_limits_of_size_hold_in_a_sweep(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["sweep", "--vary", "rps=8", "-t", "pd", "--backend", "serial", "--json"]

    def found(*given: str) -> dict[str, object]:
        assert app([*asked, *given]) == 0
        return json.loads(capsys.readouterr().out)["rows"][0]  # type: ignore[no-any-return]

    free, spare = found(), found("--spare", "1", "--chip", "h100", "--set", "tail_margin=0.1")
    assert float(str(spare["chips"])) > float(str(free["chips"]))
    assert found("--max-chips", "8")["status"] == "infeasible"


def test_models_vary_by_the_files_of_each() -> None:
    question = asked("model=deepseek-v3,deepseek-r1", "rps=4,8")
    assert [question.base(point).llm.id for point in question.points()] == ["deepseek-v3"] * 2 + ["deepseek-r1"] * 2
    assert question.fingerprint(question.points()[0]) != question.fingerprint(question.points()[-1])
    with pytest.raises(InputError, match="unknown model"):
        asked("model=deepseek-v33")


def test_the_table_is_tidy() -> None:
    axes = (Axis("topology", ("pd", "pdd")), Axis("rps", (1.0, 2.0)))
    assert header(axes).count("topology") == 1
    assert len(set(header(axes))) == len(header(axes))
    found = [
        cells(Row(point, PLAN, "", {"monthly_cost": 1e6, "chips": 8, "currency": "=cmd"}, "0"), axes)
        for point in grid(axes)
    ]
    assert {len(line) for line in found} == {len(header(axes))}
    assert found[0][header(axes).index("currency")] == "'=cmd"
    assert cells(Row(("pd", 1.0), WRONG, "-1+1\n|x", {}, "0"), axes)[3] == "'-1+1 |x"
    assert key(("pd", 2.0, -0.0)) == ("pd", "2", "0")
    records = as_data(found, axes)["rows"]
    for record in records:
        for name, value in record.items():
            assert isinstance(value, str) if name in WORDS else value is None or isinstance(value, float), name
    assert len(list(csv.reader(table(found, axes).splitlines()))) == 5


def test_the_page_draws_curves_shades_or_bars() -> None:
    def drawn(*axes: Axis) -> str:
        rows = [
            cells(Row(point, PLAN, "", {"monthly_cost": 100.0 + n, "bcr_rps_per_1000_monthly_cost": 0.1}, "0"), axes)
            for n, point in enumerate(grid(axes))
        ]
        return page_of(axes, rows)

    rates, topologies = Axis("rps", (1.0, 2.0)), Axis("topology", ("pd", "pdd"))
    curves = drawn(topologies, rates)
    assert curves.count('role="img"') == 2  # cost and BCR: the others have no values
    assert "topology pd" in curves
    assert "<polyline" in curves
    assert "<script" not in curves
    many = Axis("rps", tuple(map(float, range(1, 10))))
    shades = drawn(many, Axis("link", tuple(map(float, range(1, 9)))))
    assert "<polyline" not in shades
    assert shades.count("fill-opacity") == 2 * 9 * 8
    assert drawn(topologies).count("<rect") == 2 * 2 * 2  # a bar and its ground, for each topology and figure


def test_a_torn_line_is_asked_again(tmp_path: Path) -> None:
    question = unasked(Axis("rps", (1.0, 2.0, 3.0)))
    path = tmp_path / "sweep.csv"
    writer = RowWriter(path, question.axes, [])
    writer.add(row(2.0, monthly_cost=5.0))
    with part_of(path).open("a") as torn:
        torn.write("3,pl")  # the process died here
    earlier = done_before(path, question)
    assert [line[0] for line in earlier] == ["2"]
    again = RowWriter(path, question.axes, earlier)
    for value in (3.0, 1.0):
        again.add(row(value))
    again.finish(question.points())
    lines = path.read_text().splitlines()
    assert lines[0] == ",".join(header(question.axes))
    assert [line.split(",")[0] for line in lines[1:]] == ["1", "2", "3"]
    assert not part_of(path).exists()


@pytest.mark.parametrize("status", [FAULT, "no plan in time"])
def test_what_another_try_may_answer_is_asked_again(status: str, tmp_path: Path) -> None:
    question = unasked(Axis("rps", (1.0,)))
    path = tmp_path / "sweep.csv"
    RowWriter(path, question.axes, []).add(row(1.0, status))
    assert done_before(path, question) == []


def test_a_table_of_another_sweep_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match="columns differ"):
        done_before(path, unasked(Axis("rps", (1.0,))))


def test_fingerprints_tell_inputs_apart_and_nothing_else() -> None:
    one, same = asked("rps=4,8"), asked("rps=2,8")
    assert one.fingerprint((8.0,)) == same.fingerprint((8.0,))
    other = ask(load, one.axes, limits=replace(LIMITS, time_limit_s=5.0), topology="pd")
    assert one.fingerprint((8.0,)) != other.fingerprint((8.0,))
