"""Answers of `roofline kernel`: SI throughout, the unit in the key."""

from __future__ import annotations

from dataclasses import field

from rooflinecli.core.num import Number
from rooflinecli.core.record import OPTIONAL, Record


class KernelAnswer(Record):
    """One operation on the roofline. `bound_by` is its time over that of the next resource."""

    schema: str = ""
    op: str
    hardware: str
    dtype: str
    flops: Number
    bytes: Number
    intensity_flops_per_byte: Number
    ridge_flops_per_byte: Number
    bound: str
    bound_by: Number
    floor_s: Number
    time_s: Number
    interval_s: tuple[Number, Number]
    attainable_flops_per_s: Number
    achieved_flops_per_s: Number
    busiest_over_even: Number = field(default=None, metadata=OPTIONAL)
    rows: Number = field(default=None, metadata=OPTIONAL)
    experts_with_work: Number = field(default=None, metadata=OPTIONAL)
    experts_held: Number = field(default=None, metadata=OPTIONAL)
    measured_s: Number = field(default=None, metadata=OPTIONAL)
