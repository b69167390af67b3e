"""Measured figures held against what physics allows."""

from __future__ import annotations

from rooflinecli.core import units
from rooflinecli.core.errors import ImpossibleValue, UsageError
from rooflinecli.questions.estimate.answer import choose_plans, scene_of
from rooflinecli.questions.estimate.answer_types import EstimateAnswer
from rooflinecli.questions.estimate.gap_analysis import explain
from rooflinecli.specs.request import Request


def note(request: Request, result: EstimateAnswer, mfu: str | None, measured: str | None) -> None:
    """Note a measured MFU or time next to the estimate, and what would explain it.

    Raises ImpossibleValue when it beats the hardware's peak.
    """
    if mfu is not None:
        _mfu(result, mfu)
    if measured is not None:
        _time(result, measured)
    for name, phase in result.phases.items():
        if phase.measured_time_s is not None:
            plans, _ = choose_plans(scene_of(request))
            result.gap_explanations = explain(name, request, result, plans[name].layout, float(phase.measured_time_s))


def _mfu(result: EstimateAnswer, written: str) -> None:
    try:
        value = units.parse(float(written) if written.replace(".", "", 1).isdigit() else written, "1")
    except ValueError as error:
        raise UsageError(f"--mfu {written}: {error}") from None
    if value > 1:
        raise ImpossibleValue(
            f"--mfu {written}: impossible; {value:.0%} of peak is more than the hardware can do. "
            f"{f'Write {value:g}% for a share in percent. ' if 1 < value <= 100 else ''}"
            "Check that 6N FLOPs per token were counted and the dense, not the sparse, peak"
        )
    if value <= 0:
        raise UsageError(f"--mfu {written}: a utilization lies above 0 and up to 1")
    train = result.phases.get("train")
    if train is None:
        raise UsageError("--mfu describes training; add --phase train")
    train.measured_mfu = value
    train.measured_time_s = train.time_s * train.mfu / value


def _time(result: EstimateAnswer, written: str) -> None:
    if len(result.phases) != 1:
        raise UsageError("--measured belongs to one phase; add --phase train, prefill or decode")
    try:
        value = units.parse(written, "s")
    except ValueError as error:
        raise UsageError(f"--measured {error}") from None
    ((name, phase),) = result.phases.items()
    if value < phase.floor_s:
        raise ImpossibleValue(
            f"--measured {written}: impossible; {name} cannot take less than its floor of {units.duration(phase.floor_s)} "
            "on this plan. Check batch, lengths, dtype and device count"
        )
    phase.measured_time_s = value
