"""Measured files beside one plan: which of their rows are of its load, and what the estimate says of each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rooflinecli.calibrate.gap_explanations import against
from rooflinecli.calibrate.predicted_row import PHASE
from rooflinecli.calibrate.resolve_rows import resolve
from rooflinecli.core.errors import DataError
from rooflinecli.engine import build_request
from rooflinecli.importers.logs import read
from rooflinecli.importers.source import MeasuredRow
from rooflinecli.specs.options import OPTIONS
from rooflinecli.specs.request import MOST

_LOAD = ("batch", "concurrency", "qps")  # one of them says how many are under way
_SAME = ("prompt", "output", "seq", "tokens")
_NAMED = {"ttft": "prefill"}  # what a first token is called among the phases of an estimate


def rows(files: Sequence[Path], options: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of the files that are of the plan's load, each beside its estimate, with the `phase` it speaks of.

    Raises DataError for a file that cannot be read as measurements, and where no row is of this plan.
    """
    readings = [reading for file in files for reading in read(file)]
    mine = [reading for reading in readings if _alike(reading, options)]
    if not mine:
        raise DataError(f"{readings[0].where}: no row is of this plan; {_said(readings)}")
    train = any(PHASE.get(reading.quantity) == "train" for reading in mine)
    given = {k: v for k, v in options.items() if k != "phase" and (train or k not in _LOAD or _needed(mine, k))}
    found = resolve(mine, given)
    if not found.questions:
        why = "; ".join(dict.fromkeys(reason for _, reason in [*found.aside, *found.doubts]))
        raise DataError(f"{mine[0].where}: no row can be held against this plan: {why}")
    compared = against(found.questions)["rows"]
    return [row | {"phase": _NAMED.get(PHASE[row["quantity"]], PHASE[row["quantity"]])} for row in compared]


def _needed(mine: list[MeasuredRow], name: str) -> bool:
    """Whether no row says its own load, so that the plan's is taken."""
    return not any(k in reading.options for reading in mine for k in _LOAD)


def _alike(reading: MeasuredRow, options: dict[str, Any]) -> bool:
    """Whether what a row says of its load and lengths is what the plan says."""
    loads = [_number(options, k) for k in ("batch", "concurrency") if k in options]
    theirs = [_number(reading.options, k) for k in ("batch", "concurrency") if reading.options.get(k) is not None]
    if loads and theirs and loads[0] != theirs[0] and MOST not in loads:
        return False
    return all(
        _number(reading.options, k) == _number(options, k)
        for k in (*_SAME, "qps")
        if k in options and reading.options.get(k) is not None
    )


def _number(options: dict[str, Any], name: str) -> Any:
    return build_request.value(OPTIONS[name], options[name])


def _said(readings: list[MeasuredRow]) -> str:
    """What the rows say of their load."""
    names = (*_LOAD, *_SAME)
    said = {k: sorted({f"{_number(r.options, k):g}" for r in readings if r.options.get(k) is not None}) for k in names}
    return "the file says " + ", ".join(f"{k} {' or '.join(v[:6])}" for k, v in said.items() if v)
