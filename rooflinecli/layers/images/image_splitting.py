"""The longer side goes to `most` pixels, both to multiples of a tile; each tile and the whole image are inputs (Idefics3, SmolVLM).

Source: transformers 5.23, image_processing_idefics3.py (get_resize_output_image_size, split_image) and processing_idefics3.py,
get_image_prompt_string: two tokens before each tile, one behind each row, three around the whole image.
"""

from __future__ import annotations

from rooflinecli.layers.images import ImageTiling, tile
from rooflinecli.specs.layers import ImageSpec


def cut(spec: ImageSpec, width: int, height: int) -> ImageTiling:
    """A tile is `size` pixels a side."""
    size, longest = spec.size or spec.patch, spec.most or spec.patch
    if width >= height:
        w, h = longest, int(longest * height / width)
        h += h % 2
    else:
        h, w = longest, int(longest * width / height)
        w += w % 2
    columns, rows = -(-max(w, 1) // size), -(-max(h, 1) // size)
    positions, tokens = tile(spec)
    if columns * rows == 1:
        return ImageTiling(1, positions, tokens + 3)
    return ImageTiling(columns * rows + 1, positions, columns * rows * (tokens + 2) + rows + tokens + 4)
