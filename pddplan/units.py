"""Conversion factors: the only place where 8, 1000, 1024 or 3600 may be written.

Inside the package everything is in base units (seconds, bytes, bytes per second, FLOP, tokens);
numbers are converted once, where they enter, and once more where they are shown.
"""

BITS_PER_BYTE = 8

KILO = 1e3
MEGA = 1e6
GIGA = 1e9
TERA = 1e12
MILLION = 1_000_000

KIB = 2**10
MIB = 2**20
GIB = 2**30

MS_PER_S = 1e3
US_PER_S = 1e6
NS_PER_S = 1e9
SECONDS_PER_MINUTE = 60
SECONDS_PER_HOUR = 3600
SECONDS_PER_DAY = 86_400
HOURS_PER_DAY = 24
MONTHS_PER_YEAR = 12
WATTS_PER_KW = 1e3


def gbps_to_bytes_per_s(rate_gbps: float) -> float:
    """Turn a line rate in gigabit per second into bytes per second."""
    return rate_gbps * GIGA / BITS_PER_BYTE


def bytes_per_s_to_gbps(rate_bytes_per_s: float) -> float:
    """Turn bytes per second into gigabit per second (lines and NICs only)."""
    return rate_bytes_per_s * BITS_PER_BYTE / GIGA
