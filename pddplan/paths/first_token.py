"""Time to first token of each path: arrival to the first output token leaving the system."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pddplan.domain.plan import PathKind
from pddplan.domain.workload import Array
from pddplan.paths.latency import LatencySum
from pddplan.queueing.wait import NO_WAIT, Wait

STEP_RESIDUAL = 0.5
"""A request that joins a running batch waits half a step on average before its own first step."""


@dataclass(frozen=True, slots=True, eq=False)
class PrefillStage:
    """A prefill pool at one operating point."""

    service_s: Array
    """Time of one request on an idle instance, shape (classes,)."""
    wait: Wait
    calm_wait: Wait | None = None
    """The same without slow waves of arrivals; None = as it is."""


@dataclass(frozen=True, slots=True, eq=False)
class DecodeStage:
    """A decoding pool at one operating point."""

    step_s: Array | float
    wait: Wait = NO_WAIT
    """Wait for a free slot of the batch."""


def first_steps(kind: PathKind) -> float:
    """Decode steps until the first token: half a step to join a batch, one to be served; on AGG only the latter."""
    return 1.0 if kind is PathKind.AGGREGATED else 1.0 + STEP_RESIDUAL


def first_token(
    kind: PathKind,
    prefill: PrefillStage,
    *,
    transfer: LatencySum,
    decode: DecodeStage,
) -> LatencySum:
    """TTFT of each class on a path.

    Formula:     TTFT = W_P + t_prefill + T + W_slot + f t_step, f = first_steps (1.5; on AGG 1);
                 T = transfer to the pool that emits the first token: the line for P-MD, RDMA to the relay for
                 P-RLD-MD and P-RLD, nothing for AGG
    Parameters:  kind of the path; prefill, decode: stages whose arrays broadcast against (classes,);
                 transfer as a LatencySum; decode is the pool that emits the first token
    Returns:     LatencySum [s] per class
    Raises:      nothing
    Holds when:  the stages wait independently of each other.
    References:  pdd-report, A1
    """
    shift = np.asarray(prefill.service_s, dtype=float) + first_steps(kind) * np.asarray(decode.step_s)
    terms: tuple[Wait, ...] = (prefill.wait, decode.wait)
    if kind is PathKind.AGGREGATED:
        return LatencySum(shift, terms)
    return LatencySum(shift + transfer.shift_s, terms + transfer.terms)
