"""Answers of `roofline occupancy`."""

from __future__ import annotations

from dataclasses import field

from rooflinecli.core.num import Number
from rooflinecli.core.record import OPTIONAL, Record, former


class MultiprocessorAnswer(Record):
    """Resident blocks of a multiprocessor, the limit of each resource, and the waves of a launch."""

    schema: str = "roofline/occupancy-sm/2"
    compute_capability: str
    warps_per_block: Number
    blocks: Number
    occupancy: Number
    limited_by: str
    limits_blocks: dict[str, Number]
    waves: Number = field(default=None, metadata=OPTIONAL)
    wave_utilization: Number = field(default=None, metadata=OPTIONAL | former("wave_utilisation"))
    notes: list[str]


class SystolicAnswer(Record):
    """Fractions of a systolic array that a matmul uses, by convention."""

    schema: str = "roofline/occupancy-systolic/2"
    output_tile_utilization: Number = field(metadata=former("output_tile_utilisation"))
    column_utilization: Number = field(metadata=former("column_utilisation"))
    weight_tile_utilization: Number = field(metadata=former("weight_tile_utilisation"))
    cycles: Number
    cycle_utilization: Number = field(metadata=former("cycle_utilisation"))
    peak_flops_per_s: Number = field(default=None, metadata=OPTIONAL)
    attained_flops_per_s: Number = field(default=None, metadata=OPTIONAL)
    notes: list[str]
