"""A training step: microbatches through the stages, forward and backward, then gradients and the optimizer."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from rooflinecli import memory
from rooflinecli.core import num
from rooflinecli.core.derivation import label
from rooflinecli.core.lift import PLAIN, PlainLift
from rooflinecli.core.num import Number
from rooflinecli.engine import extrapolation, residency
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.microbatch import REGIME
from rooflinecli.engine.phase_answer import Residency, Resources, TrainAnswer, rate_interval
from rooflinecli.engine.pipeline_stage import PipelineStage, stage
from rooflinecli.formulas import collectives as comm
from rooflinecli.formulas import roofline, schedule, training
from rooflinecli.ledger.ledger import Encoder, Ledger
from rooflinecli.ledger.ops import Op
from rooflinecli.parallel import data, pipeline
from rooflinecli.phases import recompute
from rooflinecli.phases.axis_sizes import layer_sizes, pass_axis_sizes
from rooflinecli.phases.fine_tuning import RECIPE
from rooflinecli.phases.flops import predicting_flops
from rooflinecli.phases.forward import ForwardPass
from rooflinecli.price.accumulator import StepAccumulator
from rooflinecli.price.kernels import price
from rooflinecli.quantization.formats import Formats
from rooflinecli.specs.layout import WHOLE, Layout

TINY = 1e-30  # s, keeps a share of nothing finite in a sweep


def train(ctx: EstimateContext, layout: Layout) -> TrainAnswer:
    """One optimizer step of the global batch."""
    count = schedule.microbatch_count(ctx.train_batch, layout.dp, layout.micro_batch)
    params = ctx.trained_parameters(layout)
    trained = memory.trainable_parameters(ctx.ledger, layout, params, ctx.lift)
    recipe = RECIPE[layout.recipe]
    fullest = stage(ctx, layout, params, trained)
    tail, parts = _tail(ctx, layout, trained, fullest)
    costs = fullest.costs
    resources = Resources(
        compute=costs.t_compute * count,
        memory=costs.t_memory * count,
        communication=costs.t_communication * count + tail.t_communication,
    )
    seconds, floor = _seconds(ctx, layout, fullest, parts, count, resources)
    exposed, hidden = _overlap(fullest, tail, parts, count)
    memory_held = residency.resident_memory(ctx, layout, "train")
    error, own = _error(ctx, layout, seconds, exposed, hidden, memory_held)
    tokens = ctx.train_batch * ctx.seq
    model = recipe.passes * _forward_flops(ctx, layout)
    peak = ctx.chip.peak(ctx.formats.compute)
    executed = model + _recomputed(ctx, layout)
    return TrainAnswer(
        time_s=label(seconds, "t_step"),
        floor_s=floor,
        interval_s=(roofline.interval_low(seconds, error, floor), roofline.interval_high(seconds, error)),
        tokens_per_s=tokens / seconds,
        tokens_per_s_interval=rate_interval(tokens / seconds, error, seconds, floor),
        flops=model,
        hardware_flops=executed,
        mfu=training.model_flops_utilization(model, seconds, layout.devices, peak),
        hfu=training.hardware_flops_utilization(executed, seconds, layout.devices, peak),
        microbatches=count,
        bubble_fraction=parts["bubble"] / seconds,
        resources_s=resources,
        breakdown_s=_breakdown(fullest, parts, count),
        communication_s=exposed,
        hidden_s=hidden,
        communication_bytes={
            axis: costs.volumes.get(axis, 0.0) * count + tail.volumes.get(axis, 0.0)
            for axis in {**costs.volumes, **tail.volumes}
        },
        memory=memory_held,
        communication_error_fraction=own,
    )


def _forward_flops(ctx: EstimateContext, layout: Layout) -> Number:
    """Model FLOPs of the batch's forward pass, further tokens included where they are predicted."""
    seq, packed = ctx.seq, ctx.documents
    own = ctx.model_flops(ctx.train_batch, seq, seq, seq, decode=False, documents=packed)
    depth = ctx.mtp_layers_trained(layout)
    if not depth:
        return own
    forward = ForwardPass(ctx.formats, full_attention=ctx.request.attention_flops == "full", documents=packed)
    return own + predicting_flops(ctx.ledger, forward, ctx.lift, ctx.train_batch, ctx.seq, depth)


def _tail(
    ctx: EstimateContext, layout: Layout, params: memory.DeviceParameters, fullest: PipelineStage
) -> tuple[StepAccumulator, dict[str, Number]]:
    """What happens once per step: gradients and weights among replicas, the optimizer, the pipeline's ends."""
    tail = StepAccumulator(ctx.chip, REGIME, layout.devices)
    t = sum(tail.collective(c) for c in _gradient_collectives(ctx, layout, params))
    c = ctx.chip.constants(REGIME, "dp_collective", layout.software)
    beside = comm.hidden(t, c.overlap)
    longer = num.maximum(fullest.beside(beside) - fullest.seconds, 0.0)  # never less than nothing, to the last digit
    waits = comm.serialized_wait(c.per_hop, data.group(layout, False).part) if layout.zero in (1, 2) else 0.0
    return tail, {
        "exposed_dp": comm.exposed(t, c.overlap) + longer + waits,
        "exchange": t + waits,
        "optimizer": _optimizer(ctx, layout, params),
        "bubble": pipeline.bubble(layout, fullest.mean, fullest.weight_gradients),
    }


def _gradient_collectives(ctx: EstimateContext, layout: Layout, params: memory.DeviceParameters) -> list[Any]:
    """Data parallel collectives of a step, a layer at a time; ZeRO-3 did all but the exchange between shard groups."""
    buckets = pipeline.layers_on_fullest_stage(layout, float(ctx.ledger.n_layers))
    c = ctx.chip.constants(REGIME, "dp_collective", layout.software)
    between = c.exchange_bytes if num.present(c.exchange_bytes) else ctx.gradient_bytes
    moves: list[Any] = []
    copies = pipeline.copies(layout)
    parts = ((params.inner + params.outer) * copies, False), (params.experts * copies, True)
    for held, experts in parts:
        if experts and not params.has_experts:
            continue
        if layout.zero >= 3:
            moves += data.shard_group_all_reduce(layout, held, between, buckets, experts)
        else:
            moves += data.collectives(layout, held, ctx.formats.weight, ctx.gradient_bytes, buckets, experts)
    return moves


def _optimizer(ctx: EstimateContext, layout: Layout, params: memory.DeviceParameters) -> Number:
    """Seconds of the optimizer on the device; or on the host, at its memory's rate, with gradients sent there and weights back."""
    owned = memory.partitioned(params, layout, "optimizer")
    passes = ctx.chip.constants(REGIME, "framework", layout.software).optimizer_bytes
    per_param = training.optimizer_bytes_per_parameter(
        ctx.optimizer_bytes, ctx.gradient_bytes, ctx.formats.weight, passes
    )
    traffic = training.optimizer_traffic(owned, per_param)
    if not layout.optimizer_on_host:
        update = Op(name="optimizer", kind="optimizer", dtype=ctx.formats.compute, flops=0.0, bytes=traffic)
        return price(update, ctx.chip, REGIME).expected + _orthogonalising(ctx, layout)
    host = ctx.chip.constants(REGIME, "host_optimizer")
    link = training.offload_transfer(owned, ctx.gradient_bytes, ctx.formats.weight, ctx.chip.host_link)
    update = roofline.effective_memory_time(traffic, ctx.chip.host_memory, host.memory)
    return host.overhead + label(update, "t_update[host]") + link


def _orthogonalising(ctx: EstimateContext, layout: Layout) -> Number:
    """Seconds in which a device orthogonalizes or preconditions its share of all matrices; none for optimizers that multiply nothing."""
    how = ctx.optimizer
    if how is None or not (how.steps or how.factors):
        return 0.0
    sharers = layout.tp * layout.pp * data.shards(layout)["optimizer"]
    if how.factors:
        flops = memory.preconditioning_flops(ctx.ledger, how, ctx.lift) / sharers
    else:
        flops = memory.orthogonalization_flops(ctx.ledger, how.steps, ctx.lift) / sharers
    width = float(ctx.spec.d_model)
    matmul = Op(
        name="orthogonalise",
        kind="matmul",
        dtype=ctx.formats.outer_compute,
        flops=flops,
        bytes=0.0,
        k=width,
        n=width,
        ramp=1 / width,
    )
    return label(price(matmul, ctx.chip, REGIME).expected, "t[orthogonalise]")


def _seconds(
    ctx: EstimateContext,
    layout: Layout,
    fullest: PipelineStage,
    parts: dict[str, Number],
    count: Number,
    resources: Resources,
) -> tuple[Number, Number]:
    """Seconds of the step, and its floor: what the slowest resource takes, whatever runs beside it."""
    floor = roofline.floor_time(roofline.floor_time(resources.compute, resources.memory), resources.communication)
    nodes = schedule.node_count(layout.devices, ctx.chip.devices_per_host)
    c, domain = ctx.chip.constants(REGIME, "straggler"), ctx.chip.levels[0].size if ctx.chip.levels else 1.0
    domains = schedule.node_count(layout.devices, domain)
    straggle = training.straggler_factor(c.per_doubling, nodes, c.per_domain, domains)
    spent = (count, fullest.seconds, parts["bubble"], parts["exposed_dp"], parts["optimizer"], straggle)
    seconds, unbound = training.training_step(*spent, floor), training.training_step(*spent, 0.0)
    parts["stragglers"] = unbound - unbound / straggle
    # Hidden communication may still need longer than all else: only the wires' floor can exceed what was spent.
    parts["wires"] = seconds - unbound
    return seconds, floor


def _overlap(
    fullest: PipelineStage, tail: StepAccumulator, parts: dict[str, Number], count: Number
) -> tuple[dict[str, Number], dict[str, Number]]:
    """Seconds of a step's communication by axis: what shows, and what hides. What hiding costs falls on the axes by their part."""
    costs, late = (
        fullest.costs,
        num.maximum(fullest.seconds - fullest.work, 0.0),
    )  # no less than nothing, to the last digit
    exposed = {axis: t * count for axis, t in costs.by_axis.items()}
    hidden = {axis: t * count for axis, t in costs.hidden.items()}
    for axis, t in costs.hidden.items() if num.present(fullest.hidden) else ():
        shown = comm.share_of(late * count, t, num.maximum(fullest.hidden, TINY))
        exposed[axis], hidden[axis] = exposed.get(axis, 0.0) + shown, hidden[axis] - shown
    after = parts["exposed_dp"]
    exposed["dp"] = exposed.get("dp", 0.0) + after
    hidden["dp"] = hidden.get("dp", 0.0) + parts["exchange"] - after
    return exposed, hidden


def _error(
    ctx: EstimateContext,
    layout: Layout,
    seconds: Number,
    exposed: dict[str, Number],
    hidden: dict[str, Number],
    held: Residency,
) -> tuple[Number, Number]:
    """80% relative error of a step, and the part of it that its communication has: other layouts on the chip share the rest."""
    c = ctx.chip.constants(REGIME, "residual", layout.software)
    experts = c.error_experts if any(group.moe for group in ctx.ledger.layers) else 0.0
    beside = training.communication_error(c.error_hidden, sum(hidden.values()), seconds)
    shown = training.communication_error(c.error_exposed, sum(exposed.values()), seconds)
    share = sum(hidden.values()) / seconds
    new = ctx.memoized(
        layout, extrapolation.CLAIMS, lambda: extrapolation.extrapolation_terms(ctx, layout, share, held)
    )
    own = training.step_error(0.0, 0.0, beside, shown)
    return training.step_error(c.error, experts, beside, shown, extrapolation.error(ctx, new)), own


def _breakdown(fullest: PipelineStage, parts: dict[str, Number], count: Number) -> dict[str, Number]:
    """Seconds of the step by what they are spent on; they add up to it."""
    result = {name: t * count for name, t in fullest.costs.groups.items()}
    late = (fullest.seconds - fullest.work) * count
    result["communication"] = result.get("communication", 0.0) + late + parts["exposed_dp"] + parts["wires"]
    result["optimizer"] = result.get("optimizer", 0.0) + parts["optimizer"]
    return {**result, "bubble": parts["bubble"], "stragglers": parts["stragglers"]}


def _recomputed(ctx: EstimateContext, layout: Layout) -> Number:
    """FLOPs of recomputation over the whole step and all devices."""
    if layout.recompute == "none":
        return 0.0
    early_stop = ctx.chip.constants(REGIME, "framework", layout.software).early_stop
    size = ctx.seq, ctx.train_batch, early_stop
    full, again = ctx.request.attention_flops == "full", (layout.recompute, layout.recompute_modules, layout.flash)
    apart = ctx.documents is not None
    if ctx.lift.traced or apart or ctx.ledger.towers or not all(number.__class__ is float for number in size):
        total = _repeated(ctx.ledger, ctx.formats, full, again, *size, ctx.lift, ctx.documents)
    else:
        total = _plainly_repeated(ctx.ledger, ctx.formats, full, again, *size)
    return total * recompute.share(layout.recompute_layers, float(ctx.ledger.n_layers))


def _repeated(
    ledger: Ledger,
    formats: Formats,
    full: bool,
    again: Any,
    seq: Number,
    batch: Number,
    early_stop: Number,
    lift: PlainLift,
    documents: Number | None = None,
) -> Number:
    """FLOPs of what every layer computes again, whatever the layout; `again` says of a plan what that is."""
    matmuls, total = ForwardPass(formats, full_attention=full, documents=documents), 0.0
    how, modules, flash = again
    layout = Layout(recompute=how, recompute_modules=modules, flash=flash)
    for stack in (Encoder(ledger, seq), *ledger.reading):
        length, inputs = stack.length, stack.inputs(batch)
        work = pass_axis_sizes(inputs, length, length, length, WHOLE)
        for group in stack.ledger.layers:
            sizes = layer_sizes(group, work, WHOLE, stack.ledger.document, lift)
            early = recompute.uses_early_stop(early_stop, stack.ledger.spec.layers[group.index].norms)
            rows = [row for row in group.rows if row.contraction is not None or row.mixer is not None]
            for op in recompute.recomputed_ops(layout, matmuls.ops(rows, sizes), early):
                total = total + op.flops * op.count * float(group.repeat)
    return total


@lru_cache(maxsize=256)
def _plainly_repeated(
    ledger: Ledger, formats: Formats, full: bool, again: Any, seq: float, batch: float, early: float
) -> Any:
    """The same of plain numbers, which every candidate asks for again."""
    return _repeated(ledger, formats, full, again, seq, batch, early, PLAIN)
