"""The engine's side of the loop: seconds, floor and FLOPs of each phase, from the profile and the ledger alone."""

from __future__ import annotations

from dataclasses import dataclass

from rooflinecli.core.num import value
from rooflinecli.engine.context import Scene
from rooflinecli.engine.training import train
from rooflinecli.formulas import roofline
from rooflinecli.layers.parameter_counts import parameters
from rooflinecli.phases.axis_sizes import layer_sizes, outer_sizes, work_sizes
from rooflinecli.phases.forward import Pass
from rooflinecli.price.accumulator import Bill
from rooflinecli.specs.hardware import HardwareSpec
from rooflinecli.specs.layout import Plan
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


def scene(spec: ModelSpec, hardware: HardwareSpec, batch: int, seq: int, dtype: str) -> Scene:
    return Scene(
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
    counted = scene(spec, hardware, batch, seq, dtype)
    request = Request(**{**counted.request.__dict__, "attention_flops": "causal"})
    timed, plan = Scene(request), Plan(micro_batch=float(batch))
    if phase == "train":
        answer = train(timed, plan)
        flops = 3 * value(counted.model_flops(batch, seq, seq, seq, decode=False))
        return Prediction(float(value(answer.time_s)), float(value(answer.floor_s)), flops, _plain(answer.breakdown_s))
    decode = phase == "decode"
    queries, logits = (1, 1) if decode else (seq, seq if phase == "forward" else 1)
    bill = _pass(timed, plan, batch, queries, seq, logits, decode)
    flops = value(counted.model_flops(batch, queries, seq, logits, decode=decode))
    floor = roofline.floor_time(value(bill.t_compute), value(bill.t_memory))
    return Prediction(float(value(bill.total)), float(floor), float(flops), _plain(bill.groups))


def _pass(timed: Scene, plan: Plan, batch: int, queries: int, keys: int, logits: int, decode: bool) -> Bill:
    """A bare forward pass: no serving engine around it, and a head that answers at `logits` positions."""
    bill = Bill(timed.chip, "kernel", 1.0)
    ops = Pass(timed.formats, decode=decode)
    work = work_sizes(float(batch), float(queries), float(keys), float(logits), plan)
    for group in timed.book.layers:
        bill.add(
            ops.ops(group.rows, layer_sizes(group, work, plan, timed.spec.document, timed.lift)), float(group.repeat)
        )
    outer = outer_sizes(timed.book, work, plan, timed.spec.document, timed.lift)
    bill.add(ops.ops((*timed.book.stem, *timed.book.head), outer, outer=True), 1.0)
    return bill


def _plain(parts: dict[str, object]) -> dict[str, float]:
    return {name: float(value(seconds)) for name, seconds in parts.items()}
