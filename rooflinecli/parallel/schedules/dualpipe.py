"""DualPipe (DeepSeek-V3 Technical Report, section 3.2.1 and table 2): microbatches enter a pipeline from both ends.

A device holds the layers of its stage and of the one as far from the other end, so weights and gradients are there twice, and
pp + 1 microbatches of a stage are held everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator

from rooflinecli.core import num
from rooflinecli.core.num import Number
from rooflinecli.formulas import constraints, memory, schedule
from rooflinecli.parallel.pipeline import Need
from rooflinecli.parallel.schedules.one_f_one_b import sends
from rooflinecli.specs.layout import Plan

__all__ = ["bubble", "copies", "in_flight", "needs", "sends"]


def bubble(plan: Plan, stage_time: Number, weight_gradient_time: Number) -> Number:
    """Idle time of a stage per step."""
    return schedule.dual_pipe(plan.pp, stage_time, weight_gradient_time)


def copies(plan: Plan) -> Number:
    """How many stages' weights and gradients a device holds."""
    return num.where(plan.pp > 1, 2.0, 1.0)


def in_flight(plan: Plan, microbatches: Number) -> tuple[Number, Number]:
    """Microbatches whose activations the first and the last device hold: one more than there are stages."""
    held = num.where(plan.pp > 1, memory.in_flight_1f1b(microbatches, plan.pp + 1), 1.0)
    return held, held


def needs(plan: Plan, microbatches: Number) -> Iterator[Need]:
    """What the schedule asks of a layout."""
    many = plan.pp > 1
    yield Need(
        "dualpipe needs an even number of stages",
        constraints.divides(num.where(many, 2.0, 1.0), plan.pp),
        lambda: f"--schedule dualpipe enters from both ends, so --pp {plan.pp:.0f} has to be even; change it",
    )
    yield Need(
        "dualpipe needs microbatches in pairs",
        constraints.divides(num.where(many, 2.0, 1.0), microbatches),
        lambda: (
            f"--schedule dualpipe needs an even number of microbatches, but each replica has {num.value(microbatches):.0f}; "
            "change --batch, --dp or --micro-batch"
        ),
    )
    yield Need(
        "dualpipe has no virtual stages",
        constraints.within(plan.virtual_stages, 1.0),
        lambda: f"--schedule dualpipe has no --virtual-stages {plan.virtual_stages:.0f}; leave them out",
    )
