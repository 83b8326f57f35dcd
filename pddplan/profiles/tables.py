"""Chips and models given as rows of a table (``chips.csv``, ``models.csv``) instead of profiles.

Two layouts of chips are read: the one of a validation folder (``chip, bf16_tflops, mem_bw_gbs ...``) and the
one of a reference menu (``id, peak_bf16_tflops_dense, hbm_gbps ...``).
"""

from __future__ import annotations

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
from pddplan.errors import ProblemList
from pddplan.performance.delimited_table import BLANKS, read_rows
from pddplan.profiles.cell_units import number_in_column
from pddplan.units import GIGA, TERA, gbps_to_bytes_per_s

MAX_FILE_BYTES = 8_000_000
LARGEST_COUNT = 10**9
_PEAK_COLUMNS = {
    "bf16": ("bf16_tflops", "peak_bf16_tflops_dense"),
    "fp8": ("fp8_tflops", "peak_fp8_tflops_dense"),
    "fp4": ("fp4_tflops", "peak_fp4_tflops_dense"),
    "int8": ("int8_tops", "peak_int8_tops_dense"),
}
_MEMORY, _BANDWIDTH = ("mem_gb", "hbm_gb"), ("mem_bw_gbs", "hbm_gbps")
CHIP_COLUMNS = frozenset((*_MEMORY, *_BANDWIDTH, *(name for names in _PEAK_COLUMNS.values() for name in names)))
"""A table with one of these and the name of a chip is one of chips."""
LLM_COLUMNS = frozenset(("n_layers", "hidden"))
_FLAGS = {"true": True, "yes": True, "y": True, "false": False, "no": False, "n": False}


class _Row:
    """One row with its place, so that every complaint names file, line and column."""

    def __init__(self, values: Mapping[str, str | None], where: str, problems: ProblemList) -> None:
        self.values, self.where, self.problems = values, where, problems

    def text(self, *names: str) -> str:
        """The first cell that says something."""
        found = (str(self.values.get(name) or "").strip() for name in names)
        return next((cell for cell in found if cell.lower() not in BLANKS), "")

    def number(self, *names: str, default: float | None = None) -> float:
        for name in names:
            raw = self.values.get(name)
            if raw is None or str(raw).strip().lower() in BLANKS:
                continue
            try:
                value = number_in_column(str(raw), name)
            except ValueError:
                value = math.nan
            if math.isfinite(value) and 0 <= value < TERA:
                return value
            self.problems.add(
                f"{name} must be a number of 0 or more, got {raw!r}",
                fix="write a plain decimal number, in the unit that the column's name says",
                where=f"{self.where}: {name}",
            )
            return default if default is not None else 1.0
        if default is None:
            self.problems.add(
                f"column {names[0]} is missing or empty", fix=f"give {' or '.join(names)}", where=self.where
            )
            return 1.0
        return default

    def flag(self, name: str, *, default: bool) -> bool:
        """Yes or no, in words or as 1 and 0."""
        said = _FLAGS.get(self.text(name).lower())
        return bool(self.number(name, default=float(default))) if said is None else said

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


def read_table(path: Path) -> list[tuple[str, dict[str, str]]]:
    """Rows by plain names of columns, each with its ``file:line``.

    Raises:  InputError when the file is no readable table.
    """
    return [(row.where, row.named()) for row in read_rows(path, limit=MAX_FILE_BYTES)]


def chip_from_row(values: Mapping[str, str | None], *, where: str, problems: ProblemList) -> Chip:
    """A chip from one table row; faults go to ``problems``."""
    row = _Row(values, where, problems)
    peaks = {dtype: row.number(*names, default=0.0) * TERA for dtype, names in _PEAK_COLUMNS.items()}
    if not any(peaks.values()):
        problems.add("no compute", fix="give bf16_tflops (dense)", where=where)
    memory = row.number(*_MEMORY) * GIGA
    bandwidth = row.number(*_BANDWIDTH) * GIGA
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
    heads = row.count("n_heads")
    head_dim = row.count("head_dim", default=0.0) or hidden // max(heads, 1)
    gated = row.flag("gated_mlp", default=True)
    kind = row.text("attn").lower() or "gqa"
    if kind not in ("gqa", "mha", "mqa", "mla"):
        problems.add(
            f"attention {kind!r} is unknown in a table", fix="use gqa, mha, mqa or mla, or a profile", where=where
        )
    kv_heads = heads
    if kind != "mla":  # a latent has no heads of its own
        kv_heads = row.count("n_kv_heads", default={"mha": float(heads), "mqa": 1.0}.get(kind))
    window = row.count("sliding_window", default=0.0) or None
    full_layers = row.count("full_attn_layers", default=float(layers))
    if not window and full_layers < layers:
        problems.add(
            f"only {full_layers} of {layers} layers have full attention, and no window is given for the others",
            fix="give sliding_window, or describe the model by its config.json or a profile",
            where=where,
        )
    if full_layers > layers:
        problems.add(f"full_attn_layers is {full_layers}, but there are {layers} layers", fix="check both", where=where)
    if kv_heads < 1 or heads % kv_heads:
        problems.add(
            f"{heads} heads cannot be shared out over {kv_heads} key/value heads",
            fix="copy both from the model's config",
            where=where,
        )
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
        tied_embeddings=row.flag("tied_embed", default=False),
        layers=tuple(groups),
        weights=WeightFormats(bf16, bf16, bf16, bf16, bf16, bf16),
        published_parameters=row.number("params_total_b", default=0.0) * GIGA or None,
        published_active_parameters=row.number("params_active_b", default=0.0) * GIGA or None,
        aliases=(name,),
        provenance={"layers": Provenance(basis=Basis.PUBLISHED, source=where)},
    )
