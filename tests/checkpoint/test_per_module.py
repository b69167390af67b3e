"""Checkpoints whose modules are in formats of their own, byte for byte against the tensors they hold, listed here one by one."""

from __future__ import annotations

from pathlib import Path

import pytest

from rooflinecli.core.errors import DataError
from rooflinecli.core.lift import PLAIN
from rooflinecli.engine.stored_weights import checkpoint_format
from rooflinecli.importers.hf import from_config
from rooflinecli.layers.build import ledger
from rooflinecli.memory import device_parameters
from rooflinecli.quantization.hf_config import patterns
from rooflinecli.quantization.linear_layers import attention, matches
from rooflinecli.specs.document import Document
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.model import AttentionSpec, model_from
from rooflinecli.specs.validation import validated

D, FF, LAYERS, VOCAB = 64, 96, 3, 500
LLAMA = {
    "model_type": "llama", "hidden_size": D, "intermediate_size": FF, "num_attention_heads": 4, "num_hidden_layers": LAYERS,
    "vocab_size": VOCAB,
}  # fmt: skip
ATTENTION, MLP, TABLE = 4 * D * D, 3 * D * FF, VOCAB * D
NORMS = 2 * (2 * D * LAYERS + D)


def total(**config) -> float:
    spec = model_from(Document(from_config(config), Path("config.json"), {(): ("config.json", 1)}))
    p, w = device_parameters(ledger(spec), Layout(), PLAIN), checkpoint_format(spec).widths
    return p.inner * w.layers + p.experts * w.experts + p.outer * w.outer


def llama(**quantization) -> float:
    return total(**LLAMA, quantization_config=quantization)


def modelopt(layers: dict, **more) -> dict:
    listed = {name: {"quant_algo": kind} for name, kind in layers.items()}
    return {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "quantized_layers": listed, **more}


def nvfp4(inputs, outputs, scales=8):
    """Half a byte a weight, a byte per 16, one fp32 of the weights and one of the input."""
    return inputs * outputs // 2 + inputs * outputs // 16 + scales


def test_each_module_in_the_format_that_names_it():
    """Attention in fp8, MLPs in nvfp4 but for one layer's, which no rule names; the head in nvfp4 for 16-bit inputs."""
    names = {f"model.language_model.layers.{i}.self_attn.{x}_proj": "FP8" for i in range(LAYERS) for x in "qkvo"}
    names |= {f"model.language_model.layers.{i}.mlp.{x}_proj": "NVFP4" for i in (0, 2) for x in ("gate", "up", "down")}
    expected = LAYERS * (ATTENTION + 4 * 8) + 2 * 3 * nvfp4(D, FF) + 2 * MLP + 2 * TABLE + NORMS
    assert llama(**modelopt(names)) == expected + 2 * TABLE
    assert llama(**modelopt(names | {"lm_head": "W4A16_NVFP4"})) == expected + nvfp4(D, VOCAB, 4)
    mx = {name: "MXFP8" if kind == "FP8" else kind for name, kind in names.items()}
    assert llama(**modelopt(mx)) == expected + 2 * TABLE + LAYERS * (ATTENTION // 32 - 4 * 8)


def test_an_unknown_format_and_experts_of_several_are_refused():
    with pytest.raises(DataError, match=r"quantized_layers: required with MIXED_PRECISION"):
        llama(quant_method="modelopt", quant_algo="MIXED_PRECISION")
    with pytest.raises(DataError, match=r"'W2A8' is not supported; supported: NVFP4"):
        llama(**modelopt({"model.layers.0.mlp.up_proj": "W2A8"}))
    with pytest.raises(DataError, match="experts of one layer are in several formats"):
        llama(
            **modelopt({"model.layers.0.mlp.experts.0.up_proj": "FP8", "model.layers.0.mlp.experts.1.up_proj": "NVFP4"})
        )


@pytest.mark.parametrize("rank", [48, None])
def test_latent_attention_by_its_names(rank):
    """Four heads of 32 + 16 for scores and 24 for values, latents of 40: queries through a rank of 48, or straight from the stream."""
    latent = {"kv_lora_rank": 40, "qk_nope_head_dim": 32, "qk_rope_head_dim": 16, "v_head_dim": 24}
    spec = validated(AttentionSpec, {"kind": "mla", "n_heads": 4, "q_lora_rank": rank, **latent})
    queries = {"q_a_proj": (D, 48), "q_b_proj": (48, 4 * 48)} if rank else {"q_proj": (D, 4 * 48)}
    rest = {"kv_a_proj_with_mqa": (D, 56), "kv_b_proj": (40, 4 * 56), "o_proj": (4 * 24, D)}
    assert {linear.name: (linear.inputs, linear.outputs) for linear in attention(D, spec, "model.layers.0")} == {
        f"model.layers.0.self_attn.{name}": sizes for name, sizes in (queries | rest).items()
    }


def test_a_thousand_names_are_a_few_expressions():
    names = [f"model.layers.{i}.mlp.experts.{e}.{x}" for i in (1, 3) for e in range(64) for x in ("w1", "w2")]
    found = patterns([*names, "lm_head"])
    assert len(found) == 3 and found[-1] == "lm_head"
    for layer, here in ((0, False), (1, True), (3, True), (13, False)):
        assert any(matches(p, f"model.layers.{layer}.mlp.experts.0.gate_proj") for p in found) is here
    assert not any(matches(p, "model.layers.1.mlp.experts.0.up_proj") for p in found)


def test_layers_of_a_pattern_are_numbered_as_they_stand():
    """Three of four layers scan: what names layer 3 means the first that attends, not the fourth that scans."""
    heads = {
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
        "linear_key_head_dim": 16,
        "linear_value_head_dim": 16,
    }
    config = {
        "model_type": "qwen3_5_text", "hidden_size": D, "intermediate_size": FF, "num_attention_heads": 4, "num_key_value_heads": 2,
        "head_dim": 16, "num_hidden_layers": 8, "vocab_size": VOCAB, "linear_conv_kernel_dim": 4, **heads,
    }  # fmt: skip
    whole = {"quant_method": "modelopt", "quant_algo": "FP8"}
    size = lambda *ignore: total(**config, quantization_config=whole | {"ignore": list(ignore)})  # noqa: E731
    attends = 2 * (4 * 16) * D + 2 * 2 * 16 * D + D * 4 * 16  # queries with their gate, keys, values, output
    assert size("model.layers.3.self_attn*", "mtp.layers.0*") - size() == attends - 4 * 8
    assert (
        size("model.language_model.layers.4.linear_attn*") - size() == D * (2 * 32 + 64 + 64 + 4 + 4) + 64 * D - 5 * 8
    )
    fused = size("model.layers.4.linear_attn.in_proj_qkvz", "model.layers.4.linear_attn.in_proj_ba")
    assert fused - size() == D * (2 * 32 + 64 + 64 + 4 + 4) - 4 * 8
    with pytest.raises(DataError, match=r"layers\.3\.linear_attn"):
        size("model.layers.3.linear_attn*")


def test_experts_beside_a_dense_block_go_by_their_own_name():
    """Gemma 4 keeps mlp in 16 bits and its experts in four: mlp does not name them."""
    config = {
        "model_type": "gemma4_text", "hidden_size": D, "intermediate_size": FF, "num_attention_heads": 4, "num_key_value_heads": 4,
        "head_dim": 16, "global_head_dim": 16, "num_hidden_layers": 2, "vocab_size": VOCAB, "hidden_size_per_layer_input": 0,
        "layer_types": ["sliding_attention", "full_attention"], "enable_moe_block": True, "num_experts": 4, "top_k_experts": 2,
        "moe_intermediate_size": 32, "num_kv_shared_layers": 0,
    }  # fmt: skip
    whole = {"quant_method": "modelopt", "quant_algo": "NVFP4"}
    size = lambda *ignore: total(**config, quantization_config=whole | {"ignore": list(ignore)})  # noqa: E731
    dense = 2 * MLP - 3 * nvfp4(D, FF)
    assert size("model.layers.0.mlp*") - size() == dense
    assert size("model.layers.0.experts*") - size() == 4 * 3 * (2 * D * 32 - nvfp4(D, 32))


def test_auto_round():
    """GPTQ's packing without g_idx; modules of 16 bits are left, modules of 8 keep their own groups."""
    base = {
        "quant_method": "auto-round",
        "bits": 4,
        "group_size": 32,
        "sym": True,
        "data_type": "int",
        "packing_format": "auto_round:auto_gptq",
    }
    linear = lambda k, n, bits=4: k * n * bits // 8 + k * n // 32 * (16 + bits) // 8  # noqa: E731
    expected = LAYERS * (4 * linear(D, D) + 3 * linear(D, FF)) + 2 * 2 * TABLE + NORMS
    assert llama(**base) == expected
    extra = {
        "model.layers.1.mlp.up_proj": {"bits": 16, "data_type": "float"},
        r".*layers\.0\.mlp\.down_proj": {"bits": 8},
    }
    assert llama(**base, extra_config=extra) == expected + 2 * D * FF - linear(D, FF) + linear(D, FF, 8) - linear(D, FF)
    assert llama(**(base | {"quant_method": "intel/auto-round"})) == expected
    with pytest.raises(DataError, match="data_type: 'mx_fp' is not supported"):
        llama(**(base | {"data_type": "mx_fp"}))


def test_mlx_with_modules_of_other_bits():
    """A scale and a bias of 16 bits per group; the embedding and one matrix in eight bits."""
    linear = lambda k, n, bits=4, group=32: k * n * bits // 8 + k * n // group * 4  # noqa: E731
    base = {"bits": 4, "group_size": 32}
    expected = LAYERS * (4 * linear(D, D) + 3 * linear(D, FF)) + 2 * linear(D, VOCAB) + NORMS
    assert llama(**base) == expected
    own = {
        "model.embed_tokens": {"bits": 8, "group_size": 64},
        "model.layers.2.mlp.down_proj": {"bits": 8, "group_size": 32},
    }
    gained = linear(D, VOCAB, 8, 64) - linear(D, VOCAB) + linear(D, FF, 8) - linear(D, FF)
    assert llama(**base, **own) == expected + gained
    mx = {"model.layers.2.mlp.down_proj": {"mode": "mxfp4", "bits": 4, "group_size": 32}}
    assert llama(**base, **mx) == expected + D * FF // 2 + D * FF // 32 - linear(D, FF)


def test_compressed_tensors_of_two_groups():
    """Linear layers in fp8 with a scale per output, the MLPs that are named in four bits, packed with their shape."""
    eight = {"weights": {"num_bits": 8, "type": "float", "strategy": "channel"}, "targets": ["Linear"]}
    four = {"weights": {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32, "symmetric": True}}
    four |= {"targets": [r"re:.*mlp\..*_proj"], "format": "pack-quantized"}
    packed = D * FF // 2 + D * FF // 32 * 2 + 16
    found = llama(
        quant_method="compressed-tensors", config_groups={"group_0": eight, "group_1": four}, ignore=["lm_head"]
    )
    assert found == LAYERS * (ATTENTION + 4 * 2 * D + 3 * packed) + 2 * 2 * TABLE + NORMS


@pytest.mark.parametrize(
    "stored",
    [{"format": "marlin-24"}, {"format": "float-quantized", "sparsity_config": {"format": "sparse-24-bitmask", "sparsity_structure": "2:4"}}],
)  # fmt: skip
def test_weights_stored_without_their_zeros_are_refused(stored):
    """Two of four values and a mask are fewer bytes than the scheme alone says; pruned but stored whole ('dense') they are as many."""
    group = {"weights": {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32}, "targets": ["Linear"]}
    asked = {"quant_method": "compressed-tensors", "config_groups": {"group_0": group}, "ignore": ["lm_head"]}
    with pytest.raises(DataError, match=r"is sparse storage"):
        llama(**asked, **stored)
    whole = {"format": "pack-quantized", "sparsity_config": {"format": "dense", "sparsity_structure": "2:4"}}
    assert llama(**asked, **whole) == llama(**asked, format="pack-quantized")


def test_rules_of_gptqmodel():
    """+: stores what an expression matches in bits of its own."""
    linear = lambda k, n, bits=4: k * n * bits // 8 + k * n // 32 * (16 + bits) // 8 + 4 * k  # noqa: E731
    base = {"quant_method": "gptq", "bits": 4, "group_size": 32}
    rule = {r"+:.*down_proj.*": {"bits": 8}}
    assert llama(**base, dynamic=rule) - llama(**base) == LAYERS * (linear(FF, D, 8) - linear(FF, D))
