"""What a request gives a model to read (text, images, the source of an encoder-decoder), and the ledger with these inputs bound.

The input of an encoder has a length that the request decides: the patches of the images, the prompt of an encoder-decoder.
`bind_inputs` writes it into the ledger, so that counting and pricing need nothing further.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rooflinecli.core.errors import UsageError
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.num import Number
from rooflinecli.layers.build import with_cross_attention
from rooflinecli.ledger.ledger import Encoder, Ledger
from rooflinecli.specs import registry
from rooflinecli.specs.model import ModelSpec
from rooflinecli.specs.options import OPTIONS

if TYPE_CHECKING:
    from rooflinecli.engine.context import EstimateContext
    from rooflinecli.layers.images import ImageTiling

IMAGE = "1024x1024"  # pixels of an image by default
_NO_VISION, _NO_DENOISING = "has no tower that reads images", "makes no images in steps"
_IMAGE_OPTIONS = {"images": _NO_VISION, "image": _NO_VISION, "steps": _NO_DENOISING, "guidance": _NO_DENOISING}


@dataclass(frozen=True, slots=True)
class BoundInputs:
    """The ledger with its encoders' inputs; tokens of a prompt in the decoder; tokens of a request; number, size and tokens of
    images."""

    ledger: Ledger
    prompt: Number
    request_tokens: Number
    images: tuple[Number, str, Number] | None = None


def bind_inputs(ctx: EstimateContext, ledger: Ledger, text: Number) -> BoundInputs:
    """Bind the inputs of a request with `text` prompt tokens. Raises UsageError for images that the model cannot read."""
    if ctx.spec.denoising is not None:
        return _generated_image(ctx, ledger)
    kinds = {tower.ledger.spec.reads for tower in ledger.towers}
    for name, why in _IMAGE_OPTIONS.items():
        if getattr(ctx.request, name) is not None and (why is _NO_DENOISING or "images" not in kinds):
            raise UsageError(f"{OPTIONS[name].flag}: {ctx.spec.name} {why}; leave it out", name)
    if not kinds - {"its own"}:
        return BoundInputs(ledger, text, text)
    prompt, towers, images = text, [], None
    for tower in ledger.towers:
        if tower.ledger.spec.reads == "source":
            tower = replace(tower, length=text)
        elif tower.ledger.spec.reads == "images" and ctx.request.images is None and ctx.request.image is None:
            tower = replace(tower, count=0.0)
        elif tower.ledger.spec.reads == "images":
            tower, images = _vision_encoder(ctx, tower)
            prompt = prompt + images[0] * images[2]
        towers.append(tower)
    memory = sum((t.positions for t in towers if t.ledger.spec.reads != "its own"), 0.0)
    bound = replace(with_cross_attention(ledger, memory), towers=tuple(towers))
    if "source" not in kinds:
        return BoundInputs(bound, prompt, prompt, images)
    # The encoder reads the prompt; the decoder starts with a token of its own.
    where = f"{ctx.spec.document.location('prefix')}: prefix"
    return BoundInputs(bound, ctx.from_flag("S_d", float(ctx.spec.prefix), "tokens", where), text)


def _vision_encoder(ctx: EstimateContext, tower: Encoder) -> tuple[Encoder, tuple[Number, str, Number]]:
    """A vision encoder with its images; their number, size, and the tokens that each adds to the prompt."""
    r = ctx.request
    images = ctx.from_flag("n_i", 1.0 if r.images is None else r.images, "1", "--num-images", r.images is None)
    size = r.image or IMAGE
    tiling = cut(tower.ledger.spec, size)
    where = f"{tower.ledger.spec.document.location('images')}: images, --image-size {size}"
    inputs = ctx.from_flag("n_t", float(tiling.inputs), "1", where)
    length = ctx.from_flag("S_t", float(tiling.positions), "tokens", where)
    tokens = ctx.from_flag("S_i", float(tiling.tokens), "tokens", where)
    return replace(tower, length=length, count=images * inputs), (images, size, tokens)


def _generated_image(ctx: EstimateContext, ledger: Ledger) -> BoundInputs:
    """The tokens of a generated image, and of its prompt. Raises UsageError for images to read."""
    r, spec = ctx.request, ctx.spec
    assert spec.images is not None and spec.denoising is not None  # a model that makes images has both
    for name, instead in (
        ("images", "--batch says how many it makes"),
        ("prompt", "its prompt has a length of its own"),
    ):
        if getattr(r, name) is not None:
            raise UsageError(f"{OPTIONS[name].flag}: {spec.name} makes {spec.makes}; {instead}; leave it out", name)
    size = r.image or f"{spec.images.size}x{spec.images.height or spec.images.size}"
    where = f"{spec.document.location('images')}: images, --image-size {size}"
    prompt = tokens = ctx.from_flag("S_i", float(cut(spec, size).tokens), "tokens", where)
    if spec.denoising.context:
        where = f"{spec.document.location('denoising')}: context"
        prompt = tokens + ctx.from_flag("S_c", float(spec.denoising.context), "tokens", where)
    memory = ctx.from_flag(
        "S_m", float(spec.denoising.memory), "tokens", f"{spec.document.location('denoising')}: memory"
    )
    return BoundInputs(with_cross_attention(ledger, memory), prompt, tokens, (1.0, size, tokens))


def cut(spec: ModelSpec, image: str) -> ImageTiling:
    """How a model's rule cuts an image of WIDTHxHEIGHT pixels. Raises UsageError for one that its processor refuses."""
    assert spec.images is not None  # what reads or makes images has a rule
    width, height = (int(side) for side in image.split("x"))
    return registry.load("layers/images", spec.images.kind)(spec.images, width, height)  # type: ignore[no-any-return]
