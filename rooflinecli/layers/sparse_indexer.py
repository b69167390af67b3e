"""Attention over the keys that an indexer picks: DeepSeek Sparse Attention, block-sparse attention, and compressed entries of keys.

A few small heads score every key; the main attention of a query reads the best. Keys of the indexer are cached next to the
others, so sparsity saves reads and FLOPs, not memory (DeepSeek-V3.2-Exp report, section 2.1).
"""

from __future__ import annotations

from rooflinecli.core import num
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.num import INF, Number
from rooflinecli.formulas import attention, counts, memory
from rooflinecli.layers.softmax import LATENT_HEADS, Latent, Softmax, late_rank_pairs, queries_per_sequence
from rooflinecli.ledger.ledger import Sizes
from rooflinecli.ledger.mixer import ContextParallelTraffic, CountingMode
from rooflinecli.ledger.ops import Gradient, Op
from rooflinecli.quantization.formats import Formats

INDEX_BYTES = 4.0  # bytes of a picked key's place


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
    picked = counts.bytes_of(b * queries * num.minimum(keys, most), INDEX_BYTES)
    moved = counts.bytes_of(values, f.kv if mode.decode else f.activation) + picked
    return Op(
        name="attention.index_scores", kind="scores", dtype=f.attention_compute, flops=flops, bytes=moved, k=sizes["Hi"],
        gradient=Gradient(2.0, moved * 2, scores=True),
    )  # fmt: skip


@dataclass(frozen=True, eq=False, repr=False)
class Blocks(SparseIndexer):
    """Scores of the indexer over every visible key, attention over the blocks that it picks."""

    def _rank_flops(self, batch: Number, pairs: Number, sizes: Sizes) -> Number:
        """Scores alone: a block counts as its best key."""
        return attention.attention_core_flops(batch, sizes["Ni"], pairs, sizes["Hi"], 0.0)


@dataclass(frozen=True, eq=False, repr=False)
class Indexed(SparseIndexer, Latent):
    """Two passes: scores of the indexer over every visible key, latent attention over those that it picks."""


@dataclass(frozen=True, eq=False, repr=False)
class Compressed(Softmax):
    """A window of tokens and, behind it, entries that each stand for `rate` tokens (DeepSeek-V4, sections 2.3.1 and 2.3.2).

    One shared head is key and value at once. A compressor makes an entry of each `rate` tokens by a learned softmax over them. Where
    an entry overlaps its neighbor (`index_heads` given), an indexer with entries of its own picks the `index_top` that a query attends
    to; without one (heavily compressed) a query attends to every entry behind it. Without `rate` there is the window alone. Output
    heads are projected group by group to a low rank first. Source of the sizes: transformers 5.23 models/deepseek_v4.

    `rate` tokens to an entry, `top` of them for a query, `indexed`: picked by an indexer.
    """

    rate: Number = INF
    top: Number = INF
    indexed: bool = False

    def _entries(self, tokens: Number) -> Number:
        """Complete entries of a number of tokens."""
        return num.floor(tokens / self.rate)

    def _keys(self, tokens: Number) -> Number:
        """What one query attends to after `tokens` tokens."""
        return num.minimum(tokens, self.reach) + num.minimum(self._entries(tokens), self.top)

    def cached_tokens(self, tokens: Number) -> Number:
        """Rows of the cache: the window, and every entry."""
        return num.minimum(tokens, self.reach) + self._entries(tokens)

    def _document_pairs(self, mode: CountingMode, keys: Number) -> Number:
        if mode.full_attention:
            return attention.full_pairs(keys, self.reach) + keys * self._entries(keys)
        return super()._document_pairs(mode, keys) + attention.compressed_pairs(keys, self.rate, self.top)

    def flops(self, mode: CountingMode, sizes: Sizes) -> Number:
        return super().flops(mode, sizes) + (self._score_flops(mode, sizes) if self.indexed else 0.0)

    def _token_flops(self, sizes: Sizes) -> Number:
        return attention.attention_core_flops(
            queries_per_sequence(sizes), sizes["N"], self._keys(sizes["T"]), sizes["H"], sizes["H"]
        )

    def _score_flops(self, mode: CountingMode, sizes: Sizes) -> Number:
        """The indexer ranks every entry behind a query."""
        if mode.decode:
            queries, pairs = queries_per_sequence(sizes), self._entries(sizes["T"])
        else:
            seen = sizes["T"] if mode.documents is None else num.minimum(mode.documents, sizes["T"])
            each = (
                self._entries(seen) if mode.full_attention else attention.compressed_pairs(seen, self.rate, INF) / seen
            )
            cached_entries = 0.0 if mode.cached is None else self._entries(mode.cached)
            queries, pairs = sizes["B"], sizes["S"] * (each + cached_entries)
        return attention.indexer_flops(queries, sizes["Ni"], pairs, sizes["Hi"])

    def prefill(self, name: str, mode: CountingMode, sizes: Sizes) -> list[Op]:
        core = super().prefill(name, mode, sizes)
        if mode.flash:
            core = [core[0]._replace(flops=late_rank_pairs(super().flops(mode, sizes), mode), k=self._keys(sizes["T"]))]
        return [*self._indexer(mode, sizes), *core]

    def _traffic(self, formats: Formats, sizes: Sizes) -> Number:
        """Queries and outputs of every head; the shared head once, as key and value, and its entries."""
        b, s, rows = sizes["B"], sizes["S"], sizes["T"] + self._entries(sizes["T"])
        return counts.bytes_of(b * (2 * s * sizes["N"] + rows) * sizes["H"], formats.activation)

    def decode(self, name: str, mode: CountingMode, sizes: Sizes) -> list[Op]:
        f, b, keys = mode.formats, sizes["B"], self._keys(sizes["T"])
        moved = counts.bytes_of(b * keys * sizes["H"], f.kv)
        core = Op(
            name=name, kind="latent_attention", dtype=f.attention_compute, flops=self._token_flops(sizes),
            bytes=moved + counts.bytes_of(queries_per_sequence(sizes) * sizes["N"] * 2 * sizes["H"], f.activation), k=keys, n=sizes["H"],
            items=b * num.ceil(sizes["N"] / LATENT_HEADS),
        )  # fmt: skip
        return [*self._indexer(mode, sizes), core]

    def _indexer(self, mode: CountingMode, sizes: Sizes) -> list[Op]:
        """Scores of every entry behind each query, where there is an indexer."""
        if not self.indexed:
            return []
        return [ranking(mode, sizes, self._entries(sizes["T"]), self.top, self._score_flops(mode, sizes))]

    def exchange(self, sizes: Sizes) -> ContextParallelTraffic:
        """The shared head once."""
        return ContextParallelTraffic(queries=sizes["N"] * sizes["H"], keys=sizes["H"])

    def cached_values_per_token(self, sizes: Sizes) -> Number:
        """What one more token adds in the long run: its part of an entry. The window has a fixed size."""
        return (sizes["H"] + (sizes["Hi"] if self.indexed else 0.0)) / self.rate

    def cache_bytes(self, formats: Formats, sizes: Sizes, batch: Number, tokens: Number) -> Number:
        """The window and every entry, once, since key and value are one; plus the indexer's entries."""
        rows = memory.kv_cache_bytes(batch, self.cached_tokens(tokens), sizes["H"], formats.kv)
        if not self.indexed:
            return rows
        return rows + memory.kv_cache_bytes(batch, self._entries(tokens), sizes["Hi"], formats.kv)

    def text(self, sizes: Sizes) -> str:
        behind = "" if self.rate == INF else f", and an entry for each {self.rate:g} tokens"
        return super().text(sizes) + behind
