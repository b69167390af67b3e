"""A learned query that attends to every position of a sequence and leaves one (SigLIP's pooling head; Lee et al. 2019, Set Transformer)."""

from __future__ import annotations

from rooflinecli.layers.components import PlacedComponent
from rooflinecli.ledger.ledger import Block, matmul
from rooflinecli.specs.layers import ComponentSpec


def block(spec: ComponentSpec, at: PlacedComponent) -> Block:
    """Scores of the query with every position, and the positions weighted by them; its projections are pieces of their own."""
    wide = f"{at.tag}_width"
    rows = (
        matmul(f"{at.name}_scores", f"k[B S {wide}] . q[B {wide}] -> s[B S]", tied=True),
        matmul(f"{at.name}_values", f"v[B S {wide}] . p[B S] -> o[B {wide}]", tied=True),
    )
    return Block(rows, {wide: spec.width or at.width})
