"""How long the closed form takes: 64 request classes x 500 operating points (goal: under 100 ms).

python benchmarks/perf_grid.py
"""

from __future__ import annotations

import sys
import time

import numpy as np

from pddplan.domain.plan import Shape
from pddplan.performance.instance import instance_performance
from pddplan.profiles.chip_profile import load_chip
from pddplan.profiles.efficiency_profile import load_efficiency
from pddplan.profiles.llm_profile import load_llm
from pddplan.units import MS_PER_S

CLASSES, POINTS, REPEATS = 64, 500, 5
GOAL_MS = 100.0


def best_ms(run: object) -> float:
    """Fastest of a few repeats, in milliseconds."""
    assert callable(run)
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times) * MS_PER_S


def main() -> int:
    chip, llm = load_chip("h200-sxm"), load_llm("deepseek-v3")
    instance = instance_performance(
        chip=chip, llm=llm, shape=Shape(tp=8, ep=8), efficiency=load_efficiency(None, chip), weights_dtype="fp8"
    )
    tokens = np.linspace(100.0, 120_000.0, CLASSES)
    batch, context = np.linspace(1.0, 500.0, POINTS)[:, None], tokens[None, :]
    new = np.broadcast_to(np.linspace(1.0, 0.02, POINTS)[:, None] * tokens, (POINTS, CLASSES))
    decode_ms = best_ms(lambda: instance.decode_step_s(batch=batch, context_tokens=context))
    prefill_ms = best_ms(lambda: instance.prefill_time_s(new_tokens=tokens, cached_tokens=0.0 * tokens))
    grid_ms = best_ms(lambda: instance.prefill_time_s(new_tokens=new, cached_tokens=tokens - new))
    out = sys.stdout
    out.write(f"decode steps, {CLASSES} classes x {POINTS} points: {decode_ms:.1f} ms (goal {GOAL_MS:g} ms)\n")
    out.write(f"prefill of {CLASSES} classes up to 120,000 tokens, in chunks: {prefill_ms:.2f} ms\n")
    out.write(f"prefill, {CLASSES} classes x {POINTS} cached shares, in chunks: {grid_ms:.1f} ms\n")
    return 0 if decode_ms < GOAL_MS else 1


if __name__ == "__main__":
    sys.exit(main())
