"""The whole image, brought to a square of `size` pixels whatever its shape (CLIP, SigLIP, LLaVA 1.5, PaliGemma, Gemma 3).

Source: transformers 5.23, image_processing_{clip,siglip,gemma3}: resize to size (and crop to a square). Gemma 3 can add
crops of long images (pan and scan), which is off unless asked for and not counted.
"""

from __future__ import annotations

from rooflinecli.layers.images import ImageTiling, tile
from rooflinecli.specs.layers import ImageSpec


def cut(spec: ImageSpec, width: int, height: int) -> ImageTiling:
    """One input; the same tokens for every image."""
    positions, tokens = tile(spec)
    return ImageTiling(1, positions, tokens + spec.wrap)
