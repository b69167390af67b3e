"""nemotron_h and zamba2: layers of one block each, and a transformer block that several layers share.
Source: transformers 5.23 models/{nemotron_h,zamba2}."""

from __future__ import annotations

from rooflinecli.importers.hf.blocks import Block, attention, experts, feedforward, frame
from rooflinecli.importers.hf.hybrid_layers import layer_kinds, placed, ssd
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


def zamba2(f: ConfigFields) -> Block:
    """num_mem_blocks transformer blocks alternate over the hybrid layers; each use has separate adapters."""
    untied = "transformers then has a copy of the shared blocks for every use; give true"
    f.expect("tie_word_embeddings", (True, None), untied)
    d, bias = f.integer("hidden_size"), f.flag("add_bias_linear")
    inner, heads = f.integer("mamba_expand") * d, f.integer("n_mamba_heads")
    scan = ssd(
        f,
        heads=heads,
        head_dim=f.integer("mamba_headdim", null=inner // heads),
        inner=inner,
        field="n_mamba_heads",
        groups="mamba_ngroups",
        state="mamba_d_state",
        taps="mamba_d_conv",
        chunk="chunk_size",
        qkv_bias=bias,
        out_bias=bias,
        conv_bias=True,
    )
    n, at = f.integer("num_hidden_layers"), f.items("hybrid_layer_ids", int) or []
    kinds = layer_kinds(
        f,
        ("layers_block_type", "layer_types"),
        ["hybrid" if i in at else "recurrent" for i in range(n)],
        ("recurrent", "hybrid"),
    )
    if at and at != [i for i, kind in enumerate(kinds) if kind == "hybrid"]:
        raise f.fail("hybrid_layer_ids", "names other layers than layers_block_type; make them agree")
    layers = placed(kinds, {"recurrent": scan, "hybrid": _hybrid(f, scan, d, bias)})
    uses = [i for i, kind in enumerate(kinds) if kind == "hybrid"]
    for use, layer in enumerate(uses):
        layers[layer]["norms"] = 0  # its three norms are part of the block
        if use >= f.integer("num_mem_blocks"):
            layers[layer]["attention"] = {**layers[layer]["attention"], "shared": True}
    return frame(f, None, _NONE, layers=layers, norms=1)


def _hybrid(f: ConfigFields, scan: Block, d: int, bias: bool) -> Block:
    heads = f.integer("num_attention_heads")
    sizes = {**scan["sizes"], "ssm_heads": scan["n_heads"], "ssm_head_dim": scan["head_dim"]}
    sizes |= {"ff": f.integer("intermediate_size"), "adapter": f.integer("adapter_rank")}
    if f.flag("use_shared_attention_adapter"):
        sizes["qkv_adapter"] = 1
    if f.integer("attention_hidden_size", null=2 * d) != 2 * d:
        raise f.fail("attention_hidden_size", f"expected twice hidden_size, {2 * d}; write the model as YAML")
    width = f.integer("attention_head_dim", null=2 * d // heads)
    shared = {
        "kind": "zamba2",
        "n_heads": heads,
        "n_kv_heads": f.integer("num_key_value_heads", null=heads),
        "head_dim": width,
    }
    return shared | {"sizes": sizes} | ({"qkv_bias": True} if bias else {})
