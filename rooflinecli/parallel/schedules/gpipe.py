"""GPipe (Huang et al. 2019): every microbatch forward, then every one backward; the bubble of 1F1B, and all of them kept."""

from __future__ import annotations

from rooflinecli.core import num
from rooflinecli.core.num import Number
from rooflinecli.formulas import memory
from rooflinecli.parallel.schedules.one_f_one_b import bubble, needs, sends
from rooflinecli.specs.layout import Layout

__all__ = ["bubble", "in_flight", "needs", "sends"]


def in_flight(layout: Layout, microbatches: Number) -> tuple[Number, Number]:
    """Microbatches whose activations the first and the last stage hold: all of them; one without a pipeline, which accumulates gradients."""
    count = num.where(layout.pp > 1, memory.in_flight_gpipe(microbatches, layout.pp), 1.0)
    return count, count
