"""DualPipe (DeepSeek-V3 Technical Report, section 3.2.1 and table 2): microbatches enter a pipeline from both ends.

A device holds the layers of its stage and of the one as far from the other end, so weights and gradients are there twice, and
pp + 1 microbatches of a stage are held everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator

from rooflinecli.core import num
from rooflinecli.core.num import Number
from rooflinecli.formulas import constraints, memory, schedule
from rooflinecli.parallel.pipeline import ScheduleConstraint
from rooflinecli.parallel.schedules.one_f_one_b import sends
from rooflinecli.specs.layout import Layout

__all__ = ["bubble", "copies", "in_flight", "needs", "sends"]


def bubble(layout: Layout, stage_time: Number, weight_gradient_time: Number) -> Number:
    """Idle time of a stage per step."""
    return schedule.dual_pipe(layout.pp, stage_time, weight_gradient_time)


def copies(layout: Layout) -> Number:
    """How many stages' weights and gradients a device holds."""
    return num.where(layout.pp > 1, 2.0, 1.0)


def in_flight(layout: Layout, microbatches: Number) -> tuple[Number, Number]:
    """Microbatches whose activations the first and the last device hold: one more than there are stages."""
    count = num.where(layout.pp > 1, memory.in_flight_1f1b(microbatches, layout.pp + 1), 1.0)
    return count, count


def needs(layout: Layout, microbatches: Number) -> Iterator[ScheduleConstraint]:
    """Constraints of the schedule on a layout."""
    many = layout.pp > 1
    yield ScheduleConstraint(
        "dualpipe needs an even number of stages",
        constraints.divides(num.where(many, 2.0, 1.0), layout.pp),
        lambda: (
            f"--pipeline-schedule dualpipe enters from both ends, so --pp {layout.pp:.0f} has to be even; change it"
        ),
    )
    yield ScheduleConstraint(
        "dualpipe needs microbatches in pairs",
        constraints.divides(num.where(many, 2.0, 1.0), microbatches),
        lambda: (
            f"--pipeline-schedule dualpipe needs an even number of microbatches, but each replica has {num.value(microbatches):.0f}; "
            "change --batch, --dp or --micro-batch-size"
        ),
    )
    yield ScheduleConstraint(
        "dualpipe has no virtual stages",
        constraints.within(layout.virtual_stages, 1.0),
        lambda: f"--pipeline-schedule dualpipe has no --virtual-stages {layout.virtual_stages:.0f}; leave them out",
    )
