"""Gated DeltaNet (Yang et al. 2024, arXiv 2412.06464; Qwen3-Next, Qwen3.5): a delta rule with a decay per value head.

n_heads are value heads of v_head_dim, n_kv_heads the key heads of head_dim, which groups of value heads share: each value
head keeps a state of head_dim x v_head_dim.
"""

from __future__ import annotations

from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.num import Number
from rooflinecli.formulas import recurrence
from rooflinecli.layers.recurrent import Recurrent
from rooflinecli.ledger.ledger import Axes, Block, Row, Sizes, matmul, norm
from rooflinecli.specs.model import AttentionSpec, ModelSpec

SIZES = {"taps": "width of the convolution", "chunk": "tokens of a chunk in prefill"}
_CHANNELS: tuple[Axes, ...] = (("K", "H"), ("K", "H"), ("N", "Hv"))


@dataclass(frozen=True, eq=False, repr=False)
class Delta(Recurrent):
    """Old values are read from the state and corrected, not only added to."""

    def scan(self, tokens: Number, sizes: Sizes) -> Number:
        return recurrence.delta_chunk_flops(tokens, sizes["N"], sizes["H"], sizes["Hv"], sizes["chunk"])

    def step(self, tokens: Number, sizes: Sizes) -> Number:
        return recurrence.recurrent_flops(tokens, sizes["N"], sizes["H"], sizes["Hv"], 4)


def block(spec: AttentionSpec, model: ModelSpec) -> Block:
    """q, k, v and gate; beta and decay; convolution over q, k and v; delta rule; gated norm per head; output."""
    mixer = Delta(key="H", value="Hv", channels=_CHANNELS, state_dtype=spec.state_dtype or "fp32")
    out = ("B", "S", "N", "Hv")
    rows = (
        matmul("attention.qkvz", "x[B S D] . Wqkvz[D I] -> z[B S I]", saves=(("B", "Z", "D"), ("B", "S", "I"))),
        matmul("attention.beta_decay", "x[B S D] . Wba[D J] -> b[B S J]", saves=(("B", "S", "J"),)),
        Row(
            "attention.core",
            "attention",
            params=(("taps", "conv"), ("N",), ("N",)),
            saves=(("B", "S", "conv"),),
            mixer=mixer,
        ),
        norm("attention.gated_norm", "rmsnorm", ("Hv",), ("B", "S", "N")),
        matmul("attention.out", "o[B S N Hv] . Wo[N Hv D] -> y[B S D]", saves=(out,)),
    )
    axes = {
        "N": spec.n_heads,
        "K": spec.n_kv_heads or spec.n_heads,
        "H": spec.head_dim or 0,
        "Hv": spec.v_head_dim or spec.head_dim or 0,
        **spec.sizes,
    }
    derived = (
        ("conv", lambda s: 2 * s["K"] * s["H"] + s["N"] * s["Hv"]),
        ("I", lambda s: 2 * s["K"] * s["H"] + 2 * s["N"] * s["Hv"]),
        ("J", lambda s: 2 * s["N"]),
    )
    return Block(rows, axes, derived, split=("N",), shared=("K",))
