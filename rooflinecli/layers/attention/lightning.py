"""Lightning attention (Qin et al. 2024, arXiv 2401.04658; MiniMax-01): linear attention with a fixed decay per head.

Every head keeps a state of head_dim x head_dim; the output is normalized over all heads and gated by a projection of the input.
"""

from __future__ import annotations

from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.num import Number
from rooflinecli.formulas import recurrence
from rooflinecli.layers.recurrent import Recurrent
from rooflinecli.ledger.ledger import Block, Row, Sizes, elementwise, matmul, norm
from rooflinecli.specs.model import AttentionSpec, ModelSpec

SIZES = {"chunk": "tokens of a block in prefill"}
_HEADS = ("B", "S", "N", "H")


@dataclass(frozen=True, eq=False, repr=False)
class Lightning(Recurrent):
    """q, k and v without a convolution, blocks of matmuls in prefill."""

    def moved(self, sizes: Sizes) -> Number:
        return 4 * sizes["N"] * sizes["H"]

    def scan(self, tokens: Number, sizes: Sizes) -> Number:
        return recurrence.linear_chunk_flops(tokens, sizes["N"], sizes["H"], sizes["H"], sizes["chunk"])

    def step(self, tokens: Number, sizes: Sizes) -> Number:
        return recurrence.recurrent_flops(tokens, sizes["N"], sizes["H"], sizes["H"], 3)


def block(spec: AttentionSpec, model: ModelSpec) -> Block:
    """q, k, v; recurrence; norm; output gate; output."""
    mixer = Lightning(key="H", value="H", state_dtype=spec.state_dtype or "bf16")
    rows = (
        matmul(
            "attention.qkv", "x[B S D] . Wqkv[D A H] -> qkv[B S A H]", saves=(("B", "Z", "D"), ("B", "S", "A", "H"))
        ),
        Row("attention.core", "attention", mixer=mixer),
        norm("attention.norm", "rmsnorm", ("N", "H"), ("B", "S")),
        matmul("attention.gate_in", "x[B S D] . Wg[D N H] -> g[B S N H]", saves=(_HEADS,)),
        elementwise("attention.gate", (_HEADS, _HEADS), (_HEADS,), saves=(_HEADS,)),
        matmul("attention.out", "o[B S N H] . Wo[N H D] -> y[B S D]", saves=(_HEADS,)),
    )
    axes = {"N": spec.n_heads, "H": spec.head_dim or 0, **spec.sizes}
    return Block(rows, axes, (("A", lambda s: 3 * s["N"]),), split=("N",))
