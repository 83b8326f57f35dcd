"""JSON Schema of plan files and of ``--json``: what other programs may rely on."""

from __future__ import annotations

from typing import Any

from pddplan.plan_file import SCHEMA

_NUMBER: dict[str, Any] = {"type": "number"}
_MAYBE: dict[str, Any] = {"type": ["number", "null"]}
_TEXT: dict[str, Any] = {"type": "string"}
_MAYBE_TEXT: dict[str, Any] = {"type": ["string", "null"]}
_COUNT: dict[str, Any] = {"type": "integer", "minimum": 0}


def _object(properties: dict[str, Any], *, optional: tuple[str, ...] = (), more: bool = True) -> dict[str, Any]:
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": more}


def _list(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _about(schema: dict[str, Any], text: str) -> dict[str, Any]:
    return {**schema, "description": text}


_PERCENTILES = _object({"p50": _MAYBE, "p90": _MAYBE, "p99": _MAYBE, "mean": _MAYBE}, more=False)
_MAYBE_PERCENTILES = {"anyOf": [_PERCENTILES, {"type": "null"}]}
_OTHER = {
    "anyOf": [
        {"type": "null"},
        _object(
            {
                "topology": _TEXT,
                "goodput_rps": _NUMBER,
                "bcr": _MAYBE,
                "monthly_total": _NUMBER,
                "gpus": _COUNT,
                "ttft_s": _PERCENTILES,
                "bcr_gain": _about(_MAYBE, "BCR of the plan over that of this one, less one."),
                "yearly_saving": _about(_MAYBE, "Money saved a year by the plan at its own rate; negative = dearer."),
            }
        ),
    ]
}

_PLAN = {
    "schema": _about({"const": SCHEMA}, "Name and version of this layout."),
    "pddplan_version": _about(_TEXT, "Version that wrote the file."),
    "status": _about(
        {"enum": ["optimal", "feasible", "evaluated", "promises broken"]},
        "optimal: proven best within 0.1 %; feasible: best found in time; evaluated: not searched for.",
    ),
    "workload": _about(_TEXT, "Name of the workload."),
    "model": _about(_TEXT, "Id of the model."),
    "sites": _about(_TEXT, "Name of the sites file."),
    "topology": _about(_TEXT, "Set of paths that were allowed."),
    "rate_rps": _about(_NUMBER, "Requests per second that the plan is offered."),
    "goodput_rps": _about(_NUMBER, "Requests per second within all promises; 0 when one is broken."),
    "bcr": _about(_MAYBE, "Goodput per 1,000 currency units of monthly cost."),
    "bcr_unit": _about(_TEXT, "Unit of bcr, with its currency."),
    "cost": _about(
        _object(
            {
                "currency": _TEXT,
                "monthly_total": _NUMBER,
                "items": _list(
                    _object(
                        {
                            "site": _TEXT,
                            "role": _TEXT,
                            "item": _TEXT,
                            "quantity": _NUMBER,
                            "unit": _TEXT,
                            "unit_price": _NUMBER,
                            "hours": _about(_NUMBER, "Hours in a month; 1 for monthly prices."),
                            "monthly_cost": _about(_NUMBER, "quantity x unit_price x hours."),
                            "currency": _TEXT,
                            "source": _TEXT,
                        }
                    )
                ),
            }
        ),
        "What a month costs, item by item; items add up to monthly_total.",
    ),
    "chips": _about(
        _object({"total": _COUNT, "prefill": _COUNT, "decode": _COUNT}),
        "Chips of all pools, and of those that prefill or decode.",
    ),
    "pools": _about(
        _list(
            _object(
                {
                    "id": _TEXT,
                    "site": _TEXT,
                    "role": {"enum": ["P", "RLD", "MD", "AGG"]},
                    "chip": _TEXT,
                    "shape": _about(_TEXT, "Parallel layout of one instance, e.g. TP8 or TP2-DP8-EP16."),
                    "instances": _COUNT,
                    "chips_per_instance": _COUNT,
                    "gpus": _about(_COUNT, "instances x chips_per_instance."),
                    "utilization": _MAYBE,
                    "batch": _about(_MAYBE, "Mean sequences in flight per instance (decoding pools)."),
                    "batch_cap": _MAYBE,
                    "batch_cap_reason": _MAYBE_TEXT,
                    "step_s": _MAYBE,
                    "wait_s": _MAYBE_PERCENTILES,
                }
            )
        ),
        "Identical instances of one role at one site: how many, how busy, how long requests wait.",
    ),
    "links": _about(
        _list(
            _object(
                {
                    "id": _TEXT,
                    "from": _MAYBE_TEXT,
                    "to": _MAYBE_TEXT,
                    "gbps": _about(_NUMBER, "Rate of all lines taken together [Gbit/s]."),
                    "tier_gbps": _NUMBER,
                    "count": _COUNT,
                    "monthly_cost": _NUMBER,
                    "utilization": _NUMBER,
                    "mean_gbps": _NUMBER,
                    "limit": _about(_TEXT, "What sets the usable rate: line, window (BDP) or loss (Mathis)."),
                    "transfer_s": _PERCENTILES,
                }
            )
        ),
        "Leased lines: taken, used, and how long a transfer takes.",
    ),
    "routing": _about(
        _list(
            _object(
                {
                    "path": {"enum": ["P-MD", "P-RLD-MD", "P-RLD", "AGG"]},
                    "id": _TEXT,
                    "share": _about(_NUMBER, "Share of all requests."),
                    "prefill": _TEXT,
                    "relay": _MAYBE_TEXT,
                    "decode": _MAYBE_TEXT,
                    "line": _MAYBE_TEXT,
                    "ttft_s": _MAYBE_PERCENTILES,
                }
            )
        ),
        "Paths through the pools, with their share of requests and their time to first token.",
    ),
    "rules": _about(
        _list(
            _object(
                {
                    "about": {"enum": ["relay", "odd traffic", "offload", "way"]},
                    "share": _about(_NUMBER, "Share of all requests that go this way."),
                    "tokens": _about(_MAYBE_TEXT, "Which tokens decide; null = no single threshold does."),
                    "at_least": _about(_MAYBE, "Requests from this many tokens on go this way."),
                    "at_most_answer_tokens": _MAYBE,
                    "matches": _about(_NUMBER, "Share of requests that the rule sends where the plan sends them."),
                    "way": _about(_MAYBE_TEXT, "Of several ways of one kind, the one that they take."),
                }
            )
        ),
        "The routing as thresholds in tokens, where requests go different ways.",
    ),
    "ttft_s": _about(_PERCENTILES, "From arrival to the first output token leaving the system; null = never."),
    "e2e_s": _about(_PERCENTILES, "From arrival to the last output token."),
    "by_class": _about(
        {
            "type": "object",
            "additionalProperties": _object({"ttft_s": _PERCENTILES, "tpot_s": _PERCENTILES, "e2e_s": _PERCENTILES}),
        },
        "Latencies of each traffic class, where the workload names some.",
    ),
    "tpot_s": _about(_MAYBE, "Mean time per output token; its percentiles are in tpot_percentiles_s."),
    "tpot_percentiles_s": _about(_MAYBE_PERCENTILES, "Time per output token over requests; promises are on its P90."),
    "worst_itl_s": _about(_MAYBE, "Longest gap between two tokens of one request."),
    "rld_token_share": _about(_NUMBER, "Share of output tokens written by the relay pool."),
    "wan_gbps": _about(_NUMBER, "Mean traffic on all lines [Gbit/s]."),
    "solver": _about(
        {
            "anyOf": [
                {"type": "null"},
                _object(
                    {
                        "name": _TEXT,
                        "status": _TEXT,
                        "gap": _MAYBE,
                        "seconds": _NUMBER,
                        "shapes_searched": _about(_COUNT, "Kinds of instances the search looked at."),
                        "shapes_possible": _about(_COUNT, "Kinds there were before the search left some out."),
                        "gap_over_all": _about(
                            _MAYBE, "How much better a plan of all kinds could be; null = not known."
                        ),
                    },
                    optional=("shapes_searched", "shapes_possible", "gap_over_all"),
                ),
            ]
        },
        "What was proven, and how long it took; null = the plan was not searched for.",
    ),
    "binding": _about(
        _list(_object({"limit": _TEXT, "used": _MAYBE, "available": _MAYBE, "unit": _TEXT, "marginal": _MAYBE_TEXT})),
        "Promises and capacities that are used whole, or nearly.",
    ),
    "violations": _about(
        _list(_object({"limit": _TEXT, "promised": _MAYBE, "predicted": _MAYBE, "unit": _TEXT})),
        "Promises that are broken.",
    ),
    "assumptions": _about(
        _list(_object({"name": _TEXT, "value": _TEXT, "basis": _TEXT, "source": _TEXT, "range": _MAYBE_TEXT})),
        "Numbers that nobody measured and the result leans on.",
    ),
    "notes": _about(_list(_TEXT), "What to know about this plan."),
    "promises": _about(
        {
            "type": "object",
            "properties": {
                "by_class": {
                    "type": "object",
                    "additionalProperties": {"type": "object", "additionalProperties": _NUMBER},
                }
            },
            "additionalProperties": _NUMBER,
        },
        "Seconds promised to all requests; by_class: to those of single traffic classes.",
    ),
    "comparison": _about(
        _object({"baseline": _OTHER, "one_site": _OTHER, "at_zero_hit_rate": _OTHER}),
        "The best aggregated plan, the best split at one site, and the plan without any cache; null = none.",
    ),
    "line_loss": _about(
        _list(
            _object(
                {
                    "line": _TEXT,
                    "lines_left": _NUMBER,
                    "share": _NUMBER,
                    "carried": {"type": "boolean"},
                    "kept": _list(_TEXT),
                    "broken": _list(_TEXT),
                    "ttft_s": _PERCENTILES,
                }
            )
        ),
        "Promises kept and broken with one line lost, per bundle; share: requests that cross it; traffic is not routed "
        "anew.",
    ),
    "moves": _about(
        {
            "anyOf": [
                {"type": "null"},
                _list(_object({"what": _TEXT, "before": _NUMBER, "after": _NUMBER, "unit": _TEXT})),
            ]
        },
        "What to change on the way from the plan of --keep; null = none was given.",
    ),
    "remarks": _about(
        _list(_TEXT), "Cautions, why a comparison is missing, and other things to know about the question."
    ),
    "record": _about(
        _object({"inputs": {"type": "object"}, "plan": {"type": "object"}}),
        "All records the plan was made from; read back by simulate, explain and evaluate_plan.",
    ),
}

_RELAXATION = _object({"limit": _TEXT, "asked": _MAYBE, "needed": _MAYBE, "unit": _TEXT, "hint": _TEXT})
_INFEASIBLE = {
    "schema": {"const": SCHEMA},
    "pddplan_version": _TEXT,
    "status": {"const": "infeasible"},
    "message": _TEXT,
    "conflicts": _list(_TEXT),
    "relaxations": _about(_list(_RELAXATION), "Any one of them gives a plan."),
    "joint_relaxations": _about(_list(_RELAXATION), "All of them together give a plan."),
}


def plan_schema() -> dict[str, Any]:
    """JSON Schema of an answer: a plan, or why there is none."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"pddplan {SCHEMA}",
        "oneOf": [_object(_PLAN), _object(_INFEASIBLE, more=False)],
    }


def plan_keys() -> list[tuple[str, str]]:
    """Top-level keys of a plan with what they mean, for the docs."""
    return [(name, str(schema.get("description", ""))) for name, schema in _PLAN.items()]
