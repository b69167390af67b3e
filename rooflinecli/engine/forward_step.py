"""One forward pass of a replica, priced: what prefill, decode and load are made of."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from rooflinecli.core import num
from rooflinecli.core.derivation import label
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.num import Number
from rooflinecli.engine import lora_serving, moe_serving
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.host_offload import LINK, LINK_ERROR, HostShare
from rooflinecli.formulas import collectives, roofline, serving
from rooflinecli.formulas.grouped_gemm import at_least, expected_active_experts, routed_tokens_per_expert
from rooflinecli.formulas.offload import copy_time, on_device, on_host
from rooflinecli.ledger.ledger import Ledger, Row, Sizes
from rooflinecli.ledger.ops import Collective, Op
from rooflinecli.parallel import pipeline, tensor
from rooflinecli.phases.axis_sizes import layer_sizes, pass_axis_sizes, stem_head_axis_sizes
from rooflinecli.phases.forward import ForwardPass
from rooflinecli.price.accumulator import StepAccumulator
from rooflinecli.price.kernels import Priced
from rooflinecli.specs.layout import Layout

REGIME = "serving"
SPLIT_ERROR = 1.0  # of what is not gained: seen between all and none of it
CLOCK = 2.0e9  # cycles per second of a chip whose file does not say: where the cycles of a layer were fitted


@dataclass(slots=True, eq=False, repr=False)
class PricedPass:
    """One forward pass on a replica: the bill, and its sum."""

    costs: StepAccumulator
    seconds: Number


def forward_step(
    ctx: EstimateContext,
    layout: Layout,
    batch: Number,
    queries: Number,
    keys: Number,
    decode: bool,
    engine: bool = True,
    passes: Number = 1.0,
    logits: Number = 1.0,
) -> PricedPass:
    """Price a forward pass of `batch` sequences through all stages, one after the other; `engine` adds what a step costs the engine.

    `passes` such passes one after the other, where a prompt is read in pieces; `logits` positions of each sequence are scored.
    """
    costs = ctx.bill(REGIME, layout.devices)
    forward = ForwardPass(
        ctx.formats,
        decode=decode,
        full_attention=ctx.request.attention_flops == "full",
        flash=ctx.request.flash,
        library=ctx.engine.library,
        cached=None if decode else ctx.cached_prompt_tokens,
    )
    whole = forward if forward.cached is None else replace(forward, cached=None)  # no cache holds what a tower reads
    if layout.overlap == "two-batch":
        _halves(ctx, layout, forward, costs, (batch, queries, keys, logits), passes)
    else:
        _stack(ctx, layout, ctx.ledger, forward, costs, pass_axis_sizes(batch, queries, keys, logits, layout), passes)
    # Replicas exchange nothing, so a pipeline's stages stand beside each other.
    alone = num.plain(layout.dp) and num.plain(layout.ep) and num.value(layout.dp) == num.value(layout.ep)
    beside = layout if alone else layout.with_changes(dp=layout.expert_replicas)
    width = float(ctx.spec.stream_width)
    sent = (
        []
        if ctx.engine.splits_layers
        else pipeline.collectives(beside, batch * queries, width, ctx.formats.activation, False)
    )
    for c in sent:  # an engine that shares out layers copies activations over the host: inside its time per split
        costs.add_exposed_comm("pp", costs.collective(c, _times(layout.pp - 1, passes)))
    if ctx.host is not None:
        if decode:
            _on_host(ctx, layout, ctx.host, forward, costs, pass_axis_sizes(batch, queries, keys, logits, layout))
        else:
            _over_the_link(ctx, layout, ctx.host, costs, batch * queries, passes)
    further = () if decode else ctx.ledger.reading
    for tower in further:
        inputs = tower.inputs(batch)
        _stack(
            ctx,
            layout,
            tower.ledger,
            whole,
            costs,
            pass_axis_sizes(inputs, tower.length, tower.length, 1.0, layout),
            1.0,
        )
    _overheads(ctx, layout, costs, [ctx.ledger, *(tower.ledger for tower in further)], batch, engine, decode, passes)
    return PricedPass(costs, label(costs.total, "t_decode" if decode else "t_prefill"))


def _halves(
    ctx: EstimateContext,
    layout: Layout,
    forward: ForwardPass,
    costs: StepAccumulator,
    sizes: tuple[Number, Number, Number, Number],
    passes: Number,
) -> None:
    """Both halves of a batch, one's tokens under way to their experts while the other's are worked on.

    Its price: every kernel starts twice, weights are read twice, and kernels that send keep part of the chip to themselves.
    A single sequence has no halves by sequence: its tokens are split, and attention of the second sees the keys of the first.
    """
    batch, queries, keys, logits = sizes
    if forward.decode:
        half = pass_axis_sizes(serving.half(batch), queries, keys, logits, layout)
    else:
        half = pass_axis_sizes(batch, serving.half(queries), serving.three_quarters(keys), logits, layout)
    _stack(ctx, layout, ctx.ledger, forward, costs, half, _times(2.0, passes))
    sent = costs.by_axis.get("ep", 0.0)
    worked = costs.total - sent
    share = moe_serving.comm_sm_fraction(ctx, layout, forward.decode)
    if num.present(share):
        slower = label(serving.slowdown_by_comm_kernels(worked, share), "t_beside")
        costs.add_time("overlap", slower - worked, "step", 0.3)
        worked = slower
    costs.add_exposed_comm("ep", serving.exposed_all2all_time(worked, sent) - sent)


def _stack(
    ctx: EstimateContext,
    layout: Layout,
    ledger: Ledger,
    forward: ForwardPass,
    costs: StepAccumulator,
    work: Sizes,
    passes: Number,
) -> None:
    """Charge the layers of a ledger, what stands before and after them, and what their devices exchange, `passes` over."""
    size, tokens = ctx.formats.activation, work["B"] * work["S"]
    host = ctx.host if forward.decode and ledger is ctx.ledger else None
    counted: dict[tuple[Row, ...], tuple[list[Op], list[Priced]]] = {}
    for group in ledger.layers:
        sizes = layer_sizes(group, work, layout, ledger.document, ctx.lift)
        mixing = counted.get(group.mixing)
        if mixing is None:
            ops = forward.ops(group.mixing, sizes)
            mixing = counted[group.mixing] = ops, costs.prices(ops)
        repeat = _times(float(group.repeat), passes)
        own = repeat if host is None else on_device(repeat, host.layers)
        costs.add_priced(*mixing, own)
        costs.add(forward.ops(group.unrouted, sizes), own)
        if ledger is ctx.ledger:
            lora_serving.add_priced(ctx, costs, (*group.mixing, *group.unrouted), sizes, own)
        if group.moe:
            repeat = repeat if host is None else on_device(repeat, host.experts)
            for mode, share in moe_serving.all2all_backends(ctx, layout, forward.decode):
                layers = _times(share, repeat)
                costs.add(
                    [moe_serving.grouped_gemm_op(ctx, layout, group, sizes, tokens, mode, forward.decode)], layers
                )
                for c in moe_serving.exchanges(ctx, layout, sizes, tokens, mode, layers):
                    costs.add_exposed_comm("ep", costs.collective(c))
    outer = stem_head_axis_sizes(ledger, work, layout, ledger.document, ctx.lift)
    costs.add(forward.ops(ledger.stem, outer, outer=True), passes)
    costs.add(forward.ops(ledger.head, outer, outer=True), passes if host is None else on_device(passes, host.head))
    for c in tensor.collectives(layout, tokens, outer["D"], size, 1.0, _sums(ledger), False):
        c.library = "" if "collective" in ctx.engine.efficiency else ctx.engine.library
        _sum_up(ctx, costs, c, passes, forward.decode)


def _sum_up(ctx: EstimateContext, costs: StepAccumulator, c: Collective, passes: Number, decode: bool) -> None:
    """Charge sums over a tensor group: behind the work before them, but for what a compiler hides beside the matmuls of a prompt."""
    seconds, beside = costs.collective(c, passes), ctx.chip.constants(REGIME, "tp_collective")
    if decode or not num.present(beside.overlap):  # a token's sums are latency, which no matmul is long enough to cover
        costs.add_exposed_comm("tp", seconds)
        return
    hidden, worked = collectives.hidden(seconds, beside.overlap), costs.total
    longer = label(collectives.p_norm_overlap_time(worked, hidden, beside.p), "t_beside") - worked
    costs.add_exposed_comm("tp", collectives.exposed(seconds, beside.overlap) + longer)


@lru_cache(maxsize=256)
def _sums(ledger: Ledger) -> Number:
    """Times that a pass sums activations over a tensor group."""
    return sum(layer.repeat * tensor.tp_reductions_per_layer(layer) for layer in ledger.spec.layers)


def _on_host(
    ctx: EstimateContext, layout: Layout, host: HostShare, forward: ForwardPass, costs: StepAccumulator, work: Sizes
) -> None:
    """Charge what the host's own units do: its layers, its experts, the head."""
    own, there = (
        ForwardPass(host.formats, decode=True, flash=ctx.request.flash),
        StepAccumulator(host.chip, REGIME, 1.0),
    )
    for group in ctx.ledger.layers:
        sizes = layer_sizes(group, work, layout, ctx.ledger.document, ctx.lift)
        layers, repeat = on_host(float(group.repeat), host.layers), on_host(float(group.repeat), host.experts)
        there.add(own.ops([row for row in group.rows if not row.routed], sizes), layers)
        if group.moe:
            there.add(own.ops([row for row in group.rows if row.routed], sizes), repeat)
    outer = stem_head_axis_sizes(ctx.ledger, work, layout, ctx.ledger.document, ctx.lift)
    there.add(own.ops(ctx.ledger.head, outer, outer=True), host.head)
    costs.add_group("host", there, label(there.total, "t_host"), 1.0)


def _over_the_link(
    ctx: EstimateContext, layout: Layout, host: HostShare, costs: StepAccumulator, tokens: Number, passes: Number
) -> None:
    """Charge the host's weights on their way to the device, once per pass: of its layers all, of its experts those with tokens."""
    params, own = ctx.parameters(layout), ctx.formats
    link = ctx.chip.host_link
    layers = on_host(params.inner * own.weight, host.layers)
    kept = on_host(params.experts * own.expert_weight, host.experts)
    moe = next((g.feedforward for g in ctx.spec.layers if g.feedforward.kind == "moe"), None)
    touched, least = kept, kept
    if moe is not None:
        count, chosen = float(moe.n_experts), float(moe.top_k)
        spread = expected_active_experts(
            count, routed_tokens_per_expert(tokens, chosen, count), ctx.engine.routing_skew
        )
        touched = kept * (at_least(spread, chosen) / count)
        least = kept * (chosen / count)  # however the tokens are routed
    expected = label(copy_time(layers + touched, passes, link, 1.0 if ctx.chip.ideal else LINK), "t_copy")
    costs.add_time("host_copy", expected, "host_copy", LINK_ERROR)
    costs.t_communication = costs.t_communication + copy_time(layers + least, passes, link, 1.0)


def _overheads(
    ctx: EstimateContext,
    layout: Layout,
    costs: StepAccumulator,
    books: list[Ledger],
    batch: Number,
    engine: bool,
    decode: bool,
    passes: Number,
) -> None:
    """Kernel starts per layer, as the chip's file says or else as the engine does; and the engine's time per step and sequence."""
    step = ctx.chip.constants(REGIME, "step")
    layers: Number = float(sum(ledger.n_layers for ledger in books))
    moe_layers: Number = float(sum(book.moe_layers for book in books))
    if decode and ctx.host is not None:
        layers, moe_layers = on_device(layers, ctx.host.layers), on_device(moe_layers, ctx.host.experts)
    per_layer, per_moe_layer = step.per_layer, step.per_moe_layer
    given = launch_overhead_is_measured(ctx)
    if not given:
        per_layer, per_moe_layer = (engine_constant(ctx, name, "s") for name in ("per_layer", "per_moe_layer"))
    seconds = serving.layer_overhead(layers, per_layer, moe_layers, per_moe_layer)
    if num.present(step.layer_cycles) or num.present(step.moe_layer_cycles):
        clock = CLOCK if ctx.chip.clock is None else ctx.chip.clock
        started = roofline.layer_cycles_time(layers, step.layer_cycles, clock)
        seconds = seconds + started + roofline.layer_cycles_time(moe_layers, step.moe_layer_cycles, clock)
    if engine and not decode and not given:
        seconds = seconds + uncaptured_launch_s(ctx)
    costs.add_time("overhead", _times(seconds, passes), "step", step.error)
    if engine and not decode and num.present(step.per_prompt):
        costs.add_time("engine", step.per_prompt, "step", step.error)
    if engine and not ctx.chip.ideal:
        seconds = host_time(ctx, batch)
        if ctx.engine.per_split:
            seconds = seconds + num.where(layout.pp > 1, engine_constant(ctx, "per_split", "s"), 0.0)
        costs.add_time("engine", _times(seconds, passes), "step", step.error)


def host_time(ctx: EstimateContext, sequences: Number) -> Number:
    """Seconds that the engine's process takes to form a step while it has so many sequences under way."""
    moe = ctx.ledger.moe_layers and ctx.engine.per_sequence_moe is not None
    per_sequence = engine_constant(ctx, "per_sequence_moe" if moe else "per_sequence", "s")
    return serving.engine_overhead(engine_constant(ctx, "per_step", "s"), sequences, per_sequence)


def _times(count: Number, passes: Number) -> Number:
    """`count` over all passes; one pass leaves nothing to explain."""
    return count if passes.__class__ is float and passes == 1.0 else count * passes


def launch_overhead_is_measured(ctx: EstimateContext) -> bool:
    """Whether an engine's own starts count for nothing: the chip's file has what a layer takes to start, or nothing takes any."""
    step = ctx.chip.constants(REGIME, "step")
    return bool(ctx.chip.ideal or num.present(step.per_layer) or num.present(step.per_moe_layer))


def uncaptured_launch_s(ctx: EstimateContext) -> Number:
    """Seconds by which the starts of a pass that holds a prompt exceed those of a replayed graph; nothing where engines replay both."""
    engine, moe_layers = ctx.engine, float(ctx.ledger.moe_layers)
    if launch_overhead_is_measured(ctx) or not (
        engine.prompt_per_layer or (moe_layers and engine.prompt_per_moe_layer)
    ):
        return 0.0
    per_layer, per_moe_layer = (engine_constant(ctx, f"prompt_{name}", "s") for name in ("per_layer", "per_moe_layer"))
    return serving.prompt_starts(float(ctx.ledger.n_layers), per_layer, moe_layers, per_moe_layer)


def prefill_pass(ctx: EstimateContext, layout: Layout) -> PricedPass:
    """The pass over one prompt alone, in as many pieces as the tokens of a step make of it."""
    if not ctx.is_autoregressive:
        scored = ctx.logit_positions(ctx.prompt)
        return forward_step(ctx, layout, ctx.sequences_per_pass, ctx.read, ctx.prompt, False, True, ctx.steps, scored)
    (read, keys), passes = computed_tokens(ctx), serving.prompt_passes(token_budget(ctx), ctx.read)
    if ctx.chip.ideal or (num.plain(passes) and num.value(passes) <= 1):
        step = forward_step(ctx, layout, 1.0, read, keys, decode=False)
    else:
        step = forward_step(ctx, layout, 1.0, read / passes, keys, decode=False, passes=passes)
    if ctx.engine.prompt_bucket:
        step.costs.set_floor_from(
            forward_step(ctx, layout, 1.0, ctx.read, ctx.prompt, decode=False, engine=False).costs
        )
    return _in_turn(ctx, layout, step, passes)


def computed_tokens(ctx: EstimateContext) -> tuple[Number, Number]:
    """Tokens of a prompt that its pass computes, and keys that they see: as many as there are, or those of an engine's next larger graph."""
    if not ctx.engine.prompt_bucket or ctx.chip.ideal:
        return ctx.read, ctx.prompt
    read = serving.padded_prompt(ctx.read, engine_constant(ctx, "prompt_bucket", "tokens"))
    return read, ctx.prompt + (read - ctx.read)


def _in_turn(ctx: EstimateContext, layout: Layout, step: PricedPass, passes: Number) -> PricedPass:
    """The pieces of a prompt follow each other from device to device, where an engine shares out layers: several work at once."""
    if not ctx.engine.splits_layers or (num.plain(layout.pp) and num.value(layout.pp) == 1):
        return step
    best = serving.pieces_at_once(passes, layout.pp)
    efficiency = 1.0 if ctx.chip.ideal else engine_constant(ctx, "split_efficiency", "1")
    step.costs.divide_by(best)
    gained = num.maximum(best * efficiency, 1)
    seconds = label(step.seconds / gained, "t_prefill")
    step.costs.add_time("waiting", seconds - step.seconds / best, "step", SPLIT_ERROR)
    return PricedPass(step.costs, seconds)


def token_budget(ctx: EstimateContext) -> Number:
    """Tokens of prompts that one step takes in: as asked, else the engine's."""
    asked = ctx.request.token_budget
    if asked is None:
        return engine_constant(ctx, "token_budget", "tokens")
    return ctx.from_flag("budget", asked, "tokens", "--max-num-batched-tokens")


def engine_constant(ctx: EstimateContext, name: str, unit: str) -> Number:
    """A constant of the engine as a number of the scene's kind."""
    chip, value = ctx.chip, getattr(ctx.engine, name)
    if chip.override or chip.factors:
        value = chip.effective_constant(f"engine.{name}", value)
    if not ctx.lift.traced:
        return value
    return ctx.lift(name, float(value), unit, ctx.engine.written(name))
