"""mistral, mixtral, starcoder2: a window on every layer or none. Source: transformers 5.23 models/{mistral,mixtral,starcoder2}."""

from __future__ import annotations

from typing import Any

from rooflinecli.importers.hf.decoder import attention, experts, feedforward, frame
from rooflinecli.specs.field_reader import ConfigFields, Family


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


_MISTRAL = {
    "vocab_size": 32000,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131072,
    "sliding_window": 4096,
    "tie_word_embeddings": False,
}
FAMILIES = {
    "mistral": Family(mistral, _MISTRAL),
    "mixtral": Family(mixtral, _MISTRAL | {"sliding_window": None, "num_local_experts": 8, "num_experts_per_tok": 2}),
    "starcoder2": Family(
        starcoder2,
        {
            "vocab_size": 49152,
            "hidden_size": 3072,
            "intermediate_size": 12288,
            "num_hidden_layers": 30,
            "num_attention_heads": 24,
            "num_key_value_heads": 2,
            "max_position_embeddings": 4096,
            "hidden_act": "gelu_pytorch_tanh",
            "use_bias": True,
            "tie_word_embeddings": True,
        },
        frozenset(
            {
                "norm_type",
                "mlp_type",
                "scale_attn_weights",
                "scale_attention_softmax_in_fp32",
                "attention_softmax_in_fp32",
            }
        ),
    ),
}
