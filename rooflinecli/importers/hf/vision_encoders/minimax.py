"""minimax_m3_vl_vision: CLIP's layers over patches of two frames, rotary in three axes. Source: transformers 5.23 models/minimax_m3_vl."""

from __future__ import annotations

from rooflinecli.importers.hf.decoder import feedforward
from rooflinecli.importers.hf.vision_encoders import Block, linear, mha, patches
from rooflinecli.specs.field_reader import ConfigFields


def minimax(v: ConfigFields) -> Block:
    """A norm before the layers and none after them; the second frame of an image is the image again."""
    width = v.integer("hidden_size")
    return {
        "d_model": width,
        "norm": "layernorm",
        "positions": {"kind": "rotary"},
        "pre_norm": True,
        "final_norm": False,
        "attention": mha(v, "num_attention_heads", width, qkv_bias=True, out_bias=True),
        "feedforward": feedforward(v, "dense", bias=True),
        "layers": v.integer("num_hidden_layers"),
        "before": [patches(v, width, bias=False, deep=v.integer("temporal_patch_size"))],
    }


def merger(width: int, inner: int, text: int, merge: int) -> list[Block]:
    """Two matrices on each token, then merge x merge concatenated tokens through two more."""
    count = merge**2
    return [
        linear("projector_in", inner, input=width),
        linear("projector_out", text, input=inner),
        linear("merger_in", inner, input=text * count, merge=count),
        linear("merger_out", text, input=inner, merge=count),
    ]
