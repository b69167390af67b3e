"""One forward pass of a replica, priced: what prefill, decode and load are made of."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from rooflinecli.core import num
from rooflinecli.core.derivation import label
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.num import Number
from rooflinecli.engine import lora_serving, moe_serving
from rooflinecli.engine.context import Scene
from rooflinecli.engine.host_offload import LINK, LINK_ERROR, Host
from rooflinecli.formulas import collectives, roofline, serving
from rooflinecli.formulas.grouped_gemm import at_least, experts_with_work, slots_per_expert
from rooflinecli.formulas.offload import copy_time, on_device, on_host
from rooflinecli.ledger.ledger import Ledger, Row, Sizes
from rooflinecli.ledger.ops import Collective, Op
from rooflinecli.parallel import pipeline, tensor
from rooflinecli.phases.axis_sizes import layer_sizes, outer_sizes, work_sizes
from rooflinecli.phases.forward import Pass
from rooflinecli.price.accumulator import Bill
from rooflinecli.price.kernels import Priced
from rooflinecli.specs.layout import Plan

REGIME = "serving"
SPLIT_ERROR = 1.0  # of what is not gained: seen between all and none of it
CLOCK = 2.0e9  # cycles per second of a chip whose file does not say: where the cycles of a layer were fitted


@dataclass(slots=True, eq=False, repr=False)
class Step:
    """One forward pass on a replica: the bill, and its sum."""

    bill: Bill
    seconds: Number


def forward_step(
    scene: Scene,
    plan: Plan,
    batch: Number,
    queries: Number,
    keys: Number,
    decode: bool,
    engine: bool = True,
    passes: Number = 1.0,
    logits: Number = 1.0,
) -> Step:
    """Price a forward pass of `batch` sequences through all stages, one after the other; `engine` adds what a step costs the engine.

    `passes` such passes one after the other, where a prompt is read in pieces; `logits` positions of each sequence are scored.
    """
    bill = scene.bill(REGIME, plan.devices)
    forward = Pass(
        scene.formats,
        decode=decode,
        full_attention=scene.request.attention_flops == "full",
        flash=scene.request.flash,
        library=scene.engine.library,
        cached=None if decode else scene.cached,
    )
    whole = forward if forward.cached is None else replace(forward, cached=None)  # no cache holds what a tower reads
    if plan.overlap == "two-batch":
        _halves(scene, plan, forward, bill, (batch, queries, keys, logits), passes)
    else:
        _stack(scene, plan, scene.book, forward, bill, work_sizes(batch, queries, keys, logits, plan), passes)
    # Replicas exchange nothing, so a pipeline's stages stand beside each other.
    alone = num.plain(plan.dp) and num.plain(plan.ep) and num.value(plan.dp) == num.value(plan.ep)
    beside = plan if alone else plan.but(dp=plan.expert_replicas)
    width = float(scene.spec.stream_width)
    sent = (
        []
        if scene.engine.splits_layers
        else pipeline.collectives(beside, batch * queries, width, scene.formats.activation, False)
    )
    for c in sent:  # an engine that shares out layers copies activations over the host: inside its time per split
        bill.expose("pp", bill.collective(c, _times(plan.pp - 1, passes)))
    if scene.host is not None:
        if decode:
            _on_host(scene, plan, scene.host, forward, bill, work_sizes(batch, queries, keys, logits, plan))
        else:
            _over_the_link(scene, plan, scene.host, bill, batch * queries, passes)
    further = () if decode else scene.book.reading
    for tower in further:
        inputs = tower.inputs(batch)
        _stack(scene, plan, tower.book, whole, bill, work_sizes(inputs, tower.length, tower.length, 1.0, plan), 1.0)
    _overheads(scene, plan, bill, [scene.book, *(tower.book for tower in further)], batch, engine, decode, passes)
    return Step(bill, label(bill.total, "t_decode" if decode else "t_prefill"))


def _halves(
    scene: Scene, plan: Plan, forward: Pass, bill: Bill, sizes: tuple[Number, Number, Number, Number], passes: Number
) -> None:
    """Both halves of a batch, one's tokens under way to their experts while the other's are worked on.

    Its price: every kernel starts twice, weights are read twice, and kernels that send keep part of the chip to themselves.
    A single sequence has no halves by sequence: its tokens are split, and attention of the second sees the keys of the first.
    """
    batch, queries, keys, logits = sizes
    if forward.decode:
        half = work_sizes(serving.half(batch), queries, keys, logits, plan)
    else:
        half = work_sizes(batch, serving.half(queries), serving.three_quarters(keys), logits, plan)
    _stack(scene, plan, scene.book, forward, bill, half, _times(2.0, passes))
    sent = bill.by_axis.get("ep", 0.0)
    worked = bill.total - sent
    share = moe_serving.sending_share(scene, plan, forward.decode)
    if num.present(share):
        slower = label(serving.beside_sending(worked, share), "t_beside")
        bill.spend("overlap", slower - worked, "step", 0.3)
        worked = slower
    bill.expose("ep", serving.left_over(worked, sent) - sent)


def _stack(scene: Scene, plan: Plan, book: Ledger, forward: Pass, bill: Bill, work: Sizes, passes: Number) -> None:
    """Charge the layers of a ledger, what stands before and after them, and what their devices exchange, `passes` over."""
    size, tokens = scene.formats.activation, work["B"] * work["S"]
    host = scene.host if forward.decode and book is scene.book else None
    counted: dict[tuple[Row, ...], tuple[list[Op], list[Priced]]] = {}
    for group in book.layers:
        sizes = layer_sizes(group, work, plan, book.document, scene.lift)
        mixing = counted.get(group.mixing)
        if mixing is None:
            ops = forward.ops(group.mixing, sizes)
            mixing = counted[group.mixing] = ops, bill.prices(ops)
        repeat = _times(float(group.repeat), passes)
        own = repeat if host is None else on_device(repeat, host.layers)
        bill.charge(*mixing, own)
        bill.add(forward.ops(group.unrouted, sizes), own)
        if book is scene.book:
            lora_serving.charge(scene, bill, (*group.mixing, *group.unrouted), sizes, own)
        if group.moe:
            repeat = repeat if host is None else on_device(repeat, host.experts)
            for mode, share in moe_serving.exchange_modes(scene, plan, forward.decode):
                layers = _times(share, repeat)
                bill.add([moe_serving.routed_op(scene, plan, group, sizes, tokens, mode, forward.decode)], layers)
                for c in moe_serving.exchanges(scene, plan, sizes, tokens, mode, layers):
                    bill.expose("ep", bill.collective(c))
    outer = outer_sizes(book, work, plan, book.document, scene.lift)
    bill.add(forward.ops(book.stem, outer, outer=True), passes)
    bill.add(forward.ops(book.head, outer, outer=True), passes if host is None else on_device(passes, host.head))
    for c in tensor.collectives(plan, tokens, outer["D"], size, 1.0, _sums(book), False):
        c.library = "" if "collective" in scene.engine.efficiency else scene.engine.library
        _sum_up(scene, bill, c, passes, forward.decode)


def _sum_up(scene: Scene, bill: Bill, c: Collective, passes: Number, decode: bool) -> None:
    """Charge sums over a tensor group: behind the work before them, but for what a compiler hides beside the matmuls of a prompt."""
    seconds, beside = bill.collective(c, passes), scene.chip.constants(REGIME, "tp_collective")
    if decode or not num.present(beside.overlap):  # a token's sums are latency, which no matmul is long enough to cover
        bill.expose("tp", seconds)
        return
    hidden, worked = collectives.hidden(seconds, beside.overlap), bill.total
    longer = label(collectives.work_beside(worked, hidden, beside.p), "t_beside") - worked
    bill.expose("tp", collectives.exposed(seconds, beside.overlap) + longer)


@lru_cache(maxsize=256)
def _sums(book: Ledger) -> Number:
    """Times that a pass sums activations over a tensor group."""
    return sum(layer.repeat * tensor.branches(layer) for layer in book.spec.layers)


def _on_host(scene: Scene, plan: Plan, host: Host, forward: Pass, bill: Bill, work: Sizes) -> None:
    """Charge what the host's own units do: its layers, its experts, the head."""
    own, there = Pass(host.formats, decode=True, flash=scene.request.flash), Bill(host.chip, REGIME, 1.0)
    for group in scene.book.layers:
        sizes = layer_sizes(group, work, plan, scene.book.document, scene.lift)
        layers, repeat = on_host(float(group.repeat), host.layers), on_host(float(group.repeat), host.experts)
        there.add(own.ops([row for row in group.rows if not row.routed], sizes), layers)
        if group.moe:
            there.add(own.ops([row for row in group.rows if row.routed], sizes), repeat)
    outer = outer_sizes(scene.book, work, plan, scene.book.document, scene.lift)
    there.add(own.ops(scene.book.head, outer, outer=True), host.head)
    bill.beside("host", there, label(there.total, "t_host"), 1.0)


def _over_the_link(scene: Scene, plan: Plan, host: Host, bill: Bill, tokens: Number, passes: Number) -> None:
    """Charge the host's weights on their way to the device, once per pass: of its layers all, of its experts those with tokens."""
    params, own = scene.parameters(plan), scene.formats
    link = scene.chip.host_link
    layers = on_host(params.inner * own.weight, host.layers)
    kept = on_host(params.experts * own.expert_weight, host.experts)
    moe = next((g.feedforward for g in scene.spec.layers if g.feedforward.kind == "moe"), None)
    touched, least = kept, kept
    if moe is not None:
        count, chosen = float(moe.n_experts), float(moe.top_k)
        spread = experts_with_work(count, slots_per_expert(tokens, chosen, count), scene.engine.routing_skew)
        touched = kept * (at_least(spread, chosen) / count)
        least = kept * (chosen / count)  # however the tokens are routed
    expected = label(copy_time(layers + touched, passes, link, 1.0 if scene.chip.ideal else LINK), "t_copy")
    bill.spend("host_copy", expected, "host_copy", LINK_ERROR)
    bill.t_communication = bill.t_communication + copy_time(layers + least, passes, link, 1.0)


def _overheads(
    scene: Scene, plan: Plan, bill: Bill, books: list[Ledger], batch: Number, engine: bool, decode: bool, passes: Number
) -> None:
    """Kernel starts per layer, as the chip's file says or else as the engine does; and the engine's time per step and sequence."""
    step = scene.chip.constants(REGIME, "step")
    layers: Number = float(sum(book.n_layers for book in books))
    moe_layers: Number = float(sum(book.moe_layers for book in books))
    if decode and scene.host is not None:
        layers, moe_layers = on_device(layers, scene.host.layers), on_device(moe_layers, scene.host.experts)
    per_layer, per_moe_layer = step.per_layer, step.per_moe_layer
    given = starts_given(scene)
    if not given:
        per_layer, per_moe_layer = (engine_constant(scene, name, "s") for name in ("per_layer", "per_moe_layer"))
    seconds = serving.layer_overhead(layers, per_layer, moe_layers, per_moe_layer)
    if num.present(step.layer_cycles) or num.present(step.moe_layer_cycles):
        clock = CLOCK if scene.chip.clock is None else scene.chip.clock
        started = roofline.layer_cycles_time(layers, step.layer_cycles, clock)
        seconds = seconds + started + roofline.layer_cycles_time(moe_layers, step.moe_layer_cycles, clock)
    if engine and not decode and not given:
        seconds = seconds + prompt_starts(scene)
    bill.spend("overhead", _times(seconds, passes), "step", step.error)
    if engine and not decode and num.present(step.per_prompt):
        bill.spend("engine", step.per_prompt, "step", step.error)
    if engine and not scene.chip.ideal:
        seconds = host_time(scene, batch)
        if scene.engine.per_split:
            seconds = seconds + num.where(plan.pp > 1, engine_constant(scene, "per_split", "s"), 0.0)
        bill.spend("engine", _times(seconds, passes), "step", step.error)


def host_time(scene: Scene, sequences: Number) -> Number:
    """Seconds that the engine's process takes to form a step while it has so many sequences under way."""
    moe = scene.book.moe_layers and scene.engine.per_sequence_moe is not None
    per_sequence = engine_constant(scene, "per_sequence_moe" if moe else "per_sequence", "s")
    return serving.engine_overhead(engine_constant(scene, "per_step", "s"), sequences, per_sequence)


def _times(count: Number, passes: Number) -> Number:
    """`count` over all passes; one pass leaves nothing to explain."""
    return count if passes.__class__ is float and passes == 1.0 else count * passes


def starts_given(scene: Scene) -> bool:
    """Whether an engine's own starts count for nothing: the chip's file has what a layer takes to start, or nothing takes any."""
    step = scene.chip.constants(REGIME, "step")
    return bool(scene.chip.ideal or num.present(step.per_layer) or num.present(step.per_moe_layer))


def prompt_starts(scene: Scene) -> Number:
    """Seconds by which the starts of a pass that holds a prompt exceed those of a replayed graph; nothing where engines replay both."""
    engine, moe_layers = scene.engine, float(scene.book.moe_layers)
    if starts_given(scene) or not (engine.prompt_per_layer or (moe_layers and engine.prompt_per_moe_layer)):
        return 0.0
    per_layer, per_moe_layer = (
        engine_constant(scene, f"prompt_{name}", "s") for name in ("per_layer", "per_moe_layer")
    )
    return serving.prompt_starts(float(scene.book.n_layers), per_layer, moe_layers, per_moe_layer)


def prompt_pass(scene: Scene, plan: Plan) -> Step:
    """The pass over one prompt alone, in as many pieces as the tokens of a step make of it."""
    if not scene.generates:
        scored = scene.scored(scene.prompt)
        return forward_step(scene, plan, scene.together, scene.read, scene.prompt, False, True, scene.steps, scored)
    (read, keys), passes = as_read(scene), serving.prompt_passes(token_budget(scene), scene.read)
    if scene.chip.ideal or (num.plain(passes) and num.value(passes) <= 1):
        step = forward_step(scene, plan, 1.0, read, keys, decode=False)
    else:
        step = forward_step(scene, plan, 1.0, read / passes, keys, decode=False, passes=passes)
    if scene.engine.prompt_bucket:
        step.bill.bound_by(forward_step(scene, plan, 1.0, scene.read, scene.prompt, decode=False, engine=False).bill)
    return _in_turn(scene, plan, step, passes)


def as_read(scene: Scene) -> tuple[Number, Number]:
    """Tokens of a prompt that its pass computes, and keys that they see: as many as there are, or those of an engine's next larger graph."""
    if not scene.engine.prompt_bucket or scene.chip.ideal:
        return scene.read, scene.prompt
    read = serving.padded_prompt(scene.read, engine_constant(scene, "prompt_bucket", "tokens"))
    return read, scene.prompt + (read - scene.read)


def _in_turn(scene: Scene, plan: Plan, step: Step, passes: Number) -> Step:
    """The pieces of a prompt follow each other from device to device, where an engine shares out layers: several work at once."""
    if not scene.engine.splits_layers or (num.plain(plan.pp) and num.value(plan.pp) == 1):
        return step
    best = serving.pieces_at_once(passes, plan.pp)
    efficiency = 1.0 if scene.chip.ideal else engine_constant(scene, "split_efficiency", "1")
    step.bill.share(best)
    gained = num.maximum(best * efficiency, 1)
    seconds = label(step.seconds / gained, "t_prefill")
    step.bill.spend("waiting", seconds - step.seconds / best, "step", SPLIT_ERROR)
    return Step(step.bill, seconds)


def token_budget(scene: Scene) -> Number:
    """Tokens of prompts that one step takes in: as asked, else the engine's."""
    asked = scene.request.token_budget
    if asked is None:
        return engine_constant(scene, "token_budget", "tokens")
    return scene.flag("budget", asked, "tokens", "--token-budget")


def engine_constant(scene: Scene, name: str, unit: str) -> Number:
    """A constant of the engine as a number of the scene's kind."""
    chip, value = scene.chip, getattr(scene.engine, name)
    if chip.override or chip.factors:
        value = chip.settled(f"engine.{name}", value)
    if not scene.lift.traced:
        return value
    return scene.lift(name, float(value), unit, scene.engine.written(name))
