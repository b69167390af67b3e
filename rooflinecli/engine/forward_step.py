"""One forward pass of a replica, priced: what prefill, decode and load are made of."""

from __future__ import annotations

from dataclasses import dataclass

from rooflinecli import num
from rooflinecli.derivation import label
from rooflinecli.engine import experts
from rooflinecli.engine.scene import Scene
from rooflinecli.formulas import serving
from rooflinecli.layers.build import towers
from rooflinecli.ledger import Ledger, Sizes
from rooflinecli.num import Number
from rooflinecli.parallel import pipeline, tensor
from rooflinecli.phases.forward import Pass
from rooflinecli.phases.sizes import layer_sizes, outer_sizes, work_sizes
from rooflinecli.price.bill import Bill
from rooflinecli.specs.plan import Plan

REGIME = "serving"


@dataclass(slots=True)
class Step:
    """One forward pass on a replica: the bill, and its sum."""

    bill: Bill
    seconds: Number


def forward_step(
    scene: Scene, plan: Plan, batch: Number, queries: Number, keys: Number, decode: bool, engine: bool = True
) -> Step:
    """Price a forward pass of `batch` sequences through all stages, one after the other; `engine` adds what a step costs the engine."""
    bill = scene.bill(REGIME, plan.devices)
    forward = Pass(
        scene.formats,
        decode=decode,
        full_attention=scene.request.attention_flops == "full",
        flash=scene.request.flash,
        library=scene.engine.kernels,
    )
    if plan.overlap == "two-batch":
        _halves(scene, plan, forward, bill, (batch, queries, keys))
    else:
        _stack(scene, plan, scene.book, forward, bill, work_sizes(batch, queries, keys, 1.0, plan))
    # Replicas exchange nothing, so a pipeline's stages stand beside each other.
    alone = num.plain(plan.dp) and num.plain(plan.ep) and num.value(plan.dp) == num.value(plan.ep)
    beside = plan if alone else plan.but(dp=plan.expert_replicas)
    for c in pipeline.collectives(beside, batch * queries, float(scene.spec.d_model), scene.formats.activation, False):
        bill.expose("pp", bill.collective(c, plan.pp - 1))
    further = [] if decode else towers(scene.book)
    for tower, length in further:
        _stack(scene, plan, tower, forward, bill, work_sizes(batch, length, length, 1.0, plan))
    _overheads(scene, bill, [scene.book, *(tower for tower, _ in further)], batch, engine)
    return Step(bill, label(bill.total, "t_decode" if decode else "t_prefill"))


def _halves(scene: Scene, plan: Plan, forward: Pass, bill: Bill, sizes: tuple[Number, Number, Number]) -> None:
    """Both halves of a batch, one's tokens under way to their experts while the other's are worked on.

    Its price: every kernel starts twice, weights are read twice, and kernels that send keep part of the chip to themselves.
    A single sequence has no halves by sequence: its tokens are split, and attention of the second sees the keys of the first.
    """
    batch, queries, keys = sizes
    if forward.decode:
        half = work_sizes(serving.half(batch), queries, keys, 1.0, plan)
    else:
        half = work_sizes(batch, serving.half(queries), serving.three_quarters(keys), 1.0, plan)
    _stack(scene, plan, scene.book, forward, bill, half, times=2.0)
    sent = bill.by_axis.get("ep", 0.0)
    worked = bill.total - sent
    share = experts.sending_share(scene, plan, forward.decode)
    if num.present(share):
        slower = label(serving.beside_sending(worked, share), "t_beside")
        bill.spend("overlap", slower - worked, "step", 0.3)
        worked = slower
    bill.expose("ep", serving.left_over(worked, sent) - sent)


def _stack(scene: Scene, plan: Plan, book: Ledger, forward: Pass, bill: Bill, work: Sizes, times: float = 1.0) -> None:
    """Charge the layers of a ledger, what stands before and after them, and what their devices exchange, `times` over."""
    size, tokens = scene.formats.activation, work["B"] * work["S"]
    for group in book.layers:
        sizes = layer_sizes(group, work, plan, book.document, scene.lift)
        rows = tuple(row for row in group.rows if not row.routed) if group.moe else group.rows
        bill.add(forward.ops(rows, sizes), times * group.repeat)
        if group.moe:
            for mode, share in experts.exchange_modes(scene, plan, forward.decode):
                layers = share * (times * group.repeat)
                bill.add([experts.routed_op(scene, plan, group, sizes, tokens, mode, forward.decode)], layers)
                for c in experts.exchanges(scene, plan, sizes, tokens, mode, layers):
                    bill.expose("ep", bill.collective(c))
    outer = outer_sizes(book, work, plan, book.document, scene.lift)
    bill.add(forward.ops((*book.stem, *book.head), outer, outer=True), times)
    sums = sum(layer.repeat * tensor.branches(layer) for layer in book.spec.layers)
    for c in tensor.collectives(plan, tokens, outer["D"], size, times, sums, False):
        c.library = scene.engine.kernels
        bill.expose("tp", bill.collective(c))


def _overheads(scene: Scene, bill: Bill, books: list[Ledger], batch: Number, engine: bool) -> None:
    """Kernel starts per layer, and the engine's time per step and sequence."""
    step = scene.chip.constants(REGIME, "step")
    layers = float(sum(book.n_layers for book in books))
    moe_layers = float(sum(g.repeat for book in books for g in book.layers if g.moe))
    seconds = serving.layer_overhead(layers, step.per_layer, moe_layers, step.per_moe_layer)
    bill.spend("overhead", seconds, "step", step.error)
    if engine and not scene.chip.ideal:
        per_step, per_sequence = engine_constant(scene, "per_step", "s"), engine_constant(scene, "per_sequence", "s")
        bill.spend("engine", serving.engine_overhead(per_step, batch, per_sequence), "step", step.error)


def engine_constant(scene: Scene, name: str, unit: str) -> Number:
    """A constant of the engine as a number of the scene's kind."""
    value = getattr(scene.engine, name)
    if not scene.lift.traced:
        return value
    key = name.removesuffix("_bytes")
    return scene.lift(name, float(value), unit, f"{scene.engine.document.at(key)}; {scene.engine.source}")
