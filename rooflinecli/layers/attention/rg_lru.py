"""The recurrent block of Griffin (De et al. 2024, arXiv 2402.19427; RecurrentGemma): a real-gated linear recurrent unit.

n_heads blocks of head_dim channels: the two gates are block-diagonal matmuls, and each channel keeps one number.
"""

from __future__ import annotations

from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.num import Number
from rooflinecli.formulas import recurrence
from rooflinecli.layers.recurrent import Recurrent
from rooflinecli.ledger.ledger import Block, Row, Sizes, elementwise, matmul
from rooflinecli.specs.model import AttentionSpec, ModelSpec

SIZES = {"taps": "width of the convolution"}
_INNER = ("B", "S", "N", "H")


@dataclass(frozen=True, eq=False, repr=False)
class GatedUnit(Recurrent):
    """A decay per channel and token; no matmul form."""

    def scan(self, tokens: Number, sizes: Sizes) -> Number:
        return recurrence.lru_flops(tokens, sizes["N"] * sizes["H"])

    step = scan


def block(spec: AttentionSpec, model: ModelSpec) -> Block:
    """Two branches in: one through the convolution and the unit, one through an activation; their product out."""
    mixer = GatedUnit(
        key="one", value="H", channels=(("N", "H"),), columns=-1, state_dtype=spec.state_dtype or "fp32"
    )  # of the convolution transformers keeps one column less here
    rows = (
        matmul("attention.in", "x[B S D] . Win[D I] -> xy[B S I]", bias=True, saves=(("B", "Z", "D"), ("B", "S", "I"))),
        matmul(
            "attention.gates", "u[B S N H] . Wg[N H J] -> g[B S N J]", bias=True, saves=(_INNER, ("B", "S", "N", "J"))
        ),
        Row(
            "attention.core",
            "attention",
            params=(("taps", "N", "H"), ("N", "H"), ("N", "H")),
            saves=(_INNER,),
            mixer=mixer,
        ),
        elementwise("attention.gate", (_INNER, _INNER), (_INNER,), saves=(_INNER,)),
        matmul("attention.out", "o[B S N H] . Wo[N H D] -> y[B S D]", bias=True, saves=(_INNER,)),
    )
    axes = {"N": spec.n_heads, "H": spec.head_dim or 1, "one": 1, **spec.sizes}
    derived = (("I", lambda s: 2 * s["N"] * s["H"]), ("J", lambda s: 2 * s["H"]))
    return Block(rows, axes, derived, split=("N",))
