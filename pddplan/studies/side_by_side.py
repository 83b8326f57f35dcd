"""Many independent calls side by side: in processes or threads of this machine, or on a Dask or Ray cluster."""

from __future__ import annotations

import importlib
import itertools
import re
import signal
import socket
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

from pddplan.errors import InputError, Problem, did_you_mean

R = TypeVar("R")

LOKY, SERIAL, DASK, RAY = "loky", "serial", "dask", "ray"
BACKENDS = (LOKY, "threading", DASK, RAY, SERIAL)
LEAST_BATCH, BATCHES_PER_WORKER = 64, 4
"""Calls sent to Ray at a time, at least, and for each of its workers; results come when a batch is done."""
REACH_WITHIN_S = 20.0
"""A cluster that does not answer for so long is not there."""


def answers(
    function: Callable[..., R],
    calls: Iterable[Mapping[str, Any]],
    *,
    count: int,
    jobs: int = -1,
    backend: str = LOKY,
    address: str | None = None,
) -> Iterator[R]:
    """Results of ``function(**call)`` for ``count`` calls, as they are ready.

    ``backend`` is one of BACKENDS; ``jobs`` calls at a time (-1: as many as there are cores). Dask and Ray take the
    cluster at ``address``, and start one on this machine without.

    Raises:  InputError for a backend that is unknown, not installed or not reached, and for no jobs;
             also when a worker process dies.
    """
    check(backend, jobs=jobs, address=address)
    if backend == SERIAL or (count < 2 and address is None):
        yield from (function(**call) for call in calls)
        return
    import joblib

    called = _in_worker if backend == LOKY else _as_is
    tasks = (joblib.delayed(called)(function, call) for call in calls)
    close = _connected(backend, address, jobs=jobs)
    try:
        with joblib.parallel_config(backend=backend, n_jobs=jobs), warnings.catch_warnings():
            # who stops early wants no word on the calls that are then left
            warnings.filterwarnings("ignore", message=".*tasks which were still being processed.*")
            if backend == RAY:  # its backend hands results back only all at once
                width = max(LEAST_BATCH, BATCHES_PER_WORKER * joblib.effective_n_jobs(jobs))
                while batch := list(itertools.islice(tasks, width)):
                    yield from joblib.Parallel()(batch)
            else:
                yield from joblib.Parallel(return_as="generator_unordered", batch_size=1)(tasks)
    except BrokenProcessPool as error:
        raise InputError(
            Problem(
                "a worker process died, perhaps for want of memory",
                fix="run fewer questions at a time, e.g. --jobs 1; finished rows are kept for --resume",
                where="--jobs",
            )
        ) from error
    finally:
        close()


def _as_is(function: Callable[..., R], call: Mapping[str, Any]) -> R:
    return function(**call)


def _in_worker(function: Callable[..., R], call: Mapping[str, Any]) -> R:
    """Ctrl-C reaches all processes of a terminal: it is for the one that asked, which then ends its workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return function(**call)


def check(backend: str, *, jobs: int, address: str | None) -> None:
    """Refuse what cannot run.

    Raises:  InputError
    """
    if backend not in BACKENDS:
        raise InputError(
            Problem(
                f"backend {backend!r} is unknown{did_you_mean(backend, BACKENDS)}",
                fix=f"use one of {', '.join(BACKENDS)}",
                where="--backend",
            )
        )
    if address is not None and backend not in (DASK, RAY):
        raise InputError(
            Problem(f"backend {backend} knows no cluster", fix="say --backend dask or --backend ray", where="--cluster")
        )
    if jobs == 0:
        raise InputError(Problem("0 at a time answer nothing", fix="write -1 for all cores, or 1", where="--jobs"))


def _connected(backend: str, address: str | None, *, jobs: int) -> Callable[[], None]:
    if backend == DASK:
        return _dask(address, jobs)
    if backend == RAY:
        return _ray(address)
    return lambda: None


def _dask(address: str | None, jobs: int) -> Callable[[], None]:
    distributed = _module("distributed", DASK, "pip install distributed")
    if address is None:
        workers = jobs if jobs > 0 else None  # None: as many as cores
        client = distributed.Client(n_workers=workers, threads_per_worker=1, dashboard_address=None)
    else:
        try:
            client = distributed.Client(address, timeout=REACH_WITHIN_S, set_as_default=True)
        except (OSError, ValueError, TypeError) as error:
            raise _not_reached(
                DASK, address, error, "dask scheduler prints its address, e.g. tcp://host:8786"
            ) from None
    return lambda: client.close()


def _ray(address: str | None) -> Callable[[], None]:
    ray = _module("ray", RAY, "pip install 'ray[default]'")
    register_ray = _module("ray.util.joblib", RAY, "pip install 'ray[default]'").register_ray
    try:
        if address is not None and (place := re.fullmatch(r"(?:ray://)?([^:/]+):(\d+)", address)):
            # by itself Ray takes minutes to say that nobody is there
            socket.create_connection((place[1], int(place[2])), timeout=REACH_WITHIN_S).close()
        ray.init(address=address, ignore_reinit_error=True, log_to_driver=False)
    except (OSError, OverflowError, ValueError, RuntimeError) as error:
        raise _not_reached(RAY, str(address), error, "ray start --head prints its address, e.g. host:6379") from None
    register_ray()
    return ray.shutdown  # type: ignore[no-any-return]


def _module(name: str, backend: str, fix: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise InputError(Problem(f"backend {backend} is not installed here", fix=fix, where="--backend")) from error


def _not_reached(backend: str, address: str, error: Exception, fix: str) -> InputError:
    why = str(error).split("\n", maxsplit=1)[0]
    return InputError(Problem(f"no {backend} cluster answers at {address!r}: {why}", fix=fix, where="--cluster"))
