"""Mamba-2 (Dao and Gu 2024, arXiv 2405.21060): heads with a state of head_dim x state each; B and C shared by groups of heads.

n_heads x head_dim is the inner width. qkv_bias and out_bias are those of the two projections. A prompt goes through in chunks
of matmuls (state space duality), a decode step updates the state.
"""

from __future__ import annotations

from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.num import Number
from rooflinecli.formulas import recurrence
from rooflinecli.layers.recurrent import Recurrent
from rooflinecli.ledger.ledger import Axes, Block, Derived, Row, Sizes, matmul, norm
from rooflinecli.specs.model import AttentionSpec, ModelSpec

SIZES = {
    "state": "state per head and channel",
    "taps": "width of the convolution",
    "groups": "groups of heads that share B and C",
    "chunk": "tokens of a chunk in prefill",
}


@dataclass(frozen=True, eq=False, repr=False)
class Mamba2Scan(Recurrent):
    """A scalar decay per head, so that chunks are matmuls."""

    def scan(self, tokens: Number, sizes: Sizes) -> Number:
        return recurrence.ssd_chunk_flops(
            tokens, sizes[self.heads], sizes["G"], sizes["state"], sizes[self.value], sizes["chunk"]
        )

    def step(self, tokens: Number, sizes: Sizes) -> Number:
        return recurrence.recurrent_flops(tokens, sizes[self.heads], sizes["state"], sizes[self.value], 3)


def block(spec: AttentionSpec, model: ModelSpec) -> Block:
    """Input projection (gate, x, B, C, dt), convolution over x, B and C, scan, gated norm, output."""
    mixed = rows(spec, "attention", "N", "H")
    sizes = {name: size for name, size in spec.sizes.items() if name != "groups"}
    axes = {"N": spec.n_heads, "H": spec.head_dim or 1, "G": spec.sizes["groups"], **sizes}
    return Block(mixed, axes, derived("N", "H"), split=("N",), shared=("G",))


def rows(spec: AttentionSpec, name: str, n: str, h: str) -> tuple[Row, ...]:
    """The rows of the block, its heads and their width under the axes `n` and `h` (another mixer may hold N and H)."""
    channels: tuple[Axes, ...] = ((n, h), ("G", "state"), ("G", "state"))
    mixer = Mamba2Scan(heads=n, value=h, channels=channels, state_dtype=spec.state_dtype or "fp32")
    params: tuple[Axes, ...] = (("taps", "conv"), (n,), (n,), (n,), *((("conv",),) if spec.conv_bias else ()))
    made = [
        matmul(
            f"{name}.in",
            "x[B S D] . Win[D I] -> z[B S I]",
            bias=spec.qkv_bias,
            saves=(("B", "Z", "D"), ("B", "S", "I")),
        ),
        Row(f"{name}.core", "attention", params=params, saves=(("B", "S", "conv"),), mixer=mixer),
    ]
    if spec.gated_norm:
        made.append(norm(f"{name}.gated_norm", "rmsnorm", (n, h), ("B", "S")))
    out = matmul(
        f"{name}.out", f"o[B S {n} {h}] . Wo[{n} {h} D] -> y[B S D]", bias=spec.out_bias, saves=(("B", "S", n, h),)
    )
    return (*made, out)


def derived(n: str, h: str) -> Derived:
    """Channels of the convolution, and columns of the input projection."""
    return (
        ("conv", lambda s: s[n] * s[h] + 2 * s["G"] * s["state"]),
        ("I", lambda s: 2 * s[n] * s[h] + 2 * s["G"] * s["state"] + s[n]),
    )
