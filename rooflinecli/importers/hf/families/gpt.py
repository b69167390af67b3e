"""Readers of GPT-2-like decoders that rows cannot describe. Source: transformers 5.23 models of those names."""

from __future__ import annotations

from typing import Any

from rooflinecli.importers.hf.blocks import Block, Row, attention, feedforward, frame, values
from rooflinecli.importers.hf.decoder import decoder
from rooflinecli.importers.hf.ignored_fields import NOISE
from rooflinecli.importers.hf.layer_pattern import Override
from rooflinecli.specs.field_reader import ConfigFields


def bloom(f: ConfigFields, row: Row) -> Block:
    """Its feed-forward is always four times the width."""
    width = f.integer("hidden_size", "n_embed")
    f.expect("n_inner", (None, 4 * width), "BLOOM's feed-forward is always 4 x hidden_size; remove n_inner")
    return decoder(f, row)


def opt(f: ConfigFields) -> Block:
    """Two more position rows than positions; a projection in and out where the embedding is narrower (350M)."""
    bias, width = f.flag("enable_bias"), f.integer("hidden_size")
    rows = f.integer("max_position_embeddings")
    narrow = f.integer("word_embed_proj_dim", null=width)
    before, removed = f.flag("do_layer_norm_before"), f.flag("_remove_final_layer_norm")
    block = attention(f, kv=None, head_dim=False, qkv_bias=bias, out_bias=bias)
    more: dict[str, Any] = {} if before and not removed else {"final_norm": False}
    return frame(
        f,
        block,
        feedforward(f, "dense", "ffn_dim", bias=bias),
        layers=f.integer("num_hidden_layers"),
        norm="layernorm" if f.flag("layer_norm_elementwise_affine") else "none",
        positions={"kind": "learned", "length": rows + 2},
        embedding_dim=narrow if narrow != width else None,
        **more,
    )


def gpt_bigcode(f: ConfigFields) -> Block:
    """GPT-2 with one key/value head if multi_query is set."""
    width, heads = f.integer("n_embd", "hidden_size"), f.integer("n_head", "num_attention_heads")
    n_kv = 1 if f.flag("multi_query", True) else heads
    block = attention(f, heads="n_head", n_kv=n_kv, width=width, head_dim=False, qkv_bias=True, out_bias=True)
    inner = f.integer("n_inner", "intermediate_size", null=4 * width)
    length = f.integer("n_positions", "max_position_embeddings")
    return frame(
        f,
        block,
        feedforward(f, "dense", d_ff=inner, bias=True),
        layers=f.integer("n_layer", "num_hidden_layers"),
        norm="layernorm",
        width=width,
        context=length,
        positions={"kind": "learned", "length": length},
    )


def gpt_neo(f: ConfigFields) -> Block:
    """GPT-2 without a bias on q, k and v; a window on the layers that attention_types calls local."""
    width, n = f.integer("hidden_size"), f.integer("num_layers", "num_hidden_layers")
    kinds: list[str] = []
    pattern = f.items("attention_types", list) or [[["global", "local"], n // 2]]
    for entry in pattern:
        if len(entry) != 2 or not isinstance(entry[0], list) or not isinstance(entry[1], int):
            raise f.fail("attention_types", "expected pairs of a list of kinds and how often; fix it")
        kinds += entry[0] * entry[1]
    if len(kinds) != n or not set(kinds) <= {"global", "local"}:
        raise f.fail("attention_types", f"gives {len(kinds)} layers of global or local for {n}; fix it")
    window, rows = f.integer("window_size"), f.integer("max_position_embeddings")
    block = attention(f, heads="num_heads", kv=None, width=width, head_dim=False, out_bias=True)
    return frame(
        f,
        block,
        feedforward(f, "dense", d_ff=f.integer("intermediate_size", null=4 * width), bias=True),
        layers=[{"attention": {"window": window}} if kind == "local" else {} for kind in kinds],
        norm="layernorm",
        width=width,
        positions={"kind": "learned", "length": rows},
    )


def neox_japanese(f: ConfigFields) -> Block:
    """GPT-NeoX without biases, but for the output of the last layer's attention."""
    n, d = f.integer("num_hidden_layers"), f.integer("hidden_size")
    last: list[Override] = [*({} for _ in range(n - 1)), {"pieces": [values("out_bias")]}]
    mlp = feedforward(f, "dense", d_ff=d * f.integer("intermediate_multiple_size"))
    return frame(f, attention(f, kv=None, head_dim=False), mlp, layers=last, norm="layernorm")


def mpt(f: ConfigFields) -> Block:
    """ALiBi, LayerNorm without bias, no bias anywhere, a feed-forward of four times the width always."""
    width, inner = f.integer("d_model"), nested(f, "attn_config", _MPT)
    inner.expect(
        "attn_type", ("multihead_attention",), "transformers builds multihead_attention; write the model as YAML"
    )
    inner.expect("qk_ln", (False,), "transformers builds no norm of q and k here; write the model as YAML")
    inner.expect(
        "kv_n_heads", (None, f.integer("n_heads")), "transformers builds as many keys as heads; write the model as YAML"
    )
    ratio = f.integer("expansion_ratio", null=4)
    if ratio != 4:
        f.notes.append(
            f"expansion_ratio {ratio} is not used: transformers always builds a feed-forward of 4 x d_model."
        )
    f.expect("no_bias", (True,), "transformers builds no biases; write the model as YAML")
    inner.finish(NOISE)
    return frame(
        f,
        attention(f, heads="n_heads", kv=None, width=width, head_dim=False),
        feedforward(f, "dense", d_ff=4 * width),
        layers=f.integer("n_layers"),
        norm="layernorm_nobias",
        width=width,
        context=f.optional("max_seq_len"),
        positions={"kind": "alibi"},
    )


_MPT = {
    "attn_impl",
    "alibi",
    "alibi_bias_max",
    "attn_pdrop",
    "clip_qkv",
    "prefix_lm",
    "softmax_scale",
    "attn_uses_sequence_id",
}


def nested(f: ConfigFields, name: str, ignored: set[str]) -> ConfigFields:
    """A block inside the config, with what changes no shape in it marked as read."""
    data = f.raw(name)
    if not isinstance(data, dict):
        data = {}
    inner = ConfigFields(data, {}, f.where, (*f.prefix, name))
    inner.used |= ignored | {"is_encoder_decoder", "add_cross_attention"}
    return inner
