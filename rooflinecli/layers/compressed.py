"""Attention over a window of tokens and, behind it, over entries that each stand for `rate` tokens (DeepSeek-V4, sections 2.3.1 and 2.3.2).

One shared head is key and value at once. A compressor makes an entry of each `rate` tokens by a learned softmax over them. Where
an entry overlaps its neighbor (`index_heads` given), an indexer with entries of its own picks the `index_top` that a query attends
to; without one (heavily compressed) a query attends to every entry behind it. Without `rate` there is the window alone. Output
heads are projected group by group to a low rank first. Source of the sizes: transformers 5.23 models/deepseek_v4.
"""

from __future__ import annotations

from rooflinecli.core import num
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.num import INF, Number
from rooflinecli.formulas import attention, counts, memory
from rooflinecli.layers.softmax import LATENT_HEADS, Softmax, late_rank_pairs, queries_per_sequence
from rooflinecli.layers.sparse_indexer import ranking
from rooflinecli.ledger.ledger import Sizes
from rooflinecli.ledger.mixer import ContextParallelTraffic, CountingMode
from rooflinecli.ledger.ops import Op
from rooflinecli.quantization.formats import Formats


@dataclass(frozen=True, eq=False, repr=False)
class Compressed(Softmax):
    """`rate` tokens to an entry, `top` of them for a query, `indexed`: picked by an indexer."""

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
            queries, pairs = sizes["B"], self._index_pairs(mode, sizes)
        return attention.indexer_flops(queries, sizes["Ni"], pairs, sizes["Hi"])

    def _index_pairs(self, mode: CountingMode, sizes: Sizes) -> Number:
        s, t = sizes["S"], sizes["T"]
        seen = t if mode.documents is None else num.minimum(mode.documents, t)
        per_query = attention.compressed_pairs(seen, self.rate, INF) / seen
        if mode.full_attention:
            per_query = self._entries(seen)
        behind = 0.0 if mode.cached is None else self._entries(mode.cached)
        return s * (per_query + behind)

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
            name=name,
            kind="latent_attention",
            dtype=f.attention_compute,
            flops=self._token_flops(sizes),
            bytes=moved + counts.bytes_of(queries_per_sequence(sizes) * sizes["N"] * 2 * sizes["H"], f.activation),
            k=keys,
            n=sizes["H"],
            items=b * num.ceil(sizes["N"] / LATENT_HEADS),
        )
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
