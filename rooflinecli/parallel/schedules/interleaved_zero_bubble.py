"""Interleaved zero bubble (PyTorch's ScheduleInterleavedZeroBubble: ZB-H1 of Qi et al. 2023 over several chunks of layers per device).

Weight gradients wait for idle slots as in ZB-H1, in the memory of interleaved 1F1B.
"""

from __future__ import annotations

from collections.abc import Iterator

from rooflinecli.core import num
from rooflinecli.core.num import Number
from rooflinecli.formulas import constraints
from rooflinecli.parallel.pipeline import ScheduleConstraint
from rooflinecli.parallel.schedules import one_f_one_b
from rooflinecli.parallel.schedules.one_f_one_b import in_flight, sends
from rooflinecli.parallel.schedules.zero_bubble import bubble
from rooflinecli.specs.layout import Layout

__all__ = ["bubble", "in_flight", "needs", "sends"]


def needs(layout: Layout, microbatches: Number) -> Iterator[ScheduleConstraint]:
    """Constraints on a layout: those of interleaving, and chunks to interleave."""
    yield from one_f_one_b.needs(layout, microbatches)
    yield ScheduleConstraint(
        "interleaving needs virtual stages",
        constraints.within(num.where(layout.pp > 1, 2.0, 1.0), layout.virtual_stages),
        lambda: (
            "--pipeline-schedule interleaved-zero-bubble needs --virtual-stages of at least 2; with one it is --pipeline-schedule zero-bubble"
        ),
    )
