"""A microbatch on the slowest pipeline stage: its layers and ends put together, and what hides beside them.

Kernels, waits and exposed communication are the work of a microbatch. Hidden communication runs beside it on the same
device and the same links, so the expected times of all axes add up, and the sum meets the work in a p-norm.
"""

from __future__ import annotations

import math

from rooflinecli import memory
from rooflinecli.core import num
from rooflinecli.core.derivation import label
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.num import Number
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.microbatch import REGIME, Microbatch
from rooflinecli.formulas import collectives as comm
from rooflinecli.formulas import schedule, training
from rooflinecli.ledger.ledger import Encoder
from rooflinecli.parallel import pipeline
from rooflinecli.price.accumulator import StepAccumulator
from rooflinecli.specs.layout import Layout


@dataclass
class PipelineStage:
    """Bill of a microbatch on the slowest stage, with the seconds of its work and of what hides beside it; the mean of a
    microbatch's work over the stages; the weight gradients among the work; the exponent that joins work and hidden."""

    costs: StepAccumulator
    work: Number
    hidden: Number
    mean: Number
    weight_gradients: Number
    p: float

    @property
    def seconds(self) -> Number:
        """Seconds of a microbatch."""
        return self.beside(0.0)

    def beside(self, further: Number) -> Number:
        """Seconds of a microbatch when `further` seconds of communication hide beside it as well."""
        return beside(self.work, self.hidden + further, self.p)


def beside(work: Number, hidden: Number, p: float) -> Number:
    """Seconds of work with communication hidden beside it; p = inf is perfect overlap."""
    if not num.present(hidden):
        return work
    return comm.perfect_overlap_time(work, hidden) if math.isinf(p) else comm.p_norm_overlap_time(work, hidden, p)


def stage(
    ctx: EstimateContext, layout: Layout, params: memory.DeviceParameters, trained: memory.DeviceParameters
) -> PipelineStage:
    """Price one microbatch on the slowest stage of a plan that holds `params` and trains `trained`."""
    m = Microbatch(ctx, layout, costs=ctx.accumulator(REGIME, layout.devices))
    mean = _stack(m)
    m.transfer()
    for tower in ctx.ledger.reading:
        mean = mean + _tower(m, tower)
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


def _stack(m: Microbatch) -> Number:
    """Charge the slowest stage's share of the layers, and its end; the mean time over all stages."""
    layout, layers = m.layout, float(m.ledger.n_layers)
    inner, stem, head = m.part(), m.part(), m.part()
    t_inner, t_stem, t_head = inner.layers(1.0), stem.ends(True, False), head.ends(False, True)
    alone = num.where(layout.pp > 1, 0.0, 1.0)  # on one stage both ends meet
    slowest = pipeline.slowest(layout, layers, t_inner, t_stem, t_head)
    share = num.where(layout.pp > 1, schedule.effective_share(slowest, t_head, t_inner), 1.0)
    mean = schedule.mean_stage_time(t_inner, t_stem + t_head, layout.pp)
    charges = [(inner, share), (stem, alone), (head, 1.0)]
    if m.ledger.spec.mtp_layers and num.present(m.framework.mtp):
        further = _predicting(m, t_inner, t_stem, t_head)
        mean, charges = mean * further, [(part, times * further) for part, times in charges]
    for (part, times), least in zip(charges, pipeline.min_stage_shares(layout, layers), strict=True):
        m.costs.merge(part.costs, times, least)
        m.weight_gradients = m.weight_gradients + part.weight_gradients * times
    return mean


def _predicting(m: Microbatch, t_inner: Number, t_stem: Number, t_head: Number) -> Number:
    """Factor on a stage for layers that predict further tokens, each with a pass of the head, spread over the stages."""
    layer = schedule.stage_time(1.0, float(m.ledger.n_layers), t_inner, t_head)
    return schedule.predicting_factor(float(m.ledger.spec.mtp_layers), layer, t_inner + t_stem + t_head)


def _tower(m: Microbatch, tower: Encoder) -> Number:
    """Charge a further tower, cut over the stages as the layers are; its mean time on a stage."""
    t = Microbatch(m.ctx, m.layout, tower, m.costs)
    share = pipeline.share(m.layout, float(t.ledger.n_layers))
    inside, ends = t.layers(share), t.ends(True, True)
    m.weight_gradients = m.weight_gradients + t.weight_gradients
    return schedule.mean_stage_time(inside / share, ends, m.layout.pp)
