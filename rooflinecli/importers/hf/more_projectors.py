"""Joins of further wrappers: GLM-4V, LLaVA-NeXT and OneVision, VipLLaVA, Idefics3 and SmolVLM, Aya and Command A Vision, LightOnOCR.

Source: transformers 5.23 models/*/modeling_*.py for the matrices, processing_*.py and image_processing_*.py for the tokens.
"""

from __future__ import annotations

from rooflinecli.importers.hf.vision_encoders import Block, linear, norm, side, values
from rooflinecli.specs.field_reader import MISSING, ConfigFields

Joined = tuple[list[Block], Block]
# image_grid_pinpoints where a config has none: heights and widths of preprocessor_config.json
_NEXT = [[336, 672], [672, 336], [672, 672], [1008, 336], [336, 1008]]
_ONE = [[384 * i, 384 * j] for i in range(1, 7) for j in range(1, 7)]


def _square(v: ConfigFields, **more: object) -> Block:
    return {"kind": "fixed-square", "patch": side(v, "patch_size"), "size": side(v, "image_size"), **more}


def _class_token(made: Block) -> int:
    return 1 if any(piece["name"] == "class_token" for piece in made["before"]) else 0


def glm(outer: ConfigFields, v: ConfigFields, made: Block, text: int) -> Joined:
    """The merger is the tower's own; sides go to multiples of a merged patch within an area of two frames."""
    out = v.whole("out_hidden_size")
    if out != text:
        raise v.fail("out_hidden_size", f"{out} is not the decoder's width {text}; make them equal")
    source = "image_processing_glm4v.py: 112 x 112 to 28 x 28 x 15000 pixels of two frames; begin and end of image around them"
    images = {"kind": "smart-resize", "patch": side(v, "patch_size"), "merge": v.whole("spatial_merge_size"), "wrap": 2}
    return [], images | {"least": 112 * 112 // 2, "most": 28 * 28 * 15000 // 2, "source": source}


def _tiled(
    outer: ConfigFields, v: ConfigFields, made: Block, text: int, strategy: str, usual: list[list[int]]
) -> Joined:
    """Two matrices over the chosen layers side by side, a learned break of rows, tiles by the best of the listed grids."""
    chosen = outer.raw("vision_feature_layer")
    count = len(chosen) if isinstance(chosen, list) and chosen else 1
    kept = outer.text("vision_feature_select_strategy", default=strategy)
    if kept not in ("default", "full"):
        raise outer.fail("vision_feature_select_strategy", f"'{kept}' is not known; known: default, full")
    extra, bias = _class_token(made), outer.flag("multimodal_projector_bias", True)
    less = extra if kept == "default" else 0
    after = [
        linear("projector_in", text, input=v.whole("hidden_size") * count, bias=bias, less=less),
        linear("projector_out", text, input=text, bias=bias, less=less),
        values("image_newline", width=text),
    ]
    listed = outer.raw("image_grid_pinpoints")
    grids = listed if isinstance(listed, list) and listed else usual
    if not all(isinstance(g, list) and len(g) == 2 and all(isinstance(s, int) and s > 0 for s in g) for g in grids):
        raise outer.fail("image_grid_pinpoints", "expected pairs of height and width such as [336, 672]")
    tokens = (side(v, "image_size") // side(v, "patch_size")) ** 2 + extra - less
    return after, _square(v, kind="anyres", extra=extra, tokens=tokens, grids=grids)


def llava_next(outer: ConfigFields, v: ConfigFields, made: Block, text: int) -> Joined:
    after, images = _tiled(outer, v, made, text, "default", _NEXT)
    return after, images | {"source": "processing_llava_next.py"}


def llava_onevision(outer: ConfigFields, v: ConfigFields, made: Block, text: int) -> Joined:
    """Patches beyond those of so many tiles are scaled down."""
    said = outer.text("vision_aspect_ratio", default="anyres_max_9")
    tiles = said.removeprefix("anyres_max_")
    if not tiles.isdigit() or not int(tiles):
        raise outer.fail("vision_aspect_ratio", f"'{said[:40]}' is not known; known: anyres_max_N")
    after, images = _tiled(outer, v, made, text, "full", _ONE)
    return after, images | {"tiles": int(tiles), "source": "processing_llava_onevision.py"}


def vipllava(outer: ConfigFields, v: ConfigFields, made: Block, text: int) -> Joined:
    """A norm over the outputs of five layers side by side, two matrices with biases; the class token is left out."""
    chosen = outer.raw("vision_feature_layer")
    count = len(chosen) if isinstance(chosen, list) and chosen else 5 if chosen is MISSING or chosen is None else 1
    wide, extra = v.whole("hidden_size") * count, _class_token(made)
    after = [
        norm("projector_norm", "layernorm", width=wide, less=extra),
        linear("projector_in", text, input=wide, less=extra),
        linear("projector_out", text, input=text, less=extra),
    ]
    return after, _square(v, extra=extra, tokens=(side(v, "image_size") // side(v, "patch_size")) ** 2)


def idefics3(outer: ConfigFields, v: ConfigFields, made: Block, text: int) -> Joined:
    """scale_factor x scale_factor patches are one token, through one matrix; tiles of image_size, the longer side four of them."""
    scale = outer.whole("scale_factor", null=2)
    count, size = scale**2, side(v, "image_size")
    after = [linear("projector", text, input=v.whole("hidden_size") * count, bias=False, merge=count)]
    tokens = (size // side(v, "patch_size")) ** 2 // count
    source = "image_processing_idefics3.py: the longer side to 4 tiles; processing_idefics3.py: marks of tiles and rows"
    return after, _square(v, kind="image-splitting", tokens=tokens, most=4 * size, source=source)


def _shuffled(outer: ConfigFields, v: ConfigFields) -> tuple[int, int, int]:
    """Factor of a pixel shuffle, values of a shuffled token, tokens of a tile."""
    factor = outer.whole("downsample_factor", null=2)
    tokens = (side(v, "image_size") // side(v, "patch_size") // factor) ** 2
    return factor**2, v.whole("hidden_size") * factor**2, tokens


def aya(outer: ConfigFields, v: ConfigFields, made: Block, text: int) -> Joined:
    """Pixel shuffle, a norm, a gated pair of matrices; tiles in the nearest grid of up to 12, and an overview."""
    count, wide, tokens = _shuffled(outer, v)
    inner = outer.whole("alignment_intermediate_size", null=text)
    after = [
        norm("projector_norm", "layernorm", width=wide, merge=count),
        linear("projector_in", inner, input=wide, merge=count),
        linear("projector_out", text, input=inner // 2, merge=count),
    ]
    source = "image_processing_got_ocr2.py: crop_to_patches, max_patches 12; processing_aya_vision.py"
    return after, _square(v, kind="dynamic-tiles", tokens=tokens, tiles=12, overview=True, wrap=2, source=source)


def cohere2(outer: ConfigFields, v: ConfigFields, made: Block, text: int) -> Joined:
    """As Aya's without the norm."""
    count, wide, tokens = _shuffled(outer, v)
    inner = outer.whole("alignment_intermediate_size", null=36864)
    after = [
        linear("projector_in", inner, input=wide, merge=count),
        linear("projector_out", text, input=inner // 2, merge=count),
    ]
    source = "image_processing_cohere2_vision.py: max_patches 12; processing_cohere2_vision.py"
    return after, _square(v, kind="dynamic-tiles", tokens=tokens, tiles=12, overview=True, wrap=2, source=source)


def lighton(outer: ConfigFields, v: ConfigFields, made: Block, text: int) -> Joined:
    """A norm, merge x merge patches into one of the same width, two matrices without biases."""
    width, merge = v.whole("hidden_size"), outer.whole("spatial_merge_size", null=2)
    count = merge**2
    after = [
        norm("projector_norm", "rmsnorm"),
        linear("patch_merger", width, input=width * count, bias=False, merge=count),
        linear("projector_in", text, input=width, bias=False, merge=count),
        linear("projector_out", text, input=text, bias=False, merge=count),
    ]
    images = {"kind": "longest-edge", "patch": side(v, "patch_size"), "merge": merge, "size": side(v, "image_size")}
    return after, images | {"source": "processing_lighton_ocr.py: a break behind each row of merged patches"}


def step3(outer: ConfigFields, v: ConfigFields, made: Block, text: int) -> Joined:
    """The tower's two convolutions leave a sixteenth of the patches, four times as wide; one matrix."""
    after = [linear("projector", text, input=4 * v.whole("hidden_size"), bias=outer.flag("projector_bias"), merge=16)]
    source = "modeling_step3p7.py: the whole image; crops of large images are not counted"
    return after, _square(v, tokens=(side(v, "image_size") // side(v, "patch_size") // 4) ** 2, source=source)


MORE = {
    "step3p7": step3,
    **dict.fromkeys(("glm4v", "glm46v", "glm4v_moe", "glm_ocr"), glm),
    "llava_next": llava_next,
    "llava_onevision": llava_onevision,
    "vipllava": vipllava,
    **dict.fromkeys(("idefics3", "smolvlm"), idefics3),
    "aya_vision": aya,
    "cohere2_vision": cohere2,
    "lighton_ocr": lighton,
}
