"""Rules that turn an image into inputs of a vision encoder and tokens of the prompt: a rule is a file of this folder.

Each has `cut(spec, width, height) -> Cut`; the sizes come from the model's file, the rule from the processor that its
authors published.
"""

from __future__ import annotations

import math

from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.specs.layers import ImageSpec


@dataclass(frozen=True)
class ImageTiling:
    """Of one image: inputs that the tower reads, positions of each, and the tokens that it takes in the prompt."""

    inputs: int
    positions: int
    tokens: int


def grid(spec: ImageSpec, width: int, height: int) -> int:
    """Patches of a number of pixels."""
    return (width // spec.patch) * (height // spec.patch)


def tile(spec: ImageSpec) -> tuple[int, int]:
    """Positions in the tower, and tokens in the prompt, of an image of `size` pixels a side."""
    side = spec.size or spec.patch
    patches = grid(spec, side, side)
    tokens = spec.tokens if spec.tokens is not None else patches // spec.merge**2
    return patches + spec.extra, tokens


def nearest(candidates: list[tuple[int, int]], width: int, height: int, size: int) -> tuple[int, int]:
    """The grid of tiles (columns, rows) whose shape is nearest to the image's; of equals the larger where the image fills half of it."""
    best, off = (1, 1), math.inf
    for columns, rows in candidates:
        far = abs(width / height - columns / rows)
        if far < off:
            best, off = (columns, rows), far
        elif far == off and width * height > 0.5 * size * size * columns * rows:
            best = (columns, rows)
    return best
