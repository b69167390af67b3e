"""gemma, gemma2, gemma3_text, and the text decoder of gemma3. Source: transformers 5.23 models/{gemma,gemma2,gemma3}."""

from __future__ import annotations

from typing import Any

from rooflinecli.importers.hf.decoder import attention, feedforward, frame
from rooflinecli.importers.hf.layer_pattern import windows
from rooflinecli.specs.field_reader import ConfigFields


def _attention(f: ConfigFields, **more: Any) -> dict[str, Any]:
    """attention_bias is on q, k, v and o; a bidirectional gemma (an embedder) sees every token."""
    bias = f.flag("attention_bias")
    block = attention(f, qkv_bias=bias, out_bias=bias, **more)
    return block | ({"causal": False} if f.flag("use_bidirectional_attention") else {})


def gemma(f: ConfigFields) -> dict[str, Any]:
    return frame(f, _attention(f), feedforward(f, "gated"), layers=f.whole("num_hidden_layers"))


def gemma2(f: ConfigFields) -> dict[str, Any]:
    """Four norms per layer; every other layer is local, the first one included."""
    local = [i % 2 == 0 for i in range(f.whole("num_hidden_layers"))]
    return frame(
        f, _attention(f), feedforward(f, "gated"), norms=4, layers=windows(f, local, f.optional("sliding_window"))
    )


def gemma3(f: ConfigFields) -> dict[str, Any]:
    """Four norms per layer, q and k normalized per head; every sixth layer is global unless the config says otherwise."""
    block = _attention(f, qk_norm="head")
    period = f.whole("sliding_window_pattern", "_sliding_window_pattern", null=6)
    window = f.optional("sliding_window")
    if window and block.get("causal") is False:
        window = window // 2 + 1
    local = [(i + 1) % period != 0 for i in range(f.whole("num_hidden_layers"))]
    return frame(f, block, feedforward(f, "gated"), norms=4, layers=windows(f, local, window))
