"""lfm2, lfm2_moe, recurrent_gemma, rwkv: short convolutions, the real-gated linear recurrent unit, RWKV-4.
Source: transformers 5.23 models/{lfm2,lfm2_moe,recurrent_gemma,rwkv}."""

from __future__ import annotations

from rooflinecli.importers.hf.blocks import Block, attention, experts, feedforward, frame, linear, set_only, sparse
from rooflinecli.importers.hf.hybrid_layers import layer_kinds, placed
from rooflinecli.importers.hf.layer_pattern import merged
from rooflinecli.specs.field_reader import MISSING, ConfigFields

BOTH = ("recurrent", "attention")


def _lfm(f: ConfigFields) -> tuple[list[str], dict[str, Block]]:
    """Gated short convolutions, and attention with q and k normalized per head at full_attn_idxs."""
    n, d = f.integer("num_hidden_layers"), f.integer("hidden_size")
    at = f.items("full_attn_idxs", int)
    default = ["attention" if at is None or i in at else "recurrent" for i in range(n)]
    kinds = layer_kinds(f, ("layer_types",), default, BOTH)
    conv: Block = {"kind": "short-conv", "n_heads": d, "head_dim": 1, "sizes": {"taps": f.integer("conv_L_cache")}}
    if f.flag("conv_bias"):
        conv["conv_bias"] = True
    return kinds, {"recurrent": conv, "attention": attention(f, qk_norm="head")}


def lfm2(f: ConfigFields) -> Block:
    """The MLP's width is reduced to two thirds, scaled, and rounded up to a multiple, unless block_auto_adjust_ff_dim is off."""
    width = f.integer("intermediate_size", "block_ff_dim")
    if f.flag("block_auto_adjust_ff_dim", True):
        width = int(2 * width / 3)
        factor = f.raw("block_ffn_dim_multiplier")
        if factor is not MISSING and factor is not None:
            if isinstance(factor, bool) or not isinstance(factor, int | float):
                raise f.fail("block_ffn_dim_multiplier", f"expected a number, got {str(factor)[:60]!r}")
            multiple = f.integer("block_multiple_of")
            width = multiple * -(-int(factor * width) // multiple)
    kinds, blocks = _lfm(f)
    return frame(f, None, feedforward(f, "gated", d_ff=width), layers=placed(kinds, blocks))


def lfm2_moe(f: ConfigFields) -> Block:
    """num_dense_layers first, then mixtures; their widths are used as written."""
    kinds, blocks = _lfm(f)
    dense = f.integer("num_dense_layers", null=0, least=0)
    moe = experts(f, "moe_intermediate_size", ("num_experts",))
    base, mixed = sparse(feedforward(f, "gated"), moe, [i >= dense for i in range(len(kinds))])
    return frame(f, None, base, layers=merged(placed(kinds, blocks), mixed))


def recurrent_gemma(f: ConfigFields) -> Block:
    """block_types repeats over the layers; the MLP has half of intermediate_size, and biases."""
    n, heads = f.integer("num_hidden_layers"), f.integer("num_attention_heads")
    pattern = layer_kinds(f, ("block_types", "_block_types"), [], BOTH)
    if not pattern:
        raise f.fail("block_types", "required, but missing; add it")
    kinds = layer_kinds(f, ("layers_block_type", "layer_types"), [pattern[i % len(pattern)] for i in range(n)], BOTH)
    width = f.integer("lru_width", null=f.integer("hidden_size"))
    if width % heads:
        raise f.fail("lru_width", f"{heads} blocks do not divide {width}; give another width")
    unit = {
        "kind": "rg-lru",
        "n_heads": heads,
        "head_dim": width // heads,
        "sizes": {"taps": f.integer("conv1d_width")},
    }
    bias = f.flag("attention_bias")
    n_kv = f.integer("num_key_value_heads", null=heads)
    window = f.integer("attention_window_size")
    local = attention(f, n_kv=n_kv, qkv_bias=bias, out_bias=True) | {"window": window}
    hidden = f.integer("intermediate_size")
    mlp = feedforward(f, "gated", bias=True, d_ff=hidden // 2)
    return frame(f, None, mlp, layers=placed(kinds, {"recurrent": unit, "attention": local}))


def rwkv(f: ConfigFields) -> Block:
    """Time mixing and channel mixing; a norm before the first layer."""
    d = f.integer("hidden_size")
    mixing = {"kind": "rwkv", "n_heads": f.integer("attention_hidden_size", null=d), "head_dim": 1}
    channel = {"kind": "rwkv", "d_ff": f.integer("intermediate_size", null=4 * d), "activation": "relu2"}
    return frame(
        f,
        mixing,
        channel,
        layers=f.integer("num_hidden_layers"),
        norm="layernorm",
        embedding_norm=True,
        context=f.optional("context_length"),
        positions={"kind": "none"},
    )


def lfm3(f: ConfigFields) -> Block:
    """Short convolutions, attention over all, and over a window, with a gate for each head; norms behind the blocks too."""
    n, d, bias = f.integer("num_hidden_layers"), f.integer("hidden_size"), f.flag("attention_bias")
    kinds = f.items("layer_types", str, n) or [
        "full_attention" if i % 4 == 2 else "sliding_attention" if i % 4 == 0 and i > 0 else "conv" for i in range(n)
    ]
    conv: Block = {"kind": "short-conv", "n_heads": d, "head_dim": 1, "sizes": {"taps": f.integer("conv_L_cache")}}
    conv |= {"conv_bias": True} if f.flag("conv_bias") else {}
    heads = attention(f, qkv_bias=bias, out_bias=bias, qk_norm="head")
    blocks = {
        "conv": conv,
        "full_attention": heads,
        "sliding_attention": heads | set_only({"window": f.optional("sliding_window")}),
    }
    unknown = set(kinds) - set(blocks)
    if unknown:
        raise f.fail("layer_types", f"'{unknown.pop()}' is not a supported layer kind; supported: {', '.join(blocks)}")
    layers = placed(kinds, blocks)
    if f.flag("use_attention_gate", True):
        gate = linear("head_gate", heads["n_heads"], bias=False)
        layers = [
            layer | ({"pieces": [gate]} if kind != "conv" else {}) for layer, kind in zip(layers, kinds, strict=True)
        ]
    norms = {"norms": 4} if f.flag("use_sandwich_norm", True) else {}
    return frame(f, None, feedforward(f, "gated"), layers=layers) | norms
