"""Wait in front of a prefill pool: closed form against replay, for mixes of service times that differ much.

    python benchmarks/pool_waits.py                          # every mix, c = 2..16, rho = 0.7, 0.85, 0.9 (an hour)
    python benchmarks/pool_waits.py --mix weka-agentic --servers 4 --requests 8000000

The time in the pool (wait and service) is compared, as it stands in TTFT. A queue at 90 % remembers hundreds of
requests: below some millions of them, chance decides about more than the formula does; the margin is printed.
The constant of the formula is from ``fitted`` mixes, its shape was chosen with ``seen`` ones in view too; ``held out``
ones were replayed only afterwards.
"""

from __future__ import annotations

import argparse
import sys
from statistics import NormalDist

import numpy as np

from pddplan.domain.workload import Array
from pddplan.paths.latency import LatencySum
from pddplan.paths.mixture import QUANTILES, mixture_quantiles
from pddplan.profiles.workload_profile import load_workload
from pddplan.queueing import pool_wait
from pddplan.queueing.moments import mix_moments
from pddplan.queueing.residual import first_free
from pddplan.simulate.fifo import multi_server_fifo

SEEDS = 4
Mix = tuple[Array, Array]


def _lognormal(scv: float, count: int) -> Mix:
    """Midpoints of a lognormal; cutting its tail off lowers the SCV."""
    middle = [NormalDist().inv_cdf((k + 0.5) / count) for k in range(count)]
    return np.exp(np.sqrt(np.log1p(scv)) * np.array(middle)), np.full(count, 1.0 / count)


def _classes(workload: str) -> Mix:
    """Classes of a bundled workload on a straight-line instance: 0.1 s + 0.1 ms per token."""
    classes = load_workload(workload).classes
    return 0.1 + 1e-4 * np.asarray(classes.miss_prefill_tokens), np.asarray(classes.weight)


def mixes() -> dict[str, tuple[str, Mix]]:
    """Name -> (fitted, seen or held out, (service times, weights))."""
    return {
        "lognormal 1.5": ("fitted", _lognormal(2.0, 64)),
        "lognormal 10": ("fitted", _lognormal(20.0, 512)),
        "bimodal 1:20": ("held out", (np.array([1.0, 20.0]), np.array([0.95, 0.05]))),
        "deterministic": ("held out", (np.ones(1), np.ones(1))),
        "lognormal 4": ("seen", _lognormal(6.0, 256)),
        "bimodal 1:10": ("seen", (np.array([1.0, 10.0]), np.array([0.8, 0.2]))),
        "three classes": ("held out", (np.array([1.0, 8.0, 60.0]), np.array([0.8, 0.17, 0.03]))),
        "agentic-64k": ("held out", _classes("agentic-64k")),
        "weka-agentic": ("held out", _classes("weka-agentic")),
        "prfaas-lognormal": ("held out", _classes("prfaas-lognormal")),
    }


def closed_form(mix: Mix, servers: int, rho: float) -> Array:
    """P50, P90 and P99 of the time in the pool."""
    service, weight = mix
    moments = mix_moments(weight, service)
    wait = pool_wait(
        servers,
        moments.mean,
        service_scv=moments.scv,
        arrival_rate_rps=rho * servers / moments.mean,
        light=first_free(servers, service, weight=weight),
    )
    ready = LatencySum(service, (wait,)).prepared()
    used = weight > 0
    return np.asarray(mixture_quantiles(ready.rows(used), weight[used][None], quantiles=np.array(QUANTILES))[0])


def replayed(mix: Mix, servers: int, rho: float, *, requests: int, seed: int) -> Array:
    """The same, of requests that arrive at random and go to the first free server; a tenth warms up."""
    rng = np.random.default_rng(seed)
    service, weight = mix
    chance = weight / weight.sum()
    drawn = rng.choice(service, size=requests, p=chance)
    arrival = np.cumsum(rng.exponential(float(service @ chance) / (rho * servers), requests))
    stay = multi_server_fifo(arrival, drawn, servers=servers) - arrival + drawn
    return np.asarray(np.quantile(stay[requests // 10 :], QUANTILES))


def main() -> None:
    known = mixes()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mix", choices=sorted(known), action="append")
    parser.add_argument("--servers", type=int, action="append")
    parser.add_argument("--rho", type=float, action="append")
    parser.add_argument("--requests", type=int, default=4_000_000, help="requests per case, over all seeds")
    options = parser.parse_args()
    sys.stdout.write("| mix | | cs^2 | c | rho | P50 | P90 | P99 | P99 margin |\n")
    sys.stdout.write("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n")
    for name in options.mix or known:
        role, mix = known[name]
        scv = mix_moments(mix[1], mix[0]).scv
        for servers in options.servers or (2, 4, 8, 16):
            for rho in options.rho or (0.7, 0.85, 0.9):
                runs = np.array(
                    [
                        replayed(mix, servers, rho, requests=options.requests // SEEDS, seed=seed)
                        for seed in range(SEEDS)
                    ]
                )
                seen, spread = runs.mean(axis=0), runs.std(axis=0, ddof=1) / np.sqrt(SEEDS)
                error = closed_form(mix, servers, rho) / seen - 1.0
                cells = [f"{e:+.1%}" for e in error] + [f"±{2 * spread[2] / seen[2]:.1%}"]
                row = [name, role, f"{scv:.1f}", str(servers), f"{rho:.2f}", *cells]
                sys.stdout.write(f"| {' | '.join(row)} |\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
