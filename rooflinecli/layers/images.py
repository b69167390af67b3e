"""Rules that turn an image into inputs of a vision encoder and tokens of the prompt, a public function each.

The sizes come from the model's file, the rule from the processor that its authors published (transformers 5.23 where no other is named).
"""

from __future__ import annotations

import math

from rooflinecli.core.errors import UsageError
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.specs.model import ImageSpec

_ANYRES_SLACK = 1.1  # how far over the tiles allowed an image may go before it is scaled down
_AROUND_CANVAS = 3  # the image's begin, the overview's mark, the image's end
_PADDED_POSITIONS = 8
_FLATTEST = 200


@dataclass(frozen=True)
class ImageTiling:
    """Of one image: inputs that the tower reads, positions of each, and the tokens that it takes in the prompt."""

    inputs: int
    positions: int
    tokens: int


def _grid(spec: ImageSpec, width: int, height: int) -> int:
    """Patches of a number of pixels."""
    return (width // spec.patch) * (height // spec.patch)


def _tile(spec: ImageSpec) -> tuple[int, int]:
    """Positions in the tower, and tokens in the prompt, of an image of `size` pixels a side."""
    side = spec.size or spec.patch
    patches = _grid(spec, side, side)
    tokens = spec.tokens if spec.tokens is not None else patches // spec.merge**2
    return patches + spec.extra, tokens


def anyres(spec: ImageSpec, width: int, height: int) -> ImageTiling:
    """Tiles of `size` in the best of the listed grids, the whole image as one more, padding cut away, a break behind each row (LLaVA-NeXT).

    As many inputs as tiles and the overview; tokens of the overview, of the patches that are no padding, and of the breaks.

    With `tiles` the patches are scaled down to that number of tiles (LLaVA-OneVision's anyres_max). Source: transformers 5.23,
    processing_llava_next.py and processing_llava_onevision.py, _get_unpadded_features; image_processing_utils.py,
    select_best_resolution; Liu et al. 2024, llava-vl.github.io/blog/2024-01-30-llava-next.
    """
    size = spec.size or spec.patch

    def left(grid: list[int]) -> tuple[int, int]:
        """Pixels of the image that are left in a grid (height, width), and those of the grid that are not wasted."""
        scale = min(grid[1] / width, grid[0] / height)
        kept = min(int(width * scale) * int(height * scale), width * height)
        return kept, kept - grid[0] * grid[1]

    down, across = max(spec.grids or [[size, size]], key=left)
    rows, columns = down // size, across // size
    positions, tokens = _tile(spec)
    side = math.isqrt(tokens)
    high, wide = side * rows, side * columns  # patches down and across that show the image, not its padding
    if width / height > wide / high:
        high -= 2 * ((high - int(round(height * (wide / width), 7))) // 2)
    else:
        wide -= 2 * ((wide - int(round(width * (high / height), 7))) // 2)
    if spec.tiles > 1:
        over = math.sqrt(high * wide / (spec.tiles * side**2))
        high, wide = (int(high // over), int(wide // over)) if over > _ANYRES_SLACK else (high, wide)
    return ImageTiling(rows * columns + 1, positions, tokens + high * wide + high + spec.wrap)


def best_fit_canvas(spec: ImageSpec, width: int, height: int) -> ImageTiling:
    """The canvas of tiles that an image fills with the least enlargement, else the least reduction; then the whole image (Llama 4).

    An input for each tile and the overview; a separator behind every tile.

    Source: transformers 5.23, image_processing_llama4.py, get_best_fit; processing_llama4.py, _prompt_split_image.
    """
    # Columns and rows; of canvases that scale alike the smallest
    size, most = spec.size or spec.patch, spec.tiles
    grids = [(c, r) for c in range(1, most + 1) for r in range(1, most + 1) if c * r <= most]
    scales = {(c, r): min(c * size / width, r * size / height) for c, r in grids}
    enlarging = [scale for scale in scales.values() if scale >= 1]
    chosen = min(enlarging) if enlarging else max(scales.values())
    columns, rows = min((g for g, scale in scales.items() if scale == chosen), key=lambda g: g[0] * g[1])
    count = columns * rows
    positions, tokens = _tile(spec)
    if count == 1:
        return ImageTiling(1, positions, tokens + _AROUND_CANVAS)
    return ImageTiling(count + 1, positions, (count + 1) * tokens + count + _AROUND_CANVAS)


def dynamic_tiles(spec: ImageSpec, width: int, height: int) -> ImageTiling:
    """Tiles of `size` in the grid whose shape is nearest to the image's, and the whole image as one more (InternVL).

    As many inputs as tiles; each brings the same tokens.

    Source: transformers 5.23, image_processing_got_ocr2.py, get_optimal_tiled_canvas; Chen et al. 2024, arXiv 2404.16821, section 3.3.
    """
    grids = [(c, r) for c in range(1, spec.tiles + 1) for r in range(1, spec.tiles + 1) if c * r <= spec.tiles]
    (columns, rows), off = (1, 1), math.inf
    for c, r in sorted(grids, key=lambda g: g[0] * g[1]):  # of equals the larger where the image fills half of it
        far = abs(width / height - c / r)
        if far < off or (far == off and width * height > 0.5 * (spec.size or spec.patch) ** 2 * c * r):
            (columns, rows), off = (c, r), far
    count = columns * rows
    count += 1 if spec.overview and count > 1 else 0
    positions, tokens = _tile(spec)
    return ImageTiling(count, positions, count * tokens + spec.wrap)


def fixed_square(spec: ImageSpec, width: int, height: int) -> ImageTiling:
    """The whole image, brought to a square of `size` pixels whatever its shape (CLIP, SigLIP, LLaVA 1.5, PaliGemma, Gemma 3).

    One input; the same tokens for every image.

    Source: transformers 5.23, image_processing_{clip,siglip,gemma3}: resize to size (and crop to a square). Gemma 3 can add
    crops of long images (pan and scan), which is off unless asked for and not counted.
    """
    positions, tokens = _tile(spec)
    return ImageTiling(1, positions, tokens + spec.wrap)


def image_splitting(spec: ImageSpec, width: int, height: int) -> ImageTiling:
    """The longer side goes to `most` pixels, both to multiples of a tile; each tile and the whole image are inputs (Idefics3, SmolVLM).

    A tile is `size` pixels a side.

    Source: transformers 5.23, image_processing_idefics3.py (get_resize_output_image_size, split_image) and processing_idefics3.py,
    get_image_prompt_string: two tokens before each tile, one behind each row, three around the whole image.
    """
    size, longest = spec.size or spec.patch, spec.most or spec.patch
    if width >= height:
        w, h = longest, int(longest * height / width)
        h += h % 2
    else:
        h, w = longest, int(longest * width / height)
        w += w % 2
    columns, rows = -(-max(w, 1) // size), -(-max(h, 1) // size)
    positions, tokens = _tile(spec)
    if columns * rows == 1:
        return ImageTiling(1, positions, tokens + 3)
    return ImageTiling(columns * rows + 1, positions, columns * rows * (tokens + 2) + rows + tokens + 4)


def latent_patches(spec: ImageSpec, width: int, height: int) -> ImageTiling:
    """An image or video that is made: patches of its latent, of which an autoencoder makes `patch` pixels a side (DiT, Stable Diffusion 3, FLUX).

    One token for each patch of each latent frame. Raises UsageError for sides that no whole patches fill.

    Source: Peebles and Xie 2023, Scalable Diffusion Models with Transformers, arXiv 2212.09748, section 3.2: latents of an eighth of the
    side, patches of p x p of them; so `patch` is 8 p.
    """
    if width % spec.patch or height % spec.patch:
        raise UsageError(
            f"--image-size {width}x{height}: sides must be multiples of {spec.patch} pixels, a patch of the latent",
            "image",
        )
    tokens = (1 + (spec.frames - 1) // spec.frame_patch) * _grid(spec, width, height)
    return ImageTiling(1, tokens, tokens)


def longest_edge(spec: ImageSpec, width: int, height: int) -> ImageTiling:
    """Images keep their shape, the longer side no more than `size`; every row of merged patches ends in a token (Pixtral, Mistral 3).

    One input; sides are filled up to whole merged patches.

    Source: transformers 5.23, image_processing_pixtral.py, get_resize_output_image_size; processing_pixtral.py.
    """
    ratio = max(width, height) / (spec.size or max(width, height))
    if ratio > 1:
        width, height = math.floor(width / ratio), math.floor(height / ratio)
    unit = spec.patch * spec.merge
    rows, columns = (max(height, 1) - 1) // unit + 1, (max(width, 1) - 1) // unit + 1
    return ImageTiling(1, rows * columns * spec.merge**2, rows * (columns + 1))


def padded_tiles(spec: ImageSpec, width: int, height: int) -> ImageTiling:
    """All tiles of an image in one sequence, padded to the most there may be; the decoder's cross-attention reads them (Mllama).

    One input of every tile, whatever the image.

    Source: transformers 5.23, image_processing_mllama.py (tiles are padded to max_image_tiles) and modeling_mllama.py (positions
    of a tile padded to a multiple of 8).
    """
    positions, _ = _tile(spec)
    padded = -(-positions // _PADDED_POSITIONS) * _PADDED_POSITIONS
    return ImageTiling(1, spec.tiles * padded, spec.tokens or 1)


def patch_budget(spec: ImageSpec, width: int, height: int) -> ImageTiling:
    """An image keeps its shape, shrinks until its patches fit a budget, and is padded to merged patches (Kimi-K2.5).

    One input; at most `most` pixels and `size` pixels a side; merge x merge patches are one token.

    Source: transformers 5.23, image_processing_kimi_k25.py, navit_resize.
    """
    across, down = max(1, width // spec.patch), max(1, height // spec.patch)
    scale = 1.0
    if spec.most is not None:
        scale = min(scale, math.sqrt(spec.most / spec.patch**2 / (across * down)))
    if spec.size is not None:
        scale = min(scale, spec.size / width, spec.size / height)
    unit = spec.patch * spec.merge
    rows, columns = (-(-max(1, int(side * scale)) // unit) for side in (height, width))
    tokens = rows * columns
    return ImageTiling(1, tokens * spec.merge**2, tokens + spec.wrap)


def smart_resize(spec: ImageSpec, width: int, height: int) -> ImageTiling:
    """Sides go to the nearest multiple of a merged patch, and the area between two bounds (Qwen2-VL, Qwen2.5-VL, Qwen3-VL, Qwen3.5).

    One input of any shape; merge x merge patches are one token. Raises UsageError for an image 200 times as long as wide.

    Source: transformers 5.23, image_processing_qwen2_vl.py, smart_resize; Wang et al. 2024, Qwen2-VL, arXiv 2409.12191, section 2.1.
    """
    if max(width, height) > _FLATTEST * min(width, height):
        raise UsageError(
            f"--image-size {width}x{height}: one side is over {_FLATTEST} times the other, which the processor refuses",
            "image",
        )
    unit = spec.patch * spec.merge
    h, w = round(height / unit) * unit, round(width / unit) * unit  # halves round to even, as Python's round does
    if spec.most is not None and h * w > spec.most:
        off = math.sqrt(height * width / spec.most)
        h, w = (max(unit, math.floor(side / off / unit) * unit) for side in (height, width))
    elif spec.least is not None and h * w < spec.least:
        off = math.sqrt(spec.least / (height * width))
        h, w = (math.ceil(side * off / unit) * unit for side in (height, width))
    patches = _grid(spec, w, h)
    return ImageTiling(1, patches, patches // spec.merge**2 + spec.wrap)


def token_budget(spec: ImageSpec, width: int, height: int) -> ImageTiling:
    """Images keep their shape and fill a number of tokens: sides go down to whole merged patches of the scaled image (Gemma 4).

    One input of at most `tokens` tokens, each of merge x merge patches; a very flat image has one row of them.

    Source: transformers 5.23, image_processing_gemma4.py, get_aspect_ratio_preserving_size.
    """
    budget, unit = spec.tokens or 1, spec.patch * spec.merge
    factor = math.sqrt(budget * unit**2 / (width * height))
    columns, rows = (math.floor(factor * side / unit) for side in (width, height))
    if rows < 1:
        rows, columns = 1, min(width // height, budget)
    elif columns < 1:
        columns, rows = 1, min(height // width, budget)
    return ImageTiling(1, rows * columns * spec.merge**2, rows * columns + spec.wrap)
