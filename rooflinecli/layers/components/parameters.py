"""Parameters that work on nothing worth counting: a class token, a mask token, a gate of one number."""

from __future__ import annotations

from rooflinecli.layers.components import PlacedComponent
from rooflinecli.ledger.ledger import Block, elementwise
from rooflinecli.specs.layers import ComponentSpec


def block(spec: ComponentSpec, at: PlacedComponent) -> Block:
    """`rows` x `width` parameters."""
    rows, wide = f"{at.tag}_rows", f"{at.tag}_width"
    axes = {rows: spec.rows or 1, wide: spec.width or at.width}
    return Block((elementwise(at.name, (), (), params=((rows, wide),)),), axes)
