"""Projectors between an image encoder and its decoder, by wrapper: the matrices, and how many tokens an image takes.

Source: transformers 5.23 models/*/modeling_*.py for the matrices, processing_*.py and image_processing_*.py for the tokens;
sizes that only preprocessor_config.json has are those of the checkpoints named with them.
"""

from __future__ import annotations

from rooflinecli.importers.hf.vision_encoders import Block, linear, norm, side, values
from rooflinecli.specs.field_reader import MISSING, ConfigFields

Joined = tuple[list[Block], Block]
_QWEN2 = "preprocessor_config.json of Qwen/Qwen2-VL-7B-Instruct and Qwen/Qwen2.5-VL-7B-Instruct: min_pixels 3136, max_pixels 12845056"
_QWEN3 = "preprocessor_config.json of Qwen/Qwen3-VL-8B-Instruct: shortest_edge 65536, longest_edge 16777216 (pixels of the image)"

# image_grid_pinpoints where a config has none: heights and widths of preprocessor_config.json
_NEXT = [[336, 672], [672, 336], [672, 672], [1008, 336], [336, 1008]]
_ONE = [[384 * i, 384 * j] for i in range(1, 7) for j in range(1, 7)]


def kimi_merger(width: int, text: int, merge: int) -> list[Block]:
    """A norm of each token, then merge x merge concatenated tokens through two matrices."""
    expanded, count = width * merge**2, merge**2
    return [
        norm("projector_norm", "layernorm"),
        linear("projector_in", expanded, input=expanded, merge=count),
        linear("projector_out", text, input=expanded, merge=count),
    ]


def minimax_merger(width: int, inner: int, text: int, merge: int) -> list[Block]:
    """Two matrices on each token, then merge x merge concatenated tokens through two more."""
    count = merge**2
    return [
        linear("projector_in", inner, input=width),
        linear("projector_out", text, input=inner),
        linear("merger_in", inner, input=text * count, merge=count),
        linear("merger_out", text, input=inner, merge=count),
    ]


def _two(outer: ConfigFields, input_width: int, text: int, **more: int) -> list[Block]:
    bias = outer.flag("multimodal_projector_bias", True)
    return [
        linear("projector_in", text, input=input_width, bias=bias, **more),
        linear("projector_out", text, input=text, bias=bias, **more),
    ]


def _features(outer: ConfigFields) -> int:
    """Number of encoder layers whose outputs are concatenated."""
    chosen = outer.raw("vision_feature_layer")
    return len(chosen) if isinstance(chosen, list) and chosen else 1


def qwen(outer: ConfigFields, v: ConfigFields, made: Block, text: int) -> Joined:
    """The merger is part of the encoder; sides are rounded to multiples of a merged patch."""
    out = v.integer("out_hidden_size" if "out_hidden_size" in {**v.defaults, **v.data} else "hidden_size")
    if out != text:
        raise v.fail("out_hidden_size", f"{out} is not the decoder's width {text}; make them equal")
    three = "num_position_embeddings" in {**v.defaults, **v.data}
    least, most = (65536, 16777216) if three else (3136, 12845056)
    patch, merge = side(v, "patch_size"), v.integer("spatial_merge_size")
    source = _QWEN3 if three else _QWEN2
    return [], {
        "kind": "smart-resize",
        "patch": patch,
        "merge": merge,
        "least": least,
        "most": most,
        "wrap": 2,
        "source": source,
    }


def _square(v: ConfigFields, **more: object) -> Block:
    return {"kind": "fixed-square", "patch": side(v, "patch_size"), "size": side(v, "image_size"), **more}


def gemma3(outer: ConfigFields, v: ConfigFields, made: Block, text: int) -> Joined:
    """Patches are averaged to mm_tokens_per_image, normed, and taken to the decoder by one matrix."""
    width, tokens = v.integer("hidden_size"), outer.integer("mm_tokens_per_image", null=256)
    across, left = side(v, "image_size") // side(v, "patch_size"), int(tokens**0.5)
    if left**2 != tokens or across % left:
        raise outer.fail(
            "mm_tokens_per_image", f"{tokens} tokens make no square that {across} patches a side fill; give another"
        )
    merge = (across // left) ** 2
    after = [
        norm("projector_norm", "rmsnorm", merge=merge),
        linear("projector", text, input=width, bias=False, merge=merge),
    ]
    return after, _square(v, tokens=tokens, wrap=2, source="processing_gemma3.py: begin and end of image around them")


def gemma4(outer: ConfigFields, v: ConfigFields, made: Block, text: int) -> Joined:
    """Patches are averaged by pooling_kernel_size squares and taken to the decoder by one matrix."""
    merge = v.integer("pooling_kernel_size")
    after = [
        norm("projector_norm", "none", merge=merge**2),
        linear("projector", text, input=v.integer("hidden_size"), bias=False, merge=merge**2),
    ]
    source = "image_processing_gemma4.py: max_soft_tokens 280; processing_gemma4.py: begin and end of image around them"
    tokens = outer.integer("vision_soft_tokens_per_image", null=280)
    images = {"kind": "token-budget", "patch": side(v, "patch_size"), "merge": merge, "tokens": tokens, "wrap": 2}
    return after, images | {"source": source}


def paligemma(outer: ConfigFields, v: ConfigFields, made: Block, text: int) -> Joined:
    """One matrix; a token for each patch."""
    inner, outer_width = v.raw("projection_dim"), outer.raw("projection_dim")
    stated = next((x for x in (inner, outer_width) if x is not MISSING and x is not None), text)
    if stated != text:
        raise outer.fail("projection_dim", f"{stated} is not the decoder's width {text}; make them equal")
    return [linear("projector", text)], _square(v)


def llava(outer: ConfigFields, v: ConfigFields, made: Block, text: int) -> Joined:
    """Two matrices over the concatenated outputs of chosen layers; a token for each patch, the class token's too where strategy is full."""
    strategy = outer.text("vision_feature_select_strategy", default="default")
    if strategy not in ("default", "full"):
        raise outer.fail("vision_feature_select_strategy", f"'{strategy}' is not known; known: default, full")
    input_width = v.integer("hidden_size") * _features(outer)
    extra = 1 if any(piece["name"] == "class_token" for piece in made["before"]) else 0
    if made["positions"] == {"kind": "rotary"}:  # Pixtral's tower: images keep their shape
        images = {"kind": "longest-edge", "patch": side(v, "patch_size"), "size": side(v, "image_size")}
        return _two(outer, input_width, text), images | {
            "source": "processing_pixtral.py: a break behind each row of patches"
        }
    less = extra if strategy == "default" else 0
    tokens = (side(v, "image_size") // side(v, "patch_size")) ** 2 + extra - less
    return _two(outer, input_width, text, less=less), _square(v, extra=extra, tokens=tokens)


def mistral3(outer: ConfigFields, v: ConfigFields, made: Block, text: int) -> Joined:
    """A norm, merge x merge patches into one of the same width, two matrices; rows of tokens end in a break."""
    if _features(outer) != 1:
        raise outer.fail("vision_feature_layer", "a list of layers is not supported here; give one")
    width, merge = v.integer("hidden_size"), outer.integer("spatial_merge_size", null=2)
    outer.defaults = {**outer.defaults, "multimodal_projector_bias": False}
    count = merge**2
    after = [
        norm("projector_norm", "rmsnorm"),
        linear("patch_merger", width, input=width * count, bias=False, merge=count),
        *_two(outer, width, text, merge=count),
    ]
    images = {"kind": "longest-edge", "patch": side(v, "patch_size"), "merge": merge, "size": side(v, "image_size")}
    return after, images | {"source": "processing_pixtral.py: a break behind each row of merged patches"}


def internvl(outer: ConfigFields, v: ConfigFields, made: Block, text: int) -> Joined:
    """Pixel shuffle by downsample_ratio, a norm and two matrices; tiles of image_size, the nearest grid of up to 12, and an overview."""
    ratio = outer.raw("downsample_ratio")
    merge = (
        2 if ratio is MISSING or ratio is None else int(1 / ratio) if isinstance(ratio, float) and 0 < ratio <= 1 else 0
    )
    if not merge:
        raise outer.fail("downsample_ratio", f"expected a share such as 0.5, got {str(ratio)[:60]!r}")
    count, less = merge**2, 1
    input_width = v.integer("hidden_size") * count
    after = [
        norm("projector_norm", "layernorm", width=input_width, merge=count, less=less),
        linear("projector_in", text, input=input_width, merge=count, less=less),
        linear("projector_out", text, input=text, merge=count, less=less),
    ]
    patches = (side(v, "image_size") // side(v, "patch_size")) ** 2
    tokens = outer.integer("image_seq_length", "image_seq_len", null=patches // count)
    return after, _square(
        v,
        kind="dynamic-tiles",
        extra=1,
        tokens=tokens,
        tiles=12,
        overview=True,
        wrap=2,
        source="image_processing_got_ocr2.py: crop_to_patches, max_patches 12; processing_internvl.py",
    )


def llama4(outer: ConfigFields, v: ConfigFields, made: Block, text: int) -> Joined:
    """One matrix after the encoder's adapter; a canvas of up to 16 tiles and the full image."""
    after = [linear("projector", text, input=v.integer("vision_output_dim"), bias=False, merge=4, less=1)]
    patches = (side(v, "image_size") // side(v, "patch_size")) ** 2
    source = "image_processing_llama4.py: max_patches 16; processing_llama4.py: separators of tiles and rows"
    return after, _square(
        v, kind="best-fit-canvas", extra=1, tokens=patches // 4, tiles=16, overview=True, source=source
    )


def mllama(outer: ConfigFields, v: ConfigFields, made: Block, text: int) -> Joined:
    """The last layer's output concatenated with those of chosen layers; cross-attention reads it, and the prompt has one token for it."""
    chosen = v.items("intermediate_layers_indices", int) or []
    input_width, width = v.integer("vision_output_dim"), v.integer("hidden_size")
    if input_width != width * (len(chosen) + 1):
        raise v.fail(
            "vision_output_dim",
            f"{input_width} is not hidden_size x {len(chosen) + 1}, the layers it is made of; make them agree",
        )
    tiles = v.integer("max_num_tiles")
    source = "image_processing_mllama.py: padded to max_num_tiles tiles; modeling_mllama.py: each padded to a multiple of 8 positions"
    return [linear("projector", text, input=input_width)], _square(
        v, kind="padded-tiles", extra=1, tokens=1, tiles=tiles, source=source
    )


def kimi(outer: ConfigFields, v: ConfigFields, made: Block, text: int) -> Joined:
    """merge x merge patches are one token of the decoder; images keep their shape within a budget of patches."""
    merge, patch, width = v.items("merge_kernel_size", int, 2) or [2, 2], side(v, "patch_size"), made["d_model"]
    if merge[0] != merge[1]:
        raise v.fail("merge_kernel_size", f"{merge[0]} by {merge[1]} is no square, and only squares are supported")
    stated = outer.integer("projection_hidden_size", null=width)
    if stated != width:
        raise outer.fail("projection_hidden_size", f"{stated} is not the encoder's width {width}; make them equal")
    images = {"kind": "patch-budget", "patch": patch, "merge": merge[0], "most": 16384 * patch**2, "size": 512 * patch}
    source = "image_processing_kimi_k25.py: max_patches 16384, 512 patches a side"
    return kimi_merger(width, text, merge[0]), images | {"source": source}


def minimax(outer: ConfigFields, v: ConfigFields, made: Block, text: int) -> Joined:
    """Sides go to multiples of a merged patch, the area between 56 x 56 and 1,280 of them."""
    merge, patch = v.integer("spatial_merge_size"), side(v, "patch_size")
    inner = outer.integer("projector_hidden_size", null=text)
    outer.expect("multimodal_projector_bias", (True, None), "its projector has biases; fix it")
    unit = (patch * merge) ** 2
    images = {"kind": "smart-resize", "patch": patch, "merge": merge, "least": 4 * unit, "most": 1280 * unit}
    source = "image_processing_minimax_m3_vl.py: min_pixels 56 x 56, max_pixels 28 x 28 x 1280"
    return minimax_merger(v.integer("hidden_size"), inner, text, merge), images | {"source": source}


def _class_token(made: Block) -> int:
    return 1 if any(piece["name"] == "class_token" for piece in made["before"]) else 0


def glm(outer: ConfigFields, v: ConfigFields, made: Block, text: int) -> Joined:
    """The merger is part of the encoder; sides are rounded to multiples of a merged patch within an area of two frames."""
    out = v.integer("out_hidden_size")
    if out != text:
        raise v.fail("out_hidden_size", f"{out} is not the decoder's width {text}; make them equal")
    source = "image_processing_glm4v.py: 112 x 112 to 28 x 28 x 15000 pixels of two frames; begin and end of image around them"
    images = {
        "kind": "smart-resize",
        "patch": side(v, "patch_size"),
        "merge": v.integer("spatial_merge_size"),
        "wrap": 2,
    }
    return [], images | {"least": 112 * 112 // 2, "most": 28 * 28 * 15000 // 2, "source": source}


def _tiled(
    outer: ConfigFields, v: ConfigFields, made: Block, text: int, strategy: str, usual: list[list[int]]
) -> Joined:
    """Two matrices over the concatenated layers, a learned break of rows, tiles by the best of the listed grids."""
    chosen = outer.raw("vision_feature_layer")
    count = len(chosen) if isinstance(chosen, list) and chosen else 1
    kept = outer.text("vision_feature_select_strategy", default=strategy)
    if kept not in ("default", "full"):
        raise outer.fail("vision_feature_select_strategy", f"'{kept}' is not known; known: default, full")
    extra, bias = _class_token(made), outer.flag("multimodal_projector_bias", True)
    less = extra if kept == "default" else 0
    after = [
        linear("projector_in", text, input=v.integer("hidden_size") * count, bias=bias, less=less),
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
    """Patches beyond those of the N tiles of anyres_max_N are scaled down."""
    stated = outer.text("vision_aspect_ratio", default="anyres_max_9")
    tiles = stated.removeprefix("anyres_max_")
    if not tiles.isdigit() or not int(tiles):
        raise outer.fail("vision_aspect_ratio", f"'{stated[:40]}' is not known; known: anyres_max_N")
    after, images = _tiled(outer, v, made, text, "full", _ONE)
    return after, images | {"tiles": int(tiles), "source": "processing_llava_onevision.py"}


def vipllava(outer: ConfigFields, v: ConfigFields, made: Block, text: int) -> Joined:
    """A norm over the concatenated outputs of five layers, two matrices with biases; the class token is left out."""
    chosen = outer.raw("vision_feature_layer")
    count = len(chosen) if isinstance(chosen, list) and chosen else 5 if chosen is MISSING or chosen is None else 1
    input_width, extra = v.integer("hidden_size") * count, _class_token(made)
    after = [
        norm("projector_norm", "layernorm", width=input_width, less=extra),
        linear("projector_in", text, input=input_width, less=extra),
        linear("projector_out", text, input=text, less=extra),
    ]
    return after, _square(v, extra=extra, tokens=(side(v, "image_size") // side(v, "patch_size")) ** 2)


def idefics3(outer: ConfigFields, v: ConfigFields, made: Block, text: int) -> Joined:
    """scale_factor x scale_factor patches are one token, through one matrix; tiles of image_size, the longer side four of them."""
    scale = outer.integer("scale_factor", null=2)
    count, size = scale**2, side(v, "image_size")
    after = [linear("projector", text, input=v.integer("hidden_size") * count, bias=False, merge=count)]
    tokens = (size // side(v, "patch_size")) ** 2 // count
    source = "image_processing_idefics3.py: the longer side to 4 tiles; processing_idefics3.py: marks of tiles and rows"
    return after, _square(v, kind="image-splitting", tokens=tokens, most=4 * size, source=source)


def _shuffled(outer: ConfigFields, v: ConfigFields) -> tuple[int, int, int]:
    """Factor of a pixel shuffle, values of a shuffled token, tokens of a tile."""
    factor = outer.integer("downsample_factor", null=2)
    tokens = (side(v, "image_size") // side(v, "patch_size") // factor) ** 2
    return factor**2, v.integer("hidden_size") * factor**2, tokens


def aya(outer: ConfigFields, v: ConfigFields, made: Block, text: int) -> Joined:
    """Pixel shuffle, a norm, a gated pair of matrices; tiles in the nearest grid of up to 12, and an overview."""
    count, input_width, tokens = _shuffled(outer, v)
    inner = outer.integer("alignment_intermediate_size", null=text)
    after = [
        norm("projector_norm", "layernorm", width=input_width, merge=count),
        linear("projector_in", inner, input=input_width, merge=count),
        linear("projector_out", text, input=inner // 2, merge=count),
    ]
    source = "image_processing_got_ocr2.py: crop_to_patches, max_patches 12; processing_aya_vision.py"
    return after, _square(v, kind="dynamic-tiles", tokens=tokens, tiles=12, overview=True, wrap=2, source=source)


def cohere2(outer: ConfigFields, v: ConfigFields, made: Block, text: int) -> Joined:
    """As Aya's without the norm."""
    count, input_width, tokens = _shuffled(outer, v)
    inner = outer.integer("alignment_intermediate_size", null=36864)
    after = [
        linear("projector_in", inner, input=input_width, merge=count),
        linear("projector_out", text, input=inner // 2, merge=count),
    ]
    source = "image_processing_cohere2_vision.py: max_patches 12; processing_cohere2_vision.py"
    return after, _square(v, kind="dynamic-tiles", tokens=tokens, tiles=12, overview=True, wrap=2, source=source)


def lighton(outer: ConfigFields, v: ConfigFields, made: Block, text: int) -> Joined:
    """A norm, merge x merge patches into one of the same width, two matrices without biases."""
    width, merge = v.integer("hidden_size"), outer.integer("spatial_merge_size", null=2)
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
    """The encoder's two convolutions leave 1/16 of the patches at four times the width; one matrix."""
    after = [linear("projector", text, input=4 * v.integer("hidden_size"), bias=outer.flag("projector_bias"), merge=16)]
    source = "modeling_step3p7.py: the whole image; crops of large images are not counted"
    return after, _square(v, tokens=(side(v, "image_size") // side(v, "patch_size") // 4) ** 2, source=source)
