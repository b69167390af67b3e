"""Latent attention over the keys that an indexer picks (DeepSeek Sparse Attention, DeepSeek-V3.2-Exp report, section 2.1)."""

from __future__ import annotations

from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.layers.attention import mla
from rooflinecli.layers.sparse_indexer import SparseIndexer
from rooflinecli.ledger.ledger import Block, Row, elementwise, matmul, norm
from rooflinecli.specs.model import AttentionSpec, ModelSpec

SIZES = {
    "index_heads": "heads of the indexer",
    "index_width": "width of an indexer head and of its cached key",
    "index_top": "keys that a query attends to",
}
OPTIONAL = {
    "index_reused": "1: no indexer of its own; it attends to the keys that the last layer with one picked (GLM-5.2)"
}


@dataclass(frozen=True, eq=False, repr=False)
class Indexed(SparseIndexer, mla.Latent):
    """Two passes: scores of the indexer over every visible key, latent attention over those that it picks."""


def block(spec: AttentionSpec, model: ModelSpec) -> Block:
    """The rows of latent attention, with the indexer's projections in front of the core."""
    latent = mla.block(spec, model)
    own = not spec.sizes.get("index_reused")
    cached: tuple[tuple[str, ...], ...] = (("R",), ("P",), ("Hi",)) if own else (("R",), ("P",))
    mixer = Indexed(kv_heads="N", v="Hv", cached=cached, window=spec.sizes["index_top"], own=own)
    indexer = (
        ()
        if not own
        else (
            matmul("attention.index_q", "c[B S Q] . Wiq[Q Ni Hi] -> q[B S Ni Hi]", saves=(("B", "S", "Ni", "Hi"),)),
            matmul("attention.index_k", "x[B S D] . Wik[D Hi] -> k[B S Hi]", saves=(("B", "S", "Hi"),)),
            norm("attention.index_norm", "layernorm", ("Hi",), ("B", "S")),
            matmul("attention.index_weights", "x[B S D] . Wiw[D Ni] -> w[B S Ni]", saves=(("B", "S", "Ni"),)),
            elementwise("attention.index_rotary", (("B", "S", "Ni", "Hi"),), (("B", "S", "Ni", "Hi"),), linear=True),
        )
    )
    rows: list[Row] = []
    for row in latent.rows:
        core = row.mixer is not None
        rows += [*indexer, Row(row.name, row.kind, params=row.params, mixer=mixer)] if core else [row]
    axes = {**latent.axes, "Ni": spec.sizes["index_heads"], "Hi": spec.sizes["index_width"]}
    return Block(tuple(rows), axes, latent.derived, split=latent.split, shared=latent.shared)
