"""nemotron_h and zamba2: layers of one block each, and a transformer block that several layers share.
Source: transformers 5.23 models/{nemotron_h,zamba2}."""

from __future__ import annotations

from rooflinecli.importers.hf.blocks import Block, attention, experts, feedforward, frame
from rooflinecli.importers.hf.hybrid_layers import layer_kinds, ssd
from rooflinecli.importers.hf.layer_pattern import Override
from rooflinecli.specs.field_reader import ConfigFields

_PATTERN = {"M": "recurrent", "*": "attention", "-": "mlp", "E": "moe"}
_NONE = {"kind": "none"}
_CACHE = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}


def nemotron_h(f: ConfigFields) -> Block:
    """Each layer is a mixer, an MLP or a mixture behind one norm. use_bias is on the scan's projections, mlp_bias on MLPs,
    shared experts and latent projections; attention and routed experts have none."""
    kinds = _kinds(f)
    bias, heads, width = f.flag("use_bias"), f.integer("mamba_num_heads"), f.integer("mamba_head_dim")
    scan = ssd(
        f,
        heads=heads,
        head_dim=width,
        inner=heads * width,
        field="mamba_num_heads",
        groups="n_groups",
        state="ssm_state_size",
        taps="conv_kernel",
        chunk="chunk_size",
        qkv_bias=bias,
        out_bias=bias,
        conv_bias=f.flag("use_conv_bias"),
        state_dtype=_cache(f),
    )
    mlp_bias = f.flag("mlp_bias")
    plain = feedforward(f, "dense", bias=mlp_bias) | {"activation": f.text("mlp_hidden_act", default="relu2")}
    mixers = {"recurrent": scan, "attention": attention(f) | {"rotary": False}}
    blocks: dict[str, Override] = {kind: {"attention": mixer} for kind, mixer in mixers.items()}
    blocks["mlp"] = {"feedforward": plain}
    if "moe" in kinds:
        blocks["moe"] = {"feedforward": _moe(f, mlp_bias)}
    layers = [blocks[kind] for kind in kinds]
    if f.optional("num_nextn_predict_layers"):
        f.notes.append("Multi-token-prediction layers are left out, as in transformers.")
    model = frame(f, None, _NONE, layers=layers, norms=1, positions={"kind": "none"})
    return model | {"tied_embeddings": False}  # the class ties nothing, whatever tie_word_embeddings is


def _kinds(f: ConfigFields) -> list[str]:
    """The block of each layer: a list, or a pattern of letters as on the Hub."""
    pattern = f.text("hybrid_override_pattern")
    if pattern:
        unknown = set(pattern) - set(_PATTERN)
        if unknown:
            raise f.fail("hybrid_override_pattern", f"'{min(unknown)}' is not a layer; known: {' '.join(_PATTERN)}")
        kinds = [_PATTERN[letter] for letter in pattern]
    else:
        kinds = layer_kinds(f, ("layers_block_type", "layer_types"), [], ("recurrent", "attention", "mlp", "moe"))
    if not kinds:
        raise f.fail("layers_block_type", "required, but missing; add it, or hybrid_override_pattern")
    if f.integer("num_hidden_layers", null=len(kinds)) != len(kinds):
        raise f.fail(
            "num_hidden_layers", f"{f.integer('num_hidden_layers')} where the pattern has {len(kinds)} layers; fix one"
        )
    return kinds


def _cache(f: ConfigFields) -> str:
    written = f.text("mamba_ssm_cache_dtype", default="float32")
    if written not in _CACHE:
        raise f.fail("mamba_ssm_cache_dtype", f"'{written}' is not a format known here; known: {', '.join(_CACHE)}")
    return _CACHE[written]


def _moe(f: ConfigFields, bias: bool) -> Block:
    """Ungated experts, in a latent width if given; always one shared expert with a separate width."""
    block = experts(
        f,
        "moe_intermediate_size",
        ("n_routed_experts", "num_local_experts"),
        n_shared=1,
        shared_d_ff=f.integer("moe_shared_expert_intermediate_size"),
        latent_dim=f.optional("moe_latent_size"),
        shared_bias=bias,
    )
    return block | {"gated": False, "activation": f.text("mlp_hidden_act", default="relu2")}
