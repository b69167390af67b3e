"""Answers of `roofline measure`: SI throughout, the unit in the key."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from rooflinecli.core.record import SPREAD, Json, Record
from rooflinecli.measure.fit import Fit

if TYPE_CHECKING:
    from rooflinecli.measure.run import MeasureAnswer


class MeasuredRoofs(Record):
    """The two roofs."""

    peak_flops_per_s: dict[str, float]
    bandwidth_bytes_per_s: float


class MeasureReport(Record):
    """Timings of a run as lines of its log, and the constants fitted to them."""

    schema: str = "roofline/measure/1"
    environment: Json
    roofs: MeasuredRoofs | None
    fits: list[Fit]
    timings: list[Json]
    extra: Json = field(metadata=SPREAD)

    @classmethod
    def of(cls, answer: MeasureAnswer) -> MeasureReport:
        """The report of a run."""
        roofs = answer.roofs
        return cls(
            environment=answer.environment.record(),
            roofs=None
            if roofs is None
            else MeasuredRoofs(peak_flops_per_s=roofs.peaks, bandwidth_bytes_per_s=roofs.bandwidth),
            fits=answer.fits,
            timings=answer.records,
            extra=answer.extra,
        )


class PhaseComparison(Record):
    """Prediction and measurement of one phase of a model."""

    id: str
    phase: str
    predicted_s: float
    measured_s: float
    low_s: float
    mad_s: float
    runs: int
    floor_s: float
    error: float
    matmul_flops: float
    xla_flops: float
    compile_s: float
    breakdown_s: dict[str, float]
    warning: str


class ModelReport(Record):
    """Counts that must be equal, and the phases of a model."""

    schema: str = "roofline/measure-model/1"
    model: str
    hardware: str
    checks: list[str]
    phases: list[PhaseComparison]
