"""qwen2_vl_vision, qwen2_5_vl_vision, qwen3_vl_vision, qwen3_5_vision. Source: transformers 5.23 models/{qwen2_vl,qwen2_5_vl,qwen3_vl,qwen3_5}/modeling_*.py.

Patches of two frames are one token (the second frame of an image is the image again); after the layers, four tokens become one.
"""

from __future__ import annotations

from typing import Any

from rooflinecli.importers.hf.decoder import feedforward
from rooflinecli.importers.hf.layer_pattern import Override, stack
from rooflinecli.importers.hf.vision_encoders import Block, linear, mha, norm, patches, side, table
from rooflinecli.specs.field_reader import ConfigFields


def _patches(v: ConfigFields, width: int, bias: bool) -> Block:
    channels = "in_channels" if "in_channels" in v.data or "in_chans" not in v.data else "in_chans"
    v.expect(
        "spatial_patch_size", (side(v, "patch_size"), None), "it is patch_size under another name; make them agree"
    )
    return patches(v, width, bias=bias, channels=channels, deep=v.integer("temporal_patch_size"))


def _merger(name: str, width: int, out: int, merge: int, norms: str, concat_first: bool = False) -> list[Block]:
    """Concatenation of merge x merge tokens through two matrices; normalized before it, or after it (Qwen3-VL's deep stack)."""
    side, count = width * merge**2, merge**2
    first = norm(f"{name}_norm", norms, width=side, merge=count) if concat_first else norm(f"{name}_norm", norms)
    return [
        first,
        linear(f"{name}_up", side, input=side, merge=count),
        linear(f"{name}_out", out, input=side, merge=count),
    ]


def _stack(
    v: ConfigFields, width: int, mlp: Block, norms: str, layers: Any, before: list[Block], after: list[Block]
) -> Block:
    return {
        "d_model": width,
        "norm": norms,
        "final_norm": False,
        "attention": mha(v, "num_heads", width, qkv_bias=True, out_bias=True),
        "feedforward": mlp,
        "layers": layers,
        "before": before,
        "after": after,
    }


def qwen2(v: ConfigFields) -> Block:
    """embed_dim is the width, hidden_size that of the decoder."""
    width = v.integer("embed_dim")
    ratio = v.raw("mlp_ratio")
    if isinstance(ratio, bool) or not isinstance(ratio, (int, float)) or ratio <= 0:
        raise v.fail("mlp_ratio", f"expected a number above zero, got {str(ratio)[:60]!r}")
    after = _merger("merger", width, v.integer("hidden_size"), v.integer("spatial_merge_size"), "layernorm")
    mlp = feedforward(v, "dense", d_ff=int(width * ratio), bias=True)
    return _stack(v, width, mlp, "layernorm", v.integer("depth"), [_patches(v, width, False)], after)


def qwen2_5(v: ConfigFields) -> Block:
    """Gated; layers attend inside windows of window_size pixels, but for those of fullatt_block_indexes."""
    width, merge = v.integer("hidden_size"), v.integer("spatial_merge_size")
    depth, full = v.integer("depth"), v.items("fullatt_block_indexes", int) or []
    inside = (v.integer("window_size") // merge // side(v, "patch_size") * merge) ** 2
    local: list[Override] = [{} if i in full else {"attention": {"chunk": inside}} for i in range(depth)]
    after = _merger("merger", width, v.integer("out_hidden_size"), merge, "rmsnorm")
    mlp = feedforward(v, "gated", bias=True)
    return _stack(v, width, mlp, "rmsnorm", stack(local), [_patches(v, width, False)], after)


def qwen3(v: ConfigFields) -> Block:
    """Learned and rotary positions; mergers of intermediate layers in addition to that of the last."""
    width, merge = v.integer("hidden_size"), v.integer("spatial_merge_size")
    out, deep = v.integer("out_hidden_size"), v.items("deepstack_visual_indexes", int) or []
    after = _merger("merger", width, out, merge, "layernorm")
    for i in range(len(deep)):
        after += _merger(f"deep{i}", width, out, merge, "layernorm", concat_first=True)
    before = [_patches(v, width, True), table("positions", v.integer("num_position_embeddings"))]
    return _stack(v, width, feedforward(v, "dense", bias=True), "layernorm", v.integer("depth"), before, after)
