"""The two ways out of the valley."""

from __future__ import annotations

import numpy as np
import pytest

from pddplan.domain.sites import Finance
from pddplan.domain.token_price import TokenPrice
from pddplan.domain.workload import Array, RequestClasses
from pddplan.economics.bathtub import ServingCost
from pddplan.economics.moves import more_cache, shallower_tub
from pddplan.errors import DomainError

CLASSES = RequestClasses(
    weight=np.ones(1),
    input_tokens=np.array([10_000.0]),
    miss_prefill_tokens=np.array([5_000.0]),
    miss_decode_tokens=np.array([5_000.0]),
    output_tokens=np.zeros(1),
)
PRICE = TokenPrice("test", miss_per_mtok=1.0, cached_per_mtok=0.1, output_per_mtok=0.0)


def seconds(new: Array, cached: Array) -> Array:
    return new * 1e-3


SERVING = ServingCost(seconds, prefill_cost_per_s=1e-3, decode_cost_per_request=0.0)


def test_packing_gains_what_it_saves() -> None:
    moves = shallower_tub(
        CLASSES,
        {"packed": lambda new, cached: new * 0.8e-3, "as now": seconds},
        serving=SERVING,
        price=PRICE,
        finance=Finance(),
    )
    assert [(move.name, move.gain_fraction) for move in moves] == [
        ("packed", pytest.approx(0.25)),
        ("as now", pytest.approx(0.0)),
    ]


def test_more_cache_by_hand() -> None:
    finance = Finance(hours_per_month=1 / 3.6)  # a month of 1,000 s
    moves = more_cache(
        CLASSES,
        [(1e6, 0.5), (3e6, 0.8)],
        serving=SERVING,
        price=PRICE,
        finance=finance,
        rate_rps=1.0,
        kv_bytes_per_token=1_000.0,
        memory_price_per_gb_month=0.5,
    )
    assert moves[0].gain_fraction == pytest.approx(0.0)
    # hit 0.8: 2,000 missed -> 2,000 x 1 + 8,000 x 0.1 = 2,800 micro-dollars; prefill 2 s -> 2,000 micro-dollars;
    # 2e6 tokens more = 2 GB -> 1.0 a month over 1,000 requests = 1,000 micro-dollars
    assert moves[1].extra_monthly_cost == pytest.approx(1.0)
    assert moves[1].benefit == pytest.approx(2_800 / 3_000)


def test_dearer_memory_never_helps() -> None:
    gains = [
        more_cache(
            CLASSES,
            [(1e6, 0.5), (3e6, 0.8)],
            serving=SERVING,
            price=PRICE,
            finance=Finance(),
            rate_rps=1.0,
            kv_bytes_per_token=1e6,
            memory_price_per_gb_month=price,
        )[1].benefit
        for price in (0.0, 0.1, 1.0)
    ]
    assert gains == sorted(gains, reverse=True)


def test_bad_questions_are_refused() -> None:
    for rate, price, curve in ((0.0, 1.0, [(1.0, 0.5)]), (1.0, -1.0, [(1.0, 0.5)]), (1.0, 1.0, [])):
        with pytest.raises(DomainError):
            more_cache(
                CLASSES,
                curve,
                serving=SERVING,
                price=PRICE,
                finance=Finance(),
                rate_rps=rate,
                kv_bytes_per_token=1.0,
                memory_price_per_gb_month=price,
            )
