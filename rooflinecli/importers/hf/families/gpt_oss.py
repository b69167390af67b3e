"""gpt_oss: biased experts and router, attention sinks, alternating windows. Source: transformers 5.23 models/gpt_oss."""

from __future__ import annotations

from typing import Any

from rooflinecli.importers.hf.decoder import attention, experts, frame
from rooflinecli.importers.hf.layer_pattern import windows
from rooflinecli.specs.field_reader import ConfigFields


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
