"""Grouped-query attention over blocks of keys that an indexer picks (MiniMax-M3; as in Native Sparse Attention, arXiv 2502.11089).

Each indexer head scores every key; the best blocks of each key/value group are read. Source: transformers 5.23 models/minimax_m3_vl.
"""

from __future__ import annotations

from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.num import Number
from rooflinecli.formulas import attention
from rooflinecli.layers.attention import gqa
from rooflinecli.layers.sparse_indexer import SparseIndexer
from rooflinecli.ledger.ledger import Block, Row, Sizes, elementwise, matmul, norm
from rooflinecli.specs.model import AttentionSpec, ModelSpec

SIZES = {
    "index_heads": "heads of the indexer",
    "index_width": "width of an indexer head and of its cached key",
    "index_top": "blocks of keys that a query attends to",
    "index_block": "keys of a block",
}


@dataclass(frozen=True, eq=False, repr=False)
class Blocks(SparseIndexer):
    """Scores of the indexer over every visible key, attention over the blocks that it picks."""

    def _rank_flops(self, batch: Number, pairs: Number, sizes: Sizes) -> Number:
        """Scores alone: a block counts as its best key."""
        return attention.attention_core_flops(batch, sizes["Ni"], pairs, sizes["Hi"], 0.0)


def block(spec: AttentionSpec, model: ModelSpec) -> Block:
    """The rows of grouped-query attention, with the indexer's projections in front of the core."""
    plain, sizes = gqa.block(spec, model), spec.sizes
    cached = (("K", "H"), ("K", "H"), ("Hi",))
    mixer = Blocks(cached=cached, window=sizes["index_top"] * sizes["index_block"])
    q, k = ("B", "S", "Ni", "Hi"), ("B", "S", "Hi")
    indexer = (
        matmul("attention.index_q", "x[B S D] . Wiq[D Ni Hi] -> q[B S Ni Hi]", saves=(q,)),
        matmul("attention.index_k", "x[B S D] . Wik[D Hi] -> k[B S Hi]", saves=(k,)),
        norm("attention.index_q_norm", "rmsnorm", ("Hi",), ("B", "S", "Ni")),
        norm("attention.index_k_norm", "rmsnorm", ("Hi",), ("B", "S")),
        elementwise("attention.index_rotary", (q, k), (q, k), linear=True),
    )
    rows: list[Row] = []
    for row in plain.rows:
        core = row.mixer is not None
        rows += [*indexer, Row(row.name, row.kind, params=row.params, mixer=mixer)] if core else [row]
    axes = {**plain.axes, "Ni": sizes["index_heads"], "Hi": sizes["index_width"]}
    return Block(tuple(rows), axes, plain.derived, split=plain.split, shared=plain.shared)
