"""Decoders with a part of their own beside the usual whose layers all feed forward alike: lfm3, doge, diffllama, gpt_neox_japanese,
ctrl, modernbert-decoder. Source: transformers 5.23 models of those names."""

from __future__ import annotations

import math

from rooflinecli.importers.hf.decoder import attention, feedforward, frame, set_only
from rooflinecli.importers.hf.families.hybrid_ssm import placed
from rooflinecli.importers.hf.layer_pattern import Override, windows
from rooflinecli.importers.hf.vision_encoders import Block, linear, norm, values
from rooflinecli.specs.field_reader import ConfigFields


def _keys(block: Block) -> int:
    """Key/value heads of an attention block."""
    return int(block.get("n_kv_heads") or (1 if block["kind"] == "mqa" else block["n_heads"]))


def lfm3(f: ConfigFields) -> Block:
    """Short convolutions, attention over all, and over a window, with a gate for each head; norms behind the blocks too."""
    n, d, bias = f.whole("num_hidden_layers"), f.whole("hidden_size"), f.flag("attention_bias")
    kinds = f.items("layer_types", str, n) or [
        "full_attention" if i % 4 == 2 else "sliding_attention" if i % 4 == 0 and i > 0 else "conv" for i in range(n)
    ]
    conv: Block = {"kind": "short-conv", "n_heads": d, "head_dim": 1, "sizes": {"taps": f.whole("conv_L_cache")}}
    conv |= {"conv_bias": True} if f.flag("conv_bias") else {}
    heads = attention(f, qkv_bias=bias, out_bias=bias, qk_norm="head")
    blocks = {
        "conv": conv,
        "full_attention": heads,
        "sliding_attention": heads | set_only({"window": f.optional("sliding_window")}),
    }
    unknown = set(kinds) - set(blocks)
    if unknown:
        raise f.fail("layer_types", f"'{unknown.pop()}' is not a layer this importer knows; known: {', '.join(blocks)}")
    layers = placed(kinds, blocks)
    if f.flag("use_attention_gate", True):
        gate = linear("head_gate", heads["n_heads"], bias=False)
        layers = [
            layer | ({"pieces": [gate]} if kind != "conv" else {}) for layer, kind in zip(layers, kinds, strict=True)
        ]
    norms = {"norms": 4} if f.flag("use_sandwich_norm", True) else {}
    return frame(f, None, feedforward(f, "gated"), layers=layers) | norms


def doge(f: ConfigFields) -> Block:
    """A learned scale of each residual, a mask made of the values; where is_moe says so, experts of one vector each."""
    bias, d = f.flag("attention_bias"), f.whole("hidden_size")
    heads = attention(f, qkv_bias=bias, out_bias=bias, qk_norm="head")
    keys = _keys(heads)
    mask = linear("mask", keys, input=keys * heads["head_dim"], bias=bias)
    pieces = [{"kind": "scale", "name": "residual", "rows": 2}, mask, values("mask_scale", width=keys)]
    n, chosen = f.whole("num_experts"), f.whole("num_experts_per_tok")
    if f.flag("is_moe"):
        pieces += [linear("retrieval", 2 * math.isqrt(n), bias=False), values("expert_vectors", 2 * n)]
        f.notes.append(
            f"Experts are vectors: a token meets {chosen} of {n}, whose products are not counted among the FLOPs."
        )
    mlp = feedforward(f, "gated", bias=f.flag("mlp_bias"))
    local = windows(f, [True] * f.whole("num_hidden_layers"), f.optional("sliding_window"))
    return frame(f, heads, mlp, layers=local, pieces=pieces, width=d)


def diffllama(f: ConfigFields) -> Block:
    bias = f.flag("attention_bias")
    block = attention(f, qkv_bias=bias, out_bias=bias)
    keys = _keys(block)
    if keys % 2:
        raise f.fail("num_key_value_heads", f"{keys} heads have no two halves; give an even count")
    return frame(
        f,
        block | {"kind": "differential", "n_kv_heads": keys},
        feedforward(f, "gated"),
        layers=f.whole("num_hidden_layers"),
    )


def neox_japanese(f: ConfigFields) -> Block:
    """GPT-NeoX without biases, but for the output of the last layer's attention."""
    n, d = f.whole("num_hidden_layers"), f.whole("hidden_size")
    last: list[Override] = [*({} for _ in range(n - 1)), {"pieces": [values("out_bias")]}]
    mlp = feedforward(f, "dense", d_ff=d * f.whole("intermediate_multiple_size"))
    return frame(f, attention(f, kv=None, head_dim=False), mlp, layers=last, norm="layernorm")


def ctrl(f: ConfigFields) -> Block:
    """Sines for positions, a head with a bias."""
    n, d = f.whole("n_layer", "num_hidden_layers"), f.whole("n_embd", "hidden_size")
    block = attention(f, heads="n_head", kv=None, width=d, head_dim=False, qkv_bias=True, out_bias=True)
    mlp = feedforward(f, "dense", d_ff=f.whole("dff"), bias=True)
    context = f.optional("n_positions", "max_position_embeddings")
    return frame(
        f,
        block,
        mlp,
        layers=n,
        norm="layernorm",
        width=d,
        context=context,
        lm_head_bias=True,
        positions={"kind": "sinusoidal"},
    )


def modernbert_decoder(f: ConfigFields) -> Block:
    """ModernBERT that writes: two of three layers see a window; a matrix and a norm before the head."""
    n, bias, width = f.whole("num_hidden_layers"), f.flag("attention_bias"), f.whole("hidden_size")
    every = f.whole("global_attn_every_n_layers", null=3)
    half = f.whole("local_attention", null=0, least=0) // 2
    f.used.add("sliding_window")  # half of local_attention, whatever is written
    local = windows(f, [i % every != 0 for i in range(n)], half or None)
    local[0] = {**local[0], "norms": 1}
    kind = "layernorm" if f.flag("norm_bias") else "layernorm_nobias"
    block = attention(f, kv=None, head_dim=False, qkv_bias=bias, out_bias=bias)
    after = [linear("head_dense", width, bias=f.flag("classifier_bias")), norm("head_norm", kind)]
    built = frame(f, block, feedforward(f, "gated", bias=f.flag("mlp_bias")), layers=local, norm=kind)
    return built | {"embedding_norm": True, "after": after} | set_only({"lm_head_bias": f.flag("decoder_bias")})
