"""Imports that must be refused, and what each message says; quantised checkpoints; hostile files."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pddplan.domain.llm import GroupedAttention, LatentAttention, MoeFeedForward
from pddplan.errors import InputError
from pddplan.performance.kv import kv_size
from pddplan.performance.parameters import total_parameters, weight_bytes
from pddplan.performance.work import linear_flops_per_token
from pddplan.profiles.hf_config import Import, config_to_llm, import_config
from pddplan.profiles.hf_families import FAMILIES, SAME_AS, family_of, family_of_class
from pddplan.profiles.hf_fields import parse_json

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "torch_dtype": "bfloat16",
}
DEEPSEEK: dict[str, Any] = {
    "model_type": "deepseek_v3",
    "hidden_size": 7168,
    "intermediate_size": 18432,
    "moe_intermediate_size": 2048,
    "num_hidden_layers": 61,
    "num_attention_heads": 128,
    "kv_lora_rank": 512,
    "q_lora_rank": 1536,
    "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128,
    "v_head_dim": 128,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "first_k_dense_replace": 3,
    "vocab_size": 129280,
    "num_nextn_predict_layers": 1,
    "torch_dtype": "bfloat16",
}
NEMOTRON: dict[str, Any] = {
    "model_type": "nemotron_h",
    "hidden_size": 2688,
    "hybrid_override_pattern": "MEM*E-",
    "intermediate_size": 1856,
    "num_attention_heads": 32,
    "num_key_value_heads": 2,
    "head_dim": 128,
    "mamba_num_heads": 64,
    "mamba_head_dim": 64,
    "ssm_state_size": 128,
    "n_groups": 8,
    "conv_kernel": 4,
    "n_routed_experts": 128,
    "num_experts_per_tok": 6,
    "n_shared_experts": 1,
    "moe_intermediate_size": 1856,
    "moe_shared_expert_intermediate_size": 3712,
    "vocab_size": 131072,
}


def load(config: dict[str, Any], **changes: Any) -> Import:
    return config_to_llm(config | changes, source="config.json", model_id="test")


def refused(config: dict[str, Any], **changes: Any) -> list[str]:
    with pytest.raises(InputError) as caught:
        load(config, **changes)
    for problem in caught.value.problems:
        assert problem.fix
        assert problem.where is not None
        assert problem.where.startswith("config.json: ")
    return [f"{p.where}: {p.what}" for p in caught.value.problems]


def test_unknown_architecture_is_refused_with_the_nearest_known_one() -> None:
    (said,) = refused(LLAMA, model_type="lama3")
    assert "unknown architecture 'lama3'; did you mean 'llama'?" in said


def test_missing_architecture_is_refused() -> None:
    (said,) = refused({k: v for k, v in LLAMA.items() if k != "model_type"})
    assert "model_type is missing" in said


def test_a_user_may_name_the_family_of_a_new_model() -> None:
    found = config_to_llm(LLAMA | {"model_type": "brand_new"}, source="x", model_id="m", family="llama")
    assert found.llm.family == "llama"


def test_everything_missing_is_listed_at_once() -> None:
    said = refused({"model_type": "deepseek_v3", "num_hidden_layers": 4, "n_routed_experts": 8})
    listed = " ".join(said)
    for key in (
        "hidden_size", "vocab_size", "num_attention_heads", "kv_lora_rank", "q_lora_rank", "qk_rope_head_dim",
        "qk_nope_head_dim", "v_head_dim", "num_experts_per_tok", "moe_intermediate_size",
    ):  # fmt: skip
        assert f"{key} " in listed, key


def test_a_field_that_the_family_does_not_have_is_not_ignored() -> None:
    (said,) = refused(LLAMA, kv_lora_rank=512)
    assert "kv_lora_rank" in said
    assert "no such part" in said


def test_encoder_decoder_is_refused() -> None:
    assert any("encoder-decoder" in said for said in refused(LLAMA, is_encoder_decoder=True))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"num_key_value_heads": 7}, "cannot be shared out"),
        ({"hidden_size": -1}, "must lie between 1 and"),
        ({"hidden_size": 1e308}, "must lie between 1 and"),
        ({"hidden_size": "4096"}, "must be a whole number, got text '4096'"),
        ({"hidden_size": 4096.5}, "must be a whole number"),
        ({"hidden_size": True}, "must be a whole number"),
        ({"hidden_size": 10**400}, "must lie between"),
        ({"num_hidden_layers": 10**6}, "must be at most"),
        ({"num_hidden_layers": 0}, "must lie between"),
        ({"head_dim": math.nan}, "must be a whole number"),
        ({"hidden_size": 4097}, "head_dim is missing: hidden size 4097 is no multiple of 32 heads"),
        ({"torch_dtype": "int3"}, "unknown dtype 'int3'"),
        ({"tie_word_embeddings": "yes"}, "must be true or false"),
        ({"layer_types": ["full_attention"] * 5}, "has 5 entries for 32 layers"),
        ({"layer_types": ["spiral_attention"] * 32}, "spiral_attention"),
        ({"layer_types": ["linear_attention"] * 32}, "linear layers"),
        ({"layer_types": ["sliding_attention"] * 32}, "sliding_window is missing"),
        ({"quantization_config": {"quant_method": "magic"}}, "unknown method 'magic'"),
    ],
)
def test_wrong_values_are_named(changes: dict[str, Any], says: str) -> None:
    assert any(says in said for said in refused(LLAMA, **changes)), refused(LLAMA, **changes)


def test_more_active_experts_than_there_are() -> None:
    assert any("300 of 256 experts" in said for said in refused(DEEPSEEK, num_experts_per_tok=300))


def test_class_defaults_are_taken_only_where_stated_and_are_reported() -> None:
    text = {"model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34}
    found = load({"model_type": "gemma3", "text_config": text})
    assert found.assumed["vocab_size"] == 262208
    assert "vocab_size" in found.llm.provenance


def test_layers_of_deepseek() -> None:
    llm = load(DEEPSEEK).llm
    assert [g.count for g in llm.layers] == [3, 58]
    assert isinstance(llm.layers[1].feed_forward, MoeFeedForward)
    assert llm.mtp_depth == 1
    assert llm.mtp[0].attention == llm.layers[1].attention


@pytest.mark.parametrize(
    ("changes", "sparse_layers"),
    [
        ({"first_k_dense_replace": 1}, 60),
        ({"first_k_dense_replace": 0, "moe_layer_freq": 2}, 31),
        ({"moe_layer_freq": [0] * 10 + [1] * 51, "first_k_dense_replace": 10}, 51),
        ({"mlp_layer_types": ["dense"] * 5 + ["sparse"] * 56}, 56),
    ],
)
def test_which_layers_have_experts(changes: dict[str, Any], sparse_layers: int) -> None:
    llm = load(DEEPSEEK, **changes).llm
    assert sum(g.count for g in llm.moe) == sparse_layers


def test_index_sharing_follows_types_pattern_or_frequency() -> None:
    sparse = {"index_topk": 2048, "index_n_heads": 64, "index_head_dim": 128}

    def computing(**more: Any) -> int:
        groups = load(DEEPSEEK, model_type="glm_moe_dsa", **sparse, **more).llm.layers
        return sum(
            g.count
            for g in groups
            if isinstance(g.attention, LatentAttention) and g.attention.indexer and g.attention.indexer.computes
        )

    assert computing() == 61
    assert computing(indexer_types=["full"] * 21 + ["shared"] * 40) == 21
    assert computing(index_topk_pattern="F" + "S" * 60) == 1
    assert computing(index_topk_freq=4, index_skip_topk_offset=3) == 3 + (60 - 2) // 4


def test_blocks_are_paired_and_single_ones_stay_single() -> None:
    llm = load(NEMOTRON).llm
    # M E | M | * E | -
    assert llm.layer_count == 4
    assert llm.attention_layer_count == 3


def test_no_windows_where_the_file_switches_them_off() -> None:
    qwen = LLAMA | {"model_type": "qwen2", "sliding_window": 131072, "max_window_layers": 16}
    off, on = load(qwen, use_sliding_window=False).llm, load(qwen, use_sliding_window=True).llm
    assert kv_size(off).window_bytes == 0
    windowed = [g for g in on.layers if isinstance(g.attention, GroupedAttention) and g.attention.window]
    assert [g.count for g in windowed] == [16]


def test_nested_text_part_inherits_from_outside() -> None:
    outer = {
        "model_type": "some_vl",
        "text_config": {k: v for k, v in LLAMA.items() if k != "torch_dtype"},
        "tie_word_embeddings": True,
        "torch_dtype": "float32",
        "vision_config": {"hidden_size": 1024, "num_hidden_layers": 24, "intermediate_size": 4096},
    }
    found = load(outer)
    assert found.llm.tied_embeddings
    assert found.llm.weights.dense.dtype == "fp32"
    assert found.llm.tower_parameters == 24 * (4 * 1024**2 + 2 * 1024 * 4096)
    assert any("vision tower" in note for note in found.notes)


def test_a_nested_part_is_saved_without_its_class_defaults() -> None:
    pixtral = {
        "model_type": "llava",
        "text_config": {
            "model_type": "mistral",
            "hidden_size": 5120,
            "head_dim": 128,
            "num_hidden_layers": 40,
            "vocab_size": 131072,
        },
    }
    found = load(pixtral)
    assert found.assumed["num_attention_heads"] == 32
    assert total_parameters(found.llm) == pytest.approx(12.2e9, rel=0.02)
    # the same fields at the top level are simply missing
    assert any("num_attention_heads" in said for said in refused(pixtral["text_config"]))  # type: ignore[arg-type]


def test_parts_that_are_switched_off_do_not_matter() -> None:
    hunyuan = LLAMA | {"model_type": "hunyuan_v1_dense", "use_cla": False, "cla_share_factor": 2, "use_mla": False}
    assert kv_size(load(hunyuan, kv_lora_rank=512).llm, "bf16").growing_bytes_per_token == 131_072


def test_one_number_each_for_text_and_images() -> None:
    ernie = LLAMA | {
        "model_type": "ernie4_5_moe_vl", "moe_num_experts": [64, 64], "moe_k": 6, "moe_intermediate_size": [1536, 512],
        "moe_layer_start_index": [1, 1], "moe_layer_end_index": [29, 28], "moe_num_shared_experts": 2,
    }  # fmt: skip
    (moe,) = load(ernie).llm.moe
    assert moe.count == 29
    assert isinstance(moe.feed_forward, MoeFeedForward)
    assert moe.feed_forward.expert_width == 1536


def test_step_names_heads_of_window_layers_apart() -> None:
    step = LLAMA | {
        "model_type": "step3p5", "num_attention_groups": 8, "layer_types": ["full_attention", "sliding_attention"] * 16,
        "sliding_window": 512, "attention_other_setting": {"num_attention_heads": 96, "num_attention_groups": 8},
    }  # fmt: skip
    heads = {g.attention.heads for g in load(step).llm.layers if isinstance(g.attention, GroupedAttention)}
    assert heads == {32, 96}


# -- quantised checkpoints -------------------------------------------------------------------------------------


def formats(config: dict[str, Any], **quantization: Any) -> dict[str, str]:
    weights = load(config, quantization_config=quantization).llm.weights
    parts = ("attention", "dense", "shared_experts", "experts", "embedding", "head")
    return {part: getattr(weights, part).dtype for part in parts}


def test_fp8_keeps_head_and_table() -> None:
    got = formats(DEEPSEEK, quant_method="fp8", weight_block_size=[128, 128])
    assert got == {**dict.fromkeys(got, "fp8"), "embedding": "bf16", "head": "bf16"}


def test_mxfp4_of_gpt_oss_keeps_attention() -> None:
    got = formats(DEEPSEEK, quant_method="mxfp4", modules_to_not_convert=["model.layers.*.self_attn", "lm_head"])
    assert got["attention"] == "bf16"
    assert got["experts"] == "mxfp4"


def test_compressed_int4_with_regular_expressions() -> None:
    got = formats(
        DEEPSEEK,
        quant_method="compressed-tensors",
        format="pack-quantized",
        config_groups={"g": {"weights": {"num_bits": 4, "type": "int", "group_size": 32}, "input_activations": None}},
        ignore=["lm_head", "re:.*self_attn.*", "re:.*shared_experts.*", "re:.*mlp\\.(gate|up|gate_up|down)_proj.*"],
    )
    assert got == {
        "attention": "bf16", "dense": "bf16", "shared_experts": "bf16", "experts": "int4", "embedding": "bf16",
        "head": "bf16",
    }  # fmt: skip
    size = load(
        DEEPSEEK,
        quantization_config={
            "quant_method": "compressed-tensors",
            "config_groups": {"g": {"weights": {"num_bits": 4, "type": "int", "group_size": 32}}},
        },
    ).llm.weights.experts
    assert size.bytes_per_value == 0.5625
    assert size.compute_dtype == "bf16"


def test_nvfp4_by_modelopt_with_layers_listed_one_by_one() -> None:
    listed = [f"model.layers.{i}.self_attn*" for i in range(61)] + ["lm_head"]
    got = formats(DEEPSEEK, quant_method="modelopt", quant_algo="NVFP4", ignore=listed)
    assert got["attention"] == got["head"] == "bf16"
    assert got["experts"] == got["dense"] == "fp4"
    assert load(DEEPSEEK, quantization_config={"quant_method": "modelopt", "quant_algo": "NVFP4",
                "kv_cache_quant_algo": "FP8"}).llm.kv_dtype == "fp8"  # fmt: skip


def test_a_part_kept_in_some_layers_has_bytes_in_between() -> None:
    some = [f"model.layers.{i}.mlp" for i in range(16)]
    weights = load(LLAMA, quantization_config={"quant_method": "fp8", "ignored_layers": some}).llm.weights
    assert weights.dense.bytes_per_value == pytest.approx(1.5)
    assert weights.attention.bytes_per_value == 1


def test_an_ignored_gate_is_not_the_gate_projection() -> None:
    got = formats(LLAMA, quant_method="fp8", modules_to_not_convert=["gate", "lm_head"])
    assert got["dense"] == "fp8"


@pytest.mark.parametrize(
    ("config", "dtype", "size"),
    [
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, "int4", 0.5 + 2 / 128),
        ({"quant_method": "gptq", "bits": 8, "group_size": -1}, "int8", 1 + 2 / 128),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "int4", 0.5625),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, "int8", 1.0),
        ({"quant_method": "quark", "global_quant_config": {"weight": {"dtype": "fp4"}}}, "mxfp4", 0.53125),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, "fp8", 1.0),
        ({"quant_method": "modelopt", "quantization": {"quant_algo": "W4A16_AWQ"}}, "int4", 0.5 + 2 / 128),
    ],
)
def test_other_methods(config: dict[str, Any], dtype: str, size: float) -> None:
    dense = load(LLAMA, quantization_config=config).llm.weights.dense
    assert (dense.dtype, dense.bytes_per_value) == (dtype, pytest.approx(size))


def compressed(**weights: Any) -> dict[str, Any]:
    return {"quant_method": "compressed-tensors", "config_groups": {"g": {"weights": weights}}}


@pytest.mark.parametrize(
    ("config", "dtype", "computes"),
    [
        (compressed(num_bits=8, type="float"), "fp8", "bf16"),
        (compressed(num_bits=8, type="int"), "int8", "bf16"),
        (compressed(num_bits=4, type="float"), "fp4", "bf16"),
        (compressed(num_bits=4, type="float") | {"format": "mxfp4-pack-quantized"}, "mxfp4", "bf16"),
        ({"quant_method": "nvfp4"}, "fp4", "fp4"),
        ({"quant_method": "modelopt", "quant_algo": "W4A8_AWQ"}, "int4", "fp8"),
        ({"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION",
          "quantized_layers": {"a": {"quant_algo": "NVFP4"}, "b": {"quant_algo": "NVFP4"}, "c": {"quant_algo": "FP8"}}},
         "fp4", "fp4"),
        ({"quant_method": "quark", "global_quant_config": {"weight": [{"dtype": "fp8_e4m3"}]}}, "fp8", "fp8"),
    ],
)  # fmt: skip
def test_what_products_compute_in(config: dict[str, Any], dtype: str, computes: str) -> None:
    dense = load(LLAMA, quantization_config=config).llm.weights.dense
    assert (dense.dtype, dense.compute_dtype) == (dtype, computes)


@pytest.mark.parametrize(
    ("config", "says"),
    [
        (compressed(num_bits=3, type="int"), "3 bits of int are unknown"),
        ({"quant_method": "compressed-tensors"}, "config_groups is missing"),
        ({"quant_method": "modelopt", "quant_algo": "W1A1"}, "unknown algorithm 'W1A1'"),
        ({"quant_method": "quark"}, "unknown dtype ''"),
        ({"quant_method": "awq", "bits": 5}, "5-bit weights are unknown"),
        ({"quant_method": "fp8", "ignored_layers": "all"}, "must be a list of module names"),
        ({"quant_method": "fp8", "ignored_layers": ["x"] * 10_000}, "is too long"),
        ({"quant_method": "fp8", "ignored_layers": ["re:("]}, "cannot be used"),
    ],
)
def test_quantisation_that_is_not_understood(config: dict[str, Any], says: str) -> None:
    said = refused(LLAMA, quantization_config=config)
    assert any(says in s for s in said), said


def test_expert_formats_by_name() -> None:
    assert load(DEEPSEEK, expert_dtype="int8").llm.weights.experts.dtype == "int8"
    assert any("unknown dtype 'fp3'" in s for s in refused(DEEPSEEK, expert_dtype="fp3"))


@pytest.mark.parametrize(
    ("config", "kv_dtype"),
    [
        ({"quant_method": "fp8", "kv_cache_scheme": {"num_bits": 8, "type": "float"}}, "fp8"),
        ({"quant_method": "fp8", "kv_cache_scheme": {"num_bits": 8, "type": "int"}}, "int8"),
        ({"quant_method": "fp8", "kv_cache_scheme": None}, "bf16"),
    ],
)
def test_kv_dtype_that_a_checkpoint_asks_for(config: dict[str, Any], kv_dtype: str) -> None:
    assert load(LLAMA, quantization_config=config).llm.kv_dtype == kv_dtype


def test_a_pattern_that_could_run_for_ever_is_refused() -> None:
    said = refused(LLAMA, quantization_config={"quant_method": "fp8", "ignored_layers": ["re:(a+)+$"]})
    assert any("cannot be used" in s for s in said)


def test_deepseek_v4_names_its_expert_format_apart() -> None:
    weights = load(DEEPSEEK, expert_dtype="fp4", quantization_config={"quant_method": "fp8"}).llm.weights
    assert (weights.attention.dtype, weights.experts.dtype) == ("fp8", "mxfp4")


# -- files -----------------------------------------------------------------------------------------------------


def test_files_that_are_no_configs(tmp_path: Path) -> None:
    for name, text, says in (
        ("empty.json", "", "not valid JSON"),
        ("list.json", "[1, 2]", "must be a JSON object"),
        ("twice.json", '{"model_type": "llama", "model_type": "llama"}', "stands twice"),
        ("deep.json", "[" * 100_000, "nested too deeply"),
        ("digits.json", '{"a": ' + "9" * 10_000 + "}", "too many digits"),
    ):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        with pytest.raises(InputError) as caught:
            import_config(path)
        assert says in str(caught.value), name
        assert name in str(caught.value)


def test_the_folder_names_a_config_json(tmp_path: Path) -> None:
    folder = tmp_path / "My-Model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(LLAMA), encoding="utf-8")
    assert import_config(folder / "config.json").llm.id == "My-Model"


def test_every_other_name_leads_to_a_family() -> None:
    assert set(SAME_AS.values()) <= set(FAMILIES)
    assert family_of("DeepSeek-V3") is not None


JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**30), 10**30),
    st.integers(-2, 300),
    st.floats(allow_nan=True, allow_infinity=True),
    st.text(max_size=12),
    st.lists(st.one_of(st.integers(-3, 80), st.text(max_size=6), st.none()), max_size=70),
    st.dictionaries(st.text(max_size=8), st.integers(-3, 80), max_size=3),
    st.sampled_from(["full_attention", "sliding_attention", "auto", "fp8", {"quant_method": "fp8", "ignore": 3}]),
)
OTHER_KEYS = [
    "layer_types",
    "quantization_config",
    "text_config",
    "vision_config",
    "linear_attn_config",
    "compress_ratios",
    "index_topk",
    "mlp_layer_types",
    "moe_layer_freq",
    "mlp_only_layers",
    "hybrid_layer_pattern",
    "attn_type_list",
    "num_kv_shared_layers",
    "sliding_window",
    "sliding_window_pattern",
    "tie_word_embeddings",
    "use_cla",
    "moe_layers_enum",
    "sparse_attention_config",
    "kv_source_layers",
    "layers_block_type",
    "num_kv_heads",
    "multi_query",
    "ffn_config",
    "attn_config",
    "shared_intermediate_size",
]
KEYS = sorted({*LLAMA, *DEEPSEEK, *NEMOTRON, *OTHER_KEYS})


@settings(max_examples=300)
@given(
    st.sampled_from([LLAMA, DEEPSEEK, NEMOTRON]),
    st.sampled_from(sorted(FAMILIES)),
    st.dictionaries(st.sampled_from(KEYS), JUNK, max_size=5),
    st.booleans(),
)
def test_hostile_configs_are_imported_or_refused_but_never_crash(
    base: dict[str, Any], family: str, junk: dict[str, Any], keep_family: bool
) -> None:
    config = base | junk | ({} if keep_family else {"model_type": family})
    try:
        llm = load(config).llm
    except InputError as error:
        assert error.problems
        assert all(p.what and p.fix for p in error.problems)
        return
    for value in (
        total_parameters(llm),
        weight_bytes(llm).resident,
        linear_flops_per_token(llm).total,
        float(kv_size(llm, "bf16").sequence_bytes(1e6)),
    ):
        assert math.isfinite(value)
        assert value >= 0


@settings(max_examples=200)
@given(st.text(max_size=60))
def test_hostile_text_is_refused_but_never_crashes(text: str) -> None:
    try:
        parse_json(text, name="config.json")
    except InputError as error:
        assert error.problems


def listed_modules(**algorithms: str) -> dict[str, Any]:
    """ModelOpt's list of modules, each with an algorithm."""
    return {
        "quant_method": "modelopt",
        "quant_algo": "MIXED_PRECISION",
        "quantized_layers": {name.replace("__", "."): {"quant_algo": word} for name, word in algorithms.items()},
    }


def test_a_list_of_modules_gives_each_part_its_own_format() -> None:
    got = formats(
        DEEPSEEK,
        **listed_modules(
            model__layers__0__self_attn__q_proj="MXFP8",
            model__layers__0__mlp__experts__0__gate_proj="NVFP4",
            model__layers__0__mlp__shared_experts__gate_proj="FP8",
            mtp__layers__0__mlp__gate_proj="NVFP4",
        ),
    )
    # what is not on the list stays plain; the draft block says nothing about the model
    assert (got["attention"], got["experts"], got["shared_experts"], got["dense"]) == ("fp8", "fp4", "fp8", "bf16")
    assert got["head"] == "bf16"


def test_a_list_on_top_of_another_method_leaves_the_rest_to_it() -> None:
    listed = listed_modules(layers__3__ffn__experts="NVFP4") | {"quant_method": "fp8"}
    got = formats(DEEPSEEK, **listed)
    assert (got["attention"], got["experts"], got["dense"]) == ("fp8", "fp4", "fp8")


def test_modules_of_two_formats_in_one_part_give_the_mean() -> None:
    listed = listed_modules(
        model__layers__0__mlp__up_proj="NVFP4", model__layers__1__mlp__up_proj="FP8", lm_head="NVFP4"
    )
    weights = load(LLAMA, quantization_config=listed).llm.weights
    assert weights.dense.bytes_per_value == pytest.approx((0.5625 + 1) / 2)
    assert weights.head.dtype == "fp4"


def test_groups_with_targets_of_their_own() -> None:
    eight, four = {"num_bits": 8, "type": "float"}, {"num_bits": 4, "type": "float", "group_size": 16}
    quantization = {
        "quant_method": "compressed-tensors",
        "config_groups": {
            "a": {"weights": eight, "input_activations": eight, "targets": ["Linear"]},
            "b": {"weights": four, "input_activations": four, "targets": ["re:.*mlp\\.experts.*"]},
        },
        "ignore": ["lm_head", "re:.*self_attn.*"],
    }
    got = formats(DEEPSEEK, **quantization)
    assert (got["attention"], got["dense"], got["experts"], got["head"]) == ("bf16", "fp8", "fp4", "bf16")


def test_rules_that_leave_modules_out_of_gptq() -> None:
    rules: dict[str, Any] = {"-:.*attn.*": {}, "-:.*shared_expert.*": {}, "lm_head": {}}
    got = formats(DEEPSEEK, quant_method="gptq", bits=4, group_size=128, dynamic=rules)
    assert (got["attention"], got["shared_experts"], got["experts"]) == ("bf16", "bf16", "int4")


def test_spellings_of_methods() -> None:
    for word in ("auto-round", "intel/auto-round", "auto_round", "gptq_marlin", "awq_marlin"):
        assert formats(LLAMA, quant_method=word, bits=4, group_size=128)["dense"] == "int4", word
    groups = {"g": {"weights": {"num_bits": 8, "type": "int"}}}
    assert formats(LLAMA, quant_method="compressed_tensors", config_groups=groups)["dense"] == "int8"


def test_a_file_with_another_models_type_is_known_by_its_class() -> None:
    grok = LLAMA | {
        "model_type": "git", "architectures": ["Grok1ForCausalLM"], "num_local_experts": 8, "num_experts_per_tok": 2,
        "residual_moe": True, "moe_intermediate_size": 512,
    }  # fmt: skip
    feed = load(grok).llm.layers[0].feed_forward
    assert feed.parallel_dense_width == LLAMA["intermediate_size"]  # type: ignore[union-attr]
    assert any("unknown architecture 'git'" in said for said in refused(LLAMA | {"model_type": "git"}))


def test_heads_that_differ_by_layer_are_refused() -> None:
    said = refused(LLAMA | {"num_attention_heads_per_layer": [8, 16]})
    assert any("num_attention_heads_per_layer: is set to a list" in line for line in said)


def test_faults_of_searched_layers_are_named_by_block() -> None:
    good = {"attention": {"n_heads_in_group": 8, "no_op": False}, "ffn": {"ffn_mult": 2.0, "no_op": False}}
    bad = {"attention": {"n_heads_in_group": 0}, "ffn": {"ffn_mult": "2"}}
    linear = {"attention": {"no_op": True, "replace_with_linear": True}, "ffn": {"no_op": True}}
    nas = {key: LLAMA[key] for key in ("hidden_size", "num_attention_heads", "vocab_size")} | {
        "model_type": "nemotron-nas", "num_hidden_layers": 4, "block_configs": [good, bad, linear, "x"],
    }  # fmt: skip
    said = " ".join(refused(nas))
    for part in (
        "block_configs[1].attention.n_heads_in_group", "block_configs[1].ffn.ffn_mult", "block_configs[2].attention",
        "block_configs[3].attention.n_heads_in_group",
    ):  # fmt: skip
        assert part in said


@pytest.mark.parametrize(
    ("class_name", "family"),
    [("LlamaForCausalLM", "llama"), ("Qwen3MoeForCausalLM", "qwen3_moe"), ("MiniMaxM2ForCausalLM", "minimax_m2"),
     ("DeepseekV3ForCausalLM", "deepseek_v3"), ("GPT2LMHeadModel", "gpt2"), ("GptOssForCausalLM", "gpt_oss")],
)  # fmt: skip
def test_classes_tell_their_family(class_name: str, family: str) -> None:
    assert family_of_class(class_name) == family


def test_a_renamed_llama_is_a_llama_and_says_so() -> None:
    config = {
        "model_type": "my_model", "architectures": ["LlamaForCausalLM"], "hidden_size": 64, "intermediate_size": 128,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 100,
        "torch_dtype": "bfloat16", "tie_word_embeddings": False,
    }  # fmt: skip
    found = config_to_llm(config, source="config.json", model_id="m")
    assert found.llm.family == "llama"
    assert any("'my_model' is unknown" in note for note in found.notes)
    with pytest.raises(InputError):
        config_to_llm({**config, "architectures": ["MyForCausalLM"]}, source="config.json", model_id="m")
