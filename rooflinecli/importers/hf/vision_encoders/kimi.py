"""kimi_k25_vision (MoonViT). Source: transformers 5.23 models/kimi_k25/modeling_kimi_k25.py; field names of the checkpoints begin with vt_."""

from __future__ import annotations

from rooflinecli.importers.hf.decoder import feedforward
from rooflinecli.importers.hf.vision_encoders import Block, linear, mha, norm, patches, table
from rooflinecli.specs.field_reader import ConfigFields


def moonvit(v: ConfigFields) -> Block:
    """Learned positions and rotary ones in two axes; a norm after the layers."""
    width = v.integer("vt_hidden_size", "hidden_size")
    rows = v.integer("init_pos_emb_height", "pos_emb_height") * v.integer("init_pos_emb_width", "pos_emb_width")
    heads = "num_attention_heads" if "num_attention_heads" in v.data else "vt_num_attention_heads"
    return {
        "d_model": width,
        "norm": "layernorm",
        "attention": mha(v, heads, width, qkv_bias=True, out_bias=True),
        "feedforward": feedforward(v, "dense", bias=True, d_ff=v.integer("vt_intermediate_size", "intermediate_size")),
        "layers": v.integer("vt_num_hidden_layers", "num_hidden_layers"),
        "before": [patches(v, width, bias=True), table("positions", rows)],
    }


def merger(width: int, text: int, merge: int) -> list[Block]:
    """A norm of each token, then merge x merge concatenated tokens through two matrices."""
    expanded, count = width * merge**2, merge**2
    return [
        norm("projector_norm", "layernorm"),
        linear("projector_in", expanded, input=expanded, merge=count),
        linear("projector_out", text, input=expanded, merge=count),
    ]
