"""Sides go to the nearest multiple of a merged patch, and the area between two bounds (Qwen2-VL, Qwen2.5-VL, Qwen3-VL, Qwen3.5).

Source: transformers 5.23, image_processing_qwen2_vl.py, smart_resize; Wang et al. 2024, Qwen2-VL, arXiv 2409.12191, section 2.1.
"""

from __future__ import annotations

import math

from rooflinecli.core.errors import UsageError
from rooflinecli.layers.images import ImageTiling, grid
from rooflinecli.specs.layers import ImageSpec

FLATTEST = 200


def cut(spec: ImageSpec, width: int, height: int) -> ImageTiling:
    """One input of any shape; merge x merge patches are one token. Raises UsageError for an image 200 times as long as wide."""
    if max(width, height) > FLATTEST * min(width, height):
        raise UsageError(
            f"--image-size {width}x{height}: one side is over {FLATTEST} times the other, which the processor refuses",
            "image",
        )
    unit = spec.patch * spec.merge
    h, w = _scaled(spec, width, height, unit)
    patches = grid(spec, w, h)
    return ImageTiling(1, patches, patches // spec.merge**2 + spec.wrap)


def _scaled(spec: ImageSpec, width: int, height: int, unit: int) -> tuple[int, int]:
    """Height and width after the resize; halves round to even, as Python's round does."""
    h, w = round(height / unit) * unit, round(width / unit) * unit
    if spec.most is not None and h * w > spec.most:
        off = math.sqrt(height * width / spec.most)
        return max(unit, math.floor(height / off / unit) * unit), max(unit, math.floor(width / off / unit) * unit)
    if spec.least is not None and h * w < spec.least:
        off = math.sqrt(spec.least / (height * width))
        return math.ceil(height * off / unit) * unit, math.ceil(width * off / unit) * unit
    return h, w
