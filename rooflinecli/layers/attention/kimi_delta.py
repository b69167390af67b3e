"""Kimi delta attention (Kimi Linear, arXiv 2510.26692): the gated delta rule with a decay per channel of the keys.

n_heads heads of head_dim; decay and output gate come through a rank of head_dim.
"""

from __future__ import annotations

from rooflinecli.layers.attention.gated_delta import SIZES, Delta
from rooflinecli.ledger.ledger import Axes, Block, Row, elementwise, matmul, norm
from rooflinecli.specs.model import AttentionSpec, ModelSpec

__all__ = ["SIZES", "block"]
_CHANNELS: tuple[Axes, ...] = (("N", "H"),) * 3
_HEADS = ("B", "S", "N", "H")


def block(spec: AttentionSpec, model: ModelSpec) -> Block:
    """q, k, v; decay and gate in two low-rank steps each; beta; delta rule; norm per head; output."""
    mixer = Delta(key="H", value="Hv", channels=_CHANNELS, state_dtype=spec.state_dtype or "fp32")
    rows = (
        matmul(
            "attention.qkv", "x[B S D] . Wqkv[D A H] -> qkv[B S A H]", saves=(("B", "Z", "D"), ("B", "S", "A", "H"))
        ),
        matmul(
            "attention.decay_gate_down", "x[B S D] . Wd[D two Hl] -> l[B S two Hl]", saves=(("B", "S", "two", "Hl"),)
        ),
        matmul("attention.decay_up", "l[B S Hl] . Wf[Hl N H] -> f[B S N H]", saves=(_HEADS,)),
        matmul("attention.beta", "x[B S D] . Wb[D N] -> b[B S N]", saves=(("B", "S", "N"),)),
        Row(
            "attention.core",
            "attention",
            params=(("taps", "A", "H"), ("N", "H"), ("N",)),
            saves=(("B", "S", "A", "H"),),
            mixer=mixer,
        ),
        norm("attention.gated_norm", "rmsnorm", ("H",), ("B", "S", "N")),
        matmul("attention.gate_up", "l[B S Hl] . Wg[Hl N H] -> g[B S N H]", saves=(_HEADS,)),
        elementwise("attention.gate", (_HEADS, _HEADS), (_HEADS,), saves=(_HEADS,)),
        matmul("attention.out", "o[B S N H] . Wo[N H D] -> y[B S D]", saves=(_HEADS,)),
    )
    width = spec.head_dim or 0
    axes = {"N": spec.n_heads, "H": width, "Hv": width, "Hl": width, "two": 2, **spec.sizes}
    return Block(rows, axes, (("A", lambda s: 3 * s["N"]),), split=("N",))
