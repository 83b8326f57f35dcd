"""Hand-off to serving stacks, held to what their published schemas and examples accept.

Facts from llm-d-modelservice values.schema.json: ``parallelism`` holds the integers tensor, data, dataLocal, workers
and nothing else; ``modelArtifacts`` holds authSecretName, labels, mountPath, name, size, uri and nothing else.
Facts from the Dynamo examples: apiVersion nvidia.com/v1alpha1, services with componentType, replicas,
multinode.nodeCount, resources.limits.gpu as text, extraPodSpec.mainContainer.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from pddplan.cli.main import run
from pddplan.domain.plan import Pool, Role, Shape
from pddplan.errors import InputError
from pddplan.profiles.yaml_source import loads
from pddplan.report.deployment import Target, deployment_text
from pddplan.report.json_plan import save_plan
from tests import samples

INTEGER = {"type": "integer"}
LLM_D_ROLE = {
    "type": "object",
    "properties": {
        "create": {"type": "boolean"},
        "replicas": INTEGER,
        "parallelism": {
            "type": "object",
            "additionalProperties": False,
            "properties": {"tensor": INTEGER, "data": INTEGER, "dataLocal": INTEGER, "workers": INTEGER},
        },
        "containers": {"type": "array", "items": {"type": "object"}},
    },
}
LLM_D = {
    "type": "object",
    "properties": {
        "multinode": {"type": "boolean"},
        "modelArtifacts": {
            "type": "object",
            "additionalProperties": False,
            "properties": {n: {} for n in ("authSecretName", "labels", "mountPath", "name", "size", "uri")},
        },
        "prefill": LLM_D_ROLE,
        "decode": LLM_D_ROLE,
    },
}
SERVICE = {
    "type": "object",
    "required": ["componentType", "replicas"],
    "properties": {
        "componentType": {"enum": ["frontend", "worker"]},
        "replicas": INTEGER,
        "multinode": {"type": "object", "properties": {"nodeCount": {"type": "integer", "minimum": 2}}},
        "resources": {"type": "object", "properties": {"limits": {"properties": {"gpu": {"type": "string"}}}}},
    },
}
DYNAMO = {
    "type": "object",
    "required": ["apiVersion", "kind", "metadata", "spec"],
    "properties": {
        "apiVersion": {"const": "nvidia.com/v1alpha1"},
        "kind": {"const": "DynamoGraphDeployment"},
        "metadata": {"properties": {"name": {"pattern": "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$", "maxLength": 63}}},
        "spec": {"properties": {"services": {"additionalProperties": SERVICE}}},
    },
}
TARGET = Target(model_uri="hf://org/toy", chips_per_node=8)


def documents(kind: str, **changes: Any) -> list[dict[str, Any]]:
    plan = replace(samples.plan(), **changes)
    text = deployment_text(samples.inputs(), plan, kind=kind, target=TARGET)
    return [loads(part).data for part in text.split("---\n")]


def test_plain_yaml_counts_what_the_plan_counts() -> None:
    (data,) = documents("yaml")
    assert sum(p["replicas"] * p["chips_per_replica"] for p in data["pools"]) == 76
    assert sum(r["share"] for r in data["routing"]) == pytest.approx(1.0)
    assert data["lines"] == [{"line": "a-b", "gbps": 100.0, "count": 1}]


def test_llm_d_values() -> None:
    found = documents("llm-d")
    for data in found:
        jsonschema.validate(data, LLM_D)
    site_a, site_b = found
    assert site_a["prefill"]["replicas"] == 5
    assert site_a["prefill"]["parallelism"] == {"tensor": 8, "data": 1, "dataLocal": 1, "workers": 1}
    assert site_a["decode"]["replicas"] == 1
    assert site_b["prefill"] == {"create": False, "replicas": 0}
    assert site_b["decode"]["parallelism"] == {"tensor": 1, "data": 8, "dataLocal": 8, "workers": 1}
    arguments = site_b["decode"]["containers"][0]["args"]
    assert "--enable-expert-parallel" in arguments
    assert arguments[arguments.index("--max-num-seqs") + 1] == "15"


def test_dynamo_graphs() -> None:
    found = documents("dynamo")
    for data in found:
        jsonschema.validate(data, DYNAMO)
    services = found[0]["spec"]["services"]
    assert set(services) == {"Frontend", "prefill-1", "relay-2"}
    assert services["prefill-1"]["resources"]["limits"]["gpu"] == "8"
    assert "--is-prefill-worker" in services["prefill-1"]["extraPodSpec"]["mainContainer"]["args"]


def test_instances_over_several_nodes() -> None:
    big = Pool("p", "a", Role.PREFILL, "h100", Shape(tp=2, dp=16, ep=32), instances=2)
    (llm_d,) = documents("llm-d", pools=(big,))
    assert llm_d["multinode"] is True
    assert llm_d["prefill"]["parallelism"] == {"tensor": 2, "data": 16, "dataLocal": 4, "workers": 4}
    (dynamo,) = documents("dynamo", pools=(big,))
    jsonschema.validate(dynamo, DYNAMO)
    service = dynamo["spec"]["services"]["prefill-1"]
    assert service["multinode"] == {"nodeCount": 4}
    assert service["resources"]["limits"]["gpu"] == "8"


def test_unknown_format_and_site() -> None:
    for kind, site, words in (("llmd", None, "did you mean 'llm-d'?"), ("yaml", "c", "no pools at site 'c'")):
        with pytest.raises(InputError, match=words):
            deployment_text(samples.inputs(), samples.plan(), kind=kind, target=TARGET, site=site)


def test_command(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "plan.json"
    save_plan(samples.sizing(), path)
    assert run(["export", str(path), "--format", "llm-d", "--site", "b"]) == 0
    data = loads(capfd.readouterr().out).data
    assert data["modelArtifacts"]["uri"] == "hf://Toy MoE"
    assert run(["export", str(path), "--schema", "plan"]) == 2
