"""minimax_m3_vl_vision: CLIP's layers over patches of two frames, rotary in three axes. Source: transformers 5.23 models/minimax_m3_vl."""

from __future__ import annotations

from rooflinecli.importers.hf.decoder import feedforward
from rooflinecli.importers.hf.vision_encoders import Block, EncoderFamily, linear, mha, patches
from rooflinecli.specs.field_reader import ConfigFields


def minimax(v: ConfigFields) -> Block:
    """A norm before the layers and none behind them; an image is its own second frame."""
    width = v.whole("hidden_size")
    return {
        "d_model": width,
        "norm": "layernorm",
        "positions": {"kind": "rotary"},
        "pre_norm": True,
        "final_norm": False,
        "attention": mha(v, "num_attention_heads", width, qkv_bias=True, out_bias=True),
        "feedforward": feedforward(v, "dense", bias=True),
        "layers": v.whole("num_hidden_layers"),
        "before": [patches(v, width, bias=False, deep=v.whole("temporal_patch_size"))],
    }


def merger(width: int, inner: int, text: int, merge: int) -> list[Block]:
    """Two matrices on each token, then merge x merge tokens side by side through two more."""
    count = merge**2
    return [
        linear("projector_in", inner, input=width),
        linear("projector_out", text, input=inner),
        linear("merger_in", inner, input=text * count, merge=count),
        linear("merger_out", text, input=inner, merge=count),
    ]


_BASE = {
    "hidden_size": 1280,
    "intermediate_size": 5120,
    "num_hidden_layers": 32,
    "num_attention_heads": 16,
    "num_channels": 3,
    "patch_size": 14,
    "temporal_patch_size": 2,
    "spatial_merge_size": 2,
    "hidden_act": "gelu",
}
_OTHER = frozenset(
    "image_size projection_dim position_embedding_type rope_mode vocab_size img_token_compression_config vision_segment_max_frames".split()
)
TOWERS = {"minimax_m3_vl_vision": EncoderFamily(minimax, _BASE, _OTHER)}
