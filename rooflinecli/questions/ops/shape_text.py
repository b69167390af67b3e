"""The sizes of a ledger row under a plan, as text: `x[64, 8192] . W[8192, 5120]`, `q 1, keys 2176, 32 heads of 128 over 4`."""

from __future__ import annotations

from typing import Any

from rooflinecli.core.num import Number
from rooflinecli.core.units import count
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.microbatch import Microbatch
from rooflinecli.formulas import serving
from rooflinecli.ledger.ledger import Ledger, Row, Sizes, product
from rooflinecli.ledger.ops import Op
from rooflinecli.phases.axis_sizes import layer_sizes, pass_axis_sizes, stem_head_axis_sizes
from rooflinecli.phases.forward import ForwardPass
from rooflinecli.specs.layout import Layout

Table = dict[Any, str]
_SUFFIXES = (".input_gradient", ".weight_gradient", ".gradient", ".recomputed", ".again")


def table(ctx: EstimateContext, plan: Layout, phase: str, batch: Number | None) -> Table:
    """Shape of every kernel of a phase, found by name and sizes."""
    forward, work = _pass(ctx, plan, phase, batch)
    found: Table = {}
    _stack(found, ctx, plan, ctx.ledger, forward, work)
    for tower in ctx.ledger.reading if phase != "decode" else ():
        length = tower.length
        inputs = tower.inputs(work["B"])
        _stack(found, ctx, plan, tower.ledger, forward, pass_axis_sizes(inputs, length, length, length, plan))
    return found


def _stack(found: Table, ctx: EstimateContext, plan: Layout, ledger: Ledger, forward: ForwardPass, work: Sizes) -> None:
    """Note the shapes of a ledger's layers and ends."""
    for group in ledger.layers:
        _note(found, forward, group.rows, layer_sizes(group, work, plan, ledger.document, ctx.lift), False)
    outer = stem_head_axis_sizes(ledger, work, plan, ledger.document, ctx.lift)
    _note(found, forward, (*ledger.stem, *ledger.head), outer, True)


def find(shapes: Table, op: Op) -> str:
    """The shape of an operation, or of the forward one it transposes or repeats."""
    name = op.name
    for suffix in _SUFFIXES:
        name = name.removesuffix(suffix)
    return shapes.get((name, op.k, op.n), shapes.get(name, ""))


def _pass(ctx: EstimateContext, plan: Layout, phase: str, batch: Number | None) -> tuple[ForwardPass, Sizes]:
    """The forward pass of a phase, and B, S, T, O, Z of one device's share."""
    full = ctx.request.attention_flops == "full"
    if phase == "train":
        micro = Microbatch(ctx, plan)
        return micro.forward, micro.work
    if phase == "prefill":
        return ForwardPass(ctx.formats, full_attention=full, flash=ctx.request.flash), pass_axis_sizes(
            1.0, ctx.prompt, ctx.prompt, 1.0, plan
        )
    per_stage = max((batch or ctx.batch) / plan.pp, 1)
    context = serving.mean_context(ctx.prompt, ctx.output)
    return ForwardPass(ctx.formats, decode=True, full_attention=full), pass_axis_sizes(
        per_stage, 1.0, context, 1.0, plan
    )


def _note(found: Table, forward: ForwardPass, rows: tuple[Row, ...], sizes: Sizes, outer: bool) -> None:
    for row in rows:
        for op in forward.ops([row], sizes, outer):
            found.setdefault((op.name, op.k, op.n), _text(row, sizes))
            found.setdefault(op.name, _text(row, sizes))


def _text(row: Row, sizes: Sizes) -> str:
    """The row with its axes as numbers."""
    c = row.contraction
    if c is not None:
        copies = f"{count(product(c.g, sizes))} x " if c.g else ""
        m, k, n = (count(product(axes, sizes)) for axes in (c.m, c.k, c.n))
        return f"{copies}[{m}, {k}] . [{k}, {n}]"
    if row.mixer is not None:
        return row.mixer.text(sizes)
    return " ".join(_tensors("in", row.reads, sizes) + _tensors("out", row.writes, sizes))


def _tensors(word: str, tensors: tuple[tuple[str, ...], ...], sizes: Sizes) -> list[str]:
    """'2 in [64, 8192]': tensors of one shape together."""
    shown: dict[str, int] = {}
    for axes in tensors:
        text = f"[{', '.join(count(sizes[a]) for a in axes if sizes[a] != 1)}]"
        shown[text] = shown.get(text, 0) + 1
    return [f"{word} {f'{n} x ' if n > 1 else ''}{text}" for text, n in shown.items()]
