"""llama4_vision_model, mllama_vision_model. Source: transformers 5.23 models/{llama4,mllama}/modeling_*.py."""

from __future__ import annotations

from rooflinecli.importers.hf.decoder import feedforward
from rooflinecli.importers.hf.layer_pattern import Override, stack
from rooflinecli.importers.hf.vision_encoders import (
    Block,
    linear,
    mha,
    norm,
    patches,
    side,
    table,
    values,
)
from rooflinecli.specs.field_reader import ConfigFields


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
