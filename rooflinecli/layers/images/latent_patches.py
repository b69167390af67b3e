"""An image or video that is made: patches of its latent, of which an autoencoder makes `patch` pixels a side (DiT, Stable Diffusion 3, FLUX).

Source: Peebles and Xie 2023, Scalable Diffusion Models with Transformers, arXiv 2212.09748, section 3.2: latents of an eighth of the
side, patches of p x p of them; so `patch` is 8 p.
"""

from __future__ import annotations

from rooflinecli.core.errors import UsageError
from rooflinecli.layers.images import ImageTiling, grid
from rooflinecli.specs.layers import ImageSpec


def cut(spec: ImageSpec, width: int, height: int) -> ImageTiling:
    """One token for each patch of each latent frame. Raises UsageError for sides that no whole patches fill."""
    if width % spec.patch or height % spec.patch:
        raise UsageError(
            f"--image-size {width}x{height}: sides must be multiples of {spec.patch} pixels, a patch of the latent",
            "image",
        )
    tokens = (1 + (spec.frames - 1) // spec.frame_patch) * grid(spec, width, height)
    return ImageTiling(1, tokens, tokens)
