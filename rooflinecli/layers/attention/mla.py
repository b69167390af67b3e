"""Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434): a latent of rank R and a shared rotary key are all that is cached.

Decode absorbs the up-projection into q and the output, so its core works on R + P wide latents with one shared head.
"""

from __future__ import annotations

from rooflinecli.core import num
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.num import Number
from rooflinecli.layers.softmax import Softmax
from rooflinecli.ledger.ledger import Block, Row, Sizes, elementwise, matmul, norm
from rooflinecli.ledger.mixer import CountingMode
from rooflinecli.ledger.ops import Op
from rooflinecli.specs.model import AttentionSpec, ModelSpec

HEADS = 64.0  # heads of a work item of decode: they read the latent once
_X = ("B", "Z", "D")


@dataclass(frozen=True, eq=False, repr=False)
class Latent(Softmax):
    """Attention as of any heads over a prompt; a decode step reads latents that all heads share."""

    def _fused(self, name: str, mode: CountingMode, sizes: Sizes) -> Op:
        """Heads 192 wide against values 128 wide: kernels that have constants of their own in serving."""
        op = super()._fused(name, mode, sizes)
        return op._replace(variant=f"latent@{mode.library}") if mode.library else op

    def decode(self, name: str, mode: CountingMode, sizes: Sizes) -> list[Op]:
        items = sizes["B"] * num.ceil(sizes[self.heads] / HEADS)
        return [self._token(name, "latent_attention", mode, sizes, items)]

    def _token_widths(self, sizes: Sizes) -> tuple[Number, Number]:
        return sizes["L"], sizes["R"]


_MIXER = Latent(kv_heads="N", v="Hv", cached=(("R",), ("P",)))


def block(spec: AttentionSpec, model: ModelSpec) -> Block:
    """Low-rank projections, core over N heads in prefill and over the latent in decode, output."""
    q = ("B", "S", "N", "H")
    rows: list[Row] = []
    if spec.q_lora_rank:
        rows += [
            matmul("attention.q_down", "x[B S D] . Wqa[D Q] -> c[B S Q]", bias=spec.qkv_bias, saves=(_X,)),
            norm("attention.q_norm", "rmsnorm", ("Q",), ("B", "S")),
            matmul("attention.q_up", "c[B S Q] . Wqb[Q N H] -> q[B S N H]", saves=(("B", "S", "Q"), q)),
        ]
    else:
        rows.append(matmul("attention.q", "x[B S D] . Wq[D N H] -> q[B S N H]", saves=(_X, q)))
    rows += [
        matmul("attention.kv_down", "x[B S D] . Wkva[D L] -> c[B S L]", bias=spec.qkv_bias, saves=(("B", "S", "L"),)),
        norm("attention.kv_norm", "rmsnorm", ("R",), ("B", "S")),
        matmul(
            "attention.kv_up", "c[B S R] . Wkvb[R N J] -> kv[B S N J]", saves=(("B", "S", "R"), ("B", "S", "N", "J"))
        ),
        elementwise(
            "attention.rotary",
            (("B", "S", "N", "P"), ("B", "S", "P")),
            (("B", "S", "N", "P"), ("B", "S", "P")),
            linear=True,
        ),
        Row("attention.core", "attention", mixer=_MIXER),
        matmul(
            "attention.out", "o[B S N Hv] . Wo[N Hv D] -> y[B S D]", bias=spec.out_bias, saves=(("B", "S", "N", "Hv"),)
        ),
    ]
    axes = {
        "N": spec.n_heads,
        "K": spec.n_heads,
        "H": (spec.qk_nope_head_dim or 0) + (spec.qk_rope_head_dim or 0),
        "Hv": spec.v_head_dim or 0,
        "R": spec.kv_lora_rank or 0,
        "P": spec.qk_rope_head_dim or 0,
        "one": 1,
        "L": (spec.kv_lora_rank or 0) + (spec.qk_rope_head_dim or 0),
        "J": (spec.qk_nope_head_dim or 0) + (spec.v_head_dim or 0),
    }
    if spec.q_lora_rank:
        axes["Q"] = spec.q_lora_rank
    return Block(tuple(rows), axes, split=("N",), shared=("K",))
