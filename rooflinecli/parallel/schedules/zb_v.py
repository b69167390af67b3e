"""ZB-V (Qi et al. 2023, Zero Bubble Pipeline Parallelism, section 6): two chunks of layers per device, the second on the way back.

A microbatch goes down the devices and up again, so embedding and head share the first one, every device lets go of memory as early as
the others, and the schedule without a bubble fits into the memory of 1F1B. Each microbatch crosses every boundary twice.
"""

from __future__ import annotations

from collections.abc import Iterator

from rooflinecli.core import num
from rooflinecli.core.num import Number
from rooflinecli.formulas import constraints, memory, schedule
from rooflinecli.parallel.pipeline import ScheduleConstraint
from rooflinecli.specs.layout import Layout

CHUNKS = 2.0


def bubble(layout: Layout, stage_time: Number, weight_gradient_time: Number) -> Number:
    """Idle time of a stage per step."""
    return schedule.zero_bubble_v(layout.pp, stage_time, weight_gradient_time)


def in_flight(layout: Layout, microbatches: Number) -> tuple[Number, Number]:
    """Microbatches (of a whole stage) whose activations the first and the last device hold: as many as 1F1B's first, everywhere."""
    count = memory.in_flight_1f1b(microbatches, layout.pp)
    return count, count


def sends(layout: Layout, backward: bool) -> Number:
    """Activations that a device passes on per microbatch, for both of its chunks."""
    return CHUNKS * (2 if backward else 1)


def needs(layout: Layout, microbatches: Number) -> Iterator[ScheduleConstraint]:
    """Constraints of the schedule on a layout."""
    yield ScheduleConstraint(
        "zb-v has two chunks of its own",
        constraints.within(layout.virtual_stages, 1.0),
        lambda: (
            f"--pipeline-schedule zb-v puts two chunks on every device by itself; leave --virtual-stages {layout.virtual_stages:.0f} out"
        ),
    )
    yield ScheduleConstraint(
        "zb-v needs two microbatches per stage",
        constraints.within(num.where(layout.pp > 1, CHUNKS * layout.pp, 1.0), microbatches),
        lambda: (
            f"--pipeline-schedule zb-v fills its gaps from {CHUNKS * num.value(layout.pp):.0f} microbatches on, but each replica has "
            f"{num.value(microbatches):.0f}; raise --batch, or lower --dp, --micro-batch-size or --pp"
        ),
    )
