"""A training step: microbatches through the stages, forward and backward, then gradients and the optimizer."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from rooflinecli import memory
from rooflinecli.core import num
from rooflinecli.core.derivation import label
from rooflinecli.core.lift import PLAIN, Plain
from rooflinecli.core.num import Number
from rooflinecli.engine import extrapolation, residency
from rooflinecli.engine.context import Scene
from rooflinecli.engine.microbatch import REGIME
from rooflinecli.engine.phase_answer import Residency, Resources, TrainAnswer, rate_interval
from rooflinecli.engine.pipeline_stage import Stage, stage
from rooflinecli.formulas import collectives as comm
from rooflinecli.formulas import roofline, schedule, training
from rooflinecli.ledger.ledger import Ledger, Tower
from rooflinecli.ledger.ops import Op
from rooflinecli.parallel import data, pipeline
from rooflinecli.phases import recompute
from rooflinecli.phases.axis_sizes import layer_sizes, work_sizes
from rooflinecli.phases.fine_tuning import RECIPE
from rooflinecli.phases.flops import predicting_flops
from rooflinecli.phases.forward import Pass
from rooflinecli.price.accumulator import Bill
from rooflinecli.price.kernels import price
from rooflinecli.quantization.formats import Formats
from rooflinecli.specs.layout import WHOLE, Plan

TINY = 1e-30  # s, keeps a share of nothing finite in a sweep


def train(scene: Scene, plan: Plan) -> TrainAnswer:
    """One optimizer step of the global batch."""
    count = schedule.microbatch_count(scene.train_batch, plan.dp, plan.micro_batch)
    params = scene.trained_parameters(plan)
    trained = memory.trained(scene.book, plan, params, scene.lift)
    recipe = RECIPE[plan.recipe]
    fullest = stage(scene, plan, params, trained)
    tail, parts = _tail(scene, plan, trained, fullest)
    bill = fullest.bill
    resources = Resources(
        compute=bill.t_compute * count,
        memory=bill.t_memory * count,
        communication=bill.t_communication * count + tail.t_communication,
    )
    seconds, floor = _seconds(scene, plan, fullest, parts, count, resources)
    exposed, hidden = _overlap(fullest, tail, parts, count)
    memory_held = residency.resident(scene, plan, "train")
    error, own = _error(scene, plan, seconds, exposed, hidden, memory_held)
    tokens = scene.train_batch * scene.seq
    model = recipe.passes * _forward_flops(scene, plan)
    peak = scene.chip.peak(scene.formats.compute)
    executed = model + _recomputed(scene, plan)
    return TrainAnswer(
        time_s=label(seconds, "t_step"),
        floor_s=floor,
        interval_s=(roofline.interval_low(seconds, error, floor), roofline.interval_high(seconds, error)),
        tokens_per_s=tokens / seconds,
        tokens_per_s_interval=rate_interval(tokens / seconds, error, seconds, floor),
        flops=model,
        hardware_flops=executed,
        mfu=training.model_flops_utilisation(model, seconds, plan.devices, peak),
        hfu=training.hardware_flops_utilisation(executed, seconds, plan.devices, peak),
        microbatches=count,
        bubble_fraction=parts["bubble"] / seconds,
        resources_s=resources,
        breakdown_s=_breakdown(fullest, parts, count),
        communication_s=exposed,
        hidden_s=hidden,
        communication_bytes={
            axis: bill.volumes.get(axis, 0.0) * count + tail.volumes.get(axis, 0.0)
            for axis in {**bill.volumes, **tail.volumes}
        },
        memory=memory_held,
        own_error=own,
    )


def _forward_flops(scene: Scene, plan: Plan) -> Number:
    """Model FLOPs of the batch's forward pass, further tokens included where they are predicted."""
    seq, packed = scene.seq, scene.documents
    own = scene.model_flops(scene.train_batch, seq, seq, seq, decode=False, documents=packed)
    depth = scene.predicts(plan)
    if not depth:
        return own
    forward = Pass(scene.formats, full_attention=scene.request.attention_flops == "full", documents=packed)
    return own + predicting_flops(scene.book, forward, scene.lift, scene.train_batch, scene.seq, depth)


def _tail(scene: Scene, plan: Plan, params: memory.DeviceParameters, fullest: Stage) -> tuple[Bill, dict[str, Number]]:
    """What happens once per step: gradients and weights among replicas, the optimizer, the pipeline's ends."""
    tail = Bill(scene.chip, REGIME, plan.devices)
    t = sum(tail.collective(c) for c in _gradient_collectives(scene, plan, params))
    c = scene.chip.constants(REGIME, "dp_collective", plan.software)
    beside = comm.hidden(t, c.overlap)
    longer = num.maximum(fullest.beside(beside) - fullest.seconds, 0.0)  # never less than nothing, to the last digit
    waits = comm.in_turns(c.per_hop, data.group(plan, False).part) if plan.zero in (1, 2) else 0.0
    return tail, {
        "exposed_dp": comm.exposed(t, c.overlap) + longer + waits,
        "exchange": t + waits,
        "optimizer": _optimizer(scene, plan, params),
        "bubble": pipeline.bubble(plan, fullest.mean, fullest.weight_gradients),
    }


def _gradient_collectives(scene: Scene, plan: Plan, params: memory.DeviceParameters) -> list[Any]:
    """Data parallel collectives of a step, a layer at a time; ZeRO-3 did all but the exchange between shard groups."""
    buckets = pipeline.fullest(plan, float(scene.book.n_layers))
    c = scene.chip.constants(REGIME, "dp_collective", plan.software)
    between = c.exchange_bytes if num.present(c.exchange_bytes) else scene.gradient_bytes
    moves: list[Any] = []
    copies = pipeline.copies(plan)
    parts = ((params.inner + params.outer) * copies, False), (params.experts * copies, True)
    for held, experts in parts:
        if experts and not params.has_experts:
            continue
        if plan.zero >= 3:
            moves += data.between(plan, held, between, buckets, experts)
        else:
            moves += data.collectives(plan, held, scene.formats.weight, scene.gradient_bytes, buckets, experts)
    return moves


def _optimizer(scene: Scene, plan: Plan, params: memory.DeviceParameters) -> Number:
    """Seconds of the optimizer on the device; or on the host, at its memory's rate, with gradients sent there and weights back."""
    owned = memory.partitioned(params, plan, "optimizer")
    passes = scene.chip.constants(REGIME, "framework", plan.software).optimizer_bytes
    per_param = training.optimizer_bytes_per_parameter(
        scene.optimizer_bytes, scene.gradient_bytes, scene.formats.weight, passes
    )
    traffic = training.optimizer_traffic(owned, per_param)
    if not plan.optimizer_on_host:
        update = Op(name="optimizer", kind="optimizer", dtype=scene.formats.compute, flops=0.0, bytes=traffic)
        return price(update, scene.chip, REGIME).expected + _orthogonalising(scene, plan)
    host = scene.chip.constants(REGIME, "host_optimizer")
    link = training.offload_transfer(owned, scene.gradient_bytes, scene.formats.weight, scene.chip.host_link)
    update = roofline.effective_memory_time(traffic, scene.chip.host_memory, host.memory)
    return host.overhead + label(update, "t_update[host]") + link


def _orthogonalising(scene: Scene, plan: Plan) -> Number:
    """Seconds in which a device orthogonalises or preconditions its share of all matrices; none for optimizers that multiply nothing."""
    how = scene.optimizer
    if how is None or not (how.steps or how.factors):
        return 0.0
    sharers = plan.tp * plan.pp * data.shards(plan)["optimizer"]
    if how.factors:
        flops = memory.preconditioning_flops(scene.book, how, scene.lift) / sharers
    else:
        flops = memory.orthogonalised_flops(scene.book, how.steps, scene.lift) / sharers
    width = float(scene.spec.d_model)
    matmul = Op(
        name="orthogonalise",
        kind="matmul",
        dtype=scene.formats.outer_compute,
        flops=flops,
        bytes=0.0,
        k=width,
        n=width,
        ramp=1 / width,
    )
    return label(price(matmul, scene.chip, REGIME).expected, "t[orthogonalise]")


def _seconds(
    scene: Scene, plan: Plan, fullest: Stage, parts: dict[str, Number], count: Number, resources: Resources
) -> tuple[Number, Number]:
    """Seconds of the step, and its floor: what the slowest resource takes, whatever runs beside it."""
    floor = roofline.floor_time(roofline.floor_time(resources.compute, resources.memory), resources.communication)
    nodes = schedule.node_count(plan.devices, scene.chip.devices_per_host)
    c, domain = scene.chip.constants(REGIME, "straggler"), scene.chip.levels[0].size if scene.chip.levels else 1.0
    domains = schedule.node_count(plan.devices, domain)
    straggle = training.straggler_factor(c.per_doubling, nodes, c.per_domain, domains)
    spent = (count, fullest.seconds, parts["bubble"], parts["exposed_dp"], parts["optimizer"], straggle)
    seconds, unbound = training.training_step(*spent, floor), training.training_step(*spent, 0.0)
    parts["stragglers"] = unbound - unbound / straggle
    # Hidden communication may still need longer than all else: only the wires' floor can exceed what was spent.
    parts["wires"] = seconds - unbound
    return seconds, floor


def _overlap(
    fullest: Stage, tail: Bill, parts: dict[str, Number], count: Number
) -> tuple[dict[str, Number], dict[str, Number]]:
    """Seconds of a step's communication by axis: what shows, and what hides. What hiding costs falls on the axes by their part."""
    bill, late = (
        fullest.bill,
        num.maximum(fullest.seconds - fullest.work, 0.0),
    )  # no less than nothing, to the last digit
    exposed = {axis: t * count for axis, t in bill.by_axis.items()}
    hidden = {axis: t * count for axis, t in bill.hidden.items()}
    for axis, t in bill.hidden.items() if num.present(fullest.hidden) else ():
        shown = comm.share_of(late * count, t, num.maximum(fullest.hidden, TINY))
        exposed[axis], hidden[axis] = exposed.get(axis, 0.0) + shown, hidden[axis] - shown
    after = parts["exposed_dp"]
    exposed["dp"] = exposed.get("dp", 0.0) + after
    hidden["dp"] = hidden.get("dp", 0.0) + parts["exchange"] - after
    return exposed, hidden


def _error(
    scene: Scene,
    plan: Plan,
    seconds: Number,
    exposed: dict[str, Number],
    hidden: dict[str, Number],
    held: Residency,
) -> tuple[Number, Number]:
    """80 % relative error of a step, and the part of it that its communication has: other layouts on the chip share the rest."""
    c = scene.chip.constants(REGIME, "residual", plan.software)
    experts = c.error_experts if any(group.moe for group in scene.book.layers) else 0.0
    beside = training.communication_error(c.error_hidden, sum(hidden.values()), seconds)
    shown = training.communication_error(c.error_exposed, sum(exposed.values()), seconds)
    share = sum(hidden.values()) / seconds
    new = scene.once(plan, extrapolation.CLAIMS, lambda: extrapolation.claims(scene, plan, share, held))
    own = training.step_error(0.0, 0.0, beside, shown)
    return training.step_error(c.error, experts, beside, shown, extrapolation.error(scene, new)), own


def _breakdown(fullest: Stage, parts: dict[str, Number], count: Number) -> dict[str, Number]:
    """Seconds of the step by what they are spent on; they add up to it."""
    result = {name: t * count for name, t in fullest.bill.groups.items()}
    late = (fullest.seconds - fullest.work) * count
    result["communication"] = result.get("communication", 0.0) + late + parts["exposed_dp"] + parts["wires"]
    result["optimizer"] = result.get("optimizer", 0.0) + parts["optimizer"]
    return {**result, "bubble": parts["bubble"], "stragglers": parts["stragglers"]}


def _recomputed(scene: Scene, plan: Plan) -> Number:
    """FLOPs of recomputation over the whole step and all devices."""
    if plan.recompute == "none":
        return 0.0
    early_stop = scene.chip.constants(REGIME, "framework", plan.software).early_stop
    size = scene.seq, scene.train_batch, early_stop
    full, again = scene.request.attention_flops == "full", (plan.recompute, plan.recompute_modules, plan.flash)
    apart = scene.documents is not None
    if scene.lift.traced or apart or scene.book.towers or not all(number.__class__ is float for number in size):
        total = _repeated(scene.book, scene.formats, full, again, *size, scene.lift, scene.documents)
    else:
        total = _plainly_repeated(scene.book, scene.formats, full, again, *size)
    return total * recompute.share(plan.recompute_layers, float(scene.book.n_layers))


def _repeated(
    book: Ledger,
    formats: Formats,
    full: bool,
    again: Any,
    seq: Number,
    batch: Number,
    early_stop: Number,
    lift: Plain,
    documents: Number | None = None,
) -> Number:
    """FLOPs of what every layer computes again, whatever the layout; `again` says of a plan what that is."""
    matmuls, total = Pass(formats, full_attention=full, documents=documents), 0.0
    how, modules, flash = again
    plan = Plan(recompute=how, recompute_modules=modules, flash=flash)
    for stack in (Tower(book, seq), *book.reading):
        length, inputs = stack.length, stack.inputs(batch)
        work = work_sizes(inputs, length, length, length, WHOLE)
        for group in stack.book.layers:
            sizes = layer_sizes(group, work, WHOLE, stack.book.document, lift)
            early = recompute.stops_early(early_stop, stack.book.spec.layers[group.index].norms)
            rows = [row for row in group.rows if row.contraction is not None or row.mixer is not None]
            for op in recompute.again(plan, matmuls.ops(rows, sizes), early):
                total = total + op.flops * op.count * float(group.repeat)
    return total


@lru_cache(maxsize=256)
def _plainly_repeated(
    book: Ledger, formats: Formats, full: bool, again: Any, seq: float, batch: float, early: float
) -> Any:
    """The same of plain numbers, which every candidate asks for again."""
    return _repeated(book, formats, full, again, seq, batch, early, PLAIN)
