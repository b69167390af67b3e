"""Images keep their shape, the longer side no more than `size`; every row of merged patches ends in a token (Pixtral, Mistral 3).

Source: transformers 5.23, image_processing_pixtral.py, get_resize_output_image_size; processing_pixtral.py.
"""

from __future__ import annotations

import math

from rooflinecli.layers.images import ImageTiling
from rooflinecli.specs.layers import ImageSpec


def cut(spec: ImageSpec, width: int, height: int) -> ImageTiling:
    """One input; sides are filled up to whole merged patches."""
    ratio = max(width, height) / (spec.size or max(width, height))
    if ratio > 1:
        width, height = math.floor(width / ratio), math.floor(height / ratio)
    unit = spec.patch * spec.merge
    rows, columns = (max(height, 1) - 1) // unit + 1, (max(width, 1) - 1) // unit + 1
    return ImageTiling(1, rows * columns * spec.merge**2, rows * (columns + 1))
