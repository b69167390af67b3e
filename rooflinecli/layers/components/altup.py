"""Several residual streams that are mixed by coefficients of each token (AltUp of Gemma 3n; Baykal et al. 2023, arXiv 2301.13310).

A layer predicts all streams from all of them before its blocks and corrects each by what the blocks made: two passes.
"""

from __future__ import annotations

from rooflinecli.layers.components import PlacedComponent
from rooflinecli.ledger.ledger import Block, elementwise
from rooflinecli.specs.layers import ComponentSpec


def block(spec: ComponentSpec, at: PlacedComponent) -> Block:
    """`rows` streams of `width` values, read and written twice for each token; the coefficients are pieces of their own."""
    rows, wide = f"{at.tag}_streams", f"{at.tag}_width"
    whole = (("B", "S", rows, wide),) * 2
    return Block(
        (elementwise(at.name, whole, whole, saves=whole),), {rows: spec.rows or 1, wide: spec.width or at.width}
    )
