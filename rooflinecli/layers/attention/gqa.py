"""Grouped-query attention: K key/value heads shared by N query heads (Ainslie et al. 2023). MHA and MQA are its two ends."""

from __future__ import annotations

from dataclasses import replace

from rooflinecli.layers.softmax import Softmax
from rooflinecli.ledger.ledger import Block, Row, elementwise, matmul, norm
from rooflinecli.specs.model import AttentionSpec, ModelSpec

_X = ("B", "Z", "D")
_HEADS = ("B", "S", "A", "H")


def block(spec: AttentionSpec, model: ModelSpec) -> Block:
    """Projections, optional q/k norms, rotary, core and output of one grouped-query layer."""
    rows = [matmul("attention.qkv", "x[B S D] . Wqkv[D A H] -> qkv[B S A H]", bias=spec.qkv_bias, saves=(_X, _HEADS))]
    if spec.qkv_bias and not spec.key_bias:
        rows[0] = replace(rows[0], params=(("D", "A", "H"), ("N", "H"), ("K", "H")))
    rows += _qk_norm(spec)
    if spec.rotary and model.positions.kind == "rotary":
        rotated = (("B", "S", "N", "H"), ("B", "S", "K", "H"))
        rows.append(elementwise("attention.rotary", rotated, rotated, linear=True))
    mixer = Softmax(window=spec.window, chunk=spec.chunk, causal=spec.causal)
    rows.append(Row("attention.core", "attention", params=(("N",),) if spec.sinks else (), mixer=mixer))
    if spec.out_norm:
        rows.append(norm("attention.out_norm", "rmsnorm", ("N", "H"), ("B", "S")))
    rows.append(
        matmul("attention.out", "o[B S N H] . Wo[N H D] -> y[B S D]", bias=spec.out_bias, saves=(("B", "S", "N", "H"),))
    )
    queries, keys = 2 if spec.out_gate else 1, 1 if spec.same_values else 2
    if spec.out_gate:
        gated = ("B", "S", "N", "H")
        rows.insert(-1, elementwise("attention.gate", (gated, gated), (gated,), saves=(gated,)))
    axes = {"N": spec.n_heads, "K": spec.n_kv_heads or spec.n_heads, "H": spec.head_dim or 0}
    return Block(tuple(rows), axes, (("A", lambda s: queries * s["N"] + keys * s["K"]),), split=("N",), shared=("K",))


def _qk_norm(spec: AttentionSpec) -> list[Row]:
    """Norms of q and k: per head (a scale of head_dim each; a scale per head for Cohere; scale and shift for Phi), or over the full width (OLMo 2)."""
    if spec.qk_norm == "none":
        return []
    widths = {
        "head": (("H",), ("H",)),
        "full": (("N", "H"), ("K", "H")),
        "head_layernorm": (("N", "H"), ("K", "H")),
        "head_bias": (("H",), ("H",), ("H",), ("H",)),
    }[spec.qk_norm]
    traffic = (("B", "S", "N", "H"), ("B", "S", "K", "H"))
    return [elementwise("attention.qk_norm", traffic, traffic, saves=traffic, params=widths)]
