"""Measured rows against the estimate: the gap of each, and the single changes that would explain it, the likeliest first."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from rooflinecli.calibrate.phase_fit import PHASES, software
from rooflinecli.calibrate.posterior import BLOCKS
from rooflinecli.calibrate.predicted_row import PHASE, MicrobenchmarkRow, PredictedRow, RowPredictor, seconds
from rooflinecli.calibrate.resolve_rows import floor_of, resolve
from rooflinecli.core.errors import DataError
from rooflinecli.engine import build_request
from rooflinecli.engine.evaluate import PHASES as CALIBRATED
from rooflinecli.importers.logs import read
from rooflinecli.importers.source import MeasuredRow, Options
from rooflinecli.questions.compare.question import INSIDE, GapExplanation, MeasuredGap
from rooflinecli.questions.estimate.answer import estimate
from rooflinecli.questions.estimate.explain import explain as assumptions
from rooflinecli.specs.options import OPTIONS
from rooflinecli.specs.request import MOST as MEMORY_LIMIT

WIDEST, STEPS = 2.0, 81  # range and number of the logarithms of a group's factor that are tried
MOST = 4  # explanations of a row
_LOAD, _LENGTHS = ("batch", "concurrency", "qps"), ("prompt", "output", "seq", "tokens")


def against(rows: Sequence[PredictedRow]) -> list[MeasuredGap]:
    """Every row with its estimate: seconds, floor, interval, gap and what would explain it."""
    return [_gap(row) for row in rows if not isinstance(row, MicrobenchmarkRow)]


def _gap(row: PredictedRow) -> MeasuredGap:
    low = high = None
    if row.quantity in ("static", "throughput"):
        expected = float(seconds(row.ctx, row.layout, row.quantity))
    else:  # with the chip file's own calibration
        answer = CALIBRATED[PHASES[row.phase]](row.ctx, row.layout)
        expected, (low, high) = float(answer.time_s), (float(bound) for bound in answer.interval_s)
    floor, measured, verdict = floor_of(row), row.measured, ""
    if measured < floor:
        verdict = "impossible: below the floor"
    elif low is not None and high is not None:
        verdict = INSIDE if low <= measured <= high else "slower" if measured > high else "faster"
    return MeasuredGap(
        row=row.where,
        quantity=row.quantity,
        software=software(row),
        measured_s=measured,
        floor_s=floor,
        expected_s=expected,
        interval_s=None if low is None or high is None else (low, high),
        gap=measured / expected - 1,
        verdict=verdict,
        explained_by=explanations(row) if measured >= floor else [],
    )


def explanations(row: PredictedRow) -> list[GapExplanation]:
    """Changes that would each close the gap alone.

    Factors on groups of constants, by how many shipped errors (80%) they take; for training also assumptions about the run, by the
    share of a rate or setting.
    """
    wanted, grid, groups = float(np.log(row.measured)), np.linspace(-WIDEST, WIDEST, STEPS), BLOCKS[row.phase]
    x = np.kron(np.eye(len(groups)), grid)  # one group moved at a time
    times = RowPredictor([row]).log_seconds(x)[0].reshape(len(groups), STEPS)
    factors = list[GapExplanation]()
    for group, line in zip(groups, times, strict=True):
        if line[0] <= wanted <= line[-1] and line[-1] - line[0] > 1e-6:
            move = float(np.interp(wanted, line, grid))
            asks = abs(move) / float(np.log1p(group.error))
            factors.append(GapExplanation(what=f"{group.name} {np.expm1(move):+.0%}", asks=asks))
    found = sorted(factors, key=lambda explanation: explanation.asks)[:MOST]
    if row.phase == "train":
        result = estimate(row.ctx.request)
        gaps = assumptions("train", row.ctx.request, result, row.layout, row.measured)[:MOST]
        found += [GapExplanation(what=gap.assumption, asks=gap.change) for gap in gaps]
    return found


def rows_of_plan(files: Sequence[Path], options: Options) -> list[MeasuredGap]:
    """The rows of the files that have the plan's load, each with its estimate and its `phase`.

    Raises DataError for a file that cannot be read as measurements, and where no row matches the plan.
    """
    measured = [row for file in files for row in read(file)]
    matching = [row for row in measured if _matches(row, options)]
    if not matching:
        values = {
            name: sorted({f"{_number(row.options, name):g}" for row in measured if row.options.get(name) is not None})
            for name in (*_LOAD, *_LENGTHS)
        }
        loads = ", ".join(f"{name} {' or '.join(v[:6])}" for name, v in values.items() if v)
        raise DataError(f"{measured[0].where}: no row matches this plan; the file has {loads}")
    train = any(PHASE.get(row.quantity) == "train" for row in matching)
    stated = any(name in row.options for row in matching for name in _LOAD)  # else the plan's load is taken
    given = {k: v for k, v in options.items() if k != "phase" and (train or k not in _LOAD or not stated)}
    resolved = resolve(matching, given)
    if not resolved.rows:
        why = "; ".join(dict.fromkeys(reason for _, reason in [*resolved.aside, *resolved.doubts]))
        raise DataError(f"{matching[0].where}: no row can be compared with this plan: {why}")
    phases = {name: "prefill" if phase == "ttft" else phase for name, phase in PHASE.items()}
    gaps = against(resolved.rows)
    for gap in gaps:
        gap.phase = phases[gap.quantity]
    return gaps


def _matches(row: MeasuredRow, options: Options) -> bool:
    """Whether the load and the lengths that a row states are those of the plan."""
    plan = [_number(options, k) for k in ("batch", "concurrency") if k in options]
    own = [_number(row.options, k) for k in ("batch", "concurrency") if row.options.get(k) is not None]
    if plan and own and plan[0] != own[0] and MEMORY_LIMIT not in plan:
        return False
    return all(
        _number(row.options, k) == _number(options, k)
        for k in (*_LENGTHS, "qps")
        if k in options and row.options.get(k) is not None
    )


def _number(options: Options, name: str) -> object:
    return build_request.value(OPTIONS[name], options[name])
