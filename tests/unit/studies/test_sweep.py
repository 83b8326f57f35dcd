"""Sweeps: axes are read strictly, rows are tidy, a stopped sweep goes on, every backend gives the same table."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pddplan.cli.main import run as app
from pddplan.errors import InputError
from pddplan.optimize import Limits
from pddplan.questions import load_inputs
from pddplan.report.sweep_page import page_of
from pddplan.sizing import Inputs
from pddplan.studies.sweep import Axis, Row, check_axes, grid, parse_axis, question_at, run
from pddplan.studies.sweep_file import RowWriter, cells, done_before, header, key, part_of

LIMITS = Limits(time_limit_s=10.0, max_nodes=20)


@pytest.fixture(scope="module")
def inputs() -> Inputs:
    return load_inputs("agentic-64k")


@pytest.mark.parametrize(
    ("text", "axis"),
    [
        ("hit_rate=0.5:0.9:3", Axis("hit_rate", (0.5, 0.7, 0.9))),
        ("link=10,40", Axis("link", (10.0, 40.0))),
        ("ttft-p99=12", Axis("ttft_p99", (12.0,))),
        ("topology=pd, pdd", Axis("topology", ("pd", "pdd"))),
        ("price.h200-sxm=2:2:1", Axis("price.h200-sxm", (2.0,))),
    ],
)
def test_axes_are_read(text: str, axis: Axis) -> None:
    read = parse_axis(text)
    assert read.name == axis.name
    assert read.values == pytest.approx(axis.values) if axis.name != "topology" else read.values == axis.values


@pytest.mark.parametrize(
    "text", ["", "rps", "rps=", "rpss=1", "rps=a", "rps=1:2", "rps=1:2:0", "rps=1:2:2.5", "rps=nan", "topology=pdx"]
)
def test_nonsense_axes_are_refused(text: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_axis(text)
    assert caught.value.problems[0].where == "--vary"


@pytest.mark.parametrize("text", ["hit_rate=1.5", "rps=0", "rps=-3", "price.no-such-chip=2"])
def test_values_out_of_range_are_refused(text: str, inputs: Inputs) -> None:
    axis = parse_axis(text)
    with pytest.raises(InputError):
        question_at(inputs, [axis], [axis.values[0]])


def test_grid_is_every_combination_and_names_are_given_once() -> None:
    axes = [Axis("rps", (1.0, 2.0)), Axis("link", (10.0, 40.0, 100.0))]
    points = grid(axes)
    assert len(points) == 6
    assert points[0] == (1.0, 10.0)
    with pytest.raises(InputError, match="varied twice"):
        grid([axes[0], axes[0]])
    with pytest.raises(InputError, match="more than"):
        grid([Axis("rps", tuple(map(float, range(1, 1000)))), Axis("link", tuple(map(float, range(1, 1000))))])


def test_levers_reach_the_inputs(inputs: Inputs) -> None:
    axes = [parse_axis(t) for t in ("rps=7", "tpot=40", "price.h200-sxm=3", "rtt=20", "topology=pd")]
    changed, topology = question_at(inputs, axes, [axis.values[0] for axis in axes])
    assert topology == "pd"
    assert changed.workload.arrival.rate_rps == 7.0
    assert changed.workload.promises.tpot_s == pytest.approx(0.04)
    assert changed.sites.sites["b"].chips["h200-sxm"].price_per_chip_hour == 3.0
    assert changed.sites.lines["a-b"].rtt_s == pytest.approx(0.02)


def test_rows_without_a_plan_say_why_and_dearer_chips_cost_more(inputs: Inputs) -> None:
    axes = [parse_axis("ttft_p99=0.01,17.5"), parse_axis("price.h100-sxm=1.88,3.76")]
    rows = {row.values: row for row in run(inputs, axes, grid(axes), topology="pd", limits=LIMITS, backend="serial")}
    assert rows[0.01, 1.88].status == "infeasible"
    assert rows[0.01, 1.88].why_not
    cheap, dear = rows[17.5, 1.88].figures, rows[17.5, 3.76].figures
    assert float(cheap["monthly_cost"]) < float(dear["monthly_cost"])


@pytest.mark.parametrize("backend", ["threading", "dask"])
def test_backends_agree(inputs: Inputs, backend: str) -> None:
    if backend == "dask":
        pytest.importorskip("distributed")
    axes = [parse_axis("rps=4,8")]
    points = grid(axes)

    def costs(name: str) -> dict[tuple[object, ...], float]:
        rows = run(inputs, axes, points, topology="pd", limits=LIMITS, backend=name, jobs=2)
        return {row.values: float(row.figures["monthly_cost"]) for row in rows}

    assert costs(backend) == pytest.approx(costs("serial"))


def test_an_existing_cluster_gives_the_same_table(inputs: Inputs) -> None:
    distributed = pytest.importorskip("distributed")
    axes = [parse_axis("rps=4,8")]
    serial = list(run(inputs, axes, grid(axes), topology="pd", limits=LIMITS, backend="serial"))
    with distributed.LocalCluster(n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None) as there:
        rows = list(
            run(
                inputs,
                axes,
                grid(axes),
                topology="pd",
                limits=LIMITS,
                backend="dask",
                address=there.scheduler_address,
            )
        )
    assert [r.figures["monthly_cost"] for r in rows] == pytest.approx([r.figures["monthly_cost"] for r in serial])


def test_settings_vary_too(inputs: Inputs) -> None:
    axes = [parse_axis("settings.overlap=none, layerwise"), parse_axis("settings.tail_margin=0:0.1:2")]
    changed, _ = question_at(inputs, axes, ["layerwise", 0.1])
    assert changed.settings.overlap == "layerwise"
    assert changed.settings.tail_margin == pytest.approx(0.1)
    with pytest.raises(InputError, match="did you mean 'overlap'"):
        parse_axis("settings.overlp=none")
    with pytest.raises(InputError, match="settings.<name>"):
        parse_axis("settings.=1")


def test_a_chip_may_be_named_by_its_beginning(inputs: Inputs) -> None:
    axis = parse_axis("price.H200=3")
    changed, _ = question_at(inputs, [axis], [3.0])
    assert changed.sites.sites["b"].chips["h200-sxm"].price_per_chip_hour == 3.0


def test_a_wrong_value_is_a_row_and_an_axis_of_nothing_else_is_refused(inputs: Inputs) -> None:
    axes = [parse_axis("hit_rate=0.5,1.5")]
    check_axes(inputs, axes)
    rows = {row.values: row for row in run(inputs, axes, grid(axes), topology="pd", limits=LIMITS, backend="serial")}
    assert rows[(0.5,)].status == "plan"
    assert rows[(1.5,)].status == "wrong question"
    assert "between 0 and 1" in rows[(1.5,)].why_not
    with pytest.raises(InputError, match="between 0 and 1"):
        check_axes(inputs, [parse_axis("hit_rate=1.5,2")])


def test_a_killed_sweep_goes_on_where_it_stood(tmp_path: Path) -> None:
    """A real process, killed without warning after its first row."""
    table = tmp_path / "sweep.csv"
    asked = ["sweep", "--vary", "rps=2,4,6,8", "-t", "pd", "--backend", "serial", "--csv", str(table)]
    script = (
        "import os, signal, sys\n"
        "from pddplan.studies.sweep_file import RowWriter\n"
        "add = RowWriter.add\n"
        "def killed(self, row):\n"
        "    add(self, row)\n"
        "    os.kill(os.getpid(), signal.SIG{how})\n"
        "RowWriter.add = killed\n"
        "from pddplan.cli.main import main\n"
        f"sys.argv = ['pddplan', *{asked}]\n"
        "main()\n"
    )
    died = subprocess.run([sys.executable, "-c", script.format(how="KILL")], capture_output=True, check=False)
    assert died.returncode == -signal.SIGKILL
    assert not table.exists()
    assert len(done_before(table, [parse_axis("rps=2,4,6,8")])) == 1
    stopped = subprocess.run(
        [sys.executable, "-c", script.format(how="INT")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert stopped.returncode == 130
    assert "--resume goes on" in stopped.stderr
    assert app([*asked, "--resume"]) == 0
    rows = table.read_text().splitlines()
    assert [row.split(",")[:2] for row in rows[1:]] == [[rate, "plan"] for rate in ("2", "4", "6", "8")]
    assert not part_of(table).exists()


def test_the_page_draws_each_figure_over_the_first_numbers() -> None:
    axes = [Axis("topology", ("pd", "pdd")), Axis("rps", (1.0, 2.0))]
    rows = [
        cells(Row((name, rate), "plan", "", {"monthly_cost": 1000 * rate, "bcr": 0.1, "chips": 8}), axes)
        for name, rate in grid(axes)
        if isinstance(rate, float)
    ]
    drawn = page_of(header(axes), rows)
    assert drawn.count("<svg viewBox") == 3  # cost, BCR, chips: the others have no values
    assert "topology pd" in drawn
    assert "<script" not in drawn


def test_unknown_backend(inputs: Inputs) -> None:
    axes = [parse_axis("rps=4,8")]
    with pytest.raises(InputError, match="did you mean 'dask'"):
        list(run(inputs, axes, grid(axes), topology="pd", limits=LIMITS, backend="dusk"))


def test_a_stopped_sweep_goes_on(tmp_path: Path) -> None:
    axes = [Axis("rps", (1.0, 2.0, 3.0))]
    path = tmp_path / "sweep.csv"
    writer = RowWriter(path, axes, [])
    writer.add(Row((2.0,), "plan", "", {"monthly_cost": 5.0}))
    with part_of(path).open("a") as torn:
        torn.write("3,pl")  # the process died here
    earlier = done_before(path, axes)
    assert [row[0] for row in earlier] == ["2"]
    again = RowWriter(path, axes, earlier)
    for value in (3.0, 1.0):
        again.add(Row((value,), "plan", "", {}))
    again.finish(grid(axes))
    lines = path.read_text().splitlines()
    assert lines[0] == ",".join(header(axes))
    assert [line.split(",")[0] for line in lines[1:]] == ["1", "2", "3"]
    assert not part_of(path).exists()


def test_a_table_of_another_sweep_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match="columns differ"):
        done_before(path, [Axis("rps", (1.0,))])


def test_varying_columns_stand_first_and_once() -> None:
    axes = [Axis("topology", ("pd",))]
    assert header(axes).count("topology") == 1
    row = Row(("pd",), "plan", "", {"topology": "pd", "bcr": 0.1})
    assert len(cells(row, axes)) == len(header(axes))
    assert key(("pd", 2.0)) == ("pd", "2")
