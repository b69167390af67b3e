"""The canvas of tiles that an image fills with the least enlargement, else the least reduction; then the whole image (Llama 4).

Source: transformers 5.23, image_processing_llama4.py, get_best_fit; processing_llama4.py, _prompt_split_image.
"""

from __future__ import annotations

from rooflinecli.layers.images import ImageTiling, tile
from rooflinecli.specs.layers import ImageSpec

AROUND = 3  # the image's begin, the overview's mark, the image's end


def cut(spec: ImageSpec, width: int, height: int) -> ImageTiling:
    """An input for each tile and the overview; a separator behind every tile."""
    # Columns and rows; of canvases that scale alike the smallest
    size, most = spec.size or spec.patch, spec.tiles
    grids = [(c, r) for c in range(1, most + 1) for r in range(1, most + 1) if c * r <= most]
    scales = {(c, r): min(c * size / width, r * size / height) for c, r in grids}
    enlarging = [scale for scale in scales.values() if scale >= 1]
    chosen = min(enlarging) if enlarging else max(scales.values())
    columns, rows = min((g for g, scale in scales.items() if scale == chosen), key=lambda g: g[0] * g[1])
    count = columns * rows
    positions, tokens = tile(spec)
    if count == 1:
        return ImageTiling(1, positions, tokens + AROUND)
    return ImageTiling(count + 1, positions, (count + 1) * tokens + count + AROUND)
