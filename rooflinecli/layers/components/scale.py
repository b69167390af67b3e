"""A learned factor for each value of the stream (LayerScale, Touvron et al. 2021, arXiv 2103.17239)."""

from __future__ import annotations

from rooflinecli.layers.components import PlacedComponent, positions
from rooflinecli.ledger.ledger import Block, elementwise
from rooflinecli.specs.layers import ComponentSpec


def block(spec: ComponentSpec, at: PlacedComponent) -> Block:
    """`rows` vectors of `width`, each multiplied into the stream once."""
    tokens, derived = positions(spec, at)
    wide, rows = f"{at.tag}_width", spec.rows or 1
    whole = (("B", tokens, wide),) * rows
    row = elementwise(at.name, whole, whole, saves=whole, params=((wide,),) * rows)
    return Block((row,), {wide: spec.width or at.width}, derived)
