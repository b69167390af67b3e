"""Joint attention of two streams (MMDiT: Esser et al. 2024, Scaling Rectified Flow Transformers, arXiv 2403.03206, section 4).

The tokens of the prompt and those of the image have projections of their own, and one attention over both.
"""

from __future__ import annotations

from rooflinecli.layers.softmax import Softmax
from rooflinecli.ledger.ledger import Block, Row, Sizes, elementwise, matmul
from rooflinecli.specs.model import AttentionSpec, ModelSpec

SIZES = {"text": "tokens of the prompt in every sequence"}
OPTIONAL = {"last": "1 where nothing reads the prompt's stream afterward, so that it has no output"}


def image_tokens(sizes: Sizes) -> object:
    """What of a sequence is the image's."""
    return sizes["S"] - sizes["text"]


def block(spec: AttentionSpec, model: ModelSpec) -> Block:
    """Projections of each stream, norms of q and k by stream, one core, an output of each stream."""
    rows: list[Row] = []
    for stream, axis in (("image", "I"), ("text", "text")):
        saved = (("B", axis, "D"), ("B", axis, "A", "H"))
        rows.append(
            matmul(
                f"attention.{stream}_qkv",
                f"x[B {axis} D] . Wqkv[D A H] -> qkv[B {axis} A H]",
                bias=spec.qkv_bias,
                saves=saved,
            )
        )
    if spec.qk_norm == "head":
        traffic = (("B", "S", "N", "H"), ("B", "S", "K", "H"))
        rows.append(elementwise("attention.qk_norm", traffic, traffic, saves=traffic, params=(("H",),) * 4))
    rows.append(Row("attention.core", "attention", mixer=Softmax(causal=False)))
    streams = (("image", "I"),) if spec.sizes.get("last") else (("image", "I"), ("text", "text"))
    for stream, axis in streams:
        out = ("B", axis, "N", "H")
        rows.append(
            matmul(
                f"attention.{stream}_out",
                f"o[B {axis} N H] . Wo[N H D] -> y[B {axis} D]",
                bias=spec.out_bias,
                saves=(out,),
            )
        )
    axes = {"N": spec.n_heads, "K": spec.n_kv_heads or spec.n_heads, "H": spec.head_dim or 0}
    axes["text"] = spec.sizes["text"]
    derived = (("A", lambda s: s["N"] + 2 * s["K"]), ("I", image_tokens))
    return Block(tuple(rows), axes, derived, split=("N",), shared=("K",))
