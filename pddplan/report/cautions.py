"""What a reader must be told beside the numbers: requests left waiting, prompts too long, and limits that were asked
for and cost money."""

from __future__ import annotations

from pddplan.domain.plan import Path, Plan
from pddplan.optimize.objective import Limits
from pddplan.report.numbers import count, percent, seconds
from pddplan.sizing import Sizing

_FEW = 1e-4
"""Shares below this are rounding."""


def cautions(sizing: Sizing) -> list[str]:
    """Sentences that no reader should miss; mostly none."""
    return [*_left_waiting(sizing), *_too_long(sizing)]


def asked_limits(sizing: Sizing) -> str:
    """What the plan was held to beyond its promises, where that is not the default; "" = nothing."""
    limits, default = sizing.limits, Limits()
    if limits is None:
        return ""
    said = []
    if limits.redundant_instances:
        said.append(f"every pool keeps {limits.redundant_instances} of its replicas in reserve (--spare)")
    if limits.survive_line_loss:
        said.append("promises hold with one line of each bundle lost (--survive-line-loss)")
    if limits.max_utilization != default.max_utilization:
        said.append(f"no pool above {percent(limits.max_utilization)} busy (--max-utilization)")
    if limits.max_line_utilization != default.max_line_utilization:
        said.append(f"no line above {percent(limits.max_line_utilization)} busy (--max-line-utilization)")
    if limits.max_chips is not None:
        said.append(f"at most {count(limits.max_chips)} chips (--max-chips)")
    if limits.allowed_chips:
        said.append(f"only {', '.join(limits.allowed_chips)} (--chip)")
    return f"Held to: {'; '.join(said)}." if said else ""


def _left_waiting(sizing: Sizing) -> list[str]:
    """Ways on which half of the requests wait longer than any promise allows: kept only because they are few."""
    outcome, promised = sizing.outcome, sizing.inputs.workload.promises.ttft()
    if not promised or not outcome.keeps_promises:
        return []
    longest = max(promised.values())
    said = []
    for path in outcome.plan.paths:
        share, ttft = outcome.path_share.get(path.id, 0.0), outcome.ttft_by_path.get(path.id)
        if share > _FEW and ttft is not None and ttft.p50 > longest:
            said.append(
                f"{percent(share)} of requests ({_way(outcome.plan, path)}) wait {seconds(ttft.p50)} or longer for "
                f"their first token, half of them: the promises hold only because these requests are few."
            )
    return said


def _way(plan: Plan, path: Path) -> str:
    pools = [plan.pool(pool) for pool in (path.prefill, path.relay, path.decode) if pool is not None]
    return f"{path.kind} on {', '.join(f'{pool.site}/{pool.chip}' for pool in pools)}"


def _too_long(sizing: Sizing) -> list[str]:
    """Requests that do not fit into the longest context that the model is made for."""
    llm, classes = sizing.inputs.llm, sizing.inputs.workload.classes
    if llm.max_context_tokens is None:
        return []
    length = classes.input_tokens + classes.output_tokens
    over = length > llm.max_context_tokens
    share = float(classes.weight[over].sum() / classes.weight.sum())
    if share <= 0:
        return []
    return [
        f"{percent(share)} of requests have up to {count(length[over].max())} tokens with their answer, more than the "
        f"{count(llm.max_context_tokens)} that {llm.name} is made for: the plan takes them as served."
    ]
