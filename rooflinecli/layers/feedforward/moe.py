"""Mixture of experts: a router sends each token to top_k of E experts; shared experts see every token (DeepSeekMoE, 2024).

X experts are held here (E over the expert-parallel group); C tokens reach each of them when routing is balanced. Where the
ranks of a tensor group hold different experts, `apart` of them, each sends on its part of the tokens.
"""

from __future__ import annotations

from rooflinecli.core.num import Number
from rooflinecli.ledger.ledger import Block, Row, Sizes, elementwise, matmul
from rooflinecli.specs.model import FeedForwardSpec, ModelSpec

_X = ("B", "Z", "D")


def block(spec: FeedForwardSpec, model: ModelSpec) -> Block:
    """Router, expert matmuls grouped over X, activation, and the shared expert where there is one."""
    router = matmul("moe.router", "x[B S D] . Wr[D E] -> p[B S E]", bias=spec.router_bias, saves=(_X,))
    extra: tuple[Row, ...] = (elementwise("moe.score_bias", (), (), params=(("E",),)),) if spec.score_bias else ()
    hidden, first = ("X", "C", "F"), ("X", "C", "U")
    d = "De" if spec.latent_dim else "D"
    inner = spec.shared_bias or False  # Nemotron-H: the latent projections have the bias of its MLPs
    down, up = (
        (
            (matmul("moe.latent_down", "x[B S D] . Wld[D De] -> l[B S De]", bias=inner),),
            (matmul("moe.latent_up", "l[B S De] . Wlu[De D] -> y[B S D]", bias=inner, saves=(("B", "S", "De"),)),),
        )
        if spec.latent_dim
        else ((), ())
    )
    experts = (
        *down,
        matmul(
            "moe.experts_up",
            f"x[X C {d}] . Wup[X {d} U] -> u[X C U]",
            bias=spec.bias,
            saves=(("X", "C", d), first),
            kind="grouped_matmul",
        ),
        elementwise("moe.activation", (first,), (hidden,)),
        matmul(
            "moe.experts_down",
            f"h[X C F] . Wdown[X F {d}] -> y[X C {d}]",
            bias=spec.bias,
            saves=(hidden,),
            kind="grouped_matmul",
        ),
        elementwise("moe.permute", (("X", "C", d), ("X", "C", d)), (("X", "C", d), ("B", "Z", d)), linear=True),
        *up,
    )
    columns = 2 if spec.gated else 1
    derived = (("U", lambda s: columns * s["F"]), ("C", _tokens))
    axes = {
        "E": spec.n_experts or 0,
        "X": spec.n_experts or 0,
        "F": spec.d_ff or 0,
        "Fe": spec.d_ff or 0,
        "top_k": spec.top_k or 0,
    }
    if spec.latent_dim:
        axes["De"] = spec.latent_dim
    shared, shared_axes, shared_derived = _shared(spec, columns)
    rows = (router, *extra, *experts, *shared)
    return Block(rows, axes | shared_axes, (*derived, *shared_derived), split=("F", *shared_axes))


def _tokens(s: Sizes) -> Number:
    visits = s["B"] * s["S"] * s["top_k"] / s["X"]
    return visits / s["apart"] if "apart" in s else visits


def _shared(spec: FeedForwardSpec, columns: int) -> tuple[tuple[Row, ...], dict[str, int], tuple]:  # type: ignore[type-arg]
    width = spec.shared_d_ff or spec.n_shared * (spec.d_ff or 0)
    if not width:
        return (), {}, ()
    bias = spec.bias if spec.shared_bias is None else spec.shared_bias
    hidden, first = ("B", "S", "Fs"), ("B", "S", "Us")
    rows: tuple[Row, ...] = (
        matmul("moe.shared_up", "x[B S D] . Wup[D Us] -> u[B S Us]", bias=bias, saves=(first,)),
        elementwise("moe.shared_activation", (first,), (hidden,)),
        matmul("moe.shared_down", "h[B S Fs] . Wdown[Fs D] -> y[B S D]", bias=bias, saves=(hidden,)),
    )
    if spec.shared_gate:
        rows += (matmul("moe.shared_gate", "x[B S D] . Wg[D one] -> g[B S one]"),)
    return rows, {"Fs": width}, (("Us", lambda s: columns * s["Fs"]),)
