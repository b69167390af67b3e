"""Attention heads and Mamba-2 heads side by side on the same input, their outputs added (Falcon-H1, TII 2025).

The fields describe the attention; sizes give the other half. conv_bias, gated_norm are of that half, qkv_bias and out_bias of
the attention; ssm_bias and ssm_out_bias of the two projections of the scan.
"""

from __future__ import annotations

from rooflinecli.layers.attention import gqa, mamba2
from rooflinecli.ledger.ledger import Block, elementwise
from rooflinecli.specs.model import AttentionSpec, ModelSpec

SIZES = {
    **mamba2.SIZES,
    "ssm_heads": "heads of the scan",
    "ssm_head_dim": "width of a head of the scan",
}
OPTIONAL = {
    "ssm_bias": "1: a bias on the scan's input projection",
    "ssm_out_bias": "1: a bias on its output projection",
}
_WHOLE = ("B", "Z", "D")


def block(spec: AttentionSpec, model: ModelSpec) -> Block:
    """The rows of both halves, and their sum."""
    heads = gqa.block(spec, model)
    sizes = spec.sizes
    scan = spec.with_changes(qkv_bias="ssm_bias" in sizes, out_bias="ssm_out_bias" in sizes)
    rows = (
        *heads.rows,
        *mamba2.rows(scan, "attention.ssm", "M", "P"),
        elementwise("attention.sum", (_WHOLE, _WHOLE), (_WHOLE,), linear=True),
    )
    axes = {**heads.axes, "M": sizes["ssm_heads"], "P": sizes["ssm_head_dim"], "G": sizes["groups"]}
    axes |= {name: sizes[name] for name in ("state", "taps", "chunk")}
    return Block(rows, axes, (*heads.derived, *mamba2.derived("M", "P")), split=("N", "M"), shared=("K", "G"))
