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


def mean_between(latency: LatencySum, start_s: Array | float, end_s: Array | float) -> Array:
    """Mean part of a latency that lies between two times; 0 when the first is never reached.

    Formula:     E[min(max(T - a, 0), b - a)] = integral over a..b of (1 - F(t)) dt
                 = (min(shift, b) - a)+ + sum_i a_i tau_i (exp(-(a - shift)+ / tau_i) - exp(-(b - shift)+ / tau_i))
    Parameters:  latency with shape (..., classes) [s]; start_s a <= end_s b, broadcastable [s]
    Returns:     shape (..., classes) [s], between 0 and b - a
    Raises:      nothing
    Holds when:  see paths.latency.prepare.
    References:  ross2014, chapter 5
    """
    ready = latency.prepared()
    start, end = np.asarray(start_s, dtype=float), np.asarray(end_s, dtype=float)
    never = np.isinf(start)
    start, end = np.where(never, 0.0, start), np.where(never, 0.0, end)
    certain = np.clip(np.minimum(ready.shift_s, end) - start, 0.0, None)
    from_s = np.maximum(start - ready.shift_s, 0.0)[..., None]
    to_s = np.maximum(end - ready.shift_s, 0.0)[..., None]
    rate = ready.rate_per_s
    decays = rate > 0
    safe = np.where(decays, rate, 1.0)
    with np.errstate(invalid="ignore"):
        part = np.where(decays, (np.exp(-from_s * safe) - np.exp(-to_s * safe)) / safe, to_s - from_s)
        beyond = np.where(ready.coefficient != 0.0, ready.coefficient * part, 0.0).sum(axis=-1)
        whole = certain + beyond
    # a latency without end fills the whole interval
    return np.asarray(np.clip(np.where(np.isfinite(whole), whole, end - start), 0.0, end - start))


def relay(transfer: LatencySum, *, lead_s: Array | float, token_s: float, output_tokens: Array) -> Relay:
    """Eager tokens and relay occupancy while the KV crosses the line.

    Formula:     busy = E[min(max(T_wan - lead, 0), O token_s)];  e = busy / token_s
    Parameters:  transfer T_wan from the end of prefill, LatencySum; lead_s: RDMA transfer and slot wait that
                 pass before the relay emits its first token [s]; token_s of the relay pool [s];
                 output_tokens O, shape (classes,)
    Returns:     Relay
    Raises:      nothing
    Holds when:  the relay emits at an even pace and starts with its first token at the lead.
    References:  pdd-report, A1
    """
    lead = np.asarray(lead_s, dtype=float)
    busy = mean_between(transfer, lead, lead + output_tokens * token_s)
    return Relay(eager_tokens=busy / token_s if token_s > 0 else 0.0 * busy, busy_s=busy)
