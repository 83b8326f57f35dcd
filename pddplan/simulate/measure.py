"""From journeys to results: warm-up cut off, loads per window, percentiles with margins."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pddplan.domain.workload import Array
from pddplan.simulate.replay import Journeys
from pddplan.simulate.result import ClassSimulation, Estimates, LineSimulation, PoolSimulation, SimulationResult
from pddplan.simulate.scenario import DecodeStage, Index, LineStage, MixedStage, PrefillStage, Scenario
from pddplan.simulate.series import overlap_s, time_series
from pddplan.simulate.stability import verdict
from pddplan.simulate.statistics import BATCHES_PER_RUN, MEAN, Estimate, estimate, interval

WARM_UP_FRACTION = 0.1
MOST_WARM_UP_FRACTION = 0.5
MOST_COOL_DOWN_FRACTION = 0.2
CURVE_SHARES = (*np.arange(0.0, 0.95, 0.01), *np.arange(0.95, 0.9951, 0.0025), 0.999)
"""Where the distribution of TTFT is kept: evenly, and closer where promises are made."""
_SOJOURNS = 3.0
"""Warm-up lasts at least so many P90 stays: slots of a decoding pool fill up in one."""


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """One replay and the part of it that counts."""

    journeys: Journeys
    rows: Index
    """Requests that count."""
    window_s: tuple[float, float]
    """Their arrivals: time averages are taken over this."""

    @property
    def length_s(self) -> float:
        return self.window_s[1] - self.window_s[0]

    def windows(self) -> list[tuple[float, float]]:
        edges = np.linspace(*self.window_s, BATCHES_PER_RUN + 1).tolist()
        return list(itertools.pairwise(edges))


def steady_part(journeys: Journeys, *, everything: bool = False) -> Run:
    """Leave out requests that saw the system fill up, and those that saw it run empty (traces count whole)."""
    arrival = journeys.requests.arrival_s
    if everything or arrival.size < BATCHES_PER_RUN:
        return Run(journeys, np.arange(arrival.size), (float(arrival[0]), float(arrival[-1])))
    stay = float(np.nanquantile(journeys.finish_s - arrival, 0.9))
    first, last = float(arrival[0]), float(arrival[-1])
    by_time = float(np.searchsorted(arrival, first + _SOJOURNS * stay)) / arrival.size
    begin = int(min(max(WARM_UP_FRACTION, by_time), MOST_WARM_UP_FRACTION) * arrival.size)
    cool = 1.0 - float(np.searchsorted(arrival, last - stay)) / arrival.size
    end = arrival.size - int(min(cool, MOST_COOL_DOWN_FRACTION) * arrival.size)
    return Run(journeys, np.arange(begin, end), (float(arrival[begin]), float(arrival[end - 1])))


def measure(
    scenario: Scenario,
    runs: Sequence[Run],
    *,
    seeds: tuple[int, ...],
    elapsed_s: float,
    notes: tuple[str, ...] = (),
    group: Sequence[str] = (),
) -> SimulationResult:
    """Everything that is said of one or several runs of a scenario; ``group`` names each class's traffic class."""
    ttft = [_take(run, run.journeys.first_token_s - run.journeys.requests.arrival_s) for run in runs]
    stay = [_take(run, run.journeys.finish_s - run.journeys.requests.arrival_s) for run in runs]
    tpot = [_take(run, _tpot(run.journeys)) for run in runs]
    worst = [_take(run, np.fmax(run.journeys.gap_s, _tpot(run.journeys))) for run in runs]
    way = [run.journeys.requests.way[run.rows] for run in runs]
    everyone = np.concatenate(way)
    first = runs[0].journeys
    series = time_series(scenario, first)
    begun = int(np.searchsorted(series[0].time_s, runs[0].window_s[0])) if series else 0
    queues = {line.name: line.values[begun:] for line in series}
    pools: list[PoolSimulation] = []
    unstable: list[str | None] = []
    for prefill in scenario.prefill:
        pools.append(_prefill_load(scenario, prefill, runs))
        unstable.append(verdict(prefill.pool, pools[-1].offered, queue=queues.get(f"{prefill.pool} queue")))
    for role, stages in (("RLD", scenario.relay), ("MD", scenario.decode)):
        for stage in stages:
            pools.append(_decode_load(scenario, stage, runs, role=role))
            unstable.append(verdict(stage.pool, pools[-1].offered, queue=queues.get(f"{stage.pool} queue")))
    for mixed in scenario.mixed:
        pools.append(_mixed_load(scenario, mixed, runs))
        unstable.append(verdict(mixed.pool, pools[-1].offered, queue=queues.get(f"{mixed.pool} queue")))
    lines = [_line_load(scenario, line, runs) for line in scenario.lines]
    unstable += [verdict(x.line, x.offered, queue=queues.get(f"{x.line} transfers")) for x in lines]
    return SimulationResult(
        seeds=seeds,
        requests=first.requests.count,
        measured=int(everyone.size),
        span_s=float(first.requests.arrival_s[-1] - first.requests.arrival_s[0]),
        ttft=_estimates(ttft),
        tpot=_estimates(tpot),
        e2e=_estimates(stay),
        worst_itl=_estimates(worst),
        ttft_by_path={
            w.path: _estimates([values[ways == i] for values, ways in zip(ttft, way, strict=True)])
            for i, w in enumerate(scenario.ways)
            if (everyone == i).any()
        },
        by_class={
            name: ClassSimulation(*(_estimates(_of_group(values, runs, group, name)) for values in (ttft, tpot, stay)))
            for name in dict.fromkeys(group)
            if name and any(values.size for values in _of_group(ttft, runs, group, name))
        },
        path_share={w.path: float((everyone == i).mean()) for i, w in enumerate(scenario.ways)},
        relay_token_share=_relay_share(runs),
        pools=tuple(pools),
        lines=tuple(lines),
        series=series,
        unstable=tuple(sentence for sentence in unstable if sentence is not None),
        notes=notes,
        ttft_curve=_curve(ttft),
        elapsed_s=elapsed_s,
    )


def _of_group(samples: Sequence[Array], runs: Sequence[Run], group: Sequence[str], name: str) -> list[Array]:
    """Of each run's measured requests those of one traffic class."""
    mine = np.array([each == name for each in group])
    return [
        values[mine[run.journeys.requests.request_class[run.rows]]] for values, run in zip(samples, runs, strict=True)
    ]


def _curve(samples: Sequence[Array]) -> tuple[tuple[float, float], ...]:
    """Times by which given shares of all samples have passed."""
    everything = np.concatenate(samples)
    everything = everything[np.isfinite(everything)]
    if everything.size == 0:
        return ()
    times = np.quantile(everything, CURVE_SHARES)
    return tuple((float(time), float(share)) for time, share in zip(times, CURVE_SHARES, strict=True))


def _take(run: Run, values: Array) -> Array:
    return values[run.rows]


def _estimates(samples: Sequence[Array]) -> Estimates:
    p50, p90, p99, mean = (estimate(samples, q) for q in (0.5, 0.9, 0.99, MEAN))
    return Estimates(p50, p90, p99, mean)


def _tpot(journeys: Journeys) -> Array:
    """(E2E - TTFT) / (O - 1); NaN for answers of one token."""
    more = journeys.requests.output_tokens - 1.0
    spent = journeys.finish_s - journeys.first_token_s
    per_token: Array = np.divide(spent, more, out=np.full(more.size, np.nan), where=more > 0)
    return per_token


def _relay_share(runs: Sequence[Run]) -> Estimate:
    shares = []
    for run in runs:
        for part in np.array_split(run.rows, BATCHES_PER_RUN):
            tokens = float(run.journeys.requests.output_tokens[part].sum())
            if tokens > 0:
                shares.append(float(run.journeys.relayed_tokens[part].sum()) / tokens)
    return interval(np.array(shares))


def _members(scenario: Scenario, run: Run, name: str, wanted: str) -> Index:
    """All requests of a run whose way names a pool or line, measured or not."""
    ways = [i for i, way in enumerate(scenario.ways) if getattr(way, name) == wanted]
    return np.flatnonzero(np.isin(run.journeys.requests.way, ways))


def _arrived(run: Run, mine: Index) -> Index:
    arrived: Index = mine[(mine >= run.rows[0]) & (mine <= run.rows[-1])]
    return arrived


def _prefill_load(scenario: Scenario, stage: PrefillStage, runs: Sequence[Run]) -> PoolSimulation:
    mine = [_members(scenario, run, "prefill", stage.pool) for run in runs]
    waits = [
        _wait(run.journeys.requests.arrival_s, run.journeys.prefill_start_s, _arrived(run, rows))
        for run, rows in zip(runs, mine, strict=True)
    ]
    busy = [
        overlap_s(run.journeys.prefill_start_s[rows], run.journeys.prefill_end_s[rows], window_s=window)
        / ((window[1] - window[0]) * stage.servers)
        for run, rows in zip(runs, mine, strict=True)
        for window in run.windows()
    ]
    offered = [
        float(stage.service_s[run.journeys.requests.kind[_arrived(run, rows)]].sum()) / (run.length_s * stage.servers)
        for run, rows in zip(runs, mine, strict=True)
    ]
    return PoolSimulation(stage.pool, "P", interval(np.array(busy)), _estimates(waits), None, float(np.mean(offered)))


def _wait(ready_s: Array, start_s: Array, rows: Index) -> Array:
    return start_s[rows] - ready_s[rows]


def _decode_load(scenario: Scenario, stage: DecodeStage, runs: Sequence[Run], *, role: str) -> PoolSimulation:
    relay = role == "RLD"
    waits, batch, used, offered = [], [], [], []
    fastest = stage.slots / stage.second_per_token[-1]
    for run in runs:
        j = run.journeys
        mine = _members(scenario, run, "relay" if relay else "decode", stage.pool)
        ready, start = (j.relay_ready_s, j.relay_start_s) if relay else (j.decode_ready_s, j.decode_start_s)
        end = j.relay_end_s if relay else j.finish_s
        tokens = j.relayed_tokens if relay else j.requests.output_tokens - j.relayed_tokens
        mine = mine[np.isfinite(start[mine])]
        arrived = _arrived(run, mine)
        waits.append(_wait(ready, start, arrived))
        stay = end[mine] - start[mine]
        pace = np.divide(tokens[mine], stay, out=np.zeros(mine.size), where=stay > 0)
        for window in run.windows():
            length = window[1] - window[0]
            inside = np.maximum(np.minimum(end[mine], window[1]) - np.maximum(start[mine], window[0]), 0.0)
            batch.append(float(inside.sum()) / length / stage.instances)
            used.append(float(np.dot(inside, pace)) / length / fastest)
        held = stay[np.isin(mine, arrived)].sum() if relay else 0.0
        asked = held / stage.slots if relay else float(tokens[arrived].sum()) / fastest
        offered.append(float(asked) / run.length_s)
    utilization = interval(np.array(batch)) if relay else interval(np.array(used))
    if relay:
        per_instance = stage.slots / stage.instances
        utilization = Estimate(utilization.value / per_instance, utilization.half_width / per_instance)
    return PoolSimulation(
        stage.pool, role, utilization, _estimates(waits), interval(np.array(batch)), float(np.mean(offered))
    )


def _mixed_load(scenario: Scenario, stage: MixedStage, runs: Sequence[Run]) -> PoolSimulation:
    waits, batch, used, offered = [], [], [], []
    slots = len(stage.second_per_token) - 1
    token_s = stage.second_per_token[-1] / slots  # instance time per token when the batch is full
    for run in runs:
        j = run.journeys
        mine = _members(scenario, run, "prefill", stage.pool)
        arrived = _arrived(run, mine)
        waits.append(_wait(j.requests.arrival_s, j.prefill_start_s, arrived))
        stop_s = stage.service_s if stage.stop_share is None else stage.service_s * stage.stop_share
        work = stop_s[j.requests.kind] + token_s * j.requests.output_tokens
        offered.append(float(work[arrived].sum()) / (run.length_s * stage.instances))
        for low, high in run.windows():
            came = arrived[(j.requests.arrival_s[arrived] >= low) & (j.requests.arrival_s[arrived] < high)]
            length = (high - low) * stage.instances
            used.append(float(work[came].sum()) / length)
            batch.append(overlap_s(j.decode_start_s[mine], j.finish_s[mine], window_s=(low, high)) / length)
    return PoolSimulation(
        stage.pool,
        "AGG",
        interval(np.array(used)),
        _estimates(waits),
        interval(np.array(batch)),
        float(np.mean(offered)),
    )


def _line_load(scenario: Scenario, stage: LineStage, runs: Sequence[Run]) -> LineSimulation:
    used, transfers, offered = [], [], []
    for run in runs:
        j = run.journeys
        mine = _members(scenario, run, "line", stage.line)
        mine = mine[j.payload_bytes[mine] > 0]
        arrived = _arrived(run, mine)
        transfers.append(j.landed_s[arrived] - j.prefill_end_s[arrived])
        offered.append(float(j.payload_bytes[arrived].sum()) / (run.length_s * stage.rate_bytes_per_s))
        start, end, size = j.line_start_s[mine], j.line_end_s[mine], j.payload_bytes[mine]
        pace = np.divide(size, end - start, out=np.zeros(mine.size), where=end > start)
        for low, high in run.windows():
            inside = np.maximum(np.minimum(end, high) - np.maximum(start, low), 0.0)
            used.append(float(np.dot(inside, pace)) / ((high - low) * stage.rate_bytes_per_s))
    return LineSimulation(stage.line, interval(np.array(used)), _estimates(transfers), float(np.mean(offered)))
