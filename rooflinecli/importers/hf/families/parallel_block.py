"""falcon, phi, cohere: attention and MLP side by side. Source: transformers 5.23 models/{falcon,phi,cohere}."""

from __future__ import annotations

from typing import Any

from rooflinecli.importers.hf.decoder import attention, feedforward, frame
from rooflinecli.specs.field_reader import ConfigFields


def falcon(f: ConfigFields) -> dict[str, Any]:
    """The 40B architecture has grouped heads and two norms; the 7B one a single key/value head and one norm."""
    width, new = f.whole("hidden_size", "n_embed"), f.flag("new_decoder_architecture")
    heads = f.whole("num_attention_heads", "n_head")
    grouped = f.whole("num_kv_heads", null=heads)
    multi_query, parallel = f.flag("multi_query"), f.flag("parallel_attn")
    kv = grouped if new else 1 if multi_query else heads
    beside = f.whole("num_ln_in_parallel_attn", null=2 if new else 1)
    bias, alibi = f.flag("bias"), f.flag("alibi")
    block = attention(f, n_kv=kv, width=width, head_dim=False, qkv_bias=bias, out_bias=bias)
    inner = f.whole("ffn_hidden_size", null=4 * width)
    return frame(
        f,
        block,
        feedforward(f, "dense", d_ff=inner, bias=bias),
        layers=f.whole("num_hidden_layers", "n_layer"),
        norm="layernorm",
        width=width,
        parallel=parallel,
        norms=1 if parallel and beside != 2 else 2,
        positions={"kind": "alibi"} if alibi else None,
    )


def phi(f: ConfigFields) -> dict[str, Any]:
    """One norm, biases everywhere, the head included; qk_layernorm is a LayerNorm of head_dim with a bias."""
    norm = "head_bias" if f.flag("qk_layernorm") else "none"
    return frame(
        f,
        attention(f, qkv_bias=True, out_bias=True, qk_norm=norm),
        feedforward(f, "dense", bias=True),
        layers=f.whole("num_hidden_layers"),
        norm="layernorm",
        lm_head_bias=True,
        parallel=True,
        norms=1,
    )


def cohere(f: ConfigFields) -> dict[str, Any]:
    """One LayerNorm without bias; use_qk_norm has a scale per head and channel."""
    bias = f.flag("attention_bias")
    norm = "head_layernorm" if f.flag("use_qk_norm") else "none"
    return frame(
        f,
        attention(f, qkv_bias=bias, out_bias=bias, qk_norm=norm),
        feedforward(f, "gated"),
        layers=f.whole("num_hidden_layers"),
        norm="layernorm_nobias",
        parallel=True,
        norms=1,
    )
