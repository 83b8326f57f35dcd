"""Everything a plan is judged against, loaded once: traffic, places, chips, model, and speed of instances."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

import numpy as np

from pddplan.domain.chip import Chip
from pddplan.domain.llm import Llm
from pddplan.domain.plan import Pool, Shape
from pddplan.domain.provenance import Basis
from pddplan.domain.sites import Sites
from pddplan.domain.workload import Array, Promise, Workload
from pddplan.errors import InputError
from pddplan.errors import Problem as Fault
from pddplan.evaluate.settings import Settings
from pddplan.paths.decoding import StepCurve, step_curve

T = TypeVar("T")


class KvBytes(Protocol):
    """KV bytes of a sequence (see performance.kv.KvSize)."""

    @property
    def growing_bytes_per_token(self) -> float: ...

    @property
    def fixed_bytes(self) -> float: ...

    def sequence_bytes(self, tokens: Array) -> Array: ...

    def increment_bytes(self, *, total_tokens: Array, missing_tokens: Array) -> Array: ...


class Instance(Protocol):
    """Speed of one instance of a pool (see performance.instance.InstancePerformance)."""

    @property
    def chip_id(self) -> str: ...

    @property
    def shape(self) -> Shape: ...

    @property
    def kv(self) -> KvBytes: ...

    @property
    def basis(self) -> Basis: ...

    @property
    def prefill_servers(self) -> int: ...

    @property
    def prefill_chunk_tokens(self) -> float: ...

    def prefill_time_s(self, *, new_tokens: Array, cached_tokens: Array) -> Array: ...

    def prefill_stop_s(self, *, new_tokens: Array, cached_tokens: Array) -> Array: ...

    def decode_step_s(
        self, *, batch: Array, context_tokens: Array, tokens_per_sequence: Array | float = 1.0
    ) -> Array: ...

    def tokens_per_step(self, *, batch: float) -> float: ...

    def max_batch(self, *, context_tokens: float) -> tuple[int, str]: ...


@dataclass(frozen=True, slots=True)
class DecodeWork:
    """What the mean request asks of a decoding pool."""

    tokens_per_request: float
    """Output tokens made in this pool."""
    step_tokens: float
    """Context that a step reads, mean over the sequences in flight."""
    memory_tokens: float
    """Context that a sequence in flight holds memory for (its full length)."""
    extra_holding_s: float = 0.0
    """Time a slot is held without making tokens."""
    prefill_s: float = 0.0
    """Work per request that stops decoding of the whole instance (prefill when aggregated, extend steps)."""
    holding_scv: float = 1.0
    holding_overlap: float = 0.5
    """E[min(H, H')] / E[H] of the times that two requests stay."""
    stop_mean_s: float = 0.0
    """E[p] of single prefills p that stop the instance [s]; in prefill_s too."""
    stop_second_s2: float = 0.0
    """E[p^2] of them [s^2]."""
    stop_memory_s: float = 0.0
    """E[p^3] / (2 E[p^2]): how much longer such a stop lasts, seen at random [s]."""


_WHATEVER_THE_TRAFFIC = ("instance", "curve", "cap")
"""What is remembered of instances by everything it depends on, whoever asks."""


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """One sizing question. Immutable; ``memo`` only remembers what pure functions said.

    ``llm`` may be None when every instance is a measured table: then nothing is known about its layers.
    """

    workload: Workload
    sites: Sites
    chips: Mapping[str, Chip]
    llm: Llm | None
    instance: Callable[[Pool], Instance]
    """Speed of one instance of a pool; only chip, shape and dtypes of the pool may matter."""
    settings: Settings = field(default_factory=Settings)
    memo: dict[tuple[Any, ...], Any] = field(default_factory=dict, repr=False)

    def under(self, workload: Workload) -> Problem:
        """The same instances under other traffic; what does not depend on the requests stays remembered."""
        same = workload.classes is self.workload.classes
        memo = {key: said for key, said in self.memo.items() if same or key[0] in _WHATEVER_THE_TRAFFIC}
        return replace(self, workload=workload, memo=memo)

    def remembered(self, what: str, pool: Pool, compute: Callable[[], T], *more: object) -> T:
        """What a pure function of the pool's kind (and ``more``) says, computed once."""
        key = (what, *pool_kind(pool), *more)
        if key not in self.memo:
            self.memo[key] = compute()
        found: T = self.memo[key]
        return found

    def instance_of(self, pool: Pool) -> Instance:
        """The instance behind a pool, asked for once per kind."""
        return self.remembered("instance", pool, lambda: self.instance(pool))

    def prefill_s(self, pool: Pool) -> Array:
        """Prefill time of each class on an idle instance of the pool [s]."""
        return self.remembered("prefill", pool, lambda: self._per_class(self.instance_of(pool).prefill_time_s))

    def prefill_stop_s(self, pool: Pool) -> Array:
        """Part of each class's prefill time that stops decoding on the same (aggregated) instance [s]."""
        return self.remembered("stop", pool, lambda: self._per_class(self.instance_of(pool).prefill_stop_s))

    def longest_mixed_step_s(self, pool: Pool, step_s: float) -> float:
        """Longest pass of an aggregated instance: a decode step that carries a chunk of somebody's prefill [s].

        A pass takes at least as long as the chunk alone, else the decode step and what the chunk adds to it
        (docs/queueing.md).
        """
        alone, added = self.remembered("chunk", pool, lambda: self._longest_chunk_s(pool))
        return max(alone, step_s + added)

    def _longest_chunk_s(self, pool: Pool) -> tuple[float, float]:
        classes = self.workload.classes
        used = classes.weight > 0
        alone, added = longest_chunk_s(
            self.instance_of(pool),
            pool.shape,
            new_tokens=classes.miss_prefill_tokens[used],
            cached_tokens=classes.cached_prefill_tokens[used],
        )
        return float(alone.max(initial=0.0)), float(added.max(initial=0.0))

    def _per_class(self, prefill: Callable[..., Array]) -> Array:
        classes = self.workload.classes
        times = prefill(new_tokens=classes.miss_prefill_tokens, cached_tokens=classes.cached_prefill_tokens)
        return np.asarray(times, dtype=float)

    def single_step_s(self, pool: Pool) -> Array:
        """Decode step of one sequence of each class alone on an instance of the pool [s]."""

        def compute() -> Array:
            context = self.workload.classes.input_tokens
            step = self.instance_of(pool).decode_step_s(batch=np.ones_like(context), context_tokens=context)
            return np.asarray(step, dtype=float)

        return self.remembered("single step", pool, compute)

    def curve(self, pool: Pool, work: DecodeWork) -> StepCurve:
        """Step time of the pool's instance over all batches that its memory allows."""
        # whole tokens, so that near-equal mixes share a curve and the result does not depend on which came first
        context, held = float(round(work.step_tokens)), float(round(work.memory_tokens))

        def compute() -> StepCurve:
            instance = self.instance_of(pool)
            largest, _ = instance.max_batch(context_tokens=held)
            return step_curve(instance, context_tokens=context, largest_batch=max(largest, 1))

        return self.remembered("curve", pool, compute, context, held)

    def payload_bytes(self, pool: Pool, *, decode_cache: bool) -> Array:
        """KV that leaves a prefill pool per request: what the decode side misses, or all of it [bytes]."""

        def compute() -> Array:
            classes = self.workload.classes
            missing = classes.miss_decode_tokens if decode_cache else classes.input_tokens
            kv = self.instance_of(pool).kv
            return np.asarray(
                kv.increment_bytes(total_tokens=classes.input_tokens, missing_tokens=missing), dtype=float
            )

        return self.remembered("payload", pool, compute, decode_cache)

    def rdma_bytes_per_s(self, pool: Pool) -> float:
        """Rate at which one instance of the pool sends KV inside its site [bytes/s]."""
        if self.settings.rdma_bytes_per_s is not None:
            return self.settings.rdma_bytes_per_s
        chip = self.chips.get(pool.chip)
        nic = chip.nic_bytes_per_s if chip is not None else None
        if not nic:
            raise InputError(
                Fault(
                    what=f"chip {pool.chip!r} has no NIC rate: KV transfers inside site {pool.site!r} cannot be timed",
                    fix="add nic_gbps to the chip profile, or say what an instance sends: --set rdma_bytes_per_s=5e10",
                    where=f"pool {pool.id}",
                )
            )
        return nic * pool.shape.chips * self.settings.rdma_efficiency

    @property
    def judged_promises(self) -> tuple[Promise, ...]:
        """The promises made, as predictions are held against them: tails (TTFT, E2E) lowered by the tail margin."""
        scale = 1.0 + self.settings.tail_margin
        made = self.workload.promises.made()
        return tuple(replace(p, limit_s=p.limit_s / scale) if p.kind.is_tail else p for p in made)

    @property
    def layers(self) -> int:
        """Layers of the model, for layer-wise sending; 1 (nothing to hide) when the model is unknown."""
        return self.llm.layer_count if self.llm is not None else 1


def pool_kind(pool: Pool) -> tuple[Any, ...]:
    """What of a pool decides the speed of its instances."""
    return (pool.chip, pool.shape, pool.weights_dtype, pool.kv_dtype)


def longest_chunk_s(
    instance: Instance, shape: Shape, *, new_tokens: Array, cached_tokens: Array
) -> tuple[Array, Array]:
    """Longest pass of prefills on an aggregated instance: alone, and what it adds to a decode step [s].

    The last full chunk of a prompt is the slowest, as it reads the most context. Ranks that prefill side by side share
    a stop (prefill_stop_s); in the longest pass every rank has a chunk, so it adds all their parts.
    """
    chunk = np.minimum(new_tokens, instance.prefill_chunk_tokens)
    before = cached_tokens + new_tokens - chunk
    alone = np.asarray(instance.prefill_time_s(new_tokens=chunk, cached_tokens=before), dtype=float)
    part = np.asarray(instance.prefill_stop_s(new_tokens=chunk, cached_tokens=before), dtype=float)
    ranks = max(instance.prefill_servers / shape.pp, 1.0)  # a measured table is one server, whatever its ranks
    return alone, ranks * part
