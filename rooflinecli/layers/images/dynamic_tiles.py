"""Tiles of `size` in the grid whose shape is nearest to the image's, and the whole image as one more (InternVL).

Source: transformers 5.23, image_processing_got_ocr2.py, get_optimal_tiled_canvas; Chen et al. 2024, arXiv 2404.16821, section 3.3.
"""

from __future__ import annotations

from rooflinecli.layers.images import ImageTiling, nearest, tile
from rooflinecli.specs.layers import ImageSpec


def cut(spec: ImageSpec, width: int, height: int) -> ImageTiling:
    """As many inputs as tiles; each brings the same tokens."""
    grids = [(c, r) for c in range(1, spec.tiles + 1) for r in range(1, spec.tiles + 1) if c * r <= spec.tiles]
    columns, rows = nearest(sorted(grids, key=lambda g: g[0] * g[1]), width, height, spec.size or spec.patch)
    count = columns * rows
    count += 1 if spec.overview and count > 1 else 0
    positions, tokens = tile(spec)
    return ImageTiling(count, positions, count * tokens + spec.wrap)
