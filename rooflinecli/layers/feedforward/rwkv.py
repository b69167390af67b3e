"""The channel mixing of RWKV-4 (Peng et al. 2023, arXiv 2305.13048): a squared-ReLU MLP behind a receptance gate.

What it keeps of the last token is counted by the attention kind rwkv.
"""

from __future__ import annotations

from rooflinecli.ledger.ledger import Block, elementwise, matmul
from rooflinecli.specs.model import FeedForwardSpec, ModelSpec

_X = ("B", "Z", "D")


def block(spec: FeedForwardSpec, model: ModelSpec) -> Block:
    """Token shift, key, squared ReLU, value, receptance gate of width d_model."""
    hidden, whole = ("B", "S", "F"), ("B", "S", "D")
    rows = (
        elementwise("feedforward.shift", (_X, _X), (_X, _X), saves=(_X,), params=(("D",), ("D",))),
        matmul("feedforward.up", "x[B S D] . Wk[D F] -> k[B S F]", saves=(_X, hidden)),
        elementwise("feedforward.activation", (hidden,), (hidden,)),
        matmul("feedforward.down", "h[B S F] . Wv[F D] -> v[B S D]", saves=(hidden,)),
        matmul("feedforward.receptance", "x[B S D] . Wr[D E2] -> r[B S E2]", saves=(_X, whole)),
        elementwise("feedforward.gate", (whole, whole), (whole,)),
    )
    return Block(rows, {"F": spec.d_ff or 0, "E2": model.d_model}, split=("F",))
