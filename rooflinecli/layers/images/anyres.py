"""Tiles of `size` in the best of the listed grids, the whole image as one more, padding cut away, a break behind each row (LLaVA-NeXT).

With `tiles` the patches are scaled down to that number of tiles (LLaVA-OneVision's anyres_max). Source: transformers 5.23,
processing_llava_next.py and processing_llava_onevision.py, _get_unpadded_features; image_processing_utils.py,
select_best_resolution; Liu et al. 2024, llava-vl.github.io/blog/2024-01-30-llava-next.
"""

from __future__ import annotations

import math

from rooflinecli.layers.images import ImageTiling, tile
from rooflinecli.specs.layers import ImageSpec

_SLACK = 1.1  # how far over the tiles allowed an image may go before it is scaled down


def cut(spec: ImageSpec, width: int, height: int) -> ImageTiling:
    """As many inputs as tiles and the overview; tokens of the overview, of the patches that are no padding, and of the breaks."""
    size = spec.size or spec.patch
    down, across = _best([(g[0], g[1]) for g in spec.grids] or [(size, size)], width, height)
    rows, columns = down // size, across // size
    positions, tokens = tile(spec)
    side = math.isqrt(tokens)
    high, wide = _unpadded(side * rows, side * columns, width, height)
    if spec.tiles > 1:
        over = math.sqrt(high * wide / (spec.tiles * side**2))
        high, wide = (int(high // over), int(wide // over)) if over > _SLACK else (high, wide)
    return ImageTiling(rows * columns + 1, positions, tokens + high * wide + high + spec.wrap)


def _best(grids: list[tuple[int, int]], width: int, height: int) -> tuple[int, int]:
    """The grid (height, width) in which most of the image is left, and the least of the grid is wasted."""

    def left(grid: tuple[int, int]) -> tuple[int, int]:
        scale = min(grid[1] / width, grid[0] / height)
        kept = min(int(width * scale) * int(height * scale), width * height)
        return kept, kept - grid[0] * grid[1]

    return max(grids, key=left)


def _unpadded(high: int, wide: int, width: int, height: int) -> tuple[int, int]:
    """Patches down and across that show the image, not its padding."""
    if width / height > wide / high:
        return high - 2 * ((high - int(round(height * (wide / width), 7))) // 2), wide
    return high, wide - 2 * ((wide - int(round(width * (high / height), 7))) // 2)
