"""gemma, gemma2, gemma3_text, and the text decoder of gemma3. Source: transformers 5.23 models/{gemma,gemma2,gemma3}."""

from __future__ import annotations

from typing import Any

from rooflinecli.importers.hf.decoder import attention, feedforward, frame
from rooflinecli.importers.hf.layer_pattern import windows
from rooflinecli.specs.field_reader import ConfigFields, Family


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


_GEMMA = {
    "vocab_size": 256000,
    "hidden_size": 3072,
    "intermediate_size": 24576,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "head_dim": 256,
    "hidden_act": "gelu_pytorch_tanh",
    "max_position_embeddings": 8192,
    "tie_word_embeddings": True,
}
_GEMMA2 = _GEMMA | {
    "hidden_size": 2304,
    "intermediate_size": 9216,
    "num_hidden_layers": 26,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "sliding_window": 4096,
}
_IGNORED = frozenset(
    {"sliding_window_size", "query_pre_attn_scalar", "final_logit_softcapping", "attn_logit_softcapping"}
)
FAMILIES = {
    "gemma": Family(gemma, _GEMMA),
    "gemma2": Family(gemma2, _GEMMA2, _IGNORED),
    "gemma3_text": Family(gemma3, _GEMMA2 | {"vocab_size": 262208, "max_position_embeddings": 131072}, _IGNORED),
}
