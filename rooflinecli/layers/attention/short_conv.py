"""The gated short convolution of LFM2 (Liquid AI 2025): B * x through a few taps, then C *; n_heads channels (head_dim 1).

Its last inputs are all that a sequence keeps. conv_bias is on both projections and on the convolution.
"""

from __future__ import annotations

from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.num import Number
from rooflinecli.layers.recurrent import Recurrent
from rooflinecli.ledger.ledger import Axes, Block, Row, Sizes, matmul
from rooflinecli.specs.model import AttentionSpec, ModelSpec

SIZES = {"taps": "width of the convolution"}
_INNER = ("B", "S", "N")


@dataclass(frozen=True, eq=False, repr=False)
class Gated(Recurrent):
    """A convolution between two gates: two products per channel, and no recurrence."""

    def scan(self, tokens: Number, sizes: Sizes) -> Number:
        return 2 * tokens * sizes["N"]

    step = scan

    def state_elements(self, sizes: Sizes) -> Number:
        return 0.0


def block(spec: AttentionSpec, model: ModelSpec) -> Block:
    """B, C and x; convolution; output."""
    mixer = Gated(key="H", value="H", channels=(("N",),), state_dtype=spec.state_dtype or "bf16")
    params: tuple[Axes, ...] = (("taps", "N"), *((("N",),) if spec.conv_bias else ()))
    rows = (
        matmul(
            "attention.in",
            "x[B S D] . Win[D I] -> bcx[B S I]",
            bias=spec.conv_bias,
            saves=(("B", "Z", "D"), ("B", "S", "I")),
        ),
        Row("attention.core", "attention", params=params, saves=(_INNER,), mixer=mixer),
        matmul("attention.out", "o[B S N] . Wo[N D] -> y[B S D]", bias=spec.conv_bias, saves=(_INNER,)),
    )
    return Block(rows, {"N": spec.n_heads, "H": 1, **spec.sizes}, (("I", lambda s: 3 * s["N"]),), split=("N",))
