"""What the program over all shapes is told of waits lies on the safe side."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pddplan.optimize.learning import counts_up_to, line_above


@settings(max_examples=60)
@given(
    st.integers(1, 60),
    st.floats(0.5, 1.0),
    st.floats(0.0, 3.0),
    st.floats(0.0, 1.0),
)
def test_the_line_lies_above_what_waits_allow_at_every_number(
    most: int, ceiling: float, spare: float, power: float
) -> None:
    """Waits ask for idle instances that grow with the pool, and the ceiling for a share: the lesser load is allowed."""
    every = np.arange(1, most + 1, dtype=float)
    allowed = np.maximum(np.minimum(ceiling * every, every - spare * every ** (0.5 * power)), 0.0)
    allowed = np.maximum.accumulate(allowed)
    counts = np.array(counts_up_to(most), dtype=float)
    slope, start = line_above(counts, allowed[counts.astype(int) - 1], ceiling=ceiling)
    assert (slope * every + start >= allowed - 1e-9).all()
