"""A plan step by step, in cells: opens as a notebook in Jupyter and VS Code, runs as a script, runs in the tests."""

# %% The bundled question: a workload, two sites, one line. The last expression of a cell shows the plan.
import pddplan

sizing = pddplan.size("agentic-64k", rps=11.5)
sizing

# %% The plan as numbers
outcome = sizing.outcome
for pool in outcome.plan.pools:
    print(f"{pool.role}: {pool.chips} x {pool.chip} at site {pool.site}, as {pool.instances} of {pool.shape}")
print(f"{outcome.cost.monthly_total:,.0f} {outcome.cost.currency} a month, TTFT P90 {outcome.ttft.p90:.2f} s")

# %% What does a promise cost? Tighten it until the fleet has to grow.
prices = {}
for p90_s in (10.0, 4.0, 2.0):
    tighter = pddplan.size("agentic-64k", ttft_p90_s=p90_s, compare=False)
    prices[p90_s] = tighter.outcome.cost.monthly_total
    print(f"P90 within {p90_s:4.1f} s: {prices[p90_s]:,.0f} a month")

# %% Change a plan by hand and evaluate it again: one instance more in the first pool
from dataclasses import replace  # noqa: E402

first, *others = outcome.plan.pools
larger = replace(outcome.plan, pools=(replace(first, instances=first.instances + 1), *others))
again = pddplan.evaluate_plan(sizing.inputs, larger)
print(f"TTFT P99 {outcome.ttft.p99:.2f} s -> {again.ttft.p99:.2f} s for {again.cost.monthly_total:,.0f} a month")
again

# %% Does it hold under random load?
predicted, simulated = pddplan.simulate_plan(
    pddplan.problem_of(sizing.inputs), outcome.plan, pddplan.Ask(requests=20_000)
)
print(f"TTFT P90: closed form {predicted.ttft.p90:.2f} s, simulated {simulated.ttft.p90.value:.2f} s")

# %% Keep it
pddplan.save_plan(sizing, "plan.json")
