"""Latency against throughput: the plan of an estimate over a range of batches."""

from __future__ import annotations

from dataclasses import replace

from rooflinecli.core.num import Number
from rooflinecli.core.record import Record
from rooflinecli.engine import legality
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.evaluate import answer as answered
from rooflinecli.engine.phase_answer import DecodeAnswer, PhaseAnswer
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.request import Request

MOST = 2**16  # sequences per replica in serving: beyond it a curve tells nothing new
BEYOND = 4  # a training curve ends at this multiple of the batch asked for


class CurvePoint(Record):
    """A phase at another batch."""

    batch: float
    time_s: Number
    floor_s: Number
    interval_s: list[Number]
    tokens_per_s: Number
    memory_bytes: Number
    feasible: bool


def curve(request: Request, phase: str, plan: Layout, answer: PhaseAnswer) -> list[CurvePoint]:
    """Points by rising batch: powers of two, the batch asked for, and in serving the largest that fits."""
    if phase == "prefill":
        return []  # a prompt is served alone; its batch is one
    return [_point(request, phase, plan, float(batch)) for batch in _batches(request, phase, plan, answer)]


def _batches(request: Request, phase: str, plan: Layout, answer: PhaseAnswer) -> list[float]:
    ctx = EstimateContext(request)
    if phase == "train":
        least, asked = plan.dp * plan.micro_batch, ctx.train_batch
        sizes = {asked, *(least * 2**i for i in range(64) if least * 2**i <= BEYOND * asked)}
        taken = {size: EstimateContext(replace(request, batch=size)) for size in sizes}
        return sorted(size for size, other in taken.items() if legality.first_violation(other, plan, "train") is None)
    assert isinstance(answer, DecodeAnswer)  # prefill has no curve
    asked, most = answer.batch, min(float(answer.max_batch), MOST)
    found = {1.0, asked, *(2.0**i for i in range(17) if 2.0**i <= max(most, asked))}
    return sorted({*found, most} if most >= 1 else found)


def _point(request: Request, phase: str, plan: Layout, batch: float) -> CurvePoint:
    """The phase at another batch; a closed loop stays one, an open loop is answered as a steady batch."""
    loop = None if request.concurrency is None else batch
    ctx = EstimateContext(replace(request, batch=batch, concurrency=loop, qps=None))
    answer = answered(ctx, ctx.lifted(plan), phase)
    return CurvePoint.like(
        answer,
        batch=batch,
        interval_s=list(answer.interval_s),
        memory_bytes=answer.memory.total_bytes,
        feasible=answer.memory.fits,
    )
