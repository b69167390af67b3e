"""A micro-batch on the slowest pipeline stage: its layers, embedding or loss, and the communication that hides behind them.

Kernels, waits and exposed communication are the work of a micro-batch. Hidden communication runs at the same time on the same device
and links, so the expected times of all axes add up, and the sum meets the work in a p-norm.
"""

from __future__ import annotations

import math

from rooflinecli import memory
from rooflinecli.core import num
from rooflinecli.core.derivation import label
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.num import Number
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.microbatch import Microbatch
from rooflinecli.formulas import collectives as comm
from rooflinecli.formulas import schedule, training
from rooflinecli.parallel import pipeline
from rooflinecli.price.accumulator import StepAccumulator
from rooflinecli.specs.layout import Layout

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
    mean = _layers_and_ends(m)
    m.transfer()
    for tower in ctx.ledger.reading:  # encoders are split over the stages as the layers are
        t = Microbatch(ctx, layout, tower, m.costs)
        share = pipeline.share(layout, float(t.ledger.n_layers))
        inside, ends = t.layers(share), t.ends(True, True)
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


def _parts(m: Microbatch) -> list[StagePart]:
    """Layers, embedding and loss of a micro-batch: accumulator, seconds, and those of weight gradients. Layouts that differ in stages,
    replicas or ZeRO share them, so that a choice among layouts prices each once."""
    layout, ctx = m.layout, m.ctx

    def priced() -> list[StagePart]:
        inner, stem, head = m.part(), m.part(), m.part()
        seconds = inner.layers(1.0), stem.ends(True, False), head.ends(False, True)
        return [(one.costs, t, one.weight_gradients) for one, t in zip((inner, stem, head), seconds, strict=True)]

    within = None if ctx.lift.traced or ctx.ledger.towers else layout.within_stage
    if within is None:
        return priced()
    stride = layout.stride
    key = (within, m.stack, layout.devices, layout.apart, stride["tp"], stride["cp"], stride["ep"])
    if key not in ctx.stage_parts:
        ctx.stage_parts[key] = priced()
    return ctx.stage_parts[key]


def _layers_and_ends(m: Microbatch) -> Number:
    """Charge the slowest stage's share of the layers, and its end; return the mean time over all stages."""
    layout, layers = m.layout, float(m.ledger.n_layers)
    parts = _parts(m)
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
    for (costs, _, gradients), charged, least in zip(
        parts, times, pipeline.min_stage_shares(layout, layers), strict=True
    ):
        m.costs.merge(costs, charged, least)
        m.weight_gradients = m.weight_gradients + gradients * charged
    return mean
