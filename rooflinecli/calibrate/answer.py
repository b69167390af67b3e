"""`roofline calibrate`: files and options in; what was read, what the rows determine, what they are worth, and a hardware file out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rooflinecli.calibrate.experiment_design import Suggestion, suggestions
from rooflinecli.calibrate.microbenchmark_row import MicrobenchmarkRow
from rooflinecli.calibrate.phase_fit import PhaseFit, group, software
from rooflinecli.calibrate.predicted_row import PredictedRow
from rooflinecli.calibrate.resolve_rows import resolve
from rooflinecli.calibrate.row_checks import RowContradiction, impossible, repeats
from rooflinecli.core.errors import DataError, RooflineError
from rooflinecli.importers.logs import read
from rooflinecli.importers.source import MeasuredRow
from rooflinecli.specs.hardware import HardwareSpec, load_hardware

HOLD_OUT, SEED = 0.3, 0


@dataclass
class CalibrationAnswer:
    """Everything a calibration found."""

    hardware: HardwareSpec
    rows: int
    groups: list[PhaseFit]
    contradictions: list[RowContradiction] = field(default_factory=list)
    aside: list[tuple[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    next: dict[tuple[str, str], list[Suggestion]] = field(default_factory=dict)

    @property
    def moved(self) -> list[PhaseFit]:
        return [g for g in self.groups if g.moved]

    @property
    def refused(self) -> list[PhaseFit]:
        """Groups that got worse on the rows held out."""
        return [g for g in self.moved if g.refused]


def calibrate(
    paths: Sequence[Path],
    given: dict[str, Any],
    hold_out: float = HOLD_OUT,
    target: dict[str, Any] | None = None,
) -> CalibrationAnswer:
    """Read files, hold them against the estimate, and fit. `given` are options of an estimate, --hw among them.

    Raises DataError for a file that is no measurement, cut short, or of another model; UsageError for what nobody said.
    """
    return of_readings([reading for path in paths for reading in read(path)], given, hold_out, target)


def of_readings(
    readings: Sequence[MeasuredRow],
    given: dict[str, Any],
    hold_out: float = HOLD_OUT,
    target: dict[str, Any] | None = None,
) -> CalibrationAnswer:
    """As `calibrate`, of measurements already read."""
    found = resolve(readings, given)
    possible, wrong = impossible(found.questions)
    wrong = list(dict.fromkeys([*(RowContradiction(where, reason, True) for where, reason in found.doubts), *wrong]))
    result = CalibrationAnswer(
        load_hardware(str(given["hw"])), len({q.where for q in possible}), [], wrong, found.aside, found.notes
    )
    if not possible:
        first = wrong[0] if wrong else None
        reason = (
            f"{first.where}: {first.reason}"
            if first
            else f"{found.aside[0][0]}: {found.aside[0][1]}"
            if found.aside
            else "no row"
        )
        raise DataError(f"{reason}; nothing is left to fit")
    result.contradictions += repeats([q for q in possible if not isinstance(q, MicrobenchmarkRow)])
    for (phase, name), rows in _split(possible, given).items():
        one = group(phase, name, rows, hold_out, SEED)
        result.groups.append(one)
        result.contradictions += one.contradictions
        try:
            result.next[phase, name] = suggestions(one, target if _suits(target, phase) else None)
        except RooflineError as error:
            result.notes.append(f"no next measurement for {phase}: {error}")
    return result


def _suits(target: dict[str, Any] | None, phase: str) -> bool:
    return target is not None and (phase == "train") == ("seq" in target or target.get("phase") == ["train"])


def _split(questions: Sequence[PredictedRow], given: dict[str, Any]) -> dict[tuple[str, str], list[PredictedRow]]:
    """Rows by phase and software; probes join every software of their phase, or stand alone where nothing else was measured."""
    groups: dict[tuple[str, str], list[PredictedRow]] = {}
    for q in questions:
        if not isinstance(q, MicrobenchmarkRow):
            groups.setdefault((q.phase, software(q)), []).append(q)
    probed = [q for q in questions if isinstance(q, MicrobenchmarkRow)]
    alone = not groups
    for q in probed:
        if alone and q.phase in ("train", "decode"):
            name = (
                str(given.get("software") or "any")
                if q.phase == "train"
                else str(given.get("engine") or "python-server")
            )
            groups.setdefault((q.phase, name), [])
    for (phase, _), rows in groups.items():
        rows += [q for q in probed if q.phase == phase]
    return groups
