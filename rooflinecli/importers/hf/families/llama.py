"""llama and its near relatives: pre-norm, gated MLP, grouped-query attention, RMSNorm. Source: transformers 5.23
models/{llama,granite,phi3,olmo2,glm,glm4}/modeling_*.py."""

from __future__ import annotations

from typing import Any

from rooflinecli.importers.hf.decoder import attention, feedforward, frame
from rooflinecli.importers.hf.layer_pattern import windows
from rooflinecli.specs.field_reader import ConfigFields


def llama(f: ConfigFields) -> dict[str, Any]:
    """attention_bias is on q, k, v and o; mlp_bias on all three matrices of the MLP."""
    bias = f.flag("attention_bias")
    return frame(
        f,
        attention(f, qkv_bias=bias, out_bias=bias),
        feedforward(f, "gated", bias=f.flag("mlp_bias")),
        layers=f.whole("num_hidden_layers"),
    )


def olmo2(f: ConfigFields) -> dict[str, Any]:
    """Norms after the blocks, and q and k normalized over their full width."""
    bias = f.flag("attention_bias")
    return frame(
        f,
        attention(f, qkv_bias=bias, out_bias=bias, qk_norm="full"),
        feedforward(f, "gated"),
        layers=f.whole("num_hidden_layers"),
    )


def glm(f: ConfigFields) -> dict[str, Any]:
    """attention_bias is on q, k and v only."""
    return frame(
        f, attention(f, qkv_bias=f.flag("attention_bias")), feedforward(f, "gated"), layers=f.whole("num_hidden_layers")
    )


def glm4(f: ConfigFields) -> dict[str, Any]:
    """glm with a norm before and after each block."""
    return glm(f) | {"norms": 4}


def phi3(f: ConfigFields) -> dict[str, Any]:
    """No biases; fused qkv and gate_up hold the same numbers; an optional window on every layer."""
    n, window = f.whole("num_hidden_layers"), f.optional("sliding_window")
    f.expect("full_attn_mod", (1, None), "only windows on every layer are read; write the model as YAML")
    return frame(f, attention(f), feedforward(f, "gated"), layers=windows(f, [True] * n, window))
