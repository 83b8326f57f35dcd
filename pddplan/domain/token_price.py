"""What a provider charges per million tokens, by kind of token."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TokenPrice:
    """Price list of one model. ``cached_per_mtok`` None = the list shows no price for cached tokens."""

    model: str
    miss_per_mtok: float
    cached_per_mtok: float | None
    output_per_mtok: float
    provider: str = ""
    currency: str = "USD"
    date: str | None = None
    source: str | None = None
    note: str | None = None

    @property
    def cached_over_miss(self) -> float | None:
        """Price of a cached input token over that of a missed one."""
        if self.cached_per_mtok is None or self.miss_per_mtok <= 0:
            return None
        return self.cached_per_mtok / self.miss_per_mtok
