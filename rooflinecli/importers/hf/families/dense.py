"""Readers of dense softmax-attention decoders that rows cannot describe."""

from __future__ import annotations

import math

from rooflinecli.importers.hf.blocks import Block, Row, attention, feedforward, frame, linear, values
from rooflinecli.importers.hf.decoder import decoder
from rooflinecli.importers.hf.layer_pattern import Override, merged, windows
from rooflinecli.specs.field_reader import ConfigFields


def helium(f: ConfigFields, row: Row) -> Block:
    """The output projection is built for the hidden size. Raises DataError where the heads do not come to it."""
    made = decoder(f, row)
    if made["attention"]["n_heads"] * made["attention"]["head_dim"] != made["d_model"]:
        raise f.fail(
            "head_dim",
            "times the heads is not the hidden size, which its output projection is built for; make them agree",
        )
    return made


def internlm3(f: ConfigFields, row: Row) -> Block:
    """llama whose two biases go together. Raises DataError where they do not: transformers refuses that too."""
    renamed = {"qkv_bias": "attention_bias", "bias": "mlp_bias"}
    g = ConfigFields(
        {renamed.get(k, k): v for k, v in f.data.items()}, f.defaults, f.where, f.prefix, f.used, f.assumed
    )
    made = decoder(g, row)
    if g.flag("attention_bias") != g.flag("mlp_bias"):
        raise f.fail(
            "qkv_bias" if "qkv_bias" in f.data else "attention_bias",
            "differs from the bias of the MLP; give both the same",
        )
    f.used |= set(renamed)
    return made


def smollm3(f: ConfigFields, row: Row) -> Block:
    """Some layers without positions, some with a window."""
    n, every = f.integer("num_hidden_layers"), f.integer("no_rope_layer_interval", null=4)
    rope = f.items("no_rope_layers", int, n) or [int((i + 1) % every != 0) for i in range(n)]
    window = f.optional("sliding_window") if f.flag("use_sliding_window") else None
    local = windows(f, [bool(window) and not r for r in rope], window)
    plain: list[Override] = [{} if r else {"attention": {"rotary": False}} for r in rope]
    return decoder(f, row, layers=merged(local, plain))


def exaone4(f: ConfigFields, row: Row) -> Block:
    """Full attention on every sliding_window_pattern-th layer, or by one letter a layer, repeated (LLLG)."""
    every, n = f.raw("sliding_window_pattern"), f.integer("num_hidden_layers")
    if isinstance(every, str):
        default = [every[i % len(every)] == "L" for i in range(n)]
    else:
        step = f.integer("sliding_window_pattern", null=4)
        default = [bool((i + 1) % step) for i in range(n)]
    return decoder(f, row, layers=windows(f, default, f.optional("sliding_window")))


def _keys(block: Block) -> int:
    """Key/value heads of an attention block."""
    return int(block.get("n_kv_heads") or (1 if block["kind"] == "mqa" else block["n_heads"]))


def doge(f: ConfigFields) -> Block:
    """A learned scale of each residual, a mask computed from the values; with is_moe, experts of one vector each."""
    bias, d = f.flag("attention_bias"), f.integer("hidden_size")
    heads = attention(f, qkv_bias=bias, out_bias=bias, qk_norm="head")
    keys = _keys(heads)
    mask = linear("mask", keys, input=keys * heads["head_dim"], bias=bias)
    pieces = [{"kind": "scale", "name": "residual", "rows": 2}, mask, values("mask_scale", width=keys)]
    n, chosen = f.integer("num_experts"), f.integer("num_experts_per_tok")
    if f.flag("is_moe"):
        pieces += [linear("retrieval", 2 * math.isqrt(n), bias=False), values("expert_vectors", 2 * n)]
        f.notes.append(
            f"Experts are vectors: a token meets {chosen} of {n}, whose products are not counted among the FLOPs."
        )
    mlp = feedforward(f, "gated", bias=f.flag("mlp_bias"))
    local = windows(f, [True] * f.integer("num_hidden_layers"), f.optional("sliding_window"))
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
        layers=f.integer("num_hidden_layers"),
    )


_MORE_ROWS = 8  # of the embedding over the head: the image's token and its neighbors


def mllama(f: ConfigFields) -> Block:
    """cross_attention_layers have no self-attention; two scalar gates, q and k normalized per head."""
    n, crossing = f.integer("num_hidden_layers"), f.items("cross_attention_layers", int) or []
    if any(i < 0 or i >= n for i in crossing):
        raise f.fail("cross_attention_layers", f"names a layer outside the {n}; give indices from 0")
    f.expect("tie_word_embeddings", (False, None), "its table has rows that its head has not")
    block = attention(f)
    seen = {"kind": "cross", **{k: v for k, v in block.items() if k != "kind"}, "qk_norm": "head"}
    seen.setdefault("n_kv_heads", block["n_heads"])
    gates = [{"kind": "parameters", "name": "gates", "rows": 2, "width": 1}]
    reads: Override = {"attention": None, "cross": seen, "pieces": gates}
    layers = [reads if i in crossing else {} for i in range(n)]
    rows = [{"kind": "parameters", "name": "image_rows", "rows": _MORE_ROWS}]
    return frame(f, block, feedforward(f, "gated"), layers=layers) | {"before": rows}
