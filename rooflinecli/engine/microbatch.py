"""A micro-batch of a training step: kernels forward and backward, communication exposed or hidden, and its slowest pipeline stage."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

from rooflinecli import memory
from rooflinecli.core import num
from rooflinecli.core.derivation import label
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.identity_cache import cached_by_identity
from rooflinecli.core.num import Number
from rooflinecli.engine.context import UNNAMED, EstimateContext
from rooflinecli.formulas import collectives as comm
from rooflinecli.formulas import roofline, schedule, training
from rooflinecli.ledger.ledger import Encoder, Layer, Row, Sizes, product
from rooflinecli.ledger.ops import Collective, Op
from rooflinecli.parallel import context, data, expert, pipeline, tensor
from rooflinecli.phases import backward, fine_tuning, recompute
from rooflinecli.phases.axis_sizes import layer_sizes, pass_axis_sizes, stem_head_axis_sizes
from rooflinecli.phases.forward import ForwardPass
from rooflinecli.price.accumulator import StepAccumulator
from rooflinecli.quantization.formats import Formats
from rooflinecli.specs.layout import Layout

REGIME = "training"
MAMBA = ("mamba", "mamba2")


class Microbatch:
    """Charges a micro-batch of the model, or of one of its encoders, to `costs`: a share of all layers, then stem and head."""

    def __init__(
        self, ctx: EstimateContext, layout: Layout, tower: Encoder | None = None, costs: StepAccumulator | None = None
    ):
        self.ctx, self.layout, self.stack = ctx, layout, ctx.training_stack(layout)
        self.ledger, seq = (ctx.ledger, ctx.seq) if tower is None else (tower.ledger, tower.length)
        sequences = layout.micro_batch if tower is None else tower.inputs(layout.micro_batch)
        self.costs = costs or ctx.accumulator(REGIME, layout.devices)
        self.forward = ForwardPass(
            framework_formats(ctx.formats, self.stack), flash=layout.flash, dropout=layout.dropout,
            uneven=context.imbalance(layout, seq), imbalance=None if layout.expert_load is Layout.imbalance else layout.expert_load,
            software="" if self.stack == UNNAMED else self.stack, documents=ctx.packed_length,
        )  # fmt: skip
        self.queries = seq if num.one(layout.cp) else seq / layout.cp
        self.work = pass_axis_sizes(sequences, self.queries, seq, self.queries, layout)
        self.tokens = sequences * self.queries
        self.framework = self.constants("framework")
        self.recipe = fine_tuning.RECIPE[layout.recipe]
        self.weight_gradients: Number = 0.0
        self.recomputed = recompute.share(layout.recompute_layers, float(ctx.ledger.n_layers))

    def empty_copy(self) -> Microbatch:
        """The same micro-batch with an empty accumulator."""
        other = object.__new__(Microbatch)  # a tenth of copy.copy's time
        costs = self.ctx.accumulator(REGIME, self.layout.devices)
        other.__dict__.update(self.__dict__, costs=costs, weight_gradients=0.0)
        return other

    def constants(self, kind: str) -> SimpleNamespace:
        """Training constants of a kind, of the layout's framework."""
        return self.ctx.chip.constants(REGIME, kind, self.stack)

    def layers(self, share: Number) -> Number:
        """Charge `share` of every layer group; return its seconds."""
        before, known = self.costs.total, dict[tuple[Row, ...], list[Op]]()
        for group in self.ledger.layers:
            sizes = layer_sizes(group, self.work, self.layout, self.ledger.document, self.ctx.lift)
            times = float(group.repeat) * share
            early_stop = recompute.uses_early_stop(
                self.framework.early_stop, self.ledger.spec.layers[group.index].norms
            )
            mixing = known.get(group.mixing)
            if mixing is None:
                mixing = known[group.mixing] = self.forward.ops(group.mixing, sizes)
            self._compute([*mixing, *self.forward.ops(group.rows_after_mixer, sizes)], times, early_stop)
            if self.recipe.frozen:
                self._adapters(group, sizes, times)
            self.costs.add(self._biases(group, sizes), times)
            self._communication(group, sizes, times)
        return self.costs.total - before

    def _compute(self, ops: list[Op], times: Number, early_stop: bool) -> None:
        """Charge forward, recomputation, and both halves of the backward pass."""
        layout, costs, recipe = self.layout, self.costs, self.recipe
        inputs = backward.input_gradients(ops, self.ctx.formats.activation)
        ops = self._eager(ops)
        costs.add([*ops, *self._eager(inputs)], times)
        costs.add(recompute.recomputed_ops(layout, ops, early_stop), times * self.recomputed)
        if recipe.reference:
            costs.add(ops, times)
        if recipe.frozen:
            return
        before = costs.total
        costs.add(backward.weight_gradients(ops, self.ctx.gradient_bytes, self.forward.imbalance), times)
        self.weight_gradients = self.weight_gradients + (costs.total - before)

    def _adapters(self, group: Layer, sizes: Sizes, times: Number) -> None:
        """Charge adapters of frozen weights, and dequantization where the weights are stored in four bits."""
        f, full = self.ctx.formats, self.layout.recompute == "full"
        ops = fine_tuning.adapter_ops(group.rows, sizes, self.layout.lora_rank, f, self.layout.lora_targets)
        self.costs.add([*ops, *backward.input_gradients(ops), *backward.weight_gradients(ops, 0.0)], times)
        again = times * self.recomputed if full else 0.0
        self.costs.add(ops if full else [], again)
        if self.recipe.quantized:
            self.costs.add(fine_tuning.dequantization_ops(group.rows, sizes, f), times * 2 + again)

    def _biases(self, group: Layer, sizes: Sizes) -> list[Op]:
        """Bias additions and bias gradients as kernels; experts with a clamped gate pass over their outputs more often."""
        spec, passes = self.ledger.spec.layers[group.index].feedforward, self.framework.bias_passes
        clamped = self.constants("experts").bias_passes if group.moe and "clamped" in spec.activation else passes
        if not (num.present(passes) or num.present(clamped)):
            return []
        moved: Number = 0.0
        for row in group.rows:
            c = row.contraction
            if c and (*c.g, *c.n) in row.params:
                moved = moved + product(c.y, sizes) * (clamped if row.kind == "grouped_matmul" else passes)
        return [self._elementwise("bias", moved * self.ctx.formats.activation)]

    def _elementwise(self, name: str, moved: Number) -> Op:
        return Op(name=name, kind="elementwise", dtype=self.ctx.formats.compute, flops=0.0, bytes=moved)

    def _eager(self, ops: list[Op]) -> list[Op]:
        """Elementwise kernels move more bytes without a compiler."""
        traffic = self.framework.traffic
        if num.one(traffic):
            return ops
        return [op._replace(bytes=op.bytes * traffic) if op.kind == "elementwise" else op for op in ops]

    def _communication(self, group: Layer, sizes: Sizes, times: Number) -> None:
        """Charge tensor, expert and context parallel collectives of one layer group."""
        layout, size, full = self.layout, self.ctx.formats.activation, self.layout.recompute == "full"
        reductions = tensor.tp_reductions_per_layer(self.ledger.spec.layers[group.index], layout)
        gathered = self._gathered_bytes(group, reductions)
        for recomputation in (False, True) if full else (False,):
            repeats = times * self.recomputed if recomputation else times
            for c in tensor.collectives(
                layout, self.tokens, sizes["D"], size, repeats, reductions, True, recomputation, gathered
            ):
                self.communicate(c, 0.0 if recomputation else self._tensor_overlap(c))
        if group.moe:
            width = expert.token_width(sizes)
            for c in expert.collectives(layout, self.tokens, sizes["top_k"], width, size, times, True):
                self.communicate(c, self._expert_overlap(c), self._shared_experts(group, sizes, times))
            hybrid = self.ctx.chip.constants(REGIME, "experts", "hybrid") if self._is_hybrid() else None
            step = hybrid or self.constants("step")
            self.costs.add_time("overhead", step.per_moe_layer * times, "step", step.error)
        if group.mixer is not None:
            for c in context.collectives(layout, self.tokens, group.mixer.exchange(sizes), size, times, True):
                self.communicate(c, self.constants("cp_collective").overlap)

    def _gathered_bytes(self, group: Layer, branches: Number) -> Number:
        """Bytes per value that tensor parallelism gathers: the format of the matmul that reads it, or of its gradient, where the stack
        quantizes before it gathers; tokens of experts are dispatched in 16 bits."""
        f = self.ctx.formats
        if not num.present(self.constants("tp_collective").narrow_gather):
            return f.activation
        wide = 1.0 if group.moe else 0.0
        return (wide * f.activation + (branches - wide) * f.matmul_input) / branches

    def _expert_overlap(self, c: Collective) -> Number:
        """Fraction of the expert all-to-all that hides behind other microbatches: as asked (--ep-overlap), else as the stack does,
        except in hybrid models, whose schedule plan Megatron Core lacks (NVIDIA-NeMo/Megatron-Bridge pull request 4978)."""
        constants = self.constants("ep_collective")
        if self.layout.ep_overlap:
            return num.maximum(constants.overlap, constants.beyond)
        exposed = self._is_hybrid() or self.layout.ep_overlap is False
        return 0.0 if exposed else self._overlap(constants, c)

    def _tensor_overlap(self, c: Collective) -> Number:
        """Fraction of tensor-parallel collectives that hides: as asked (--tp-overlap), else as the stack does, except in hybrid
        mixtures, whose recipes leave tp_comm_overlap off (Nemotron 3 Super and Ultra, Megatron-Bridge v0.4 to v0.6)."""
        asked = self.layout.tp_overlap
        if asked is False or (asked is None and self.ctx.is_moe and self._is_hybrid()):
            return 0.0
        return self._overlap(self.ctx.chip.constants(REGIME, "tp_collective", "" if asked else self.stack), c)

    def _is_hybrid(self) -> bool:
        return any(layer.attention and layer.attention.kind in MAMBA for layer in self.ledger.spec.layers)

    def _shared_experts(self, group: Layer, sizes: Sizes, times: Number) -> Number:
        """Seconds of the shared experts of a layer group, forward and backward, where they overlap the MoE all-to-all."""
        if not self.layout.shared_overlap:
            return 0.0
        ops = self.forward.ops([row for row in group.rows if row.name.startswith("moe.shared")], sizes)
        ops = self._eager(ops)
        costs = self.empty_copy().costs
        costs.add([*ops, *self._eager(backward.input_gradients(ops, self.ctx.formats.activation))], times)
        costs.add(backward.weight_gradients(ops, self.ctx.gradient_bytes), times)
        return costs.total

    def _overlap(self, constants: SimpleNamespace, c: Collective) -> Number:
        """Fraction of a collective that hides: kernels that overlap it work inside the innermost network, or only beyond."""
        levels = self.ctx.chip.levels
        if not levels:
            return constants.overlap
        return num.where(c.n * c.stride <= levels[0].size, constants.overlap, constants.beyond)

    def communicate(self, c: Collective, overlap: Number, overlapping_s: Number = 0.0) -> None:
        """Charge the exposed part of a collective and note the hidden one; `overlapping_s` of work overlap the exposed part."""
        seconds = self.costs.collective(c)
        exposed, hidden = comm.exposed(seconds, overlap), comm.hidden(seconds, overlap)
        if num.present(overlapping_s):
            exposed, hidden = comm.exposed_behind(exposed, overlapping_s), hidden + comm.covered(exposed, overlapping_s)
        self.costs.add_exposed_comm(c.axis, label(exposed, f"t_exposed[{c.axis}]"))
        self.costs.add_hidden_comm(c.axis, label(hidden, f"t_hidden[{c.axis}]"))

    def transfer(self) -> None:
        """Charge activations and their gradients between stages."""
        width, size = float(self.ctx.spec.stream_width), self.ctx.formats.activation
        for c in pipeline.collectives(self.layout, self.tokens, width, size, True):
            self.communicate(c, self.constants("pp_collective").overlap)

    def embedding_and_head(self, stem: bool, head: bool) -> Number:
        """Charge embedding and head; return their seconds."""
        before, ledger = self.costs.total, self.ledger
        sizes = stem_head_axis_sizes(ledger, self.work, self.layout, ledger.document, self.ctx.lift)
        ops = self.forward.ops((*(ledger.stem if stem else ()), *(ledger.head if head else ())), sizes, outer=True)
        inputs, ops = backward.input_gradients(ops), self._eager(ops)
        self.costs.add([*ops, *self._eager(inputs)], 1.0)
        if not self.recipe.frozen:
            self.costs.add(backward.weight_gradients(ops, self.ctx.gradient_bytes), 1.0)
        if self.recipe.reference:
            self.costs.add(ops, 1.0)
        if head and ledger.spec.lm_head and ledger.spec.vocab_size:
            moved = training.loss_traffic(product(("B", "O", "V"), sizes), self.ctx.formats.activation)
            self.costs.add([self._elementwise("loss", moved)], 1.0)
        return self.costs.total - before

    def accumulate(self, params: memory.DeviceParameters) -> None:
        """Charge the sum of gradients over micro-batches, where the framework adds them in a separate pass."""
        c = self.framework
        traffic = params.total * c.accumulate
        seconds = roofline.effective_memory_time(traffic, self.ctx.chip.bandwidth, self.constants("optimizer").memory)
        self.costs.add_time("optimizer", seconds, "optimizer", c.error)

    def gather_weights(self, params: memory.DeviceParameters, buckets: Number) -> None:
        """Charge ZeRO-3 all-gathers and reduce-scatters of every micro-batch, prefetched during the computation."""
        f, c = self.ctx.formats, self.constants("fsdp_collective")
        sent = c.exchange_bytes if num.present(c.exchange_bytes) else f.activation
        sent = sent if self.ctx.request.gradient_bytes is None else self.ctx.gradient_bytes
        gradients = 0.0 if self.recipe.frozen else sent
        for count, experts in ((params.inner + params.outer, False), (params.experts, True)):
            if experts and not params.has_experts:
                continue
            weight = c.gather_bytes if num.present(c.gather_bytes) else memory.resident_weight_bytes(f)
            moves = data.collectives(self.layout, count, weight, gradients, buckets, experts)
            if num.present(c.host_copy):
                moves = data.backward_with_hpz(self.layout, moves, self.ctx.chip.devices_per_host, experts)
            for move in moves:
                self.communicate(replace(move, rails=c.rails), c.overlap)


@cached_by_identity
def framework_formats(formats: Formats, software: str) -> Formats:
    """Formats whose matmuls use the constants of a training framework where it has its own."""
    if software == UNNAMED or formats.variant:
        return formats
    return replace(formats, variant=f"{formats.compute}@{software}")


# --- a micro-batch on the slowest pipeline stage: its layers, embedding or loss, and the communication that hides behind them -----
#
# Kernels, waits and exposed communication are the work of a micro-batch. Hidden communication runs at the same time on the same
# device and links, so the expected times of all axes add up, and the sum meets the work in a p-norm.

StagePart = tuple[StepAccumulator, Number, Number]


@dataclass
class PipelineStage:
    """Accumulator of a micro-batch on the slowest stage; seconds of its work and of hidden communication, of a micro-batch's work
    averaged over the stages, and of weight gradients; the exponent of the p-norm of work and hidden communication."""

    costs: StepAccumulator
    work: Number
    hidden: Number
    mean: Number
    weight_gradients: Number
    p: float

    @property
    def seconds(self) -> Number:
        """Seconds of a micro-batch."""
        return self.with_hidden(0.0)

    def with_hidden(self, further: Number) -> Number:
        """Seconds of a micro-batch when `further` seconds of communication hide behind it; p = inf is perfect overlap."""
        hidden = self.hidden + further
        if not num.present(hidden):
            return self.work
        if math.isinf(self.p):
            return num.maximum(self.work, hidden)
        return comm.p_norm_overlap_time(self.work, hidden, self.p)


def slowest_stage(
    ctx: EstimateContext, layout: Layout, params: memory.DeviceParameters, trained: memory.DeviceParameters
) -> PipelineStage:
    """Price one micro-batch on the slowest stage of a layout that holds `params` and trains `trained`."""
    m = Microbatch(ctx, layout)
    mean = _charge_slowest_stage(m)
    m.transfer()
    for tower in ctx.ledger.reading:  # encoders are split over the stages as the layers are
        t = Microbatch(ctx, layout, tower, m.costs)
        share = pipeline.share(layout, float(t.ledger.n_layers))
        inside, ends = t.layers(share), t.embedding_and_head(True, True)
        m.weight_gradients = m.weight_gradients + t.weight_gradients
        mean = mean + (inside / share + ends) / layout.pp
    m.accumulate(trained)
    if layout.zero >= 3:
        m.gather_weights(params, pipeline.layers_on_fullest_stage(layout, float(ctx.ledger.n_layers)))
    if layout.activations_on_host:
        sent = memory.offloaded_activations(ctx.ledger, layout, ctx.formats, ctx.seq, ctx.lift)
        m.costs.add_hidden_comm("host", label(training.activation_transfer(sent, ctx.chip.host_link), "t_hidden[host]"))
    hidden: Number = 0.0
    for seconds in m.costs.hidden.values():
        hidden = hidden + seconds
    work, hidden = label(m.costs.total, "t_work"), label(hidden, "t_hidden")
    return PipelineStage(m.costs, work, hidden, mean, m.weight_gradients, m.constants("hidden").p)


def best_stages(ctx: EstimateContext, layout: Layout) -> list[int]:
    """Layers of each stage of the split that a layout of other than equal stages is priced by."""
    seconds = (num.value(t) for _, t, _ in _stage_parts(Microbatch(ctx, layout)))
    return pipeline.best_stages(layout, float(ctx.ledger.n_layers), *seconds)


def _stage_parts(m: Microbatch) -> list[StagePart]:
    """Layers, embedding and loss of a micro-batch: accumulator, seconds, and those of weight gradients. Layouts that differ in stages,
    replicas or ZeRO share them, so that a choice among layouts prices each once."""
    layout, ctx = m.layout, m.ctx

    def priced() -> list[StagePart]:
        inner, stem, head = m.empty_copy(), m.empty_copy(), m.empty_copy()
        seconds = inner.layers(1.0), stem.embedding_and_head(True, False), head.embedding_and_head(False, True)
        return [(one.costs, t, one.weight_gradients) for one, t in zip((inner, stem, head), seconds, strict=True)]

    within = None if ctx.lift.traced or ctx.ledger.towers else layout.within_stage
    if within is None:
        return priced()
    stride = layout.stride
    key = (
        within,
        m.stack,
        layout.devices,
        *(stride[axis] for axis in ("tp", "cp", "ep") if getattr(layout, axis) != 1),
    )
    if key not in ctx.stage_parts:
        ctx.stage_parts[key] = priced()
    return ctx.stage_parts[key]


def _charge_slowest_stage(m: Microbatch) -> Number:
    """Charge the slowest stage's share of the layers, and its end; return the mean time over all stages."""
    layout, layers = m.layout, float(m.ledger.n_layers)
    parts = _stage_parts(m)
    t_inner, t_stem, t_head = (seconds for _, seconds, _ in parts)
    slowest = pipeline.slowest(layout, layers, t_inner, t_stem, t_head)
    share = num.where(layout.pp > 1, (slowest - t_head) / t_inner, 1.0)
    with_stem = num.where(layout.pp > 1, 0.0, 1.0)  # a single stage has both ends
    mean = (t_inner + (t_stem + t_head)) / layout.pp
    times = [share, with_stem, 1.0]
    depth = float(m.ledger.spec.mtp_layers)
    if depth and num.present(m.framework.mtp):  # MTP layers, each with a pass of the head, are spread over the stages
        layer = schedule.stage_time(float(len(m.ledger.mtp_block)), layers, t_inner, t_head)
        factor = schedule.predicting_factor(depth, layer, t_inner + t_stem + t_head)
        mean, times = mean * factor, [charged * factor for charged in times]
    least_shares = pipeline.min_stage_shares(layout, layers, t_inner, t_stem, t_head)
    for (costs, _, gradients), charged, least in zip(parts, times, least_shares, strict=True):
        m.costs.merge(costs, charged, least)
        m.weight_gradients = m.weight_gradients + gradients * charged
    return mean
