"""The plain MLP: up, activation, down (Vaswani et al. 2017)."""

from __future__ import annotations

from rooflinecli.ledger.ledger import Block, elementwise, matmul, norm
from rooflinecli.specs.model import FeedForwardSpec, ModelSpec


def block(spec: FeedForwardSpec, model: ModelSpec) -> Block:
    hidden = ("B", "S", "F")
    rows = (
        matmul("feedforward.up", "x[B S D] . Wup[D F] -> u[B S F]", bias=spec.bias, saves=(("B", "Z", "D"), hidden)),
        elementwise("feedforward.activation", (hidden,), (hidden,), params=(("one",),) * spec.scalars),
        *([norm("feedforward.norm", "rmsnorm", ("F",), ("B", "S"))] if spec.inner_norm else []),
        matmul("feedforward.down", "h[B S F] . Wdown[F D] -> y[B S D]", bias=spec.bias, saves=(hidden,)),
    )
    return Block(rows, {"F": spec.d_ff or 0}, split=("F",))
