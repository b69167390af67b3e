"""step3p5_vision. Source: transformers 5.23 models/step3p7/modeling_step3p7.py, Step3p7VisionModel."""

from __future__ import annotations

from rooflinecli.importers.hf.decoder import feedforward
from rooflinecli.importers.hf.vision_encoders import Block, linear, mha, patches, side, table
from rooflinecli.specs.field_reader import ConfigFields


def step3(v: ConfigFields) -> Block:
    """Learned and rotary positions, two learned scales a layer; convolutions of 3 x 3 that each leave a quarter of the positions."""
    width, ratio = v.integer("hidden_size"), v.raw("mlp_ratio")
    if isinstance(ratio, bool) or not isinstance(ratio, (int, float)) or ratio <= 0:
        raise v.fail("mlp_ratio", f"expected a number above zero, got {str(ratio)[:60]!r}")
    rows = (side(v, "image_size") // side(v, "patch_size")) ** 2
    return {
        "d_model": width,
        "norm": "layernorm",
        "pre_norm": True,
        "final_norm": False,
        "attention": mha(v, "num_attention_heads", width, qkv_bias=True, out_bias=True),
        "feedforward": feedforward(v, "dense", d_ff=int(width * ratio), bias=True),
        "layers": v.integer("num_hidden_layers"),
        "pieces": [{"kind": "scale", "name": "scale", "rows": 2}],
        "before": [patches(v, width, bias=False), table("positions", rows)],
        "after": [
            linear("downsample_first", 2 * width, input=9 * width, merge=4),
            linear("downsample_second", 4 * width, input=18 * width, merge=16),
        ],
    }
