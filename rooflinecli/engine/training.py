"""A training step: micro-batches on the slowest pipeline stage, then the tail of the step once."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from rooflinecli import memory
from rooflinecli.core import num
from rooflinecli.core.derivation import label
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.lift import PlainLift
from rooflinecli.core.num import Number
from rooflinecli.engine import extrapolation, residency
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.microbatch import REGIME, PipelineStage, slowest_stage
from rooflinecli.engine.phase_answer import Residency, Resources, TrainAnswer, rate_interval
from rooflinecli.formulas import collectives as comm
from rooflinecli.formulas import roofline, schedule, training
from rooflinecli.ledger.ledger import Encoder, Ledger
from rooflinecli.ledger.ops import Collective, Op, matmul
from rooflinecli.parallel import data, pipeline
from rooflinecli.phases import recompute
from rooflinecli.phases.axis_sizes import layer_sizes, pass_axis_sizes
from rooflinecli.phases.fine_tuning import RECIPE
from rooflinecli.phases.forward import ForwardPass, predicting_flops
from rooflinecli.price.accumulator import StepAccumulator
from rooflinecli.price.kernels import price
from rooflinecli.quantization.formats import Formats
from rooflinecli.specs.layout import WHOLE, Layout

TINY = 1e-30  # s, keeps a fraction of nothing finite in a sweep


@dataclass
class StepTail:
    """What happens once per step: accumulator of the gradient collectives; seconds of them and exposed, of the optimizer, and of
    the pipeline bubble."""

    costs: StepAccumulator
    exchange: Number
    exposed: Number
    optimizer: Number
    bubble: Number


def train(ctx: EstimateContext, layout: Layout) -> TrainAnswer:
    """One optimizer step of the global batch."""
    count = schedule.microbatch_count(ctx.train_batch, layout.dp, layout.micro_batch)
    params = ctx.trained_parameters(layout)
    trained = memory.trainable_parameters(ctx.ledger, layout, params, ctx.lift)
    stage = slowest_stage(ctx, layout, params, trained)
    tail, costs = _tail(ctx, layout, trained, stage, count), stage.costs
    resources = Resources(
        compute=costs.t_compute * count,
        memory=costs.t_memory * count,
        communication=costs.t_communication * count + tail.costs.t_communication,
    )
    floor = roofline.floor_time(roofline.floor_time(resources.compute, resources.memory), resources.communication)
    domain = ctx.chip.levels[0].size if ctx.chip.levels else 1.0
    hosts, domains = (schedule.node_count(layout.devices, size) for size in (ctx.chip.devices_per_host, domain))
    slow = ctx.chip.constants(REGIME, "straggler")  # the slowest of all hosts and scale-up domains
    straggler = training.straggler_factor(slow.per_doubling, hosts, slow.per_domain, domains)
    parts = (count, stage.seconds, tail.bubble, tail.exposed, tail.optimizer, straggler)
    # Hidden communication may still need longer than all else: only the links' floor can exceed the sum of the parts.
    seconds, without_links = training.training_step(*parts, floor), training.training_step(*parts, 0.0)
    exposed, hidden = _communication(stage, tail, count)
    resident = residency.resident_memory(ctx, layout, "train")
    error, communication_error = _errors(ctx, layout, seconds, exposed, hidden, resident)
    tokens = ctx.train_batch * ctx.seq
    flops = RECIPE[layout.recipe].passes * _forward_flops(ctx, layout)
    executed = flops + _recomputed_flops(ctx, layout)
    peak = ctx.chip.peak(ctx.formats.compute)
    breakdown = {name: t * count for name, t in costs.groups.items()}
    late = (stage.seconds - stage.work) * count
    breakdown["communication"] = (
        breakdown.get("communication", 0.0) + late + tail.exposed + (seconds - without_links)
    )  # fmt: skip
    breakdown["optimizer"] = breakdown.get("optimizer", 0.0) + tail.optimizer
    breakdown |= {"bubble": tail.bubble, "stragglers": without_links - without_links / straggler}
    return TrainAnswer(
        time_s=label(seconds, "t_step"),
        floor_s=floor,
        interval_s=(roofline.interval_low(seconds, error, floor), roofline.interval_high(seconds, error)),
        tokens_per_s=tokens / seconds,
        tokens_per_s_interval=rate_interval(tokens / seconds, error, seconds, floor),
        flops=flops,
        hardware_flops=executed,
        mfu=training.model_flops_utilization(flops, seconds, layout.devices, peak),
        hfu=training.hardware_flops_utilization(executed, seconds, layout.devices, peak),
        microbatches=count,
        bubble_fraction=tail.bubble / seconds,
        resources_s=resources,
        breakdown_s=breakdown,
        communication_s=exposed,
        hidden_s=hidden,
        communication_bytes={
            axis: costs.volumes.get(axis, 0.0) * count + tail.costs.volumes.get(axis, 0.0)
            for axis in {**costs.volumes, **tail.costs.volumes}
        },
        memory=resident,
        communication_error_fraction=communication_error,
    )


def _forward_flops(ctx: EstimateContext, layout: Layout) -> Number:
    """Model FLOPs of the batch's forward pass, those of MTP layers with it."""
    seq, packed = ctx.seq, ctx.packed_length
    flops = ctx.model_flops(ctx.train_batch, seq, seq, seq, decode=False, documents=packed)
    depth = ctx.mtp_layers_trained(layout)
    if not depth:
        return flops
    forward = ForwardPass(ctx.formats, full_attention=ctx.request.attention_flops == "full", documents=packed)
    return flops + predicting_flops(ctx.ledger, forward, ctx.lift, ctx.train_batch, seq, depth)


def _tail(
    ctx: EstimateContext, layout: Layout, params: memory.DeviceParameters, stage: PipelineStage, microbatches: Number
) -> StepTail:
    costs, c = StepAccumulator(ctx.chip, REGIME, layout.devices), ctx.training_constants("dp_collective", layout)
    waits = comm.serialized_wait(c.per_hop, data.group(layout, False).part) if layout.zero in (1, 2) else 0.0

    def shown(seconds: Number) -> Number:
        """What of an exchange does not hide behind one micro-batch; rounding must not make it negative."""
        longer = num.maximum(stage.with_hidden(comm.hidden(seconds, c.overlap)) - stage.seconds, 0.0)
        return comm.exposed(seconds, c.overlap) + longer

    moves = _gradient_collectives(ctx, layout, params)
    seconds = sum(costs.collective(move) for move in moves)
    exchange, exposed = seconds + waits, shown(seconds) + waits
    # a shard has no room for the sum of whole gradients: they are reduced before the last micro-batch too
    if layout.zero == 2:
        # as often as a model chunk's backward passes are interrupted: interleaved stages run pp of them in a row
        before = num.maximum(microbatches / num.where(layout.virtual_stages > 1, layout.pp, 1.0), 1.0) - 1
        scattered = sum(costs.collective(move, before) for move in moves if move.op == "reduce-scatter")
        exchange = exchange + scattered
        exposed = exposed + shown(scattered / num.maximum(before, 1.0)) * before
    return StepTail(
        costs, exchange=exchange, exposed=exposed, optimizer=_optimizer_time(ctx, layout, params),
        bubble=pipeline.bubble(layout, stage.mean, stage.weight_gradients),
    )  # fmt: skip


def _gradient_collectives(ctx: EstimateContext, layout: Layout, params: memory.DeviceParameters) -> list[Collective]:
    """Data parallel collectives of a step, a layer at a time; ZeRO-3 has done all but the all-reduce between shard groups."""
    buckets = pipeline.layers_on_fullest_stage(layout, float(ctx.ledger.n_layers))
    c = ctx.training_constants("dp_collective", layout)
    between = c.exchange_bytes if num.present(c.exchange_bytes) else ctx.gradient_bytes
    moves: list[Collective] = []
    copies = pipeline.copies(layout)
    for count, experts in ((params.inner + params.outer) * copies, False), (params.experts * copies, True):
        if experts and not params.has_experts:
            continue
        if layout.zero >= 3:
            moves += data.shard_group_all_reduce(layout, count, between, buckets, experts)
        else:
            moves += data.collectives(layout, count, ctx.formats.weight, ctx.gradient_bytes, buckets, experts)
    return moves


def _optimizer_time(ctx: EstimateContext, layout: Layout, params: memory.DeviceParameters) -> Number:
    """Seconds of the optimizer on the device; or on the host, at its memory's rate, with gradients sent there and weights back."""
    owned = memory.partitioned(params, layout, "optimizer")
    passes = ctx.training_constants("framework", layout).optimizer_bytes
    per_param = training.optimizer_bytes_per_parameter(
        ctx.optimizer_bytes, ctx.gradient_bytes, ctx.formats.weight, passes
    )
    traffic = label(owned * per_param, "B_opt", "B")
    if not layout.optimizer_on_host:
        update = Op(name="optimizer", kind="optimizer", dtype=ctx.formats.compute, flops=0.0, bytes=traffic)
        return price(update, ctx.chip, REGIME).expected + _orthogonalization_time(ctx, layout)
    host = ctx.chip.constants(REGIME, "host_optimizer")
    link = training.offload_transfer(owned, ctx.gradient_bytes, ctx.formats.weight, ctx.chip.host_link)
    update = roofline.effective_memory_time(traffic, ctx.chip.host_memory, host.memory)
    return host.overhead + label(update, "t_update[host]") + link


def _orthogonalization_time(ctx: EstimateContext, layout: Layout) -> Number:
    """Seconds in which a device orthogonalizes or preconditions its share of all matrices; 0 for elementwise optimizers."""
    optimizer = ctx.optimizer
    if optimizer is None or not (optimizer.steps or optimizer.factors):
        return 0.0
    sharers = layout.tp * layout.pp * data.shards(layout, "optimizer")
    if optimizer.factors:
        flops = memory.preconditioning_flops(ctx.ledger, optimizer, ctx.lift) / sharers
    else:
        flops = memory.orthogonalization_flops(ctx.ledger, optimizer.steps, ctx.lift) / sharers
    width = float(ctx.spec.d_model)
    one = matmul("orthogonalize", ctx.formats.outer_compute, flops, 0.0, 0.0, width, width, 1 / width)
    return label(price(one, ctx.chip, REGIME).expected, "t[orthogonalize]")


def _communication(stage: PipelineStage, tail: StepTail, count: Number) -> tuple[dict[str, Number], dict[str, Number]]:
    """Seconds of a step's communication by axis, exposed and hidden. The cost of hiding is split over the axes by what they hide."""
    late = num.maximum(stage.seconds - stage.work, 0.0)  # rounding must not make it negative
    exposed = {axis: t * count for axis, t in stage.costs.by_axis.items()}
    hidden = {axis: t * count for axis, t in stage.costs.hidden.items()}
    for axis, t in stage.costs.hidden.items() if num.present(stage.hidden) else ():
        shown = late * count * (t / num.maximum(stage.hidden, TINY))
        exposed[axis], hidden[axis] = exposed.get(axis, 0.0) + shown, hidden[axis] - shown
    exposed["dp"] = exposed.get("dp", 0.0) + tail.exposed
    hidden["dp"] = hidden.get("dp", 0.0) + tail.exchange - tail.exposed
    return exposed, hidden


def _errors(
    ctx: EstimateContext,
    layout: Layout,
    seconds: Number,
    exposed: dict[str, Number],
    hidden: dict[str, Number],
    resident: Residency,
) -> tuple[Number, Number]:
    """80% relative error of a step, and the part of it from its communication: other layouts on the chip share the rest."""
    c = ctx.training_constants("residual", layout)
    runs, base, experts = extrapolation.known(ctx, layout), None, 0.0
    if not extrapolation.has_own_error(ctx):  # what published runs of the configuration need, else others of the stack
        base = runs.measured.get(extrapolation.configuration(ctx, layout), runs.others)
    if base is None:
        base, experts = c.error, c.error_experts if ctx.is_moe else 0.0
    of_hidden = training.communication_error(c.error_hidden, sum(hidden.values()), seconds)
    of_exposed = training.communication_error(c.error_exposed, sum(exposed.values()), seconds)
    fraction = sum(hidden.values()) / seconds
    terms = ctx.memoized(
        layout, extrapolation.TERMS, lambda: extrapolation.extrapolation_terms(ctx, layout, fraction, resident)
    )
    error = training.step_error(base, experts, of_hidden, of_exposed, extrapolation.error(ctx, terms))
    return error, training.step_error(0.0, 0.0, of_hidden, of_exposed)


def _recomputed_flops(ctx: EstimateContext, layout: Layout) -> Number:
    """FLOPs of recomputation over the whole step and all devices."""
    if layout.recompute == "none":
        return 0.0
    early_stop = ctx.training_constants("framework", layout).early_stop
    full, sizes = ctx.request.attention_flops == "full", (ctx.seq, ctx.train_batch, early_stop)
    how = layout.recompute, layout.recompute_modules, layout.flash
    plain = all(number.__class__ is float for number in sizes)
    count: Callable[..., Number] = _recomputed_layer_flops  # every candidate of plain numbers needs the same again
    if not plain or ctx.lift.traced or ctx.packed_length is not None or ctx.ledger.towers:
        count = _recomputed_layer_flops.__wrapped__
    flops = count(ctx.ledger, ctx.formats, full, how, *sizes, ctx.lift, ctx.packed_length)
    return flops * recompute.share(layout.recompute_layers, float(ctx.ledger.n_layers))


@lru_cache(maxsize=256)
def _recomputed_layer_flops(
    ledger: Ledger,
    formats: Formats,
    full_attention: bool,
    how: tuple[str, tuple[str, ...], bool],
    seq: Number,
    batch: Number,
    early_stop: Number,
    lift: PlainLift,
    documents: Number | None,
) -> Number:
    """FLOPs that every layer recomputes, whatever the parallel sizes; `how` is a layout's recompute, recompute_modules and flash."""
    forward, total = ForwardPass(formats, full_attention=full_attention, documents=documents), 0.0
    granularity, modules, flash = how
    layout = Layout(recompute=granularity, recompute_modules=modules, flash=flash)
    for stack in (Encoder(ledger, seq), *ledger.reading):
        length, inputs = stack.length, stack.inputs(batch)
        work = pass_axis_sizes(inputs, length, length, length, WHOLE)
        for group in stack.ledger.layers:
            sizes = layer_sizes(group, work, WHOLE, stack.ledger.document, lift)
            early = recompute.uses_early_stop(early_stop, stack.ledger.spec.layers[group.index].norms)
            rows = [row for row in group.rows if row.contraction is not None or row.mixer is not None]
            for op in recompute.recomputed_ops(layout, forward.ops(rows, sizes), early):
                total = total + op.flops * op.count * float(group.repeat)
    return total
