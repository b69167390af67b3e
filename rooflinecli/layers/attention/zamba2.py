"""The hybrid layer of Zamba2 (Glorioso et al. 2024, arXiv 2411.15242): a transformer block that several layers share, then Mamba-2.

The shared block reads the layer's input concatenated with the embeddings (2 d_model wide) through attention of n_heads x head_dim and a
gated MLP of `ff`; low-rank adapters and a d_model^2 projection belong to each use. `shared: true` marks a use whose block was
counted before. Its own scan follows; sizes give it. qkv_bias: biases on the MLP and the scan's projections.
"""

from __future__ import annotations

from rooflinecli.layers.attention import mamba2
from rooflinecli.layers.softmax import Softmax
from rooflinecli.ledger.ledger import Block, Row, elementwise, matmul, norm
from rooflinecli.specs.model import AttentionSpec, ModelSpec

SIZES = {
    **mamba2.SIZES,
    "ssm_heads": "heads of the scan",
    "ssm_head_dim": "width of a head of the scan",
    "ff": "width of the shared MLP",
    "adapter": "rank of the adapters of this use",
}
OPTIONAL = {"qkv_adapter": "1: adapters on q, k and v too"}
_HEADS = ("B", "S", "N", "H")


def block(spec: AttentionSpec, model: ModelSpec) -> Block:
    """Shared attention and MLP with this use's adapters, the projection back into the stream, the scan."""
    sizes, tied = spec.sizes, spec.shared
    bias = spec.qkv_bias  # of the MLP and of the scan's projections; attention has none
    scan = spec.with_changes(qkv_bias=bias, out_bias=bias, conv_bias=True)
    both, hidden = ("B", "S", "U"), ("B", "S", "F")
    rows = (
        *_attention(tied, "qkv_adapter" in sizes),
        norm("attention.mlp_norm", "none" if tied else "rmsnorm"),
        _once(
            matmul("attention.mlp_up", "x[B S D] . Wup[D U] -> u[B S U]", bias=bias, saves=(("B", "Z", "D"), both)),
            tied,
        ),
        matmul("attention.mlp_adapter_down", "x[B S D] . Wa[D adapter] -> a[B S adapter]"),
        matmul("attention.mlp_adapter_up", "a[B S adapter] . Wb[adapter U] -> u[B S U]"),
        elementwise("attention.mlp_activation", (both,), (hidden,)),
        _once(matmul("attention.mlp_down", "h[B S F] . Wdown[F D] -> y[B S D]", bias=bias, saves=(hidden,)), tied),
        matmul("attention.use", "y[B S D] . Wu[D D2] -> u[B S D2]", saves=(("B", "Z", "D"),)),
        norm("attention.ssm.norm", "rmsnorm"),
        *mamba2.rows(scan, "attention.ssm", "M", "P"),
    )
    axes = {
        "three": 3,
        "N": spec.n_heads,
        "K": spec.n_kv_heads or spec.n_heads,
        "H": spec.head_dim or 0,
        "D2": model.d_model,
    }
    axes |= {"M": sizes["ssm_heads"], "P": sizes["ssm_head_dim"], "G": sizes["groups"], "F": sizes["ff"]}
    axes |= {name: sizes[name] for name in ("state", "taps", "chunk", "adapter")}
    derived = (
        ("A", lambda s: s["N"] + 2 * s["K"]),
        ("X2", lambda s: s["D"] + s["D2"]),
        ("U", lambda s: 2 * s["F"]),
        *mamba2.derived("M", "P"),
    )
    return Block(rows, axes, derived, split=("N", "M", "F"), shared=("K", "G"))


def _attention(tied: bool, adapters: bool) -> list[Row]:
    """Attention over the input concatenated with the embeddings."""
    concatenated = ("B", "S", "X2")
    entry = norm("attention.norm", "none" if tied else "rmsnorm", ("X2",), ("B", "S"))
    rows = [
        entry,
        _once(matmul("attention.qkv", "x[B S X2] . Wqkv[X2 A H] -> qkv[B S A H]", saves=(concatenated,)), tied),
    ]
    if adapters:
        rows += [
            matmul("attention.qkv_adapter_down", "x[B S X2] . Wa[X2 three adapter] -> a[B S three adapter]"),
            matmul("attention.qkv_adapter_up", "a[B S three adapter] . Wb[three adapter N H] -> qkv[B S three N H]"),
        ]
    out = matmul("attention.out", "o[B S N H] . Wo[N H D] -> y[B S D]", saves=(_HEADS,))
    return [*rows, Row("attention.core", "attention", mixer=Softmax()), _once(out, tied)]


def _once(row: Row, tied: bool) -> Row:
    """A row whose weights an earlier use owns reads them all the same, and counts none."""
    return Row(row.name, row.kind, row.contraction, () if tied else row.params, saves=row.saves)
