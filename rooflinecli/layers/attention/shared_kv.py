"""Attention with the keys and values of an earlier layer: queries of its own, no cache of its own (Gemma 3n, Gemma 4).

What an earlier layer keeps is read again, so a decode step moves it for this layer too, and memory holds it once.
"""

from __future__ import annotations

from rooflinecli.core.num import Number
from rooflinecli.layers.softmax import Softmax
from rooflinecli.ledger.ledger import Block, Row, Sizes, elementwise, matmul
from rooflinecli.specs.model import AttentionSpec, ModelSpec

_QUERIES = ("B", "S", "N", "H")


class SharedKv(Softmax):
    """Softmax attention that leaves nothing in the cache."""

    def cached_values_per_token(self, sizes: Sizes) -> Number:
        return 0.0


def block(spec: AttentionSpec, model: ModelSpec) -> Block:
    """Queries, their norm and rotary, core and output."""
    rows = [
        matmul(
            "attention.q", "x[B S D] . Wq[D N H] -> q[B S N H]", bias=spec.qkv_bias, saves=(("B", "Z", "D"), _QUERIES)
        )
    ]
    if spec.qk_norm == "head":
        rows.append(elementwise("attention.q_norm", (_QUERIES,), (_QUERIES,), saves=(_QUERIES,), params=(("H",),)))
    if spec.rotary and model.positions.kind == "rotary":
        rows.append(elementwise("attention.rotary", (_QUERIES,), (_QUERIES,), linear=True))
    mixer = SharedKv(window=spec.window, chunk=spec.chunk, causal=spec.causal)
    rows += [
        Row("attention.core", "attention", mixer=mixer),
        matmul("attention.out", "o[B S N H] . Wo[N H D] -> y[B S D]", bias=spec.out_bias, saves=(_QUERIES,)),
    ]
    axes = {"N": spec.n_heads, "K": spec.n_kv_heads or spec.n_heads, "H": spec.head_dim or 0}
    return Block(tuple(rows), axes, split=("N",), shared=("K",))
