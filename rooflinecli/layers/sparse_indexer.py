"""Attention over the keys that an indexer picks: the part that DeepSeek Sparse Attention and block-sparse attention have in common.

A few small heads score every key; the main attention of a query reads the best. Keys of the indexer are cached next to the
others, so sparsity saves reads and FLOPs, not memory (DeepSeek-V3.2-Exp report, section 2.1).
"""

from __future__ import annotations

from rooflinecli.core import num
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.num import Number
from rooflinecli.formulas import attention, counts
from rooflinecli.layers.softmax import Latent, Softmax, late_rank_pairs, queries_per_sequence
from rooflinecli.ledger.ledger import Sizes
from rooflinecli.ledger.mixer import CountingMode
from rooflinecli.ledger.ops import Gradient, Op

INDEX = 4.0  # bytes of a picked key's place


@dataclass(frozen=True, eq=False, repr=False)
class SparseIndexer(Softmax):
    """Two passes: scores of the indexer over every visible key, attention over those that it picks.

    A layer without an indexer of its `own` has the second pass alone.
    """

    own: bool = True

    def cached_tokens(self, tokens: Number) -> Number:
        """Every key stays in the cache."""
        return tokens

    def _score_flops(self, mode: CountingMode, sizes: Sizes) -> Number:
        seen = sizes["T"] if mode.documents is None else num.minimum(mode.documents, sizes["T"])
        seen = seen if mode.cached is None else seen + mode.cached
        pairs = sizes["T"] if mode.decode else sizes["S"] * seen / (1 if mode.full_attention else 2)
        return self._rank_flops(queries_per_sequence(sizes) if mode.decode else sizes["B"], pairs, sizes)

    def pairs(self, mode: CountingMode, queries: Number, keys: Number) -> Number:
        """Full counting takes masked pairs as computed, those that the indexer drops too."""
        if mode.full_attention:
            return queries * (keys if mode.documents is None else num.minimum(mode.documents, keys))
        return super().pairs(mode, queries, keys)

    def flops(self, mode: CountingMode, sizes: Sizes) -> Number:
        return super().flops(mode, sizes) + (self._score_flops(mode, sizes) if self.own else 0.0)

    def _rank_flops(self, batch: Number, pairs: Number, sizes: Sizes) -> Number:
        """FLOPs of ranking a number of pairs: scores of each head, summed by a weight each."""
        return attention.indexer_flops(batch, sizes["Ni"], pairs, sizes["Hi"])

    def _token_flops(self, sizes: Sizes) -> Number:
        (qk, v), keys = self._token_widths(sizes), num.minimum(sizes["T"], self.reach)
        return attention.attention_core_flops(queries_per_sequence(sizes), sizes[self.heads], keys, qk, v)

    def prefill(self, name: str, mode: CountingMode, sizes: Sizes) -> list[Op]:
        core = super().prefill(name, mode, sizes)
        if mode.flash:
            core = [core[0]._replace(flops=late_rank_pairs(super().flops(mode, sizes), mode))]
        return [*self._indexer(mode, sizes), *core]

    def decode(self, name: str, mode: CountingMode, sizes: Sizes) -> list[Op]:
        picked = {**sizes, "T": num.minimum(sizes["T"], self.reach)}
        return [*self._indexer(mode, sizes), *super().decode(name, mode, picked)]

    def _indexer(self, mode: CountingMode, sizes: Sizes) -> list[Op]:
        """Scores of every pair, where the layer has an indexer of its own."""
        return [ranking(mode, sizes, sizes["T"], self.reach, self._score_flops(mode, sizes))] if self.own else []


def ranking(mode: CountingMode, sizes: Sizes, keys: Number, most: Number, flops: Number) -> Op:
    """An indexer's scores over a number of keys: keys are read once, queries once, and no score leaves the chip but the places of the
    `most` that are picked."""
    f, b = mode.formats, sizes["B"]
    queries = 1.0 if mode.decode else sizes["S"]
    values = b * (keys + queries * sizes["Ni"]) * sizes["Hi"]
    picked = counts.bytes_of(b * queries * num.minimum(keys, most), INDEX)
    moved = counts.bytes_of(values, f.kv if mode.decode else f.activation) + picked
    return Op(
        name="attention.index_scores",
        kind="scores",
        dtype=f.attention_compute,
        flops=flops,
        bytes=moved,
        k=sizes["Hi"],
        gradient=Gradient(2.0, moved * 2, scores=True),
    )


@dataclass(frozen=True, eq=False, repr=False)
class Blocks(SparseIndexer):
    """Scores of the indexer over every visible key, attention over the blocks that it picks."""

    def _rank_flops(self, batch: Number, pairs: Number, sizes: Sizes) -> Number:
        """Scores alone: a block counts as its best key."""
        return attention.attention_core_flops(batch, sizes["Ni"], pairs, sizes["Hi"], 0.0)


@dataclass(frozen=True, eq=False, repr=False)
class Indexed(SparseIndexer, Latent):
    """Two passes: scores of the indexer over every visible key, latent attention over those that it picks."""
