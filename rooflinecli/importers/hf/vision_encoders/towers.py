"""Readers of the image encoders in towers.yaml. Source: transformers 5.23 models of those names, modeling_*.py.

Qwen, GLM and MiniMax: patches of two frames are one token, and the second frame of an image is the image again.
"""

from __future__ import annotations

from typing import Any

from rooflinecli.importers.hf.decoder import attention, feedforward
from rooflinecli.importers.hf.layer_pattern import Override, stack
from rooflinecli.importers.hf.vision_encoders import Block, linear, mha, norm, patches, side, table, values
from rooflinecli.specs.field_reader import ConfigFields

_NONE = {"kind": "none"}


def _clip_stack(v: ConfigFields, attention: Block, mlp: Block, norm: str, **more: object) -> Block:
    return {
        "d_model": v.integer("hidden_size"),
        "norm": norm,
        "positions": _NONE,
        "attention": attention,
        "feedforward": mlp,
        "layers": v.integer("num_hidden_layers"),
        **more,
    }


def _clip_patches(v: ConfigFields) -> int:
    return (side(v, "image_size") // side(v, "patch_size")) ** 2


def clip(v: ConfigFields) -> Block:
    """A class token before the patches, a norm before the layers and one after."""
    width = v.integer("hidden_size")
    before = [patches(v, width, bias=False, less=1), values("class_token"), table("positions", _clip_patches(v) + 1)]
    block = mha(v, "num_attention_heads", width, qkv_bias=True, out_bias=True)
    return _clip_stack(v, block, feedforward(v, "dense", bias=True), "layernorm", before=before, pre_norm=True)


def siglip(v: ConfigFields) -> Block:
    """No class token; the head that pools by a learned query is there unless vision_use_head is off."""
    width = v.integer("hidden_size")
    before = [patches(v, width, bias=True), table("positions", _clip_patches(v))]
    block = mha(v, "num_attention_heads", width, qkv_bias=True, out_bias=True)
    more = {"after": _pooling(v, width)} if v.flag("vision_use_head", True) else {}
    return _clip_stack(v, block, feedforward(v, "dense", bias=True), "layernorm", before=before, **more)


def idefics3(v: ConfigFields) -> Block:
    """SigLIP without the head that pools."""
    made = siglip(v)
    made.pop("after", None)
    return made


def _pooling(v: ConfigFields, width: int) -> list[Block]:
    """A learned query attends to every patch, an MLP follows."""
    inner = v.integer("intermediate_size")
    return [
        values("probe"),
        linear("pool_kv", 2 * width),
        linear("pool_q", width, once=True),
        {"kind": "pool", "name": "pool"},
        linear("pool_out", width, once=True),
        norm("pool_norm", "layernorm", once=True),
        linear("pool_up", inner, once=True),
        linear("pool_down", width, input=inner, once=True),
    ]


def pixtral(v: ConfigFields) -> Block:
    """As a llama without causality: rotary in two axes, gated, no biases; a norm before the layers, none after."""
    width = v.integer("hidden_size")
    v.expect("head_dim", (width // v.integer("num_attention_heads"), None), "heads fill the width")
    block = mha(v, "num_attention_heads", width)
    _ = side(v, "image_size")
    made = _clip_stack(v, block, feedforward(v, "gated"), "rmsnorm", before=[patches(v, width, bias=False)])
    return made | {"pre_norm": True, "final_norm": False, "positions": {"kind": "rotary"}}


def internvl(v: ConfigFields) -> Block:
    """A class token, a mask token if enabled, two learned scales a layer; a norm after the layers unless it pools by the mean."""
    width, kind = v.integer("hidden_size"), v.text("norm_type", default="layer_norm")
    if kind not in ("layer_norm", "rms_norm"):
        raise v.fail("norm_type", f"'{kind}' is not a supported norm; supported: layer_norm, rms_norm")
    before = [patches(v, width, bias=True, less=1), values("class_token")]
    before += [values("mask_token")] if v.flag("use_mask_token") else []
    before += [table("positions", _clip_patches(v) + 1)] if v.flag("use_absolute_position_embeddings", True) else []
    bias = v.flag("attention_bias")
    qk = "full" if v.flag("use_qk_norm") else "none"
    block = mha(v, "num_attention_heads", width, qkv_bias=bias, out_bias=True, qk_norm=qk)
    scales = [{"kind": "scale", "name": "scale", "rows": 2}]
    norms = "layernorm" if kind == "layer_norm" else "rmsnorm"
    made = _clip_stack(
        v, block, feedforward(v, "dense", bias=True), norms, before=before, pieces=scales, final_norm=False
    )
    if not v.flag("use_mean_pooling", True):
        made["after"] = [norm("final_norm", "layernorm")]
    return made


def text_tower(t: ConfigFields, causal: bool) -> Block:
    """The text encoder of CLIP or SigLIP."""
    width, rows = t.integer("hidden_size"), t.integer("max_position_embeddings")
    block = mha(t, "num_attention_heads", width, qkv_bias=True, out_bias=True) | {"causal": causal}
    made: Block = {"d_model": width, "vocab_size": t.integer("vocab_size"), "norm": "layernorm", "lm_head": False}
    made |= {"positions": {"kind": "learned", "length": rows}, "max_context": rows, "attention": block}
    return made | {"feedforward": feedforward(t, "dense", bias=True), "layers": t.integer("num_hidden_layers")}


def _qwen_patches(v: ConfigFields, width: int, bias: bool) -> Block:
    channels = "in_channels" if "in_channels" in v.data or "in_chans" not in v.data else "in_chans"
    v.expect(
        "spatial_patch_size", (side(v, "patch_size"), None), "it is patch_size under another name; make them agree"
    )
    return patches(v, width, bias=bias, channels=channels, deep=v.integer("temporal_patch_size"))


def _qwen_merger(name: str, width: int, out: int, merge: int, norms: str, concat_first: bool = False) -> list[Block]:
    """Concatenation of merge x merge tokens through two matrices; normalized before it, or after it (Qwen3-VL's deep stack)."""
    side, count = width * merge**2, merge**2
    first = norm(f"{name}_norm", norms, width=side, merge=count) if concat_first else norm(f"{name}_norm", norms)
    return [
        first,
        linear(f"{name}_up", side, input=side, merge=count),
        linear(f"{name}_out", out, input=side, merge=count),
    ]


def _qwen_stack(
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


def qwen2_vl(v: ConfigFields) -> Block:
    """embed_dim is the width, hidden_size that of the decoder."""
    width = v.integer("embed_dim")
    ratio = v.raw("mlp_ratio")
    if isinstance(ratio, bool) or not isinstance(ratio, (int, float)) or ratio <= 0:
        raise v.fail("mlp_ratio", f"expected a number above zero, got {str(ratio)[:60]!r}")
    after = _qwen_merger("merger", width, v.integer("hidden_size"), v.integer("spatial_merge_size"), "layernorm")
    mlp = feedforward(v, "dense", d_ff=int(width * ratio), bias=True)
    return _qwen_stack(v, width, mlp, "layernorm", v.integer("depth"), [_qwen_patches(v, width, False)], after)


def qwen2_5_vl(v: ConfigFields) -> Block:
    """Gated; layers attend inside windows of window_size pixels, but for those of fullatt_block_indexes."""
    width, merge = v.integer("hidden_size"), v.integer("spatial_merge_size")
    depth, full = v.integer("depth"), v.items("fullatt_block_indexes", int) or []
    inside = (v.integer("window_size") // merge // side(v, "patch_size") * merge) ** 2
    local: list[Override] = [{} if i in full else {"attention": {"chunk": inside}} for i in range(depth)]
    after = _qwen_merger("merger", width, v.integer("out_hidden_size"), merge, "rmsnorm")
    mlp = feedforward(v, "gated", bias=True)
    return _qwen_stack(v, width, mlp, "rmsnorm", stack(local), [_qwen_patches(v, width, False)], after)


def qwen3_vl(v: ConfigFields) -> Block:
    """Learned and rotary positions; mergers of intermediate layers in addition to that of the last."""
    width, merge = v.integer("hidden_size"), v.integer("spatial_merge_size")
    out, deep = v.integer("out_hidden_size"), v.items("deepstack_visual_indexes", int) or []
    after = _qwen_merger("merger", width, out, merge, "layernorm")
    for i in range(len(deep)):
        after += _qwen_merger(f"deep{i}", width, out, merge, "layernorm", concat_first=True)
    before = [_qwen_patches(v, width, True), table("positions", v.integer("num_position_embeddings"))]
    return _qwen_stack(v, width, feedforward(v, "dense", bias=True), "layernorm", v.integer("depth"), before, after)


def llama4(v: ConfigFields) -> Block:
    """A class token after the patches; the pixel shuffle leaves a quarter of them at four times the width, which two matrices read."""
    width, inner = v.integer("hidden_size"), v.integer("intermediate_size")
    ratio = v.raw("pixel_shuffle_ratio")
    v.expect("pixel_shuffle_ratio", (0.5,), "only the shuffle of four patches into one is supported")
    merge = int(1 / ratio**2)
    if inner != width * merge:
        raise v.fail(
            "intermediate_size", f"{inner} is not {merge} x hidden_size, which the adapter reads; give {width * merge}"
        )
    count = (side(v, "image_size") // side(v, "patch_size")) ** 2
    before = [patches(v, width, bias=False, less=1), values("class_token"), table("positions", count + 1)]
    first, out = v.integer("projector_input_dim"), v.integer("projector_output_dim")
    after = [
        linear("adapter_up", first, input=inner, bias=False, merge=merge, less=1),
        linear("adapter_out", out, input=out, bias=False, merge=merge, less=1),
    ]
    return {
        "d_model": width,
        "norm": "layernorm",
        "pre_norm": True,
        "attention": mha(v, "num_attention_heads", width, qkv_bias=True, out_bias=True),
        "feedforward": feedforward(v, "dense", bias=True),
        "layers": v.integer("num_hidden_layers"),
        "before": before,
        "after": after,
    }


def mllama(v: ConfigFields) -> Block:
    """All tiles of an image in one sequence; tables of tiles and aspect ratios; global layers behind a gate of two numbers each."""
    width, tiles = v.integer("hidden_size"), v.integer("max_num_tiles")
    ratios = v.raw("supported_aspect_ratios")
    if not isinstance(ratios, list) or not ratios:
        raise v.fail("supported_aspect_ratios", "expected a list of tile counts such as [[1, 1], [1, 2]]")
    rows, count = len(ratios) + 1, (side(v, "image_size") // side(v, "patch_size")) ** 2 + 1
    before = [
        patches(v, width, bias=False),
        values("class_token"),
        table("positions", count),
        table("tile_positions", rows, width=tiles * count * width, once=True),
        table("ratios_before", rows, width=tiles * width, once=True),
        table("ratios_after", rows, width=tiles * width, once=True),
        values("gates", 3, width=1),
    ]
    plain, whole = v.integer("num_hidden_layers"), v.integer("num_global_layers")
    gates = [values("gates", 2, width=1)]
    layers: list[Override] = [{} for _ in range(plain)] + [{"pieces": gates} for _ in range(whole)]
    return {
        "d_model": width,
        "norm": "layernorm",
        "pre_norm": True,
        "final_norm": False,
        "positions": {"kind": "none"},
        "attention": mha(v, "attention_heads", width),
        "feedforward": feedforward(v, "dense", bias=True),
        "layers": stack(layers),
        "before": before,
        "after": [norm("norm_after", "layernorm")],
    }


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


def glm4v(v: ConfigFields) -> Block:
    """Learned and rotary positions, an MLP of the decoder's width; the merger has intermediate_size."""
    made = _glm_stack(v, v.integer("out_hidden_size"), bias=False)
    made["before"] += [
        norm("patch_norm", "rmsnorm"),
        table("positions", (side(v, "image_size") // side(v, "patch_size")) ** 2),
    ]
    return made


def glm_ocr(v: ConfigFields) -> Block:
    """Rotary positions, q and k normalized per head; the merger's width is its input times in_channels."""
    made = _glm_stack(
        v,
        v.integer("intermediate_size"),
        bias=v.flag("attention_bias"),
        merger=v.integer("out_hidden_size") * v.integer("in_channels"),
    )
    made["attention"] |= {"qk_norm": "head"} | ({"out_bias": True} if v.flag("attention_bias") else {})
    return made


def _glm_stack(v: ConfigFields, mlp: int, *, bias: bool, merger: int | None = None) -> Block:
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
