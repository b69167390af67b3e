"""mistral, mixtral, starcoder2: a window on every layer or none. Source: transformers 5.23 models/{mistral,mixtral,starcoder2}."""

from __future__ import annotations

from typing import Any

from rooflinecli.importers.hf.decoder import attention, experts, feedforward, frame
from rooflinecli.specs.field_reader import ConfigFields


def _attention(f: ConfigFields, **more: Any) -> dict[str, Any]:
    return attention(f, window=f.optional("sliding_window"), **more)


def mistral(f: ConfigFields) -> dict[str, Any]:
    return frame(f, _attention(f), feedforward(f, "gated"), layers=f.whole("num_hidden_layers"))


def mixtral(f: ConfigFields) -> dict[str, Any]:
    moe = experts(f, "intermediate_size", ("num_local_experts", "num_experts"))
    return frame(f, _attention(f), moe, layers=f.whole("num_hidden_layers"))


def starcoder2(f: ConfigFields) -> dict[str, Any]:
    """A plain MLP and LayerNorm; use_bias is on every linear layer but the head."""
    bias = f.flag("use_bias")
    return frame(
        f,
        _attention(f, qkv_bias=bias, out_bias=bias),
        feedforward(f, "dense", bias=bias),
        norm="layernorm",
        layers=f.whole("num_hidden_layers"),
    )
