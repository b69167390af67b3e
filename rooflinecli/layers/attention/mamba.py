"""Mamba-1 (Gu and Dao 2023, arXiv 2312.00752): N channels, each with a state of its own, after a short convolution.

n_heads is the inner width (expand x d_model), head_dim 1. qkv_bias and out_bias are those of the two projections; qk_norm
"full" puts norms on dt, B and C (Jamba). The scan has no matmul form: its work is the same in a prompt as token by token.
"""

from __future__ import annotations

from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.num import Number
from rooflinecli.formulas import recurrence
from rooflinecli.layers.recurrent import Recurrent
from rooflinecli.ledger.ledger import Axes, Block, Row, Sizes, matmul, norm
from rooflinecli.specs.model import AttentionSpec, ModelSpec

SIZES = {
    "state": "state per channel",
    "taps": "width of the convolution",
    "rank": "rank of the time-step projection",
}
_X = ("B", "Z", "D")
_INNER = ("B", "S", "N")


@dataclass(frozen=True, eq=False, repr=False)
class Mamba1Scan(Recurrent):
    """A scan whose time step, input and readout depend on the token."""

    def scan(self, tokens: Number, sizes: Sizes) -> Number:
        return recurrence.selective_scan_flops(tokens, sizes["N"], sizes["state"])

    step = scan


def block(spec: AttentionSpec, model: ModelSpec) -> Block:
    """Input projection, convolution, projections of dt, B and C, scan, output."""
    mixer = Mamba1Scan(channels=(("N",),), value="H", state_dtype=spec.state_dtype or "fp32")
    params: tuple[Axes, ...] = (("taps", "N"), ("N", "state"), ("N",))
    if spec.conv_bias:
        params = (*params, ("N",))
    rows = [
        matmul("attention.in", "x[B S D] . Win[D I] -> xz[B S I]", bias=spec.qkv_bias, saves=(_X, ("B", "S", "I"))),
        matmul("attention.dt_b_c", "u[B S N] . Wx[N J] -> p[B S J]", saves=(_INNER, ("B", "S", "J"))),
    ]
    if spec.qk_norm == "full":
        rows += [
            norm(f"attention.{n}_norm", "rmsnorm", (n,), ("B", "S"), saved=False) for n in ("rank", "state", "state")
        ]
    rows += [
        matmul("attention.dt", "p[B S rank] . Wdt[rank N] -> dt[B S N]", bias=True, saves=(_INNER,)),
        Row("attention.core", "attention", params=params, mixer=mixer),
        matmul("attention.out", "o[B S N] . Wo[N D] -> y[B S D]", bias=spec.out_bias, saves=(_INNER,)),
    ]
    axes = {"N": spec.n_heads, "H": 1, **spec.sizes}
    derived = (("I", lambda s: 2 * s["N"]), ("J", lambda s: s["rank"] + 2 * s["state"]))
    return Block(tuple(rows), axes, derived, split=("N",))
