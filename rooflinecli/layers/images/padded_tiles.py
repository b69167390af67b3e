"""All tiles of an image in one sequence, padded to the most there may be; the decoder's cross-attention reads them (Mllama).

Source: transformers 5.23, image_processing_mllama.py (tiles are padded to max_image_tiles) and modeling_mllama.py (positions
of a tile padded to a multiple of 8).
"""

from __future__ import annotations

from rooflinecli.layers.images import ImageTiling, tile
from rooflinecli.specs.layers import ImageSpec

MULTIPLE = 8


def cut(spec: ImageSpec, width: int, height: int) -> ImageTiling:
    """One input of every tile, whatever the image."""
    positions, _ = tile(spec)
    padded = -(-positions // MULTIPLE) * MULTIPLE
    return ImageTiling(1, spec.tiles * padded, spec.tokens or 1)
