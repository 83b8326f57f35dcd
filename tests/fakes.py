"""Stand-ins for tests of other packages: no formulas, only straight lines that can be followed by hand."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from pddplan.domain.plan import Shape
from pddplan.domain.provenance import Basis
from pddplan.domain.workload import Array


@dataclass(frozen=True, slots=True)
class LinearKv:
    """KV of k bytes per token plus fixed state, in the interface of ``performance.kv.KvSize``."""

    growing_bytes_per_token: float = 1e5
    fixed_bytes: float = 0.0

    def sequence_bytes(self, tokens: Array) -> Array:
        return self.growing_bytes_per_token * np.asarray(tokens, dtype=float) + self.fixed_bytes

    def increment_bytes(self, *, total_tokens: Array, missing_tokens: Array) -> Array:
        missing = np.asarray(missing_tokens, dtype=float) + 0.0 * np.asarray(total_tokens, dtype=float)
        return np.where(missing > 0, self.growing_bytes_per_token * missing + self.fixed_bytes, 0.0)


@dataclass(frozen=True, slots=True)
class LinearInstance:
    """An instance whose prefill costs ``prefill_s_per_token`` and whose step costs a + b*batch + c*batch*context."""

    chip_id: str = "fake"
    shape: Shape = field(default_factory=Shape)
    kv: LinearKv = field(default_factory=LinearKv)
    basis: Basis = Basis.ASSUMED
    prefill_fixed_s: float = 0.0
    prefill_s_per_token: float = 1e-4
    step_a_s: float = 0.01
    step_b_s: float = 1e-4
    step_c_s: float = 0.0
    batch_cap: int = 64
    speculation_gain: float = 0.0
    prefill_servers: int = 1
    prefill_chunk_tokens: float = 8192.0

    def prefill_time_s(self, *, new_tokens: Array, cached_tokens: Array) -> Array:
        new = np.asarray(new_tokens, dtype=float) + 0.0 * np.asarray(cached_tokens, dtype=float)
        return self.prefill_fixed_s + self.prefill_s_per_token * new

    def prefill_stop_s(self, *, new_tokens: Array, cached_tokens: Array) -> Array:
        return self.prefill_time_s(new_tokens=new_tokens, cached_tokens=cached_tokens)

    def decode_step_s(self, *, batch: Array, context_tokens: Array, tokens_per_sequence: Array | float = 1.0) -> Array:
        b = np.asarray(batch, dtype=float)
        tokens = b * tokens_per_sequence
        return self.step_a_s + self.step_b_s * tokens + self.step_c_s * b * np.asarray(context_tokens, dtype=float)

    def tokens_per_step(self, *, batch: float) -> float:
        return 1.0 + self.speculation_gain

    def max_batch(self, *, context_tokens: float) -> tuple[int, str]:
        return self.batch_cap, "memory"
