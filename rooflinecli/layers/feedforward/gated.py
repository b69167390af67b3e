"""The gated MLP (Shazeer 2020, GLU Variants): gate and up share one matmul of U = 2F columns."""

from __future__ import annotations

from rooflinecli.ledger.ledger import Block, elementwise, matmul, norm
from rooflinecli.specs.model import FeedForwardSpec, ModelSpec


def block(spec: FeedForwardSpec, model: ModelSpec) -> Block:
    hidden, both = ("B", "S", "F"), ("B", "S", "U")
    rows = (
        matmul("feedforward.gate_up", "x[B S D] . Wup[D U] -> u[B S U]", bias=spec.bias, saves=(("B", "Z", "D"), both)),
        elementwise("feedforward.activation", (both,), (hidden,), params=(("one",),) * spec.scalars),
        *([norm("feedforward.norm", "rmsnorm", ("F",), ("B", "S"))] if spec.inner_norm else []),
        matmul("feedforward.down", "h[B S F] . Wdown[F D] -> y[B S D]", bias=spec.bias, saves=(hidden,)),
    )
    return Block(rows, {"F": spec.d_ff or 0}, (("U", lambda s: 2 * s["F"]),), split=("F",))
