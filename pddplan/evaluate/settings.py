"""Settings of the evaluator that are neither chip, model, workload nor site: each with default, basis and source."""

from __future__ import annotations

from dataclasses import dataclass, fields

from pddplan.domain.outcome import Assumption
from pddplan.domain.provenance import Basis
from pddplan.errors import DomainError

OVERLAPS = ("none", "layerwise")
HANDOVERS = ("one-shot", "catch-up")
DISCIPLINES = ("fifo", "shortest-first")
LARGEST = 1e15
"""More seconds, tokens or bytes per second than this are a slip of the pen."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How the serving system behaves around its pools and lines."""

    overlap: str = "none"
    """``none``: KV leaves after prefill; ``layerwise``: finished layers leave during prefill."""
    handover: str = "catch-up"
    """How the relay hands its tokens over: ``one-shot`` or ``catch-up``."""
    handover_threshold_tokens: float = 64.0
    """Catching up ends with a round of no more tokens than this."""
    handover_overhead_s: float = 0.26
    """Time of the two engines per hand-over round beside the line and the multi-token step."""
    token_id_bytes: float = 15.0
    """Bytes on the line per token that the relay hands over."""
    rdma_bytes_per_s: float | None = None
    """Rate of KV inside a site per prefill instance; None = all NICs of the instance."""
    rdma_efficiency: float = 0.8
    """Share of the NIC rate that moving KV inside a site reaches."""
    rdma_latency_s: float = 0.01
    """Time before the first byte of a KV transfer inside a site."""
    discipline: str = "fifo"
    """Order in front of prefill: ``fifo`` or ``shortest-first``."""
    decode_slot_scv: float = 1.0
    """SCV of the time a sequence holds its slot, beyond what the classes tell (answers vary in length)."""
    session_turns: float = 30.0
    """Turns of a session, for the lag of the decode-side cache."""
    think_s: float = 20.0
    """Time between two turns of a session."""
    warn_utilization: float = 0.9
    """Above this a small error of capacity decides about waits: the outcome says so."""
    tail_margin: float = 0.0
    """Part by which TTFT and E2E at P90 and P99 are raised before promises are judged (0.05 = 5 %)."""

    def __post_init__(self) -> None:
        for name, allowed in (("overlap", OVERLAPS), ("handover", HANDOVERS), ("discipline", DISCIPLINES)):
            if getattr(self, name) not in allowed:
                raise DomainError(name, f"must be one of {', '.join(allowed)}", getattr(self, name))
        for name in ("rdma_bytes_per_s", "rdma_efficiency"):
            if getattr(self, name) == 0:
                raise DomainError(name, "must be greater than 0", 0.0)
        for spec in fields(self):
            value = getattr(self, spec.name)
            if isinstance(value, float) and not 0 <= value <= LARGEST:
                raise DomainError(spec.name, f"must be finite and not negative, and at most {LARGEST:g}", value)

    def assumptions(self) -> tuple[Assumption, ...]:
        """What of these settings a result with a relay or a transfer leans on."""
        return tuple(
            Assumption(name, f"{getattr(self, name)}", basis, source, range_)
            for name, (basis, source, range_) in SETTING_SOURCES.items()
        )


SETTING_SOURCES: dict[str, tuple[Basis, str, str | None]] = {
    "overlap": (
        Basis.ASSUMED,
        "conservative: no layer-wise sending unless the stack is known to do it",
        "none, layerwise",
    ),
    "handover": (Basis.PUBLISHED, "pdd-report: Catch-Up leaves no visible stall", "one-shot, catch-up"),
    "handover_threshold_tokens": (Basis.PUBLISHED, "pdd-report: 64 tokens", None),
    "handover_overhead_s": (
        Basis.DERIVED,
        "pdd-report: 305 ms mean for 100 tokens, less RTT/2 and the step",
        "0.05-0.3 s",
    ),
    "token_id_bytes": (Basis.DERIVED, "pdd-report: 1.5 KB for 100 token ids", None),
    "rdma_efficiency": (Basis.ASSUMED, "share of the NIC rate left for KV inside a site", "0.6-0.95"),
    "rdma_latency_s": (Basis.PUBLISHED, "pdd-report: RDMA within tens of ms", "0.001-0.05 s"),
    "discipline": (
        Basis.ASSUMED,
        "first come first served unless the stack is known to reorder",
        "fifo, shortest-first",
    ),
    "session_turns": (Basis.ASSUMED, "coding agents; measure on your own sessions", "5-200"),
    "think_s": (Basis.ASSUMED, "tools run between turns; measure on your own sessions", "2-120 s"),
    "tail_margin": (
        Basis.DERIVED,
        "none on top of feed_margin and swell_margin: P99 is at most 5 % optimistic against simulation where traffic "
        "does not come in waves, and within chance of that where it does (docs/simulation.md)",
        "0-0.2",
    ),
    "decode_slot_scv": (Basis.ASSUMED, "answer lengths within a class spread like an exponential", "0-4"),
}
"""Per setting: basis, source, range."""
