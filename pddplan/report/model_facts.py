"""What there is to say about a model: sizes, weights, cache and work, as plain data and as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pddplan.domain.llm import (
    CompressedAttention,
    Convention,
    DenseFeedForward,
    GroupedAttention,
    LatentAttention,
    LayerGroup,
    Llm,
    MoeFeedForward,
    RecurrentMixer,
)
from pddplan.performance.kv import KvSize, kv_format, kv_size
from pddplan.performance.parameters import (
    active_parameters,
    counted_parameters,
    mtp_parameters,
    parameters,
    total_parameters,
    weight_bytes,
    weight_formats,
)
from pddplan.performance.work import attention_flops, linear_flops_per_token
from pddplan.report.numbers import percent, short
from pddplan.report.text_table import Column, Screen, paragraph, table
from pddplan.units import GIGA, KIB, MEGA, MIB, TERA

LENGTHS: tuple[int, ...] = tuple(k * KIB for k in (8, 64, 128, 1024))
"""8K, 64K, 128K and 1M tokens, binary as everywhere in the field."""
ACTIVE_COUNTS = {
    "in_layers": (),
    "with_head": ("head",),
    "with_head_and_embedding": ("head", "embedding"),
}
"""Ways in which makers count what a token passes."""
PARTS = ("attention", "dense", "shared_experts", "experts", "embedding", "head")


def model_facts(
    llm: Llm, *, lengths: Sequence[int] = LENGTHS, kv_dtype: str | None = None, weights_dtype: str | None = None
) -> dict[str, Any]:
    """Facts of a model in base units, ready for JSON."""
    count, weights = parameters(llm), weight_bytes(llm, weights_dtype)
    formats, flops = weight_formats(llm, weights_dtype), linear_flops_per_token(llm)
    served = kv_format(llm, kv_dtype).name
    known = (served, "bf16", "fp8", *(mix.name for mix in llm.kv_formats))
    caches = {name: kv_size(llm, name) for name in dict.fromkeys(known)}
    return {
        "id": llm.id,
        "name": llm.name,
        "family": llm.family,
        "layers": [_layer_facts(group) for group in llm.layers],
        "layer_count": llm.layer_count,
        "hidden": llm.hidden,
        "vocab": llm.vocab,
        "max_context_tokens": llm.max_context_tokens,
        "mtp_depth": llm.mtp_depth,
        "mtp_parameters": mtp_parameters(llm),
        "total_parameters": total_parameters(llm),
        "active_parameters": active_parameters(llm),
        "active_parameters_by_count": {
            word: counted_parameters(llm, parts, active=True) for word, parts in ACTIVE_COUNTS.items()
        },
        "published_parameters": llm.published_parameters,
        "published_active_parameters": llm.published_active_parameters,
        "published_counts": {
            "total": _as_published(llm, llm.published_parameters, llm.published_convention, active=False),
            "active": _as_published(llm, llm.published_active_parameters, llm.published_active_convention, active=True),
        },
        "parameters": {part: getattr(count, part) for part in (*PARTS, "router", "norms", "tower")},
        "weight_bytes": weights.resident,
        "weights": {part: {"bytes": getattr(weights, part), "dtype": getattr(formats, part).dtype} for part in PARTS},
        "kv_dtype": served,
        "kv_bytes_per_token": caches[served].growing_bytes_per_token,
        "fixed_state_bytes": caches[served].fixed_bytes,
        "kv_bytes": {str(n): float(caches[served].sequence_bytes(n)) for n in lengths},
        "kv": {
            name: {
                "kv_bytes_per_token": size.growing_bytes_per_token,
                "fixed_state_bytes": size.fixed_bytes,
                "window_bytes": size.window_bytes,
                "recurrent_state_bytes": size.state_bytes,
                "kv_bytes": {str(n): float(size.sequence_bytes(n)) for n in lengths},
            }
            for name, size in caches.items()
        },
        "flops_per_token": flops.total,
        "flops_per_token_by_part": {
            part: getattr(flops, part)
            for part in ("attention", "dense", "shared_experts", "experts", "router", "recurrent", "head")
        },
        "decode_attention_flops": {
            str(n): float(attention_flops(llm, new_tokens=1, cached_tokens=n, absorbed=True)) for n in lengths
        },
        "prefill_flops": {
            str(n): float(flops.layers * n + attention_flops(llm, new_tokens=n, cached_tokens=0) + flops.head)
            for n in lengths
        },
        "assumptions": [
            {"name": name, "basis": origin.basis.label, "source": origin.source, "note": origin.note}
            for name, origin in sorted(llm.provenance.items())
        ],
    }


def model_text(llm: Llm, facts: dict[str, Any], *, screen: Screen) -> str:
    """The same for a person."""
    paint = screen.paint
    lines = [
        paint.bold(f"{facts['name']}") + f"  ({facts['id']}, {facts['family']})",
        f"parameters   {_billions(facts['total_parameters'])} in total, "
        f"{_billions(facts['active_parameters'])} per token",
        *_count_lines(llm, facts, width=screen.width),
        f"weights      {_bytes(facts['weight_bytes'])}  ({_weights_by_dtype(facts)})",
        f"work         {short(facts['flops_per_token'] / GIGA)} GFLOP per token "
        f"(experts {_share(facts, 'experts')}, attention projections {_share(facts, 'attention')}, "
        f"head {_share(facts, 'head')}), plus attention over the context",
    ]
    if facts["max_context_tokens"]:
        lines.append(f"context      up to {facts['max_context_tokens']:,} tokens")
    if facts["mtp_depth"]:
        lines.append(
            f"MTP          the checkpoint can draft {facts['mtp_depth']} token(s) ahead "
            f"(blocks of {_billions(facts['mtp_parameters'])} parameters, not in the total)"
        )
    lines += ["", "layers"]
    lines += [line for group in llm.layers for line in paragraph(_layer_words(group), width=screen.width, indent="  ")]
    lines += ["", f"KV cache (served as {facts['kv_dtype']})"]
    lines += ["  " + line for line in _cache_table(facts, width=screen.width - 2)]
    lines += ["", *_origin_lines(facts, width=screen.width)]
    return "\n".join(lines) + "\n"


def list_text(llms: Sequence[Llm], *, screen: Screen) -> str:
    """One row per model."""
    columns = [
        Column("model", importance=0),
        Column("total", right=True, importance=0),
        Column("active", right=True, importance=1),
        Column("weights", right=True, importance=2),
        Column("KV", importance=4),
        Column("KV B/token", right=True, importance=0),
        Column("fixed", right=True, importance=2),
        Column("at 64K", right=True, importance=1),
        Column("attention", importance=3),
    ]
    rows = []
    for llm in llms:
        size = kv_size(llm)
        rows.append(
            [
                llm.id,
                _billions(total_parameters(llm)),
                _billions(active_parameters(llm)),
                _bytes(weight_bytes(llm).resident),
                size.kv_dtype,
                f"{size.growing_bytes_per_token:,.0f}",
                _bytes(size.fixed_bytes) if size.fixed_bytes else "-",
                _bytes(float(size.sequence_bytes(64 * KIB))),
                _kinds(llm),
            ]
        )
    return "\n".join(table(columns, rows, width=screen.width, paint=screen.paint)) + "\n"


def list_facts(llms: Sequence[Llm]) -> list[dict[str, Any]]:
    """The same as data."""
    found = []
    for llm in llms:
        size: KvSize = kv_size(llm)
        found.append(
            {
                "id": llm.id,
                "name": llm.name,
                "aliases": list(llm.aliases),
                "family": llm.family,
                "total_parameters": total_parameters(llm),
                "active_parameters": active_parameters(llm),
                "weight_bytes": weight_bytes(llm).resident,
                "kv_dtype": size.kv_dtype,
                "kv_bytes_per_token": size.growing_bytes_per_token,
                "fixed_state_bytes": size.fixed_bytes,
                "attention": _kinds(llm),
            }
        )
    return found


def _layer_facts(group: LayerGroup) -> dict[str, Any]:
    return {"count": group.count, "attention": _mixer_words(group), "feed_forward": _feed_words(group)}


def _layer_words(group: LayerGroup) -> str:
    parts = [part for part in (_mixer_words(group), _feed_words(group)) if part]
    return f"{group.count:>3} x " + "; ".join(parts)


def _mixer_words(group: LayerGroup) -> str | None:
    match group.attention:
        case None:
            return None
        case GroupedAttention() as a:
            kind = "MHA" if a.kv_heads == a.heads else ("MQA" if a.kv_heads == 1 else "GQA")
            reach = f", window {a.window:,}" if a.window else (f", chunks of {a.chunk:,}" if a.chunk else "")
            sparse = f", sparse top {a.indexer.top_k:,}" if a.indexer else ""
            shared = ", shares the cache of an earlier layer" if a.shares_kv else ""
            return f"{kind} {a.heads}/{a.kv_heads} heads of {a.head_dim}{reach}{sparse}{shared}"
        case LatentAttention() as a:
            sparse = ""
            if a.indexer:
                own = "own index" if a.indexer.computes else "index of an earlier layer"
                sparse = f", sparse top {a.indexer.top_k:,} ({own})"
            return f"MLA {a.heads} heads, latent {a.kv_lora_rank}+{a.rope_dim}{sparse}"
        case CompressedAttention() as a:
            if not a.ratio:
                return f"window {a.window} of shared entries of {a.head_dim}"
            sparse = f", top {a.indexer.top_k:,}" if a.indexer else ""
            return f"compressed {a.ratio}:1{sparse}, {a.heads} heads of {a.head_dim}, window {a.window}"
        case RecurrentMixer() as m:
            return f"{m.kind.value.upper()} {m.heads:,} heads, state {m.key_dim}x{m.value_dim}"


def _feed_words(group: LayerGroup) -> str | None:
    match group.feed_forward:
        case None:
            return None
        case DenseFeedForward() as f:
            return f"dense feed-forward {f.width:,}"
        case MoeFeedForward() as f:
            shared = f" + shared {f.shared_width:,}" if f.shared_width else ""
            return f"{f.top_k} of {f.experts} experts of {f.expert_width:,}{shared}"


def _kinds(llm: Llm) -> str:
    """``GDN x36, GQA x12``."""
    seen: dict[str, int] = {}
    for group in llm.layers:
        words = _mixer_words(group)
        if words:
            word = {"compressed": "CSA/HCA", "window": "window"}.get(words.split()[0], words.split()[0])
            local = isinstance(group.attention, GroupedAttention) and (group.attention.window or group.attention.chunk)
            word += " local" if local else ""
            seen[word] = seen.get(word, 0) + group.count
    return ", ".join(f"{word} x{n}" for word, n in seen.items())


def _cache_table(facts: dict[str, Any], *, width: int) -> list[str]:
    lengths = list(facts["kv_bytes"])
    columns = [
        Column("dtype", importance=0),
        Column("B/token", right=True, importance=0),
        Column("fixed", right=True, importance=0),
        *(Column(f"at {_length(int(n))}", right=True, importance=1) for n in lengths),
    ]
    rows = [
        [
            name,
            f"{kv['kv_bytes_per_token']:,.0f}",
            _bytes(kv["fixed_state_bytes"]) if kv["fixed_state_bytes"] else "-",
            *(_bytes(kv["kv_bytes"][n]) for n in lengths),
        ]
        for name, kv in facts["kv"].items()
    ]
    return table(columns, rows, width=width)


def _origin_lines(facts: dict[str, Any], *, width: int) -> list[str]:
    lines = ["assumptions and sources"]
    for origin in facts["assumptions"]:
        note = f" ({origin['note']})" if origin["note"] else ""
        text = f"{origin['name']}: {origin['basis']}, {origin['source']}{note}"
        lines += paragraph(text, width=width, indent="    ", first="  ")
    return lines


def _as_published(
    llm: Llm, value: float | None, convention: Convention | None, *, active: bool
) -> dict[str, Any] | None:
    """A printed number beside ours, counted the maker's way where it is known."""
    if value is None:
        return None
    if convention is None:
        ours = active_parameters(llm) if active else total_parameters(llm)
    else:
        ours = counted_parameters(llm, convention.counts, active=active)
    step = convention.rounded_to if convention else 0.0
    return {
        "value": value,
        "counts": None if convention is None else ["layers", *convention.counts],
        "rounded_to": step or None,
        "ours": ours,
        "difference": ours / value - 1,
        "equal_when_rounded": abs(ours - value) <= step / 2,
    }


def _count_lines(llm: Llm, facts: dict[str, Any], *, width: int) -> list[str]:
    """The usual ways to count active parameters, and what the maker prints, counted as it counts."""
    lines = []
    if llm.is_moe:
        ways = facts["active_parameters_by_count"]
        text = ", ".join(f"{_billions(value)} {word.replace('_', ' ')}" for word, value in ways.items())
        lines += paragraph(f"per token: {text}", width=width, indent=" " * 15, first=" " * 13)
    for which, words in (("total", "in total"), ("active", "per token")):
        printed = facts["published_counts"][which]
        if printed is not None:
            counted = "" if printed["counts"] is None else f" ({', '.join(printed['counts'])})"
            text = f"published {_billions(printed['value'])} {words}{counted}: "
            text += f"ours so counted {_billions(printed['ours'])}, {percent(printed['difference'], signed=True)}"
            text += ", equal when rounded" if printed["equal_when_rounded"] else ""
            lines += paragraph(text, width=width, indent=" " * 15, first=" " * 13)
    return lines


def _weights_by_dtype(facts: dict[str, Any]) -> str:
    sums: dict[str, float] = {}
    for part in facts["weights"].values():
        if part["bytes"]:
            sums[part["dtype"]] = sums.get(part["dtype"], 0.0) + part["bytes"]
    return ", ".join(f"{dtype} {_bytes(size)}" for dtype, size in sorted(sums.items(), key=lambda x: -x[1]))


def _share(facts: dict[str, Any], part: str) -> str:
    return percent(facts["flops_per_token_by_part"][part] / facts["flops_per_token"])


def _length(tokens: int) -> str:
    if tokens >= MIB and tokens % MIB == 0:
        return f"{tokens // MIB}M"
    return f"{tokens // KIB}K" if tokens >= KIB and tokens % KIB == 0 else f"{tokens:,}"


def _billions(value: float) -> str:
    if value >= TERA:
        return f"{short(value / TERA)}T"
    return f"{short(value / GIGA)}B" if value >= GIGA else f"{short(value / MEGA)}M"


def _bytes(value: float) -> str:
    if value >= GIGA:
        return f"{short(value / GIGA)} GB"
    return f"{short(value / MEGA)} MB" if value >= MEGA else f"{value:,.0f} B"


MODEL_COLUMNS = (
    "id",
    "name",
    "family",
    "total_parameters",
    "active_parameters",
    "weight_bytes",
    "kv_dtype",
    "kv_bytes_per_token",
    "fixed_state_bytes",
    "attention",
)


def list_rows(llms: Sequence[Llm]) -> list[list[str | float]]:
    """One row per model under MODEL_COLUMNS."""
    return [[facts[column] for column in MODEL_COLUMNS] for facts in list_facts(llms)]
