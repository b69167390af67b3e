"""An image keeps its shape, shrinks until its patches fit a budget, and is padded to merged patches (Kimi-K2.5).

Source: transformers 5.23, image_processing_kimi_k25.py, navit_resize.
"""

from __future__ import annotations

import math

from rooflinecli.layers.images import ImageTiling
from rooflinecli.specs.layers import ImageSpec


def cut(spec: ImageSpec, width: int, height: int) -> ImageTiling:
    """One input; at most `most` pixels and `size` pixels a side; merge x merge patches are one token."""
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
