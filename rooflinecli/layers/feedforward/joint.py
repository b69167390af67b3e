"""The plain MLP of each of two streams (MMDiT: Esser et al. 2024, arXiv 2403.03206, section 4); attention of kind joint says how long they are."""

from __future__ import annotations

from rooflinecli.ledger.ledger import Block, Row, elementwise, matmul
from rooflinecli.specs.model import FeedForwardSpec, ModelSpec


def block(spec: FeedForwardSpec, model: ModelSpec) -> Block:
    rows: list[Row] = []
    for stream, axis in (("image", "I"), ("text", "text")):
        hidden = ("B", axis, "F")
        up, down = f"x[B {axis} D] . Wup[D F] -> u[B {axis} F]", f"h[B {axis} F] . Wdown[F D] -> y[B {axis} D]"
        rows += [
            matmul(f"feedforward.{stream}_up", up, bias=spec.bias, saves=(("B", axis, "D"), hidden)),
            elementwise(f"feedforward.{stream}_activation", (hidden,), (hidden,)),
            matmul(f"feedforward.{stream}_down", down, bias=spec.bias, saves=(hidden,)),
        ]
    return Block(tuple(rows), {"F": spec.d_ff or 0}, split=("F",))
