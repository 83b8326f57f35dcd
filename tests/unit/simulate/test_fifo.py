"""Hand-computed queues and properties that hold on every sample path."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pddplan.errors import DomainError
from pddplan.simulate.fifo import multi_server_fifo, multi_server_shortest_first

jobs = st.lists(st.tuples(st.floats(0, 5), st.floats(0, 9)), min_size=1, max_size=40)
few = settings(max_examples=40, deadline=None)


def test_two_servers_by_hand() -> None:
    arrival, service = np.array([0.0, 0.0, 1.0, 2.0]), np.array([4.0, 3.0, 1.0, 1.0])
    np.testing.assert_allclose(multi_server_fifo(arrival, service, servers=2), [0, 0, 3, 4])


def test_shortest_first_by_hand() -> None:
    """The long request that came second lets the short third one pass."""
    arrival, service = np.array([0.0, 1.0, 2.0]), np.array([4.0, 5.0, 1.0])
    np.testing.assert_allclose(multi_server_shortest_first(arrival, service, servers=1), [0, 5, 4])


@few
@given(jobs, st.integers(1, 5))
def test_no_server_idles_while_someone_waits(drawn: list[tuple[float, float]], servers: int) -> None:
    arrival, service = np.cumsum([gap for gap, _ in drawn]), np.array([need for _, need in drawn])
    for discipline in (multi_server_fifo, multi_server_shortest_first):
        start = discipline(arrival, service, servers=servers)
        assert (start >= arrival - 1e-9).all()
        for i in np.flatnonzero(start > arrival + 1e-9):
            just_before = start[i] - 1e-7
            busy = int(((start <= just_before) & (start + service > just_before)).sum())
            assert busy == servers or just_before <= arrival[i]


@few
@given(jobs, st.integers(1, 4))
def test_fifo_starts_in_order_and_more_servers_never_delay(drawn: list[tuple[float, float]], servers: int) -> None:
    arrival, service = np.cumsum([gap for gap, _ in drawn]), np.array([need for _, need in drawn])
    start = multi_server_fifo(arrival, service, servers=servers)
    assert (np.diff(start) >= -1e-9).all()
    assert (multi_server_fifo(arrival, service, servers=servers + 1) <= start + 1e-9).all()


@pytest.mark.parametrize("discipline", [multi_server_fifo, multi_server_shortest_first])
@pytest.mark.parametrize(
    ("arrival", "service", "servers", "name"),
    [
        ([1.0, 0.0], [1.0, 1.0], 1, "arrival_s"),
        ([0.0, np.nan], [1.0, 1.0], 1, "arrival_s"),
        ([0.0, 1.0], [1.0, -1.0], 1, "service_s"),
        ([0.0, 1.0], [1.0, np.inf], 1, "service_s"),
        ([0.0, 1.0], [1.0], 1, "service_s"),
        ([0.0, 1.0], [1.0, 1.0], 0, "servers"),
    ],
)
def test_bad_input_is_refused(discipline, arrival, service, servers, name) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(DomainError) as caught:
        discipline(np.array(arrival), np.array(service), servers=servers)
    assert caught.value.name == name
