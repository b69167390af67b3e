"""What a request gives a model to read: text, images beside it, or the source of a pair; and the ledger bound to it.

A tower's input has a length that the question decides: the patches of the images, the prompt of an encoder with a decoder.
`bound` writes those into the ledger, so that whoever counts or prices it asks nothing further.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rooflinecli.core.errors import UsageError
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.num import Number
from rooflinecli.formulas import serving
from rooflinecli.layers.build import with_cross_attention
from rooflinecli.ledger.ledger import Encoder, Ledger
from rooflinecli.specs import registry
from rooflinecli.specs.model import ModelSpec
from rooflinecli.specs.options import OPTIONS

if TYPE_CHECKING:
    from rooflinecli.engine.context import EstimateContext
    from rooflinecli.layers.images import ImageTiling

IMAGE = "1024x1024"  # pixels of an image where nobody says


@dataclass(frozen=True, slots=True)
class BoundInputs:
    """The ledger with its towers' inputs; tokens of a prompt in the stack of layers; tokens that a request brings; of images
    their number, size and tokens each."""

    ledger: Ledger
    prompt: Number
    given: Number
    pictured: tuple[Number, str, Number] | None = None


def reading(ctx: EstimateContext, ledger: Ledger, text: Number) -> BoundInputs:
    """What the request reads, of `text` tokens of prompt. Raises UsageError for images that nothing reads."""
    if ctx.spec.denoising is not None:
        return _made(ctx, ledger)
    kinds = {tower.ledger.spec.reads for tower in ledger.towers}
    for name, what in _PICTURES.items():
        off = name in ("steps", "guidance") or "images" not in kinds
        if off and getattr(ctx.request, name) is not None:
            raise UsageError(f"{OPTIONS[name].flag}: {ctx.spec.name} {what}; leave it out", name)
    if not kinds - {"its own"}:
        return BoundInputs(ledger, text, text)
    prompt, towers, pictured = text, [], None
    for tower in ledger.towers:
        bound, seen = _bound(ctx, tower, text)
        towers.append(bound)
        if seen is not None:
            pictured, prompt = seen, prompt + serving.image_tokens(seen[0], seen[2])
    memory = sum((t.positions for t in towers if t.ledger.spec.reads != "its own"), 0.0)
    found = replace(with_cross_attention(ledger, memory), towers=tuple(towers))
    if "source" in kinds:  # the prompt is the encoder's; the decoder starts with a token of its own
        start = ctx.from_flag(
            "S_d", float(ctx.spec.prefix), "tokens", f"{ctx.spec.document.location('prefix')}: prefix"
        )
        return BoundInputs(found, start, text)
    return BoundInputs(found, prompt, prompt, pictured)


_READS_NONE, _MAKES_NONE = "has no tower that reads images", "makes no images in steps"
_PICTURES = {"images": _READS_NONE, "image": _READS_NONE, "steps": _MAKES_NONE, "guidance": _MAKES_NONE}


def _made(ctx: EstimateContext, ledger: Ledger) -> BoundInputs:
    """The tokens of an image that is made, with those of the prompt beside it. Raises UsageError for images to read."""
    r, spec = ctx.request, ctx.spec
    for name, instead in (
        ("images", "--batch says how many it makes"),
        ("prompt", "its prompt has a length of its own"),
    ):
        if getattr(r, name) is not None:
            raise UsageError(f"{OPTIONS[name].flag}: {spec.name} makes images; {instead}; leave it out", name)
    side = spec.images.size
    size = r.image or f"{side}x{side}"
    where = f"{spec.document.location('images')}: images, --image-size {size}"
    tokens = ctx.from_flag("S_i", float(cut(spec, size).tokens), "tokens", where)
    if not spec.denoising.context:
        return BoundInputs(ledger, tokens, tokens, (1.0, size, tokens))
    context = ctx.from_flag(
        "S_c", float(spec.denoising.context), "tokens", f"{spec.document.location('denoising')}: context"
    )
    return BoundInputs(ledger, tokens + context, tokens, (1.0, size, tokens))


def _bound(ctx: EstimateContext, tower: Encoder, text: Number) -> tuple[Encoder, tuple[Number, str, Number] | None]:
    """A tower with its input; of images how many, of which size, and the tokens that each adds to the prompt."""
    if tower.ledger.spec.reads == "source":
        return replace(tower, length=text), None
    if tower.ledger.spec.reads != "images":
        return tower, None
    r = ctx.request
    if r.images is None and r.image is None:
        return replace(tower, count=0.0), None
    images = ctx.from_flag("n_i", 1.0 if r.images is None else r.images, "1", "--num-images", r.images is None)
    size = r.image or IMAGE
    found, where = (
        cut(tower.ledger.spec, size),
        f"{tower.ledger.spec.document.location('images')}: images, --image-size {size}",
    )
    inputs = ctx.from_flag("n_t", float(found.inputs), "1", where)
    length = ctx.from_flag("S_t", float(found.positions), "tokens", where)
    tokens = ctx.from_flag("S_i", float(found.tokens), "tokens", where)
    count = serving.encoder_inputs(images, inputs)
    return replace(tower, length=length, count=count), (images, size, tokens)


def cut(tower: ModelSpec, image: str) -> ImageTiling:
    """What a tower's rule makes of an image of WIDTHxHEIGHT pixels. Raises UsageError for one that its processor refuses."""
    spec = tower.images
    assert spec is not None  # what reads or makes images has a rule
    width, height = (int(side) for side in image.split("x"))
    return registry.load("layers/images", spec.kind).cut(spec, width, height)  # type: ignore[no-any-return]
