"""Joint attention of two streams (MMDiT: Esser et al. 2024, Scaling Rectified Flow Transformers, arXiv 2403.03206, section 4).

The tokens of the prompt and those of the image have projections of their own, and one attention over both.
"""

from __future__ import annotations

from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.num import Number
from rooflinecli.layers.softmax import Softmax
from rooflinecli.ledger.ledger import Block, Row, Sizes, elementwise, matmul
from rooflinecli.ledger.mixer import CountingMode
from rooflinecli.ledger.ops import Op
from rooflinecli.specs.model import AttentionSpec, ModelSpec

SIZES = {"text": "tokens of the prompt in every sequence"}
OPTIONAL = {
    "last": "1 where nothing reads the prompt's stream afterward, so that it has no output",
    "own": "1 where the image also attends to itself alone, with projections of its own (MMDiT-X of Stable Diffusion 3.5)",
}


def image_tokens(sizes: Sizes) -> object:
    """What of the tokens here is the image's: every device of a split sequence has the whole prompt."""
    return sizes["S"] - sizes["text"] * sizes["S"] / sizes["T"]


@dataclass(frozen=True, eq=False, repr=False)
class _ImageAlone(Softmax):
    """The image's tokens among themselves."""

    causal: bool = False

    def flops(self, mode: CountingMode, sizes: Sizes) -> Number:
        return super().flops(mode, _image(sizes))

    def prefill(self, name: str, mode: CountingMode, sizes: Sizes) -> list[Op]:
        return super().prefill(name, mode, _image(sizes))


def _image(sizes: Sizes) -> Sizes:
    """The sizes with the image's tokens as queries and keys."""
    return {**sizes, "S": sizes["I"], "T": sizes["T"] - sizes["text"]}


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
    if spec.sizes.get("own"):
        rows += _image_alone(spec)
    axes = {"N": spec.n_heads, "K": spec.n_kv_heads or spec.n_heads, "H": spec.head_dim or 0}
    axes["text"] = spec.sizes["text"]
    derived = (("A", lambda s: s["N"] + 2 * s["K"]), ("I", image_tokens))
    return Block(tuple(rows), axes, derived, split=("N",), shared=("K",))


def _image_alone(spec: AttentionSpec) -> list[Row]:
    """The image's second attention: projections, norms of q and k, core, output."""
    read, qkv, made = ("B", "I", "D"), ("B", "I", "A", "H"), ("B", "I", "N", "H")
    rows = [
        matmul("attention.own_qkv", "x[B I D] . Wown[D A H] -> own[B I A H]", bias=spec.qkv_bias, saves=(read, qkv))
    ]
    if spec.qk_norm == "head":
        traffic = (made, made)
        rows.append(elementwise("attention.own_qk_norm", traffic, traffic, saves=traffic, params=(("H",),) * 2))
    rows.append(Row("attention.own_core", "attention", mixer=_ImageAlone()))
    rows.append(matmul("attention.own_out", "o[B I N H] . Wout[N H D] -> y[B I D]", bias=spec.out_bias, saves=(made,)))
    return rows
