"""Answers of `roofline measure`: SI throughout, the unit in the key."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any

from rooflinecli.core.record import SPREAD, Record

if TYPE_CHECKING:
    from rooflinecli.measure.run import MeasureAnswer


class GroupErrors(Record):
    """Errors on the held-out shapes of a group."""

    shapes: int
    median: float
    p90: float


class FitReport(Record):
    """The constants of a class of kernels, and their errors on held-out shapes."""

    regime: str
    kind: str
    dtype: str
    compute_flops_per_s: float
    memory_bytes_per_s: float
    overhead_s: float
    p: float | None
    k0: float
    tau_s: float
    shapes_fitted: int
    shapes_held_out: int
    held_out_median: float
    held_out_p90: float
    roofline_median: float
    worse_than_roofline: bool
    groups: dict[str, GroupErrors]


class MeasuredRoofs(Record):
    """The two roofs."""

    peak_flops_per_s: dict[str, float]
    bandwidth_bytes_per_s: float


class MeasureReport(Record):
    """Timings of a run as lines of its log, and the constants fitted to them."""

    schema: str = "roofline/measure/1"
    environment: dict[str, Any]
    roofs: MeasuredRoofs | None
    fits: list[FitReport]
    timings: list[dict[str, Any]]
    extra: dict[str, Any] = field(metadata=SPREAD)

    @classmethod
    def of(cls, answer: MeasureAnswer) -> MeasureReport:
        """The report of a run."""
        roofs = answer.roofs
        return cls(
            environment=answer.environment.record(),
            roofs=None
            if roofs is None
            else MeasuredRoofs(peak_flops_per_s=roofs.peaks, bandwidth_bytes_per_s=roofs.bandwidth),
            fits=[
                FitReport(
                    regime=f.regime,
                    kind=f.kind,
                    dtype=f.dtype,
                    compute_flops_per_s=f.constants.compute,
                    memory_bytes_per_s=f.constants.memory,
                    overhead_s=f.constants.overhead,
                    p=None if f.constants.p == float("inf") else f.constants.p,
                    k0=f.constants.k0,
                    tau_s=f.constants.tau,
                    shapes_fitted=f.n_fit,
                    shapes_held_out=f.n_held,
                    held_out_median=float(f.median),
                    held_out_p90=float(f.p90),
                    roofline_median=float(f.raw),
                    worse_than_roofline=bool(f.worse),
                    groups={
                        name: GroupErrors(shapes=n, median=float(median), p90=float(p90))
                        for name, (n, median, p90) in f.groups.items()
                    },
                )
                for f in answer.fits
            ],
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
