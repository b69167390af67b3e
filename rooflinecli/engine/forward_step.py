"""One forward pass of a replica, priced: what prefill, decode and load are made of."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from rooflinecli.core import num
from rooflinecli.core.derivation import label
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.num import Number, one
from rooflinecli.engine import host_offload, lora_serving, moe_serving
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.host_offload import LINK, LINK_ERROR, HostShare
from rooflinecli.formulas import collectives, serving
from rooflinecli.formulas.grouped_gemm import expected_active_experts
from rooflinecli.formulas.offload import copy_time, on_device
from rooflinecli.ledger.ledger import Ledger, Row, Sizes
from rooflinecli.ledger.ops import Op
from rooflinecli.parallel import context, pipeline, tensor
from rooflinecli.phases.axis_sizes import layer_sizes, pass_axis_sizes, stem_head_axis_sizes
from rooflinecli.phases.forward import ForwardPass
from rooflinecli.price.accumulator import StepAccumulator
from rooflinecli.price.kernels import Priced
from rooflinecli.specs.layout import Layout

REGIME = "serving"
LAUNCH_WAIT = "launch_wait"  # of the breakdown: the device waits for a host that launches kernels one by one
SPLIT_ERROR = 1.0  # of the time that a perfect overlap of stages would save: measured runs saved from none to all of it
VARIATION = 0.2  # of a length given as one number
CLOCK = 2.0e9  # cycles per second of a chip whose file has no clock: where the cycles of a layer were fitted


@dataclass(slots=True, eq=False, repr=False)
class PricedPass:
    """One forward pass on a replica: its step accumulator, and its time."""

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
    """Price a forward pass of `batch` sequences through all stages, one after the other.

    `engine` adds the engine's host time per step. `passes` such passes follow each other, where a prompt is prefilled in chunks;
    the head computes `logits` positions of each sequence.
    """
    costs = ctx.accumulator(REGIME, layout.devices)
    forward = ForwardPass(
        ctx.formats,
        decode=decode,
        full_attention=ctx.request.attention_flops == "full",
        flash=ctx.request.flash,
        library=ctx.engine.library,
        cached=None if decode else ctx.cached_prompt_tokens,
    )
    if layout.overlap == "two-batch":
        _two_batch_overlap(ctx, layout, forward, costs, (batch, queries, keys, logits), passes)
    else:
        _charge_ledger(
            ctx, layout, ctx.ledger, forward, costs, pass_axis_sizes(batch, queries, keys, logits, layout), passes
        )
    if not ctx.engine.splits_layers:  # such an engine copies activations over the host, inside its time per split
        # Replicas communicate nothing, so the stages of a pipeline are neighbors.
        independent = num.plain(layout.dp) and num.plain(layout.ep) and num.value(layout.dp) == num.value(layout.ep)
        neighbors = layout if independent else layout.with_changes(dp=layout.expert_replicas)
        width = float(ctx.spec.stream_width)
        for c in pipeline.collectives(neighbors, batch * queries, width, ctx.formats.activation, False):
            costs.add_exposed_comm("pp", costs.collective(c, _over_passes(layout.pp - 1, passes)))
    if ctx.host is not None:
        if decode:
            _host_compute(ctx, layout, ctx.host, costs, pass_axis_sizes(batch, queries, keys, logits, layout))
        else:
            _weights_over_host_link(ctx, layout, ctx.host, costs, batch * queries, passes)
    encoders = () if decode else ctx.ledger.reading
    for tower in encoders:
        uncached = forward if forward.cached is None else replace(forward, cached=None)
        sizes = pass_axis_sizes(tower.inputs(batch), tower.length, tower.length, 1.0, layout)
        _charge_ledger(ctx, layout, tower.ledger, uncached, costs, sizes, 1.0)
    _overheads(ctx, layout, costs, [ctx.ledger, *(tower.ledger for tower in encoders)], batch, engine, decode, passes)
    return PricedPass(costs, label(costs.total, "t_decode" if decode else "t_prefill"))


def _two_batch_overlap(
    ctx: EstimateContext,
    layout: Layout,
    forward: ForwardPass,
    costs: StepAccumulator,
    sizes: tuple[Number, Number, Number, Number],
    passes: Number,
) -> None:
    """Both halves of a batch: the MoE all-to-all of one runs while the other computes.

    Every kernel starts twice, weights are read twice, and communication kernels take a part of the chip. A prompt is split by
    tokens, not by sequence, so that attention of its second half sees the keys of the first.
    """
    batch, queries, keys, logits = sizes
    if forward.decode:
        half = pass_axis_sizes(batch / 2, queries, keys, logits, layout)
    else:
        half = pass_axis_sizes(batch, queries / 2, keys * 3 / 4, logits, layout)
    _charge_ledger(ctx, layout, ctx.ledger, forward, costs, half, _over_passes(2.0, passes))
    sent = costs.by_axis.get("ep", 0.0)
    computed = costs.total - sent
    fraction = moe_serving.comm_sm_fraction(ctx, layout, forward.decode)
    if num.present(fraction):
        slower = label(serving.slowdown_by_comm_kernels(computed, fraction), "t_beside")
        costs.add_time("overlap", slower - computed, "step", 0.3)
        computed = slower
    costs.add_exposed_comm("ep", serving.exposed_all2all_time(computed, sent) - sent)


def _charge_ledger(
    ctx: EstimateContext,
    layout: Layout,
    ledger: Ledger,
    forward: ForwardPass,
    costs: StepAccumulator,
    work: Sizes,
    passes: Number,
) -> None:
    """Charge the layers of a ledger, its stem and head, and the communication of its devices, `passes` times."""
    tokens = work["B"] * work["S"]
    host = ctx.host if forward.decode and ledger is ctx.ledger else None
    priced_mixers: dict[tuple[Row, ...], tuple[list[Op], list[Priced]]] = {}
    for group in ledger.layers:
        sizes = layer_sizes(group, work, layout, ledger.document, ctx.lift)
        mixing = priced_mixers.get(group.mixing)
        if mixing is None:
            ops = forward.ops(group.mixing, sizes)
            mixing = priced_mixers[group.mixing] = ops, costs.prices(ops)
        repeat = _over_passes(float(group.repeat), passes)
        on_chip = repeat if host is None else on_device(repeat, host.layers)
        costs.add_priced(*mixing, on_chip)
        costs.add(forward.ops(group.unrouted, sizes), on_chip)
        if ledger is ctx.ledger:
            lora_serving.add_priced(ctx, costs, (*group.mixing, *group.unrouted), sizes, on_chip)
        if group.mixer is not None and not one(layout.cp):
            exchanged = group.mixer.exchange(sizes)
            for c in context.collectives(layout, tokens, exchanged, ctx.formats.activation, repeat, False):
                costs.add_exposed_comm("cp", costs.collective(c))
        if group.moe:
            repeat = repeat if host is None else on_device(repeat, host.experts)
            for mode, fraction in moe_serving.all2all_backends(ctx, layout, forward.decode):
                layers = _over_passes(fraction, repeat)
                experts = moe_serving.grouped_gemm_op(ctx, layout, group, sizes, tokens, mode, forward.decode)
                costs.add([experts], layers)
                for exchange in moe_serving.exchanges(ctx, layout, sizes, tokens, mode, layers):
                    costs.add_exposed_comm("ep", costs.collective(exchange))
    outer = stem_head_axis_sizes(ledger, work, layout, ledger.document, ctx.lift)
    costs.add(forward.ops(ledger.stem, outer, outer=True), passes)
    head = ledger.head_rows(work["O"])
    costs.add(forward.ops(head, outer, outer=True), passes if host is None else on_device(passes, host.head))
    overlap = ctx.chip.constants(REGIME, "tp_collective")
    for c in tensor.collectives(layout, tokens, outer["D"], ctx.formats.activation, 1.0, _tp_reductions(ledger), False):
        c.library = "" if "collective" in ctx.engine.efficiency else ctx.engine.all_reduces or ctx.engine.library
        seconds = costs.collective(c, passes)
        # latency in decode, which no matmul is long enough to hide
        if forward.decode or not num.present(overlap.overlap):
            costs.add_exposed_comm("tp", seconds)
            continue
        computed = costs.total
        together = collectives.p_norm_overlap_time(computed, collectives.hidden(seconds, overlap.overlap), overlap.p)
        longer = label(together, "t_beside") - computed
        costs.add_exposed_comm("tp", collectives.exposed(seconds, overlap.overlap) + longer)


@lru_cache(maxsize=256)
def _tp_reductions(ledger: Ledger) -> Number:
    """All-reduces of activations over a tensor-parallel group in a pass."""
    return sum(layer.repeat * tensor.tp_reductions_per_layer(layer) for layer in ledger.spec.layers)


def _host_compute(ctx: EstimateContext, layout: Layout, host: HostShare, costs: StepAccumulator, work: Sizes) -> None:
    """Charge what the host CPU computes: its layers, its experts, the head, for all devices that share its memory."""
    layout, replicas = host_offload.on_hosts(ctx, layout)
    forward = ForwardPass(host.formats, decode=True, flash=ctx.request.flash)
    on_cpu = StepAccumulator(host.chip, REGIME, 1.0)
    for group in ctx.ledger.layers:
        sizes = layer_sizes(group, work, layout, ctx.ledger.document, ctx.lift)
        layers, experts = float(group.repeat) * host.layers, float(group.repeat) * host.experts
        on_cpu.add(forward.ops([row for row in group.rows if not row.routed], sizes), layers)
        if group.moe:
            on_cpu.add(forward.ops([row for row in group.rows if row.routed], sizes), experts)
    outer = stem_head_axis_sizes(ctx.ledger, work, layout, ctx.ledger.document, ctx.lift)
    on_cpu.add(forward.ops(ctx.ledger.head, outer, outer=True), host.head)
    costs.add_group("host", on_cpu, label(on_cpu.total, "t_host"), replicas)


def _weights_over_host_link(
    ctx: EstimateContext, layout: Layout, host: HostShare, costs: StepAccumulator, tokens: Number, passes: Number
) -> None:
    """Charge the copies of the host's weights to the devices, once per pass: all layers, stage by stage, and the experts that have tokens."""
    params, formats = ctx.parameters(layout.with_changes(pp=1.0, virtual_stages=1.0, stages=None)), ctx.formats
    link = _host_link(ctx, layout, host, passes)
    layers = params.inner * formats.weight * host.layers
    experts = params.experts * formats.expert_weight * host.experts
    moe = next((g.feedforward for g in ctx.spec.layers if g.feedforward.kind == "moe"), None)
    copied, least = experts, experts
    if moe is not None:
        count, top_k = float(moe.n_experts or 1), float(moe.top_k or 1)
        active = expected_active_experts(count, tokens * top_k / count, ctx.engine.routing_skew)
        copied = experts * (num.maximum(active, top_k) / count)
        least = experts * (top_k / count)  # however the tokens are routed
    expected = label(copy_time(layers + copied, passes, link, 1.0 if ctx.chip.ideal else LINK), "t_copy")
    costs.add_time("host_copy", expected, "host_copy", LINK_ERROR)
    costs.t_communication = costs.t_communication + copy_time(layers + least, passes, link, 1.0)


def _host_link(ctx: EstimateContext, layout: Layout, host: HostShare, passes: Number) -> Number:
    """Bytes per second at which a device reads the host's memory, which all devices of a host share."""
    link, per_host = ctx.chip.host_link, ctx.chip.devices_per_host
    reading = layout.tp * layout.dp * (serving.pieces_at_once(passes, layout.pp) if ctx.engine.splits_layers else 1.0)
    if one(reading):
        return link
    return num.minimum(link, host.chip.bandwidth / num.minimum(reading, per_host))


def _overheads(
    ctx: EstimateContext,
    layout: Layout,
    costs: StepAccumulator,
    ledgers: list[Ledger],
    batch: Number,
    engine: bool,
    decode: bool,
    passes: Number,
) -> None:
    """Charge kernel launches per layer, as the chip's file has them or else the engine's; and the engine's host time per step."""
    step = ctx.chip.constants(REGIME, "step")
    layers: Number = float(sum(ledger.n_layers for ledger in ledgers))
    moe_layers: Number = float(sum(ledger.moe_layers for ledger in ledgers))
    if decode and ctx.host is not None:
        layers, moe_layers = on_device(layers, ctx.host.layers), on_device(moe_layers, ctx.host.experts)
    per_layer, per_moe_layer = step.per_layer, step.per_moe_layer
    measured = launch_overhead_is_measured(ctx)
    if not measured:
        per_layer, per_moe_layer = (engine_constant(ctx, name, "s") for name in ("per_layer", "per_moe_layer"))
        if decode and ctx.is_moe and ctx.formats.expert_format in ctx.engine.routing_inside_formats:
            per_moe_layer = per_moe_layer - engine_constant(ctx, "routing_inside", "s")
    seconds = serving.layer_overhead(layers, per_layer, moe_layers, per_moe_layer)
    if num.present(step.layer_cycles) or num.present(step.moe_layer_cycles):
        clock = CLOCK if ctx.chip.clock is None else ctx.chip.clock
        dense = layers * step.layer_cycles / clock
        seconds = seconds + dense + moe_layers * step.moe_layer_cycles / clock
    if engine and not decode and not measured:
        seconds = seconds + uncaptured_launch_s(ctx)
    costs.add_time("overhead", _over_passes(seconds, passes), "step", step.error)
    if engine and not decode and num.present(step.per_prompt):
        costs.add_time("engine", step.per_prompt, "step", step.error)
    if engine and not ctx.chip.ideal:
        seconds = host_time(ctx, batch)
        if ctx.engine.per_split:
            seconds = seconds + num.where(layout.pp > 1, engine_constant(ctx, "per_split", "s"), 0.0)
        costs.add_time("engine", _over_passes(seconds, passes), "step", step.error)


def _over_passes(count: Number, passes: Number) -> Number:
    """`count` over all passes; an explanation does not show a product with one pass."""
    return count if passes.__class__ is float and passes == 1.0 else count * passes


def host_time(ctx: EstimateContext, sequences: Number) -> Number:
    """Seconds of host time in which the engine forms a step with `sequences` running."""
    moe = ctx.ledger.moe_layers and ctx.engine.per_sequence_moe is not None
    per_sequence = engine_constant(ctx, "per_sequence_moe" if moe else "per_sequence", "s")
    return serving.engine_overhead(engine_constant(ctx, "per_step", "s"), sequences, per_sequence)


def launch_overhead_is_measured(ctx: EstimateContext) -> bool:
    """Whether the engine's launch overheads do not apply: the chip's file has its own, or the chip is ideal."""
    step = ctx.chip.constants(REGIME, "step")
    return bool(ctx.chip.ideal or num.present(step.per_layer) or num.present(step.per_moe_layer))


def uncaptured_launch_s(ctx: EstimateContext) -> Number:
    """Seconds by which the launches of a pass with a prompt exceed those of a replayed CUDA graph; 0 where engines replay both."""
    engine, moe_layers = ctx.engine, float(ctx.ledger.moe_layers)
    slower = engine.prompt_per_layer or (moe_layers and engine.prompt_per_moe_layer)
    if launch_overhead_is_measured(ctx) or not slower:
        return 0.0
    per_layer, per_moe_layer = (engine_constant(ctx, f"prompt_{name}", "s") for name in ("per_layer", "per_moe_layer"))
    return serving.uncaptured_launch_time(float(ctx.ledger.n_layers), per_layer, moe_layers, per_moe_layer)


def prefill_pass(ctx: EstimateContext, layout: Layout) -> PricedPass:
    """Prefill of a lone prompt, in as many chunks as the token budget of a step makes of it."""
    if not ctx.is_autoregressive:
        rank_tokens = ctx.uncached_prompt if one(layout.cp) else ctx.uncached_prompt / layout.cp
        step = forward_step(
            ctx, layout, ctx.sequences_per_pass, rank_tokens, ctx.prompt, False, True, ctx.steps, ctx.logit_positions
        )
        return (
            _image_generation(ctx, layout, step.costs)
            if ctx.engine.pixel_flops and ctx.spec.denoising is not None
            else step
        )
    (computed, keys), passes = computed_tokens(ctx), serving.prompt_passes(token_budget(ctx), ctx.uncached_prompt)
    if ctx.chip.ideal or (num.plain(passes) and num.value(passes) <= 1):
        step = forward_step(ctx, layout, 1.0, computed, keys, decode=False)
    else:
        step = forward_step(ctx, layout, 1.0, computed / passes, keys, decode=False, passes=passes)
    if ctx.engine.prompt_bucket:
        unpadded = forward_step(ctx, layout, 1.0, ctx.uncached_prompt, ctx.prompt, decode=False, engine=False)
        step.costs.set_floor_from(unpadded.costs)
    return _overlapped_stages(ctx, layout, step, passes)


def _image_generation(ctx: EstimateContext, layout: Layout, costs: StepAccumulator) -> PricedPass:
    """All denoising steps, with the wait for a host that launches kernels one by one, and the autoencoder, which decodes latents into
    images on one device, however many share the sequence."""
    assert ctx.image_input is not None and ctx.spec.images is not None
    rows = [(row, float(group.repeat)) for group in ctx.ledger.layers for row in group.rows]
    matmuls = sum(repeat for row, repeat in rows if row.kind == "matmul") * ctx.steps
    attentions = sum(repeat for row, repeat in rows if row.kind == "attention" and not row.name.startswith("cross."))
    exchanges = 0.0 if layout.ring == "ulysses" else attentions * ctx.steps * (layout.cp - 1)
    launch_s = [engine_constant(ctx, name, "s") for name in ("host_per_matmul", "host_per_exchange")]
    wait = serving.launch_bound_wait(matmuls, launch_s[0], exchanges, launch_s[1], costs.total)
    costs.add_time(LAUNCH_WAIT, wait, "step", 0.5)
    width, height = (float(side) for side in ctx.image_input[1].split("x"))
    pixels = ctx.from_flag("px", width * height * ctx.spec.images.frames, "1", "--image-size")
    each, peak = engine_constant(ctx, "pixel_flops", "FLOP"), ctx.chip.peak(ctx.formats.outer_compute)
    seconds = serving.autoencoder_time(ctx.requests_per_pass, pixels, each, peak)
    costs.add_time("autoencoder", seconds, "step", 0.5)
    return PricedPass(costs, label(costs.total, "t_prefill"))


def lone_prefill_s(ctx: EstimateContext, layout: Layout) -> Number:
    """Seconds of the prefill of a lone prompt, computed once."""
    return ctx.memoized(layout, "lone prefill", lambda: prefill_pass(ctx, layout).seconds, arrays=True)


def computed_tokens(ctx: EstimateContext) -> tuple[Number, Number]:
    """Tokens of a prompt that its prefill computes, and keys that they see: padded where the engine has graphs of prompt lengths."""
    if not ctx.engine.prompt_bucket or ctx.chip.ideal:
        return ctx.uncached_prompt, ctx.prompt
    least, spread = engine_constant(ctx, "prompt_bucket", "tokens"), length_spread(ctx)
    shorter, longer = (serving.padded_prompt(ctx.uncached_prompt * (1 + way * spread), least) for way in (-1, 1))
    padded = serving.mean_padded_prompt(ctx.uncached_prompt, spread, shorter, longer)
    return padded, ctx.prompt + (padded - ctx.uncached_prompt)


def length_spread(ctx: EstimateContext) -> Number:
    """Fraction by which lengths of a load vary on either side of their mean."""
    r = ctx.request
    if r.equal_lengths or (r.concurrency is None and r.qps is None):
        return 0.0
    return variation(ctx.prompt + ctx.output, ctx.spec.max_context)


def variation(tokens: Number, longest: float | None) -> Number:
    """The same for requests of a mean number of tokens, whose lengths are not asked to be equal: at most as far as the model's context reaches."""
    return num.minimum(num.maximum((longest or num.INF) / tokens - 1, 0), VARIATION)


def _overlapped_stages(ctx: EstimateContext, layout: Layout, step: PricedPass, passes: Number) -> PricedPass:
    """Where an engine splits layers, chunks of a prompt follow each other from device to device, and several devices work at once."""
    if not ctx.engine.splits_layers or num.one(layout.pp):
        return step
    at_once = serving.pieces_at_once(passes, layout.pp)
    efficiency = 1.0 if ctx.chip.ideal else engine_constant(ctx, "split_efficiency", "1")
    step.costs.divide_by(at_once)
    seconds = label(step.seconds / num.maximum(at_once * efficiency, 1), "t_prefill")
    step.costs.add_time("waiting", seconds - step.seconds / at_once, "step", SPLIT_ERROR)
    return PricedPass(step.costs, seconds)


def token_budget(ctx: EstimateContext) -> Number:
    """Prompt tokens that one step takes: as asked, else the engine's."""
    asked = ctx.request.token_budget
    if asked is None:
        return engine_constant(ctx, "token_budget", "tokens")
    return ctx.from_flag("budget", asked, "tokens", "--max-num-batched-tokens")


def engine_constant(ctx: EstimateContext, name: str, unit: str) -> Number:
    """A constant of the engine, lifted as the context's numbers are."""
    chip, value = ctx.chip, ctx.engine.constant(name)
    if chip.override or chip.factors:
        value = chip.effective_constant(f"engine.{name}", value)
    if not ctx.lift.traced:
        return value
    return ctx.lift(name, float(value), unit, ctx.engine.written(name))
