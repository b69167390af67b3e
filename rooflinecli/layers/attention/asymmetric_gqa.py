"""Grouped-query attention whose values have another width than queries and keys (MiMo-V2): v_head_dim next to head_dim."""

from __future__ import annotations

from rooflinecli.layers.softmax import Softmax
from rooflinecli.ledger.ledger import Block, Row, Sizes, elementwise, matmul
from rooflinecli.ledger.mixer import ContextParallelTraffic
from rooflinecli.specs.model import AttentionSpec, ModelSpec

_OUT = ("B", "S", "N", "Hv")


class AsymmetricGqa(Softmax):
    """Softmax attention that sends keys and values as wide as each is."""

    def exchange(self, sizes: Sizes) -> ContextParallelTraffic:
        keys = sizes[self.kv_heads] * (sizes[self.qk] + sizes[self.v])
        return ContextParallelTraffic(queries=sizes[self.heads] * sizes[self.qk], keys=keys)


def block(spec: AttentionSpec, model: ModelSpec) -> Block:
    """Queries with keys, values, rotary, core with its sinks, and output."""
    entry, both = ("B", "Z", "D"), ("B", "S", "Aqk", "H")
    rows = [
        matmul("attention.qk", "x[B S D] . Wqk[D Aqk H] -> qk[B S Aqk H]", bias=spec.qkv_bias, saves=(entry, both)),
        matmul(
            "attention.v", "x[B S D] . Wv[D K Hv] -> v[B S K Hv]", bias=spec.qkv_bias, saves=(("B", "S", "K", "Hv"),)
        ),
    ]
    if spec.rotary and model.positions.kind == "rotary":
        rows.append(elementwise("attention.rotary", (both,), (both,), linear=True))
    mixer = AsymmetricGqa(
        v="Hv", cached=(("K", "H"), ("K", "Hv")), window=spec.window, chunk=spec.chunk, causal=spec.causal
    )
    rows += [
        Row("attention.core", "attention", params=(("N",),) if spec.sinks else (), mixer=mixer),
        matmul("attention.out", "o[B S N Hv] . Wo[N Hv D] -> y[B S D]", bias=spec.out_bias, saves=(_OUT,)),
    ]
    width = spec.head_dim or 0
    axes = {"N": spec.n_heads, "K": spec.n_kv_heads or spec.n_heads, "H": width, "Hv": spec.v_head_dim or width}
    return Block(tuple(rows), axes, (("Aqk", lambda s: s["N"] + s["K"]),), split=("N",), shared=("K",))
