"""Answer of `roofline calibrate`: rows from files, a fit per phase and software, and the hardware it is written to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rooflinecli.calibrate.experiment_design import Suggestion, suggestions
from rooflinecli.calibrate.microbenchmark_row import MicrobenchmarkRow
from rooflinecli.calibrate.phase_fit import PhaseFit, fit_phase, own_rows, software
from rooflinecli.calibrate.predicted_row import PredictedRow
from rooflinecli.calibrate.resolve_rows import resolve
from rooflinecli.calibrate.row_checks import RowContradiction, impossible, one_per_question, repeats
from rooflinecli.core.errors import DataError, RooflineError
from rooflinecli.importers.logs import power, read_source
from rooflinecli.importers.source import MeasuredRow, Options, load
from rooflinecli.specs.hardware import HardwareSpec, load_hardware

HOLD_OUT, SEED = 0.3, 0


@dataclass
class CalibrationAnswer:
    """Result of a calibration: fits by phase and software, rows with a reason against them, and what to measure next."""

    hardware: HardwareSpec
    rows: int
    groups: list[PhaseFit] = field(default_factory=list)
    contradictions: list[RowContradiction] = field(default_factory=list)
    aside: list[tuple[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    next: dict[tuple[str, str], list[Suggestion]] = field(default_factory=dict)

    @property
    def moved(self) -> list[PhaseFit]:
        return [g for g in self.groups if g.moved]

    @property
    def refused(self) -> list[PhaseFit]:
        """Fits that increased the error on the held-out rows."""
        return [g for g in self.moved if g.refused]


def calibrate(
    paths: Sequence[Path],
    given: Options,
    hold_out: float = HOLD_OUT,
    target: Options | None = None,
) -> CalibrationAnswer:
    """Read files, compare their rows with the estimate, and fit. `given` are options of an estimate, --hw among them.

    Raises DataError for a file without measurements, cut short, or of another model; UsageError for missing options.
    """
    sources, chip = [load(path) for path in paths], load_hardware(str(given["hw"]))
    watts = {source.name: found for source in sources if (found := power.measured(source)) and len(sources) > 1}
    rows = [row for source in sources if source.name not in watts for row in read_source(source)]
    answer = of_rows(rows, given, hold_out, target)
    rated = f"; {chip.name} is rated at {chip.rated_power:g} W" if chip.rated_power else ""
    answer.notes += [f"{found.where}: {found}{rated}" for found in watts.values()]
    return answer


def of_rows(
    measured: Sequence[MeasuredRow],
    given: Options,
    hold_out: float = HOLD_OUT,
    target: Options | None = None,
) -> CalibrationAnswer:
    """As `calibrate`, of rows already read."""
    resolved = resolve(measured, given)
    possible, wrong = impossible(resolved.rows)
    wrong = list(dict.fromkeys([*(RowContradiction(where, why, True) for where, why in resolved.doubts), *wrong]))
    if not possible:
        reasons = [*((row.where, row.reason) for row in wrong), *resolved.aside]
        reason = ": ".join(reasons[0]) if reasons else "no row"
        raise DataError(f"{reason}; nothing is left to fit")
    once, merged = one_per_question(possible)
    result = CalibrationAnswer(
        load_hardware(str(given["hw"])),
        len({row.where for row in once}),
        contradictions=wrong + repeats(own_rows(possible)),
        aside=resolved.aside,
        notes=[*resolved.notes, *merged],
    )
    for (phase, name), rows in _split(once, given).items():
        one = fit_phase(phase, name, rows, hold_out, SEED)
        result.groups.append(one)
        result.contradictions += one.contradictions
        suits = target is not None and (phase == "train") == ("seq" in target or target.get("phase") == ["train"])
        try:
            result.next[phase, name] = suggestions(one, target if suits else None)
        except RooflineError as error:
            result.notes.append(f"no next measurement for {phase}: {error}")
    return result


def _split(rows: Sequence[PredictedRow], given: Options) -> dict[tuple[str, str], list[PredictedRow]]:
    """Rows by phase and software. Micro-benchmarks join every software of their phase; where nothing else was measured they make
    up training and decode under the software asked for."""
    groups: dict[tuple[str, str], list[PredictedRow]] = {}
    for row in own_rows(rows):
        groups.setdefault((row.phase, software(row)), []).append(row)
    microbenchmarks = [row for row in rows if isinstance(row, MicrobenchmarkRow)]
    if not groups:
        names = {"train": given.get("software") or "any", "decode": given.get("engine") or "python-server"}
        phases = dict.fromkeys(row.phase for row in microbenchmarks)
        groups = {(phase, str(names[phase])): [] for phase in phases if phase in names}
    for (phase, _), members in groups.items():
        members += [row for row in microbenchmarks if row.phase == phase]
    return groups
