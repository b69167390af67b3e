"""The time mixing of RWKV-4 (Peng et al. 2023, arXiv 2305.13048): n_heads channels (head_dim 1) with three numbers each.

A sequence also keeps its last token for this block's shift and for the channel mixing's (feedforward kind rwkv), which
is counted here: one mixer keeps all the state of a layer.
"""

from __future__ import annotations

from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.num import Number
from rooflinecli.formulas import recurrence
from rooflinecli.layers.recurrent import Recurrent
from rooflinecli.ledger.ledger import Block, Row, Sizes, elementwise, matmul
from rooflinecli.specs.model import AttentionSpec, ModelSpec

_X = ("B", "Z", "D")
_INNER = ("B", "S", "N")
PARTS = 3  # numerator, denominator and running maximum of a channel


@dataclass(frozen=True, eq=False, repr=False)
class RwkvMixer(Recurrent):
    """Weighted values over weights, both decaying; no matmul form."""

    def scan(self, tokens: Number, sizes: Sizes) -> Number:
        return recurrence.wkv_flops(tokens, sizes["N"])

    step = scan

    def moved(self, sizes: Sizes) -> Number:
        return 4 * sizes["N"]


def block(spec: AttentionSpec, model: ModelSpec) -> Block:
    """Token shift; receptance, key and value; WKV; output."""
    mixer = RwkvMixer(key="parts", value="H", shifts=(("D",), ("D",)), state_dtype=spec.state_dtype or "fp32")
    rows = (
        elementwise("attention.shift", (_X, _X), (_X, _X, _X), saves=(_X,), params=(("D",),) * 3),
        matmul("attention.rkv", "x[B S D] . Wrkv[D A] -> rkv[B S A]", saves=(_X, ("B", "S", "A"))),
        Row("attention.core", "attention", params=(("N",), ("N",)), mixer=mixer),
        matmul("attention.out", "o[B S N] . Wo[N D] -> y[B S D]", saves=(_INNER,)),
    )
    axes = {"N": spec.n_heads, "H": 1, "parts": PARTS}
    return Block(rows, axes, (("A", lambda s: 3 * s["N"]),), split=("N",))
