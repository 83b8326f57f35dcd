"""Reading a Hugging Face ``config.json`` field by field: aliases, checks, and a record of what was looked at.

Every fault is collected, so one message lists all that is missing. Keys that shape a model but that nobody asked
for are faults too: a config that says more than the importer understands must not be half understood.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pddplan.errors import InputError, Problem, ProblemList
from pddplan.files import read_text
from pddplan.profiles.yaml_source import kind_of

LARGEST_COUNT = 10**9
MOST_LAYERS = 2_000
MAX_CONFIG_BYTES = 4_000_000

SHAPING_KEYS = frozenset(
    {
        "kv_lora_rank", "q_lora_rank", "o_lora_rank", "num_experts", "n_routed_experts", "num_local_experts",
        "moe_num_experts", "n_shared_experts", "num_shared_experts", "moe_intermediate_size", "ssm_state_size",
        "mamba_d_state", "linear_attn_config", "linear_num_key_heads", "index_topk", "compress_ratios",
        "sparse_attention_config", "attention_chunk_size", "layer_types", "layers_block_type", "hybrid_layer_pattern",
        "hybrid_override_pattern", "attn_type_list", "num_kv_shared_layers", "kv_source_layers", "layer_group_size",
        "full_attention_interval", "moe_latent_size", "routed_expert_hidden_size", "altup_num_inputs", "laurel_rank",
        "zero_expert_num", "global_head_dim", "swa_num_key_value_heads", "cla_share_factor", "use_cla",
        "cross_attention_layers", "block_configs", "is_encoder_decoder", "conv_L_cache", "rwkv_head_size",
        "share_q_dim", "num_attention_heads_per_layer", "residual_moe", "enable_moe_block", "gated_norm_rank",
        "adapter_rank", "parallel_attn_mlp_res",
    }
)  # fmt: skip
"""Keys that change size or work. If one is set and no rule of the family reads it, the config is refused."""


class _Missing:
    """Marks a field without default."""


MISSING = _Missing()


@dataclass(slots=True)
class Fields:
    """A config with the class defaults of its family behind it."""

    data: Mapping[str, Any]
    defaults: Mapping[str, Any]
    name: str
    """File, for messages."""
    problems: ProblemList = field(default_factory=ProblemList)
    used: set[str] = field(default_factory=set)
    assumed: dict[str, Any] = field(default_factory=dict)
    """Fields that the file leaves to the class default, and the value taken."""

    def has(self, *keys: str) -> bool:
        """Whether one of the keys is set in the file itself."""
        return any(self.data.get(key) is not None for key in keys)

    def raw(self, *keys: str) -> Any:
        """Value of the first key that is set; then the family's default; then None."""
        self.used.update(keys)
        for key in keys:
            if self.data.get(key) is not None:
                return self.data[key]
        for key in keys:
            if key in self.data and key in self.defaults:  # null in the file means null, not the default
                return None
        for key in keys:
            if self.defaults.get(key) is not None:
                self.assumed[key] = self.defaults[key]
                return self.defaults[key]
        return None

    def fault(self, key: str, what: str, fix: str) -> None:
        self.problems.add(what, fix=fix, where=f"{self.name}: {key}")

    def missing(self, *keys: str, why: str = "") -> None:
        """Say that a field is missing; further names would do as well."""
        others = f" ({', '.join(keys[1:])} would do as well)" if len(keys) > 1 else ""
        self.fault(
            keys[0],
            f"{keys[0]} is missing{others}{': ' + why if why else ''}",
            f"add {keys[0]} to the config, as the model's full config file has it",
        )

    def count(self, *keys: str, default: int | _Missing | None = MISSING, least: int = 1) -> int:
        """A whole number; without default its absence is a fault (and 1 is returned to go on)."""
        value = self.raw(*keys)
        if value is None:
            if isinstance(default, _Missing):
                self.missing(*keys)
                return max(least, 1)
            return 0 if default is None else default
        return self.as_count(keys[0] if keys[0] in self.data else self._set_key(keys), value, least=least)

    def as_count(self, key: str, value: Any, *, least: int = 1) -> int:
        """Check one value to be a whole number in range."""
        whole = isinstance(value, float) and math.isfinite(value) and value == int(value)
        if isinstance(value, bool) or not (isinstance(value, int) or whole):
            self.fault(key, f"must be a whole number, got {kind_of(value)}", "copy the value of the model's config")
            return max(least, 1)
        number = int(value)
        if not least <= number <= LARGEST_COUNT:
            shown = number if abs(number) < 10 * LARGEST_COUNT else "a much larger number"
            self.fault(
                key, f"must lie between {least} and {LARGEST_COUNT:,}, got {shown}", "copy the value of the config"
            )
            return max(least, 1)
        return number

    def flag(self, *keys: str, default: bool = False) -> bool:
        value = self.raw(*keys)
        if value is None:
            return default
        if isinstance(value, bool):
            return value
        if value in (0, 1):
            return bool(value)
        self.fault(self._set_key(keys), f"must be true or false, got {kind_of(value)}", "write true or false")
        return default

    def text(self, *keys: str) -> str | None:
        value = self.raw(*keys)
        if value is None or isinstance(value, str):
            return value
        self.fault(self._set_key(keys), f"must be text, got {kind_of(value)}", "copy the value of the config")
        return None

    def mapping(self, *keys: str) -> Mapping[str, Any]:
        value = self.raw(*keys)
        if value is None:
            return {}
        if isinstance(value, Mapping):
            return value
        self.fault(self._set_key(keys), f"must be a mapping, got {kind_of(value)}", "copy the value of the config")
        return {}

    def sequence(self, *keys: str, layers: int | None = None) -> list[Any] | None:
        """A list, with at least one entry per layer where ``layers`` is given (more are MTP layers: cut off)."""
        value = self.raw(*keys)
        if value is None:
            return None
        key = self._set_key(keys)
        if isinstance(value, str) or not isinstance(value, Sequence):
            self.fault(key, f"must be a list, got {kind_of(value)}", "copy the value of the model's config")
            return None
        if layers is not None and len(value) < layers:
            self.fault(
                key,
                f"has {len(value)} entries for {layers} layers",
                "give one entry per layer, or correct num_hidden_layers",
            )
            return None
        return list(value) if layers is None else list(value[:layers])

    def unread(self) -> None:
        """Add a fault for every shaping key that is set but that no rule has looked at."""
        for key in sorted(SHAPING_KEYS & set(self.data) - self.used):
            value = self.data[key]
            if value is None or value is False or value == 0 or value == []:
                continue
            self.fault(
                key,
                f"is set to {kind_of(value)}, but models of this family have no such part",
                "check model_type; if the model really has it, describe the model in a profile (see docs/profiles.md)",
            )

    def _set_key(self, keys: Sequence[str]) -> str:
        return next((key for key in keys if self.data.get(key) is not None), keys[0])


def read_json(path: str | Path) -> dict[str, Any]:
    """Read a JSON object from a file (``-``: standard input).

    Raises:  InputError with file and line when it is not one JSON object.
    """
    name = str(path)
    return parse_json(read_text(path, limit=MAX_CONFIG_BYTES), name=name)


def parse_json(text: str, *, name: str) -> dict[str, Any]:
    """Parse a JSON object; repeated keys are refused, Infinity and NaN are read (some configs hold them)."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            repeated = next(k for i, (k, _) in enumerate(pairs) if k in dict(pairs[:i]))
            raise InputError(Problem(what=f"the key {repeated!r} stands twice", fix="remove one of them", where=name))
        return found

    try:
        data = json.loads(text, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        raise InputError(
            Problem(what=f"not valid JSON: {error.msg}", fix="check the file", where=f"{name}:{error.lineno}")
        ) from None
    except (RecursionError, ValueError):
        raise InputError(
            Problem(what="nested too deeply, or a number has too many digits", fix="check the file", where=name)
        ) from None
    if not isinstance(data, dict):
        raise InputError(
            Problem(
                what=f"must be a JSON object, got {kind_of(data)}", fix="give the config.json of a model", where=name
            )
        )
    return data
