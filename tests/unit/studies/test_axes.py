"""Axes of a sweep are read strictly, carry their units, and reach the inputs."""

from __future__ import annotations

import pytest

from pddplan.errors import InputError
from pddplan.questions import load_inputs
from pddplan.sizing import Inputs
from pddplan.studies.axes import Axis, grid, parse_axis, with_known_chips
from pddplan.studies.levers import FAMILIES, FILES, LEVERS, OF_CHIPS, changed, column_of, names
from pddplan.studies.sweep import question_at


@pytest.fixture(scope="module")
def inputs() -> Inputs:
    return load_inputs("agentic-64k")


@pytest.mark.parametrize(
    ("text", "axis"),
    [
        ("hit_rate=0.5:0.9:3", Axis("hit_rate", (0.5, 0.7, 0.9))),
        ("hit-rate=50%:90%:3", Axis("hit_rate", (0.5, 0.7, 0.9))),
        ("link=10,40", Axis("link", (10.0, 40.0))),
        ("link=10 Gbit/s,40gbps", Axis("link", (10.0, 40.0))),
        ("rtt=20ms,0.1s", Axis("rtt", (20.0, 100.0))),
        ("ttft-p99=12", Axis("ttft_p99", (12.0,))),
        ("TTFT-P99=500ms", Axis("ttft_p99", (0.5,))),
        ("topology=pd, pdd", Axis("topology", ("pd", "pdd"))),
        ("price.h200-sxm=2:2:1", Axis("price.h200-sxm", (2.0,))),
        ("rps=5,5,6,5.0", Axis("rps", (5.0, 6.0))),
        ("mtp=0,1", Axis("mtp", (0.0, 1.0))),
        ("model=deepseek-v3,glm-4.5", Axis("model", ("deepseek-v3", "glm-4.5"))),
    ],
)
def test_axes_are_read(text: str, axis: Axis) -> None:
    read = parse_axis(text)
    assert read.name == axis.name
    assert list(read.values) == pytest.approx(axis.values) if isinstance(axis.values[0], float) else True
    assert len(read.values) == len(axis.values)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "rps",
        "rps=",
        "rpss=1",
        "rps=a",
        "rps=1:2",
        "rps=1:2:0",
        "rps=1:2:2.5",
        "rps=nan",
        "rps=5ms",
        "topology=pdx",
        "price.=2",
        "price.H200=...",
        "model=a,,b",
        "settings.overlap=nonee",
        "nothing.pue=1",
    ],
)
def test_nonsense_axes_are_refused(text: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_axis(text)
    assert caught.value.problems[0].where == "--vary"


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("hitrate=1", "hit_rate"),
        ("settings.overlp=none", "overlap"),
        ("finance.puee=1", "pue"),
        ("line.loss_fractoin=0.1", "loss_fraction"),
        ("topologies=pd", "topology"),
    ],
)
def test_misspelt_names_are_guessed(text: str, meant: str) -> None:
    with pytest.raises(InputError, match=f"did you mean '{meant}'"):
        parse_axis(text)


@pytest.mark.parametrize(
    "text",
    [
        "hit_rate=1.5",
        "rps=0",
        "rps=-3",
        "rps=1e300",
        "scv=1e308",
        "rtt=1e308",
        "output_factor=1e308",
        "settings.rdma_efficiency=0",
        "price.h200-sxm=0",
        "finance.pue=-1",
        "line.max_lines=1.5",
    ],
)
def test_values_out_of_range_are_refused(text: str, inputs: Inputs) -> None:
    axis = parse_axis(text)
    with pytest.raises(InputError) as caught:
        question_at(inputs, [axis], axis.values[:1])
    assert caught.value.problems[0].where == "--vary"


@pytest.mark.parametrize("name", ["price.H200", "price.h200", "PRICE.h200-SXM", "price.H200 SXM"])
def test_a_chip_may_be_named_in_any_case_and_by_its_beginning(name: str, inputs: Inputs) -> None:
    (axis,) = with_known_chips([parse_axis(f"{name}=3")], inputs.sites)
    assert axis.column == "price.h200-sxm_per_chip_hour"
    moved, _ = question_at(inputs, [axis], [3.0])
    assert moved.sites.sites["b"].chips["h200-sxm"].price_per_chip_hour == 3.0


def test_chips_that_no_site_offers_and_names_given_twice_are_refused(inputs: Inputs) -> None:
    with pytest.raises(InputError, match="no site offers the chip") as caught:
        with_known_chips([parse_axis("price.no-such-chip=2")], inputs.sites)
    assert caught.value.problems[0].where == "--vary"
    with pytest.raises(InputError, match=r"price\.h200-sxm is varied twice"):
        with_known_chips([parse_axis("price.H200=2"), parse_axis("price.h200-sxm=3")], inputs.sites)


def test_grid_is_every_combination() -> None:
    axes = [Axis("rps", (1.0, 2.0)), Axis("link", (10.0, 40.0, 100.0))]
    points = grid(axes)
    assert len(points) == 6
    assert points[0] == (1.0, 10.0)
    with pytest.raises(InputError, match="more than"):
        grid([Axis("rps", tuple(map(float, range(1, 1000)))), Axis("link", tuple(map(float, range(1, 1000))))])


def test_levers_reach_the_inputs(inputs: Inputs) -> None:
    texts = (
        "rps=7",
        "tpot=40",
        "rtt=20",
        "topology=pd",
        "settings.overlap=layerwise",
        "settings.tail_margin=0.1",
        "finance.pue=1.2",
        "line.loss_fraction=0.001",
        "line.max_lines=2",
        "max_chips.h200-sxm=48",
        "arrival.peak_to_mean=2",
    )
    axes = [parse_axis(text) for text in texts]
    moved, topology = question_at(inputs, axes, [axis.values[0] for axis in axes])
    assert topology == "pd"
    assert moved.workload.arrival.rate_rps == 7.0
    assert moved.workload.arrival.peak_to_mean == 2.0
    assert moved.workload.promises.tpot_s == pytest.approx(0.04)
    assert moved.sites.lines["a-b"].rtt_s == pytest.approx(0.02)
    assert moved.sites.lines["a-b"].loss_fraction == pytest.approx(0.001)
    assert moved.sites.lines["a-b"].max_lines == 2
    assert isinstance(moved.sites.lines["a-b"].max_lines, int)
    assert moved.sites.sites["b"].chips["h200-sxm"].max_chips == 48
    assert moved.sites.finance.pue == 1.2
    assert moved.settings.overlap == "layerwise"
    assert moved.settings.tail_margin == pytest.approx(0.1)


def test_a_higher_rate_comes_nearer_to_the_peak_as_with_the_option() -> None:
    lever = changed(load_inputs("chat-and-agents"), "rps", 60.0)
    option = load_inputs("chat-and-agents", rps=60.0)
    assert lever.workload.arrival == option.workload.arrival
    assert option.workload.arrival.rate_rps == 60.0


def test_every_promise_and_field_has_a_lever_that_moves_it(inputs: Inputs) -> None:
    for name in LEVERS:
        if name != "link":  # only tiers that a line has
            assert changed(inputs, name, 0.25) != inputs, name
    for family, own in FAMILIES.items():
        for key, hint in own.keys.items():
            if family not in OF_CHIPS and hint != "str":
                assert (
                    changed(inputs, f"{family}.{key}", 3.0 if "int" in hint or key == "peak_to_mean" else 0.5) != inputs
                ), key


def test_columns_end_in_units_and_files_are_left_to_their_options() -> None:
    assert [column_of(name) for name in ("link", "rtt", "ttft_p99", "tpot", "hit_rate", "price.x")] == [
        "link_gbps",
        "rtt_ms",
        "promised_ttft_p99_s",
        "promised_tpot_ms",
        "hit_rate_fraction",
        "price.x_per_chip_hour",
    ]
    assert set(FILES) < set(names())
