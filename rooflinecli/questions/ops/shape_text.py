"""The sizes of a ledger row under a plan, as text: `x[64, 8192] . W[8192, 5120]`, `q 1, keys 2176, 32 heads of 128 over 4`."""

from __future__ import annotations

from typing import Any

from rooflinecli.core.num import Number
from rooflinecli.core.units import count
from rooflinecli.engine.context import Scene
from rooflinecli.engine.microbatch import Microbatch
from rooflinecli.formulas import serving
from rooflinecli.ledger.ledger import Ledger, Row, Sizes, product
from rooflinecli.ledger.ops import Op
from rooflinecli.phases.axis_sizes import layer_sizes, outer_sizes, work_sizes
from rooflinecli.phases.forward import Pass
from rooflinecli.specs.layout import Plan

Table = dict[Any, str]
_SUFFIXES = (".input_gradient", ".weight_gradient", ".gradient", ".recomputed", ".again")


def table(scene: Scene, plan: Plan, phase: str, batch: Number | None) -> Table:
    """Shape of every kernel of a phase, found by name and sizes."""
    forward, work = _pass(scene, plan, phase, batch)
    found: Table = {}
    _stack(found, scene, plan, scene.book, forward, work)
    for tower in scene.book.reading if phase != "decode" else ():
        length = tower.length
        inputs = tower.inputs(work["B"])
        _stack(found, scene, plan, tower.book, forward, work_sizes(inputs, length, length, length, plan))
    return found


def _stack(found: Table, scene: Scene, plan: Plan, book: Ledger, forward: Pass, work: Sizes) -> None:
    """Note the shapes of a ledger's layers and ends."""
    for group in book.layers:
        _note(found, forward, group.rows, layer_sizes(group, work, plan, book.document, scene.lift), False)
    outer = outer_sizes(book, work, plan, book.document, scene.lift)
    _note(found, forward, (*book.stem, *book.head), outer, True)


def find(shapes: Table, op: Op) -> str:
    """The shape of an operation, or of the forward one it transposes or repeats."""
    name = op.name
    for suffix in _SUFFIXES:
        name = name.removesuffix(suffix)
    return shapes.get((name, op.k, op.n), shapes.get(name, ""))


def _pass(scene: Scene, plan: Plan, phase: str, batch: Number | None) -> tuple[Pass, Sizes]:
    """The forward pass of a phase, and B, S, T, O, Z of one device's share."""
    full = scene.request.attention_flops == "full"
    if phase == "train":
        micro = Microbatch(scene, plan)
        return micro.forward, micro.work
    if phase == "prefill":
        return Pass(scene.formats, full_attention=full, flash=scene.request.flash), work_sizes(
            1.0, scene.prompt, scene.prompt, 1.0, plan
        )
    per_stage = max((batch or scene.batch) / plan.pp, 1)
    context = serving.mean_context(scene.prompt, scene.output)
    return Pass(scene.formats, decode=True, full_attention=full), work_sizes(per_stage, 1.0, context, 1.0, plan)


def _note(found: Table, forward: Pass, rows: tuple[Row, ...], sizes: Sizes, outer: bool) -> None:
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
