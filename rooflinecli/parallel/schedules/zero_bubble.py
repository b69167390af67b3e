"""ZB-H1 (Qi et al. 2023, Zero Bubble Pipeline Parallelism): weight gradients wait for idle slots, in the memory of 1F1B."""

from __future__ import annotations

from rooflinecli.core.num import Number
from rooflinecli.formulas import schedule
from rooflinecli.parallel.schedules.one_f_one_b import in_flight, needs, sends
from rooflinecli.specs.layout import Layout

__all__ = ["bubble", "in_flight", "needs", "sends"]


def bubble(layout: Layout, stage_time: Number, weight_gradient_time: Number) -> Number:
    """Idle time of a stage per step."""
    return schedule.zero_bubble(layout.pp, layout.virtual_stages, stage_time, weight_gradient_time)
