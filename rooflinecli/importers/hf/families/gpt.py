"""gpt2, gpt_neox, gptj, opt, bloom: LayerNorm with bias and a plain MLP. Source: transformers 5.23 models/{gpt2,gpt_neox,gptj,opt,bloom}."""

from __future__ import annotations

from typing import Any

from rooflinecli.importers.hf.decoder import attention, feedforward, frame
from rooflinecli.specs.field_reader import ConfigFields


def _small(f: ConfigFields) -> tuple[int, int, int]:
    """Width, layers and feed-forward width as the n_* names give them; a null n_inner is 4 x n_embd."""
    width = f.whole("n_embd", "hidden_size")
    return width, f.whole("n_layer", "num_hidden_layers"), f.whole("n_inner", null=4 * width)


def gpt2(f: ConfigFields) -> dict[str, Any]:
    """Learned positions, biases everywhere."""
    width, layers, inner = _small(f)
    rows = f.whole("n_positions", "max_position_embeddings")
    block = attention(f, heads="n_head", kv=None, width=width, head_dim=False, qkv_bias=True, out_bias=True)
    return frame(
        f,
        block,
        feedforward(f, "dense", d_ff=inner, bias=True),
        layers=layers,
        norm="layernorm",
        width=width,
        context=rows,
        positions={"kind": "learned", "length": rows},
    )


def gptj(f: ConfigFields) -> dict[str, Any]:
    """Parallel blocks under one norm; no bias in attention, one on the MLP and on the head."""
    width, layers, inner = _small(f)
    block = attention(f, heads="n_head", kv=None, width=width, head_dim=False)
    return frame(
        f,
        block,
        feedforward(f, "dense", d_ff=inner, bias=True),
        layers=layers,
        norm="layernorm",
        width=width,
        context=f.whole("n_positions", "max_position_embeddings"),
        lm_head_bias=True,
        parallel=True,
        norms=1,
    )


def gpt_neox(f: ConfigFields) -> dict[str, Any]:
    """Two norms even when the blocks are parallel; the MLP is biased whatever attention_bias says."""
    bias = f.flag("attention_bias")
    block = attention(f, kv=None, head_dim=False, qkv_bias=bias, out_bias=bias)
    return frame(
        f,
        block,
        feedforward(f, "dense", bias=True),
        layers=f.whole("num_hidden_layers"),
        norm="layernorm",
        parallel=f.flag("use_parallel_residual"),
    )


def opt(f: ConfigFields) -> dict[str, Any]:
    """Two more position rows than positions; a projection in and out where the embedding is narrower (350M)."""
    bias, width = f.flag("enable_bias"), f.whole("hidden_size")
    rows = f.whole("max_position_embeddings")
    narrow = f.whole("word_embed_proj_dim", null=width)
    before, removed = f.flag("do_layer_norm_before"), f.flag("_remove_final_layer_norm")
    block = attention(f, kv=None, head_dim=False, qkv_bias=bias, out_bias=bias)
    more: dict[str, Any] = {} if before and not removed else {"final_norm": False}
    return frame(
        f,
        block,
        feedforward(f, "dense", "ffn_dim", bias=bias),
        layers=f.whole("num_hidden_layers"),
        norm="layernorm" if f.flag("layer_norm_elementwise_affine") else "none",
        positions={"kind": "learned", "length": rows + 2},
        embedding_dim=narrow if narrow != width else None,
        **more,
    )


def bloom(f: ConfigFields) -> dict[str, Any]:
    """ALiBi, a norm after the embedding, feed-forward of 4 x hidden always."""
    width = f.whole("hidden_size", "n_embed")
    f.expect("n_inner", (None, 4 * width), "BLOOM's feed-forward is always 4 x hidden_size; remove n_inner")
    block = attention(f, heads="n_head", kv=None, width=width, head_dim=False, qkv_bias=True, out_bias=True)
    return frame(
        f,
        block,
        feedforward(f, "dense", d_ff=4 * width, bias=True),
        layers=f.whole("n_layer", "num_hidden_layers"),
        norm="layernorm",
        width=width,
        context=f.optional("seq_length"),
        embedding_norm=True,
        positions={"kind": "alibi"},
    )
