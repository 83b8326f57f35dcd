"""Chips and models given as rows of a table (``chips.csv``, ``models.csv``) instead of profiles.

Two layouts of chips are read: the one of a validation folder (``chip, bf16_tflops, mem_bw_gbs ...``) and the
one of a reference menu (``id, peak_bf16_tflops_dense, hbm_gbps ...``).
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping
from pathlib import Path

from pddplan.domain.chip import Chip, Fabric
from pddplan.domain.llm import (
    Attention,
    DenseFeedForward,
    FeedForward,
    GroupedAttention,
    LatentAttention,
    LayerGroup,
    Llm,
    MoeFeedForward,
    NumberFormat,
    WeightFormats,
)
from pddplan.domain.provenance import Basis, Provenance
from pddplan.errors import InputError, Problem, ProblemList
from pddplan.files import read_text
from pddplan.units import GIGA, TERA, gbps_to_bytes_per_s

MAX_FILE_BYTES = 8_000_000
LARGEST_COUNT = 10**9
BLANKS = frozenset(("", "nan", "none", "null", "n/a", "na", "-", "?", "unknown"))
"""Cells that say nothing."""
_PEAK_COLUMNS = {
    "bf16": ("bf16_tflops", "peak_bf16_tflops_dense"),
    "fp8": ("fp8_tflops", "peak_fp8_tflops_dense"),
    "fp4": ("fp4_tflops", "peak_fp4_tflops_dense"),
    "int8": ("int8_tops", "peak_int8_tops_dense"),
}


class _Row:
    """One row with its place, so that every complaint names file, line and column."""

    def __init__(self, values: Mapping[str, str | None], where: str, problems: ProblemList) -> None:
        self.values, self.where, self.problems = values, where, problems

    def text(self, *names: str) -> str:
        return next((str(self.values[n]).strip() for n in names if self.values.get(n)), "")

    def number(self, *names: str, default: float | None = None) -> float:
        for name in names:
            raw = self.values.get(name)
            if raw is None or str(raw).strip().lower() in BLANKS:
                continue
            try:
                value = float(raw)
            except ValueError:
                value = math.nan
            if math.isfinite(value) and 0 <= value < 1e12:
                return value
            self.problems.add(
                f"{name} must be a number of 0 or more, got {raw!r}",
                fix="write a plain decimal number",
                where=f"{self.where}: {name}",
            )
            return default if default is not None else 1.0
        if default is None:
            self.problems.add(
                f"column {names[0]} is missing or empty", fix=f"give {' or '.join(names)}", where=self.where
            )
            return 1.0
        return default

    def count(self, *names: str, default: float | None = None) -> int:
        """A whole number: at least 1, or at least 0 where the column may be left out."""
        value, least = self.number(*names, default=default), 1 if default is None else 0
        if value != int(value) or not least <= value <= LARGEST_COUNT:
            self.problems.add(
                f"{names[0]} must be a whole number from {least} to {LARGEST_COUNT:,}, got {value:g}",
                fix="copy it from the model's config",
                where=f"{self.where}: {names[0]}",
            )
            return 1
        return int(value)


def read_table(path: Path) -> list[tuple[str, dict[str, str | None]]]:
    """Rows of a comma-separated table with a header, each with its ``file:line``."""
    try:
        with io.StringIO(read_text(path, limit=MAX_FILE_BYTES), newline="") as stream:
            reader = csv.DictReader(stream)
            return [(f"{path}:{reader.line_num}", dict(row)) for row in reader]
    except csv.Error as fault:
        raise InputError(
            Problem(what=f"cannot read table: {fault}", fix="give a UTF-8 comma-separated file", where=str(path))
        ) from fault


def chip_from_row(values: Mapping[str, str | None], *, where: str, problems: ProblemList) -> Chip:
    """A chip from one table row; faults go to ``problems``."""
    row = _Row(values, where, problems)
    peaks = {dtype: row.number(*names, default=0.0) * TERA for dtype, names in _PEAK_COLUMNS.items()}
    if not any(peaks.values()):
        problems.add("no compute", fix="give bf16_tflops (dense)", where=where)
    memory = row.number("mem_gb", "hbm_gb") * GIGA
    bandwidth = row.number("mem_bw_gbs", "hbm_gbps") * GIGA
    if memory <= 0 or bandwidth <= 0:
        problems.add("memory and bandwidth must be positive", fix="give mem_gb and mem_bw_gbs", where=where)
    note = row.text("note").lower()
    name = row.text("chip", "id")
    scaleup = row.number("scaleup_gbs_uni", "scaleup_gbps_unidirectional", default=0.0) * GIGA
    nic_gbps = row.number("scaleout_gbps", "nic_gbps", default=0.0)
    source = Provenance(basis=Basis.DATASHEET, source=where)
    fabric = Fabric.SWITCH
    if "mesh" in note:
        fabric = Fabric.MESH
    elif "torus" in note:
        fabric = Fabric.TORUS
    elif "pcie" in note or scaleup == 0 or (scaleup <= 64e9 and "nvlink" not in note):
        fabric = Fabric.PCIE
    return Chip(
        id=row.text("reference_id") or name,
        name=row.text("name") or name,
        vendor=row.text("vendor"),
        year=int(row.number("year", default=0.0)) or None,
        peak_flop_per_s={dtype: peak for dtype, peak in peaks.items() if peak > 0},
        memory_bytes=memory,
        memory_bandwidth_bytes_per_s=bandwidth,
        scaleup_bytes_per_s=scaleup,
        scaleup_domain_chips=int(row.number("scaleup_domain", "scaleup_domain_size", default=1.0)) or 1,
        fabric=fabric,
        nic_bytes_per_s=gbps_to_bytes_per_s(nic_gbps) if nic_gbps else None,
        tdp_w=row.number("tdp_w", default=0.0) or None,
        aliases=tuple(a for a in {name, name.replace("_", "-")} if a),
        provenance={"peak_flop_per_s": source, "memory_bytes": source, "memory_bandwidth_bytes_per_s": source},
    )


def llm_from_row(values: Mapping[str, str | None], *, where: str, problems: ProblemList) -> Llm:
    """A model from one row of architecture numbers; faults go to ``problems``."""
    row = _Row(values, where, problems)
    name = row.text("model", "id")
    layers, hidden = row.count("n_layers"), row.count("hidden")
    heads, kv_heads = row.count("n_heads"), row.count("n_kv_heads")
    head_dim = row.count("head_dim", default=0.0) or hidden // max(heads, 1)
    gated = bool(row.number("gated_mlp", default=1.0))
    kind = row.text("attn").lower() or "gqa"
    if kind not in ("gqa", "mha", "mqa", "mla"):
        problems.add(
            f"attention {kind!r} is unknown in a table", fix="use gqa, mha, mqa or mla, or a profile", where=where
        )
    window = row.count("sliding_window", default=0.0) or None
    full_layers = row.count("full_attn_layers", default=float(layers))
    full: Attention
    local: Attention
    if kind == "mla":
        full = local = LatentAttention(
            heads=heads,
            kv_lora_rank=row.count("kv_lora_rank"),
            rope_dim=row.count("qk_rope_dim"),
            nope_dim=row.count("qk_nope_dim"),
            v_dim=row.count("v_head_dim"),
            q_lora_rank=row.count("q_lora_rank", default=0.0) or None,
        )
    else:
        full = GroupedAttention(heads=heads, kv_heads=kv_heads, head_dim=head_dim, v_head_dim=head_dim)
        local = GroupedAttention(heads=heads, kv_heads=kv_heads, head_dim=head_dim, v_head_dim=head_dim, window=window)
    experts = row.count("n_experts", default=0.0)
    dense_layers, every = layers, 1
    moe: FeedForward | None = None
    if experts:
        every = max(row.count("moe_every", default=1.0), 1)
        dense_layers = row.count("n_dense_layers", default=0.0)
        dense_layers += (layers - dense_layers) - -(-(layers - dense_layers) // every)
        moe = MoeFeedForward(
            experts=experts,
            top_k=row.count("experts_per_tok"),
            expert_width=row.count("moe_inter"),
            shared_width=int(row.number("n_shared_experts", default=0.0) * row.number("shared_inter", default=0.0)),
            gated=gated,
        )
    width = int(row.number("dense_inter", "ffn_inter", default=0.0) or row.number("ffn_inter", default=0.0))
    if dense_layers and not width:
        problems.add("dense layers have no width", fix="give ffn_inter or dense_inter", where=where)
    dense = DenseFeedForward(width=width or 1, gated=gated)
    local_layers = max(layers - full_layers, 0) if window else 0
    groups: list[LayerGroup] = []
    for share, feed_forward in ((dense_layers, dense), (layers - dense_layers, moe)):
        if not share:
            continue
        windowed = round(local_layers * share / layers)
        groups += [LayerGroup(n, a, feed_forward) for n, a in ((share - windowed, full), (windowed, local)) if n]
    bf16 = NumberFormat("bf16", 2.0, "bf16")
    return Llm(
        id=row.text("reference_config") or name,
        name=name,
        family=kind,
        hidden=hidden,
        vocab=row.count("vocab"),
        tied_embeddings=bool(row.number("tied_embed", default=0.0)),
        layers=tuple(groups),
        weights=WeightFormats(bf16, bf16, bf16, bf16, bf16, bf16),
        published_parameters=row.number("params_total_b", default=0.0) * GIGA or None,
        published_active_parameters=row.number("params_active_b", default=0.0) * GIGA or None,
        aliases=(name,),
        provenance={"layers": Provenance(basis=Basis.PUBLISHED, source=where)},
    )
