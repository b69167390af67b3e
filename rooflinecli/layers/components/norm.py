"""A norm that is neither one of a layer nor the final one: in a head, a projector, around a convolution."""

from __future__ import annotations

from rooflinecli.layers.components import PlacedComponent, positions
from rooflinecli.ledger.ledger import Block
from rooflinecli.ledger.ledger import norm as norm_row
from rooflinecli.specs.layers import ComponentSpec


def block(spec: ComponentSpec, at: PlacedComponent) -> Block:
    """A norm over `width` values of each position."""
    tokens, derived = positions(spec, at)
    wide = f"{at.tag}_width"
    return Block((norm_row(at.name, spec.norm, (wide,), ("B", tokens)),), {wide: spec.width or at.width}, derived)
