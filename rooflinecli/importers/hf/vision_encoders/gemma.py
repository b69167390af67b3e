"""gemma4_vision. Source: transformers 5.23 models/gemma4/modeling_gemma4.py, Gemma4VisionModel."""

from __future__ import annotations

from rooflinecli.importers.hf.decoder import attention, feedforward
from rooflinecli.importers.hf.vision_encoders import Block, linear, side, table
from rooflinecli.specs.field_reader import ConfigFields


def gemma4(v: ConfigFields) -> Block:
    """Rotary in two axes, four norms a layer, q and k normalized per head, no biases; two tables of positions, none after the layers."""
    width = v.integer("hidden_size")
    patch = linear("patches", width, input=3 * side(v, "patch_size") ** 2, bias=False)
    return {
        "d_model": width,
        "norm": "rmsnorm",
        "norms": 4,
        "final_norm": False,
        "attention": attention(v, qk_norm="head") | {"causal": False},
        "feedforward": feedforward(v, "gated"),
        "layers": v.integer("num_hidden_layers"),
        "before": [patch, table("positions", 2 * v.integer("position_embedding_size"))],
    }
