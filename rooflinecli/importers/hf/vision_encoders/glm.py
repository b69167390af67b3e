"""glm4v_vision, glm4v_moe_vision, glm_ocr_vision. Source: transformers 5.23 models/{glm4v,glm4v_moe,glm_ocr}/modeling_*.py.

Patches of two frames are one token (the second frame of an image is the image again); a convolution makes one of merge x merge of them.
"""

from __future__ import annotations

from rooflinecli.importers.hf.decoder import feedforward
from rooflinecli.importers.hf.vision_encoders import Block, linear, mha, norm, patches, side, table
from rooflinecli.specs.field_reader import ConfigFields


def glm4v(v: ConfigFields) -> Block:
    """Learned and rotary positions, an MLP of the decoder's width; the merger has intermediate_size."""
    made = _stack(v, v.integer("out_hidden_size"), bias=False)
    made["before"] += [
        norm("patch_norm", "rmsnorm"),
        table("positions", (side(v, "image_size") // side(v, "patch_size")) ** 2),
    ]
    return made


def glm_ocr(v: ConfigFields) -> Block:
    """Rotary positions, q and k normalized per head; the merger's width is its input times in_channels."""
    made = _stack(
        v,
        v.integer("intermediate_size"),
        bias=v.flag("attention_bias"),
        merger=v.integer("out_hidden_size") * v.integer("in_channels"),
    )
    made["attention"] |= {"qk_norm": "head"} | ({"out_bias": True} if v.flag("attention_bias") else {})
    return made


def _stack(v: ConfigFields, mlp: int, *, bias: bool, merger: int | None = None) -> Block:
    width, out, merge = v.integer("hidden_size"), v.integer("out_hidden_size"), v.integer("spatial_merge_size")
    merger_width, count = merger or v.integer("intermediate_size"), merge**2
    first = patches(v, width, bias=True, channels="in_channels", deep=side(v, "temporal_patch_size"))
    after = [
        linear("downsample", out, input=width * count, merge=count),
        linear("merger_in", out, input=out, bias=False, merge=count),
        norm("merger_norm", "layernorm", width=out, merge=count),
        linear("merger_gate_up", 2 * merger_width, input=out, bias=False, merge=count),
        linear("merger_down", out, input=merger_width, bias=False, merge=count),
    ]
    return {
        "d_model": width,
        "norm": "rmsnorm",
        "attention": mha(v, "num_heads", width, qkv_bias=v.flag("attention_bias")),
        "feedforward": feedforward(v, "gated", d_ff=mlp, bias=bias),
        "layers": v.integer("depth"),
        "before": [first],
        "after": after,
    }
