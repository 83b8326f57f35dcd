"""The stages of the simulator against queueing theory.

Tolerances are not chosen: each is the sampling error of the run itself (batch means), and a second assertion
keeps that error small enough for the comparison to mean something.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from pddplan.domain.workload import Array
from pddplan.simulate.arrivals import batch_arrivals_s, modulated_arrivals_s, renewal_arrivals_s
from pddplan.simulate.decoding import decode_batch
from pddplan.simulate.fifo import multi_server_fifo, multi_server_shortest_first
from pddplan.simulate.sharing import processor_sharing
from pddplan.simulate.statistics import MEAN, Estimate, estimate

REQUESTS = 200_000
WARM_UP_FRACTION = 0.05
SIGMAS = 4.0 / 2.09  # the half width is 2.09 standard errors (t, 19 degrees); a false alarm in 10,000 at 4


def poisson(rate: float, seed: int = 1) -> tuple[Array, np.random.Generator]:
    rng = np.random.default_rng(seed)
    return renewal_arrivals_s(REQUESTS, rate, scv=1.0, rng=rng), rng


def agrees(got: Estimate, theory: float, *, resolution: float = 0.06) -> None:
    assert got.half_width <= resolution * max(theory, 1e-12), f"too noisy to test: {got}"
    assert abs(got.value - theory) <= SIGMAS * got.half_width, f"{got} against {theory}"


def steady(values: Array) -> Array:
    return values[int(WARM_UP_FRACTION * values.size) :]


def mean_of(values: Array) -> Estimate:
    return estimate([steady(values)], MEAN)


def erlang_c(servers: int, offered: float) -> float:
    """Textbook sum, written here anew so that the oracle shares no code with the planner."""
    terms = [offered**k / math.factorial(k) for k in range(servers)]
    last = offered**servers / math.factorial(servers) * servers / (servers - offered)
    return last / (sum(terms) + last)


@pytest.mark.parametrize("utilization", [0.5, 0.8])
def test_mm1_wait_is_exponential_with_an_atom(utilization: float) -> None:
    arrival, rng = poisson(utilization)
    wait = multi_server_fifo(arrival, rng.exponential(1.0, REQUESTS), servers=1) - arrival
    agrees(mean_of(wait), utilization / (1 - utilization), resolution=0.1)
    agrees(mean_of((wait > 0).astype(float)), utilization)
    # P(W > t) = rho exp(-(1 - rho) t)
    for quantile in (0.9, 0.99):
        theory = math.log(utilization / (1 - quantile)) / (1 - utilization)
        agrees(estimate([steady(wait)], quantile), theory, resolution=0.2)


@pytest.mark.parametrize(("servers", "utilization"), [(2, 0.7), (8, 0.8), (40, 0.9)])
def test_mmc_wait_follows_erlang_c(servers: int, utilization: float) -> None:
    arrival, rng = poisson(servers * utilization)
    wait = multi_server_fifo(arrival, rng.exponential(1.0, REQUESTS), servers=servers) - arrival
    delayed = erlang_c(servers, servers * utilization)
    agrees(mean_of((wait > 0).astype(float)), delayed)
    agrees(mean_of(wait), delayed / (servers * (1 - utilization)), resolution=0.2)


@pytest.mark.parametrize("service_scv", [0.0, 0.5, 3.0])
def test_mg1_mean_wait_is_pollaczek_khinchine(service_scv: float) -> None:
    utilization = 0.7
    arrival, rng = poisson(utilization)
    service = rng.gamma(1 / service_scv, service_scv, REQUESTS) if service_scv else np.ones(REQUESTS)
    wait = multi_server_fifo(arrival, service, servers=1) - arrival
    agrees(mean_of(wait), utilization / (1 - utilization) * (1 + service_scv) / 2, resolution=0.12)


def test_one_server_shortcut_equals_the_general_loop() -> None:
    arrival, rng = poisson(0.8)
    service = rng.exponential(1.0, REQUESTS)
    clock, start = 0.0, []
    for arrived, needed in zip(arrival[:2000], service[:2000], strict=True):
        clock = max(clock, arrived)
        start.append(clock)
        clock += needed
    np.testing.assert_allclose(multi_server_fifo(arrival[:2000], service[:2000], servers=1), start)


def test_shortest_first_mean_wait_is_cobhams() -> None:
    """M/G/1 with two lengths, shorter first: W_k = R / ((1 - s_{k-1})(1 - s_k)) (Cobham 1954)."""
    short, long, share, utilization = 0.5, 3.0, 0.8, 0.8
    rate = utilization / (share * short + (1 - share) * long)
    arrival, rng = poisson(rate)
    is_short = rng.random(REQUESTS) < share
    service = np.where(is_short, short, long)
    wait = multi_server_shortest_first(arrival, service, servers=1) - arrival
    residual = rate * (share * short**2 + (1 - share) * long**2) / 2
    load_short = rate * share * short
    for mask, theory in (
        (is_short, residual / (1 - load_short)),
        (~is_short, residual / ((1 - load_short) * (1 - utilization))),
    ):
        agrees(mean_of(wait[mask]), theory, resolution=0.12)


SIZES: dict[str, Callable[[np.random.Generator], Array]] = {
    "exponential": lambda rng: rng.exponential(1.0, REQUESTS),
    "constant": lambda rng: np.ones(REQUESTS),
    "skewed": lambda rng: np.where(rng.random(REQUESTS) < 0.05, 10.5, 0.5),
}


@pytest.mark.parametrize("sizes", SIZES)
def test_mg1_ps_mean_is_insensitive_and_linear_in_size(sizes: str) -> None:
    """E[T | z] = z / (C (1 - rho)), whatever the distribution of sizes."""
    utilization = 0.7
    arrival, rng = poisson(utilization)
    size = SIZES[sizes](rng)
    sojourn = processor_sharing(arrival, size, rate_bytes_per_s=1.0) - arrival
    agrees(mean_of(sojourn), 1 / (1 - utilization), resolution=0.1)
    large = size >= 1
    agrees(mean_of(sojourn[large]), float(size[large].mean()) / (1 - utilization), resolution=0.1)


def test_mg1_ps_number_is_geometric() -> None:
    utilization = 0.6
    arrival, rng = poisson(utilization)
    finish = processor_sharing(arrival, rng.exponential(1.0, REQUESTS), rate_bytes_per_s=1.0)
    # Poisson arrivals see time averages: an arrival finds n others with probability (1 - rho) rho^n
    found = np.arange(REQUESTS) - np.searchsorted(np.sort(finish), arrival, side="right")
    for n in range(3):
        agrees(mean_of((found == n).astype(float)), (1 - utilization) * utilization**n)


def test_capped_sharing_has_the_many_server_mean() -> None:
    """C = R r: as many transfers as in M/M/R; E[T] = E[z]/r (1 + D_R / (R (1 - rho))) (Lindberger 1999)."""
    streams, utilization = 4, 0.8
    arrival, rng = poisson(utilization * streams)
    size = rng.exponential(1.0, REQUESTS)
    finish = processor_sharing(arrival, size, rate_bytes_per_s=streams, transfer_limit_bytes_per_s=1.0)
    delayed = erlang_c(streams, streams * utilization)
    agrees(mean_of(finish - arrival), 1 + delayed / (streams * (1 - utilization)))


def test_decoding_with_constant_step_and_few_slots_is_mdc() -> None:
    """A step time that ignores the batch makes the pool an M/M/c queue."""
    slots, utilization = 4, 0.8
    arrival, rng = poisson(slots * utilization)
    run = decode_batch(arrival, rng.exponential(1.0, REQUESTS), second_per_token=[1.0] * (slots + 1))
    delayed = erlang_c(slots, slots * utilization)
    agrees(mean_of(run.start_s - arrival), delayed / (slots * (1 - utilization)), resolution=0.15)


def test_decoding_with_step_proportional_to_batch_is_processor_sharing() -> None:
    arrival, rng = poisson(0.7)
    tokens = rng.exponential(1.0, REQUESTS)
    many = [max(n, 1) * 1.0 for n in range(500)]
    run = decode_batch(arrival, tokens, second_per_token=many)
    np.testing.assert_allclose(run.finish_s, processor_sharing(arrival, tokens, rate_bytes_per_s=1.0), rtol=1e-9)


def test_decoding_with_affine_step_has_the_birth_death_distribution() -> None:
    """tau(n) = a + b n, Poisson arrivals: insensitive, P(n) ~ prod_k lambda tau(k) o / k (Cohen 1979)."""
    rate, base, slope, mean_tokens = 2.0, 0.02, 0.001, 100.0
    arrival, rng = poisson(rate)
    tokens = np.where(rng.random(REQUESTS) < 0.5, 50.0, 150.0)
    step = [base + slope * n for n in range(200)]
    run = decode_batch(arrival, tokens, second_per_token=step)
    weight = np.cumprod([1.0] + [rate * step[n] * mean_tokens / n for n in range(1, 200)])
    weight /= weight.sum()
    mean_number = float(np.dot(np.arange(200), weight))
    agrees(mean_of(run.finish_s - arrival), mean_number / rate)


@pytest.mark.parametrize("scv", [0.0, 0.3, 1.0, 4.0])
def test_renewal_arrivals_have_the_asked_moments(scv: float) -> None:
    gaps = np.diff(renewal_arrivals_s(REQUESTS, 5.0, scv=scv, rng=np.random.default_rng(3)))
    assert gaps.mean() == pytest.approx(0.2, rel=4 * math.sqrt(max(scv, 1e-9) / REQUESTS) + 1e-6)
    assert gaps.var() / gaps.mean() ** 2 == pytest.approx(scv, rel=0.1, abs=1e-9)


def test_batch_arrivals_have_the_asked_rate_and_dispersion() -> None:
    arrival = batch_arrivals_s(REQUESTS, 10.0, mean_batch=4.0, rng=np.random.default_rng(4))
    counts = np.bincount((arrival / 10).astype(int))[:-1]
    assert counts.mean() == pytest.approx(100.0, rel=0.03)
    assert counts.var() / counts.mean() == pytest.approx(2 * 4.0 - 1, rel=0.1)


@pytest.mark.parametrize("dispersion", [{1.0: 1.2, 10.0: 2.1, 60.0: 2.9}, {10.0: 4.0, 60.0: 15.0}])
def test_modulated_arrivals_have_the_asked_dispersion_at_every_window(dispersion: dict[float, float]) -> None:
    rate = 10.0
    arrival = modulated_arrivals_s(REQUESTS, rate, scv=1.0, dispersion=dispersion, rng=np.random.default_rng(7))
    assert REQUESTS / arrival[-1] == pytest.approx(rate, rel=0.05)
    for window, index in dispersion.items():
        counts = np.bincount((arrival / window).astype(int))[:-1]
        # a variance from n windows has a relative error of sqrt(2/n); correlation of neighbours widens it
        assert counts.var() / counts.mean() == pytest.approx(index, rel=6 * math.sqrt(2 / counts.size) + 0.05)


def step_by_step(arrival: Array, tokens: Array, step: list[float]) -> tuple[Array, Array]:
    """A decoding pool as an engine runs it: whole steps, newcomers join at the next boundary."""
    slots, count = len(step) - 1, arrival.size
    first, finish = np.full(count, np.nan), np.full(count, np.nan)
    left = tokens.copy()
    inside: list[int] = []
    following, now = 0, 0.0
    while following < count or inside:
        if not inside and arrival[following] > now:
            now = float(arrival[following])
        while following < count and arrival[following] <= now and len(inside) < slots:
            inside.append(following)
            following += 1
        now += step[len(inside)]
        for k in inside:
            if np.isnan(first[k]):
                first[k] = now
            left[k] -= 1
            if left[k] <= 0:
                finish[k] = now
        inside = [k for k in inside if left[k] > 0]
    return first, finish


@pytest.mark.parametrize(("slots", "rate"), [(60, 1.2), (16, 0.55)])
def test_fluid_decoding_equals_whole_steps(slots: int, rate: float) -> None:
    """Progress in whole steps or as a fluid: the same stay within a step, the same first token within a fifth."""
    count = 1200
    rng = np.random.default_rng(5)
    arrival = renewal_arrivals_s(count, rate, scv=1.0, rng=rng)
    tokens = rng.integers(50, 1000, count).astype(float)
    step = [0.02 + 0.0005 * n for n in range(slots + 1)]
    first, finish = step_by_step(arrival, tokens, step)
    run = decode_batch(arrival, tokens, second_per_token=step, boundary=rng.random(count))
    typical = step[slots // 2]
    assert abs(np.mean(run.finish_s - finish)) <= typical
    assert abs(np.mean(run.first_token_s - first)) <= 0.2 * typical
    assert np.quantile(run.finish_s - arrival, 0.99) == pytest.approx(np.quantile(finish - arrival, 0.99), rel=0.01)
