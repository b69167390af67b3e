"""A table of which every token takes a row: token types, positions in a tile, a relative bias of attention scores."""

from __future__ import annotations

from rooflinecli.layers.components import PlacedComponent, positions
from rooflinecli.ledger.ledger import Block, Row
from rooflinecli.specs.layers import ComponentSpec


def block(spec: ComponentSpec, at: PlacedComponent) -> Block:
    """rows x width parameters; a row is read and a value written for each position."""
    tokens, derived = positions(spec, at)
    rows, wide = f"{at.tag}_rows", f"{at.tag}_width"
    moved = (("B", tokens, wide),)
    axes = {rows: spec.rows or 1, wide: spec.width or at.width}
    return Block((Row(at.name, "gather", params=((rows, wide),), reads=moved, writes=moved),), axes, derived)
