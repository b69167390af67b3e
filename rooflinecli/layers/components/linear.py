"""A weight matrix on every token: a projector, a pooler, the head of a masked language model, a convolution whose taps are its input.

`merge` tokens become one before it (a patch merger reads four patches side by side), or it runs over `spread` positions
for each token; `once` for each sequence.
"""

from __future__ import annotations

from rooflinecli.layers.components import PlacedComponent, positions
from rooflinecli.ledger.ledger import Block, matmul
from rooflinecli.specs.layers import ComponentSpec


def block(spec: ComponentSpec, at: PlacedComponent) -> Block:
    """x[B tokens in] . W[in out], with its bias."""
    tokens, derived = positions(spec, at)
    first, last = f"{at.tag}_in", f"{at.tag}_out"
    row = matmul(
        at.name,
        f"x[B {tokens} {first}] . W[{first} {last}] -> y[B {tokens} {last}]",
        bias=spec.bias,
        saves=(("B", tokens, first),),
    )
    return Block((row,), {first: spec.input or at.width, last: spec.width or at.width}, derived)
