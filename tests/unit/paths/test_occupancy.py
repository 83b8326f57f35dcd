"""How full the slots of a decoding pool are: theory where it is calm, direction and simulation where it is not."""

from __future__ import annotations

import numpy as np
import pytest

from pddplan.paths.occupancy import SlotOccupancy, Unrest, slot_occupancy
from pddplan.queueing import erlang_c


def test_slots_that_do_not_slow_each_other_are_erlangs() -> None:
    got = slot_occupancy(
        4.0, 10, instances=1, nodes=np.array([0.0, 10.0]), holding_s=np.array([2.0, 2.0]), utilization=0.8
    )
    assert got.delay_probability == pytest.approx(float(erlang_c(10, 0.8)))


def test_a_pool_that_is_faster_when_emptier_is_rarely_full() -> None:
    same = {"instances": 1, "nodes": np.array([0.0, 10.0]), "utilization": 0.8}
    even = slot_occupancy(4.0, 10, holding_s=np.array([2.0, 2.0]), **same)  # type: ignore[arg-type]
    faster = slot_occupancy(4.0, 10, holding_s=np.array([0.5, 2.0]), **same)  # type: ignore[arg-type]
    assert faster.delay_probability < even.delay_probability


def test_few_sequences_fluctuate_like_poisson() -> None:
    got = slot_occupancy(
        1.0, 200, instances=2, nodes=np.array([0.0, 100.0]), holding_s=np.array([9.0, 9.0]), utilization=0.045
    )
    assert got.sequences_sd == pytest.approx(3.0, rel=1e-6)
    assert got.delay_probability < 1e-12


def test_so_many_slots_that_they_are_not_counted_one_by_one() -> None:
    got = slot_occupancy(
        1e5, 200_000, instances=10, nodes=np.array([0.0, 2e4]), holding_s=np.array([1.0, 1.0]), utilization=0.5
    )
    assert got.delay_probability == pytest.approx(0.0)
    assert got.sequences_sd == pytest.approx(np.sqrt(1e5))


def occupancy(unrest: Unrest, *, rate: float = 4.0, slots: int = 40, instances: int = 4) -> SlotOccupancy:
    """Slots that are held for 6 s whatever the batch."""
    return slot_occupancy(
        rate,
        slots,
        instances=instances,
        nodes=np.array([0.0, slots / instances]),
        holding_s=np.array([6.0, 6.0]),
        utilization=rate * 6.0 / slots,
        unrest=unrest,
    )


def test_nothing_that_moves_is_calm() -> None:
    calm, still = occupancy(Unrest()), occupancy(Unrest(lambda window_s: np.ones_like(window_s), overlap=1.0))
    assert still.delay_probability == pytest.approx(calm.delay_probability)
    assert still.excess == pytest.approx(calm.excess)


@pytest.mark.parametrize(
    "unrest",
    [
        Unrest(lambda window_s: np.full_like(window_s, 5.0)),
        Unrest(stop_mean_s=0.3, stop_second_s2=0.4, stop_memory_s=1.0),
    ],
    ids=["waves", "stops"],
)
def test_unrest_fills_slots_more_often_and_for_longer(unrest: Unrest) -> None:
    calm, moved = occupancy(Unrest()), occupancy(unrest)
    assert moved.delay_probability > calm.delay_probability
    assert moved.excess >= calm.excess
    assert moved.excess * moved.delay_probability > 1.5 * calm.excess * calm.delay_probability
    assert moved.sequences_sd > calm.sequences_sd


def test_bursts_that_come_alike_spread_sequences_by_their_dispersion() -> None:
    """Peakedness of equal holding times is the index of dispersion itself (eckberg1983)."""
    bursty = Unrest(lambda window_s: np.full_like(window_s, 4.0), overlap=1.0)
    got = occupancy(bursty, rate=10.0, slots=400)
    assert got.sequences_sd == pytest.approx(np.sqrt(60.0 * 4.0), rel=0.05)


def test_of_stops_of_the_same_mean_the_uneven_ones_hurt_more() -> None:
    even = occupancy(Unrest(stop_mean_s=0.3, stop_second_s2=0.09, stop_memory_s=0.15))
    uneven = occupancy(Unrest(stop_mean_s=0.3, stop_second_s2=2.0, stop_memory_s=3.0))
    assert uneven.delay_probability > even.delay_probability


def test_stepping_over_states_changes_little(monkeypatch: pytest.MonkeyPatch) -> None:
    bursty = Unrest(lambda window_s: np.full_like(window_s, 3.0))
    whole = occupancy(bursty, rate=140.0, slots=1000)
    monkeypatch.setattr("pddplan.paths.occupancy._MOST_STATES", 300)
    stepped = occupancy(bursty, rate=140.0, slots=1000)
    assert stepped.sequences_sd == pytest.approx(whole.sequences_sd, rel=0.02)
    assert stepped.delay_probability == pytest.approx(whole.delay_probability, rel=0.15)
