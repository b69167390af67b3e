"""gpt_oss: biased experts and router, attention sinks, alternating windows. Source: transformers 5.23 models/gpt_oss."""

from __future__ import annotations

from typing import Any

from rooflinecli.importers.hf.decoder import attention, experts, frame
from rooflinecli.importers.hf.layer_pattern import windows
from rooflinecli.specs.field_reader import ConfigFields, Family


def gpt_oss(f: ConfigFields) -> dict[str, Any]:
    """Even layers see a window; attention_bias is on q, k, v and o."""
    bias = f.flag("attention_bias")
    local = [i % 2 == 0 for i in range(f.whole("num_hidden_layers"))]
    moe = experts(f, "intermediate_size", ("num_local_experts", "num_experts"), bias=True, router_bias=True)
    return frame(
        f,
        attention(f, qkv_bias=bias, out_bias=bias, sinks=True),
        moe,
        layers=windows(f, local, f.optional("sliding_window")),
    )


FAMILIES = {
    "gpt_oss": Family(
        gpt_oss,
        {
            "vocab_size": 201088,
            "hidden_size": 2880,
            "intermediate_size": 2880,
            "num_hidden_layers": 36,
            "num_attention_heads": 64,
            "num_key_value_heads": 8,
            "head_dim": 64,
            "num_local_experts": 128,
            "num_experts_per_tok": 4,
            "sliding_window": 128,
            "max_position_embeddings": 131072,
            "attention_bias": True,
            "tie_word_embeddings": False,
        },
        frozenset({"swiglu_alpha", "swiglu_limit", "experts_per_token"}),
    ),
}
