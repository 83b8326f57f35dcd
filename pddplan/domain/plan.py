"""A decision: which pools and lines, and which share of each request class takes which path."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pddplan.domain.workload import Array


class Role(StrEnum):
    PREFILL = "P"
    RELAY = "RLD"
    DECODE = "MD"
    AGGREGATED = "AGG"  # prefill and decode interleaved on the same instances


class PathKind(StrEnum):
    """How a request travels; the names of the published systems where they exist."""

    P_MD = "P-MD"  # prefill here, KV straight to the decode pool (same site, or over the line)
    P_RLD_MD = "P-RLD-MD"  # relay decodes while KV crosses, then hands over
    P_RLD = "P-RLD"  # finished on the relay pool, nothing crosses (odd traffic only)
    AGGREGATED = "AGG"  # prefill and decode on one instance


@dataclass(frozen=True, slots=True)
class Shape:
    """Parallel layout of one instance.

    ``tp`` splits every layer, ``pp`` splits the stack of layers, ``dp`` counts data-parallel attention
    ranks and ``ep`` expert-parallel ranks; ``ep`` reuses the chips of tp x dp, it adds none.
    """

    tp: int = 1
    pp: int = 1
    dp: int = 1
    ep: int = 1

    @property
    def chips(self) -> int:
        return self.tp * self.pp * self.dp

    def __str__(self) -> str:
        parts = [f"TP{self.tp}"]
        parts += [f"{name}{n}" for name, n in (("PP", self.pp), ("DP", self.dp), ("EP", self.ep)) if n > 1]
        return "-".join(parts)


@dataclass(frozen=True, slots=True)
class Pool:
    """Identical instances of one role at one site."""

    id: str
    site: str
    role: Role
    chip: str
    shape: Shape
    instances: int
    batch: int | None = None
    """Sequences per instance that a decoding pool is operated at (None for prefill)."""
    tpot_s: float | None = None
    """Of a decoding pool without ``batch``: its batches keep this TPOT; None = the one promised to all requests."""
    weights_dtype: str | None = None
    kv_dtype: str | None = None

    @property
    def chips(self) -> int:
        return self.instances * self.shape.chips


@dataclass(frozen=True, slots=True)
class LinePlan:
    """A leased line as taken: tier and number of parallel lines (0 lines = not taken)."""

    line: str
    gbps: float
    count: int = 1


@dataclass(frozen=True, slots=True)
class Path:
    """A way through the pools. Ids refer to ``Plan.pools`` and ``Plan.lines``; the line is None inside one site."""

    id: str
    kind: PathKind
    prefill: str
    relay: str | None = None
    decode: str | None = None
    line: str | None = None
    decode_cache: bool = True
    """DRC: only tokens missing at the decode side cross the line; without it all L tokens do."""


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """A whole decision. ``share`` has shape (paths, classes); each column sums to one."""

    topology: str
    rate_rps: float
    pools: tuple[Pool, ...]
    lines: tuple[LinePlan, ...]
    paths: tuple[Path, ...]
    share: Array

    def pool(self, pool_id: str) -> Pool:
        return next(pool for pool in self.pools if pool.id == pool_id)
