"""Prediction of each phase: seconds, floor and FLOPs, from the profile and the ledger alone."""

from __future__ import annotations

from dataclasses import dataclass

from rooflinecli.core.num import value
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.training import train
from rooflinecli.formulas import roofline
from rooflinecli.layers.parameter_counts import parameters
from rooflinecli.phases.axis_sizes import layer_sizes, pass_axis_sizes, stem_head_axis_sizes
from rooflinecli.phases.forward import ForwardPass
from rooflinecli.price.accumulator import StepAccumulator
from rooflinecli.specs.hardware import HardwareSpec
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.model import ModelSpec
from rooflinecli.specs.request import Request

ADAM_BYTES = 8.0  # two fp32 moments; the fp32 weights are their own master copy


@dataclass(frozen=True)
class Prediction:
    """Seconds, and FLOPs with every query-key pair counted, as a program without a fused mask executes them."""

    time: float
    floor: float
    flops: float
    breakdown: dict[str, float]


def ctx(spec: ModelSpec, hardware: HardwareSpec, batch: int, seq: int, dtype: str) -> EstimateContext:
    return EstimateContext(
        Request(
            spec,
            hardware,
            batch=float(batch),
            prompt=float(seq),
            seq=float(seq),
            output=1.0,
            dtype=dtype,
            attention_flops="full",
            optimizer_bytes=ADAM_BYTES,
            devices=1.0,
        )
    )


def total_parameters(spec: ModelSpec) -> int:
    return int(value(parameters(spec).total))


def predict(phase: str, spec: ModelSpec, hardware: HardwareSpec, batch: int, seq: int, dtype: str) -> Prediction:
    """Price one phase on one device. FLOPs are counted over full attention, times over the causal half the kernels were fitted at."""
    counted = ctx(spec, hardware, batch, seq, dtype)
    request = Request(**{**counted.request.__dict__, "attention_flops": "causal"})
    timed, layout = EstimateContext(request), Layout(micro_batch=float(batch))
    if phase == "train":
        answer = train(timed, layout)
        flops = 3 * value(counted.model_flops(batch, seq, seq, seq, decode=False))
        return Prediction(float(value(answer.time_s)), float(value(answer.floor_s)), flops, _plain(answer.breakdown_s))
    decode = phase == "decode"
    queries, logits = (1, 1) if decode else (seq, seq if phase == "forward" else 1)
    costs = _pass(timed, layout, batch, queries, seq, logits, decode)
    flops = value(counted.model_flops(batch, queries, seq, logits, decode=decode))
    floor = roofline.floor_time(value(costs.t_compute), value(costs.t_memory))
    return Prediction(float(value(costs.total)), float(floor), float(flops), _plain(costs.groups))


def _pass(
    timed: EstimateContext, layout: Layout, batch: int, queries: int, keys: int, logits: int, decode: bool
) -> StepAccumulator:
    """A bare forward pass: no serving engine around it, and a head that answers at `logits` positions."""
    costs = StepAccumulator(timed.chip, "kernel", 1.0)
    ops = ForwardPass(timed.formats, decode=decode)
    work = pass_axis_sizes(float(batch), float(queries), float(keys), float(logits), layout)
    for group in timed.ledger.layers:
        costs.add(
            ops.ops(group.rows, layer_sizes(group, work, layout, timed.spec.document, timed.lift)), float(group.repeat)
        )
    outer = stem_head_axis_sizes(timed.ledger, work, layout, timed.spec.document, timed.lift)
    costs.add(ops.ops((*timed.ledger.stem, *timed.ledger.head), outer, outer=True), 1.0)
    return costs


def _plain(parts: dict[str, float]) -> dict[str, float]:
    return {name: float(value(seconds)) for name, seconds in parts.items()}
