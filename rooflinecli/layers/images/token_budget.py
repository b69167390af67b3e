"""Images keep their shape and fill a number of tokens: sides go down to whole merged patches of the scaled image (Gemma 4).

Source: transformers 5.23, image_processing_gemma4.py, get_aspect_ratio_preserving_size.
"""

from __future__ import annotations

import math

from rooflinecli.layers.images import ImageTiling
from rooflinecli.specs.layers import ImageSpec


def cut(spec: ImageSpec, width: int, height: int) -> ImageTiling:
    """One input of at most `tokens` tokens, each of merge x merge patches; a very flat image has one row of them."""
    budget, unit = spec.tokens or 1, spec.patch * spec.merge
    factor = math.sqrt(budget * unit**2 / (width * height))
    columns, rows = (math.floor(factor * side / unit) for side in (width, height))
    if rows < 1:
        rows, columns = 1, min(width // height, budget)
    elif columns < 1:
        columns, rows = 1, min(height // width, budget)
    return ImageTiling(1, rows * columns * spec.merge**2, rows * columns + spec.wrap)
