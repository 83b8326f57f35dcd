"""Usable rate of leased lines and the time transfers take when they share one."""

from pddplan.network.rate import LineRate, effective_rate, mathis_limit_bytes_per_s, window_limit_bytes_per_s
from pddplan.network.sharing import idle_transfer_s, shared_delay_probability, sharing_tail_ratio

__all__ = [
    "LineRate",
    "effective_rate",
    "idle_transfer_s",
    "mathis_limit_bytes_per_s",
    "shared_delay_probability",
    "sharing_tail_ratio",
    "window_limit_bytes_per_s",
]
