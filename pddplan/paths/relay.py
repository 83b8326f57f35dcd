"""The relay pool: tokens it emits while KV crosses the line, and how long it is kept busy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pddplan.domain.workload import Array
from pddplan.paths.latency import LatencySum


@dataclass(frozen=True, slots=True, eq=False)
class Relay:
    """What relaying costs and gives, per class."""

    eager_tokens: Array
    """Mean tokens emitted before hand-over, at most O."""
    busy_s: Array
    """Mean time a relay slot is held for emitting: min(transfer, whole answer)."""


def mean_capped(latency: LatencySum, cap_s: Array) -> Array:
    """Mean of the smaller of a latency and a cap.

    Formula:     E[min(T, a)] = integral over 0..a of (1 - F(t)) dt
                 = min(shift, a) + sum_i a_i tau_i (1 - exp(-(a - shift)+ / tau_i))
    Parameters:  latency with shape (..., classes) [s]; cap_s a, broadcastable, inf allowed [s]
    Returns:     shape (..., classes) [s]
    Raises:      nothing
    Holds when:  see paths.latency.prepare.
    References:  ross2014, section 5.2.4
    """
    ready = latency.prepared()
    cap = np.asarray(cap_s, dtype=float)
    room = np.maximum(cap - ready.shift_s, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        whole = np.where(
            ready.rate_per_s > 0,
            -np.expm1(-room[..., None] * ready.rate_per_s) / np.where(ready.rate_per_s > 0, ready.rate_per_s, 1.0),
            room[..., None],
        )
        tails = np.where(ready.coefficient != 0.0, ready.coefficient * whole, 0.0).sum(axis=-1)
    return np.minimum(ready.shift_s, cap) + tails


def relay(transfer: LatencySum, *, lead_s: Array | float, token_s: float, output_tokens: Array) -> Relay:
    """Eager tokens and relay occupancy while the KV crosses the line.

    Formula:     busy = E[min(max(T_wan - lead, 0), O token_s)];  e = busy / token_s
    Parameters:  transfer T_wan from the end of prefill, LatencySum; lead_s: RDMA transfer and slot wait that
                 pass before the relay emits its first token [s]; token_s of the relay pool [s];
                 output_tokens O, shape (classes,)
    Returns:     Relay
    Raises:      nothing
    Holds when:  the relay emits at an even pace and starts with its first token at the lead.
    References:  pdd, section A1
    """
    lead = np.asarray(lead_s, dtype=float)
    longest = output_tokens * token_s
    busy = mean_capped(transfer, longest + lead) - mean_capped(transfer, lead + 0.0 * longest)
    busy = np.clip(busy, 0.0, longest)
    return Relay(eager_tokens=busy / token_s if token_s > 0 else 0.0 * busy, busy_s=busy)
