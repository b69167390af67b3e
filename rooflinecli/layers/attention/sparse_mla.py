"""Latent attention over the keys that an indexer picks (DeepSeek Sparse Attention, DeepSeek-V3.2-Exp report, section 2.1).

The indexer's few small heads score every key; the main attention of a query reads the `index_top` best. Keys of the indexer are
cached beside the latents, so sparsity saves reads and FLOPs, not memory.
"""

from __future__ import annotations

from dataclasses import dataclass

from rooflinecli import num
from rooflinecli.formulas import attention, counts
from rooflinecli.layers.attention import mla
from rooflinecli.layers.softmax import asked, busiest
from rooflinecli.ledger import Block, Row, Sizes, elementwise, matmul, norm
from rooflinecli.mixer import Mode
from rooflinecli.num import Number
from rooflinecli.specs.model import AttentionSpec, ModelSpec
from rooflinecli.work import Gradient, Op

INDEX = 4.0  # bytes of a picked key's place
SIZES = {
    "index_heads": "heads of the indexer",
    "index_width": "width of an indexer head and of its cached key",
    "index_top": "keys that a query attends to",
}
OPTIONAL = {"index_reused": "1: no indexer of its own; it attends to the keys that the last layer with one picked (GLM-5.2)"}


@dataclass(frozen=True, eq=False, repr=False)
class Indexed(mla.Latent):
    """Two passes: scores of the indexer over every visible key, attention over those that it picks.

    A layer without an indexer of its `own` has the second pass alone.
    """

    own: bool = True

    def visible(self, tokens: Number) -> Number:
        """Every key stays in the cache."""
        return tokens

    def _score_flops(self, mode: Mode, sizes: Sizes) -> Number:
        seen = sizes["T"] if mode.documents is None else num.minimum(mode.documents, sizes["T"])
        seen = seen if mode.cached is None else seen + mode.cached
        pairs = sizes["T"] if mode.decode else sizes["S"] * seen / (1 if mode.full_attention else 2)
        return attention.indexer_flops(asked(sizes) if mode.decode else sizes["B"], sizes["Ni"], pairs, sizes["Hi"])

    def pairs(self, mode: Mode, queries: Number, keys: Number) -> Number:
        """Full counting takes masked pairs as computed, those that the indexer drops too."""
        if mode.full_attention:
            return queries * (keys if mode.documents is None else num.minimum(mode.documents, keys))
        return super().pairs(mode, queries, keys)

    def flops(self, mode: Mode, sizes: Sizes) -> Number:
        return super().flops(mode, sizes) + (self._score_flops(mode, sizes) if self.own else 0.0)

    def _token_flops(self, sizes: Sizes) -> Number:
        (qk, v), keys = self._token_widths(sizes), num.minimum(sizes["T"], self.reach)
        return attention.attention_core_flops(asked(sizes), sizes[self.heads], keys, qk, v)

    def prefill(self, name: str, mode: Mode, sizes: Sizes) -> list[Op]:
        core = super().prefill(name, mode, sizes)
        if mode.flash:
            core = [core[0]._replace(flops=busiest(super().flops(mode, sizes), mode))]
        return [*self._indexer(mode, sizes), *core]

    def decode(self, name: str, mode: Mode, sizes: Sizes) -> list[Op]:
        picked = {**sizes, "T": num.minimum(sizes["T"], self.reach)}
        return [*self._indexer(mode, sizes), *super().decode(name, mode, picked)]

    def _indexer(self, mode: Mode, sizes: Sizes) -> list[Op]:
        """Scores of every pair; keys are read once, queries once, and no score leaves the chip but the picked indices."""
        if not self.own:
            return []
        f, b, t = mode.formats, sizes["B"], sizes["T"]
        queries = 1.0 if mode.decode else sizes["S"]
        values = b * (t + queries * sizes["Ni"]) * sizes["Hi"]
        picked = counts.bytes_of(b * queries * num.minimum(t, self.reach), INDEX)
        moved = counts.bytes_of(values, f.kv if mode.decode else f.activation) + picked
        scores = Op(
            name="attention.index_scores",
            kind="scores",
            dtype=f.attention_compute,
            flops=self._score_flops(mode, sizes),
            bytes=moved,
            k=sizes["Hi"],
            gradient=Gradient(2.0, moved * 2, scores=True),
        )
        return [scores]


def block(spec: AttentionSpec, model: ModelSpec) -> Block:
    """The rows of latent attention, with the indexer's projections in front of the core."""
    latent = mla.block(spec, model)
    own = not spec.sizes.get("index_reused")
    cached: tuple[tuple[str, ...], ...] = (("R",), ("P",), ("Hi",)) if own else (("R",), ("P",))
    mixer = Indexed(kv_heads="N", v="Hv", cached=cached, window=spec.sizes["index_top"], own=own)
    indexer = () if not own else (
        matmul("attention.index_q", "c[B S Q] . Wiq[Q Ni Hi] -> q[B S Ni Hi]", saves=(("B", "S", "Ni", "Hi"),)),
        matmul("attention.index_k", "x[B S D] . Wik[D Hi] -> k[B S Hi]", saves=(("B", "S", "Hi"),)),
        norm("attention.index_norm", "layernorm", ("Hi",), ("B", "S")),
        matmul("attention.index_weights", "x[B S D] . Wiw[D Ni] -> w[B S Ni]", saves=(("B", "S", "Ni"),)),
        elementwise("attention.index_rotary", (("B", "S", "Ni", "Hi"),), (("B", "S", "Ni", "Hi"),), linear=True),
    )
    rows: list[Row] = []
    for row in latent.rows:
        core = row.mixer is not None
        rows += [*indexer, Row(row.name, row.kind, params=row.params, mixer=mixer)] if core else [row]
    axes = {**latent.axes, "Ni": spec.sizes["index_heads"], "Hi": spec.sizes["index_width"]}
    return Block(tuple(rows), axes, latent.derived, split=latent.split, shared=latent.shared)
