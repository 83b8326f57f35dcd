"""Hand-off of a plan to serving stacks: replica counts and parallel sizes in the form they take.

yaml     plain: pools, lines and shares, for scripts of one's own
llm-d    values of the llm-d ModelService Helm chart: one release per prefill/decode pair of a site
dynamo   a DynamoGraphDeployment per site

What a plan does not know (images, secrets, volumes, resource names other than the chips') is left to the chart's
defaults or marked to be filled in. Relay pools are decode workers of the prefill site.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from pddplan.domain.plan import Plan, Pool, Role
from pddplan.errors import InputError, Problem, did_you_mean
from pddplan.profiles.yaml_source import dump
from pddplan.sizing import Inputs


@dataclass(frozen=True, slots=True)
class Target:
    """What the plan is handed to, beside the plan."""

    model_uri: str
    """Where the engine finds the weights, e.g. ``hf://org/model``."""
    chips_per_node: int = 8


def deployment_text(inputs: Inputs, plan: Plan, *, kind: str, target: Target, site: str | None = None) -> str:
    """YAML documents of a format, all sites or one, separated by ``---``; each starts with a remark.

    Raises:  InputError for an unknown format or site.
    """
    if kind not in FORMATS:
        raise InputError(
            Problem(what=f"there is no format {kind!r}{did_you_mean(kind, FORMATS)}", fix=f"use {', '.join(FORMATS)}")
        )
    sites = list(dict.fromkeys(pool.site for pool in plan.pools if pool.instances))
    if site is not None and site not in sites:
        raise InputError(
            Problem(
                what=f"the plan has no pools at site {site!r}{did_you_mean(site, sites)}", fix=f"use {', '.join(sites)}"
            )
        )
    chosen = [site] if site is not None else sites
    documents = FORMATS[kind](inputs, plan, target, chosen)
    return "---\n".join(f"# {remark}\n{dump(data)}" for remark, data in documents)


Documents = list[tuple[str, dict[str, Any]]]


def _plain(inputs: Inputs, plan: Plan, target: Target, sites: list[str]) -> Documents:
    pools = [
        {
            "id": pool.id,
            "site": pool.site,
            "role": str(pool.role),
            "chip": pool.chip,
            "replicas": pool.instances,
            "chips_per_replica": pool.shape.chips,
            "nodes_per_replica": _nodes(pool, target),
            "tensor_parallel": pool.shape.tp,
            "pipeline_parallel": pool.shape.pp,
            "data_parallel": pool.shape.dp,
            "expert_parallel": pool.shape.ep,
            "max_sequences_per_replica": pool.batch,
        }
        for pool in _pools(plan, sites)
    ]
    weight = inputs.workload.classes.weight
    shares = plan.share @ weight
    data: dict[str, Any] = {
        "model": inputs.llm.id,
        "model_uri": target.model_uri,
        "rate_rps": plan.rate_rps,
        "pools": pools,
        "lines": [{"line": line.line, "gbps": line.gbps, "count": line.count} for line in plan.lines if line.count],
        "routing": [
            {
                "path": str(path.kind),
                "prefill": path.prefill,
                "relay": path.relay,
                "decode": path.decode,
                "line": path.line,
                "share": round(float(share), 6),
            }
            for path, share in zip(plan.paths, shares, strict=True)
            if share > 0
        ],
    }
    return [(f"plan {plan.topology} for {_one_line(inputs.workload.name)}", data)]


def _llm_d(inputs: Inputs, plan: Plan, target: Target, sites: list[str]) -> Documents:
    documents: Documents = []
    for site in sites:
        here = _pools(plan, [site])
        prefill = [p for p in here if p.role is Role.PREFILL]
        decode = [p for p in here if p.role is not Role.PREFILL]
        for number, (first, last) in enumerate(zip_longest(prefill, decode), start=1):
            multinode = any(_nodes(pool, target) > 1 for pool in (first, last) if pool is not None)
            data = {
                "multinode": multinode,
                "modelArtifacts": {"name": inputs.llm.name, "uri": target.model_uri},
                "prefill": _llm_d_role(first, target),
                "decode": _llm_d_role(last, target),
            }
            roles = " and ".join(f"{p.role} on {p.chip}" for p in (first, last) if p is not None)
            documents.append((f"llm-d ModelService values, site {_one_line(site)}, release {number}: {roles}", data))
    return documents


def _llm_d_role(pool: Pool | None, target: Target) -> dict[str, Any]:
    if pool is None:
        return {"create": False, "replicas": 0}
    nodes = _nodes(pool, target)
    local = max(pool.shape.dp // nodes, 1)
    container = {"name": "vllm", "modelCommand": "vllmServe", "args": _engine_arguments(pool, parallel=False)}
    return {
        "create": True,
        "replicas": pool.instances,
        "parallelism": {"tensor": pool.shape.tp, "data": pool.shape.dp, "dataLocal": local, "workers": nodes},
        "containers": [container],
    }


def _dynamo(inputs: Inputs, plan: Plan, target: Target, sites: list[str]) -> Documents:
    documents: Documents = []
    for site in sites:
        services: dict[str, Any] = {"Frontend": {"componentType": "frontend", "replicas": 1}}
        for number, pool in enumerate(_pools(plan, [site]), start=1):
            nodes = _nodes(pool, target)
            arguments = ["--model", _model_name(target), *_engine_arguments(pool, parallel=True)]
            if pool.role is Role.PREFILL:
                arguments.append("--is-prefill-worker")
            service: dict[str, Any] = {
                "componentType": "worker",
                "replicas": pool.instances,
                "resources": {"limits": {"gpu": str(pool.shape.chips // nodes)}},
                "extraPodSpec": {"mainContainer": {"command": ["python3", "-m", "dynamo.vllm"], "args": arguments}},
            }
            if nodes > 1:
                service["multinode"] = {"nodeCount": nodes}
            services[f"{_DYNAMO_NAMES[pool.role]}-{number}"] = service
        name = "".join(c if c.isascii() and c.isalnum() else "-" for c in f"pddplan-{site}".lower()).strip("-")
        data = {
            "apiVersion": "nvidia.com/v1alpha1",
            "kind": "DynamoGraphDeployment",
            "metadata": {"name": name[:63]},
            "spec": {"services": services},
        }
        documents.append((f"Dynamo graph of site {_one_line(site)}; add images and secrets", data))
    return documents


_DYNAMO_NAMES = {Role.PREFILL: "prefill", Role.RELAY: "relay", Role.DECODE: "decode", Role.AGGREGATED: "worker"}

FORMATS: Mapping[str, Callable[[Inputs, Plan, Target, list[str]], Documents]] = {
    "yaml": _plain,
    "llm-d": _llm_d,
    "dynamo": _dynamo,
}


def _pools(plan: Plan, sites: list[str]) -> list[Pool]:
    return [pool for pool in plan.pools if pool.instances and pool.site in sites]


def _nodes(pool: Pool, target: Target) -> int:
    """Nodes that one instance spans."""
    return -(-pool.shape.chips // target.chips_per_node)


def _engine_arguments(pool: Pool, *, parallel: bool) -> list[str]:
    """vLLM arguments that carry what the chart has no field for; with ``parallel`` also what it has one for."""
    shape = pool.shape
    arguments: list[str] = []
    if parallel:
        arguments += ["--tensor-parallel-size", str(shape.tp)]
        if shape.dp > 1:
            arguments += ["--data-parallel-size", str(shape.dp)]
    if shape.pp > 1:
        arguments += ["--pipeline-parallel-size", str(shape.pp)]
    if shape.ep > 1:
        arguments.append("--enable-expert-parallel")
    if pool.batch is not None:
        arguments += ["--max-num-seqs", str(max(-(-pool.batch // shape.dp), 1))]
    return arguments


def _model_name(target: Target) -> str:
    return target.model_uri.removeprefix("hf://")


def _one_line(text: str) -> str:
    """A name that cannot leave its comment line."""
    return "".join(c if c.isprintable() else "?" for c in text)
