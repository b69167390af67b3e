"""1F1B (Narayanan et al. 2021, section 2.2): each stage alternates forward and backward once the pipeline is full.

With virtual stages it is interleaved: a stage holds several chunks of layers, and microbatches go round in groups of pp.
"""

from __future__ import annotations

from collections.abc import Iterator

from rooflinecli.core import num
from rooflinecli.core.num import Number
from rooflinecli.formulas import constraints, memory, schedule
from rooflinecli.parallel.pipeline import ScheduleConstraint
from rooflinecli.specs.layout import Layout


def bubble(layout: Layout, stage_time: Number, weight_gradient_time: Number) -> Number:
    """Idle time of a stage per step."""
    return schedule.pipeline_bubble(layout.pp, layout.virtual_stages, stage_time)


def in_flight(layout: Layout, microbatches: Number) -> tuple[Number, Number]:
    """Microbatches (of a whole stage) whose activations the first and the last stage hold."""
    plain = memory.in_flight_1f1b(microbatches, layout.pp)
    if num.one(layout.virtual_stages):
        return plain, 1.0
    interleaved = memory.in_flight_interleaved(microbatches, layout.pp, layout.virtual_stages)
    return num.where(layout.virtual_stages > 1, interleaved, plain), 1.0


def sends(layout: Layout, backward: bool) -> Number:
    """Activations that a stage passes on per microbatch: forward and backward, once per chunk of layers."""
    return layout.virtual_stages * (2 if backward else 1)


def needs(layout: Layout, microbatches: Number) -> Iterator[ScheduleConstraint]:
    """Constraints of the schedule on a layout."""
    if not num.one(layout.virtual_stages):
        yield ScheduleConstraint(
            "interleaving needs microbatches in multiples of pp",
            constraints.divides(num.where(layout.virtual_stages > 1, layout.pp, 1.0), microbatches),
            lambda: (
                f"--virtual-stages {layout.virtual_stages:.0f} needs microbatches in multiples of --pp {layout.pp:.0f}, but each "
                f"replica has {num.value(microbatches):.0f}; change --batch, --dp or --micro-batch-size"
            ),
        )
