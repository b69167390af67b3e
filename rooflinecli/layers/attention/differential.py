"""Differential attention: the scores of half the heads are subtracted from those of the other half, over values of both
(Ye et al. 2024, arXiv 2410.05258). Attention runs twice, each time over half of the values, so scores are made twice; two pairs of
vectors say how much is subtracted.

Source of the sizes: transformers 5.23 models/diffllama.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from rooflinecli.layers.attention import gqa
from rooflinecli.layers.softmax import Softmax
from rooflinecli.ledger.ledger import Block, Sizes, elementwise
from rooflinecli.ledger.mixer import ContextParallelTraffic
from rooflinecli.specs.model import AttentionSpec, ModelSpec

_WIDE = ("B", "S", "N", "Hd")


@dataclass(frozen=True, eq=False, repr=False)
class Differential(Softmax):
    """Two passes over the same queries and keys; these are cached, and sent, once."""

    def exchange(self, sizes: Sizes) -> ContextParallelTraffic:
        return ContextParallelTraffic(
            queries=sizes[self.heads] * sizes["H"], keys=2 * sizes[self.kv_heads] * sizes["H"]
        )


def block(spec: AttentionSpec, model: ModelSpec) -> Block:
    """The rows of grouped-query attention; the core over wide values, and the difference of its halves, normed."""
    plain = gqa.block(spec, model)
    mixer = Differential(qk="Hd", v="Hd", window=spec.window, chunk=spec.chunk, causal=spec.causal)
    rows = []
    for row in plain.rows:
        rows.append(row if row.mixer is None else replace(row, mixer=mixer))
        if row.mixer is not None:
            rows.append(
                elementwise(
                    "attention.difference", (_WIDE,), (("B", "S", "N", "H"),), saves=(_WIDE,), params=(("H",),) * 4
                )
            )
    return Block(
        tuple(rows), plain.axes, (*plain.derived, ("Hd", lambda s: 2 * s["H"])), split=plain.split, shared=plain.shared
    )
