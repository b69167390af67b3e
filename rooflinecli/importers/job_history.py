"""Histories of a run's jobs: `sacct -P`, CSV or JSON lines with a start, an end and a state of each."""

from __future__ import annotations

import csv
import json
from contextlib import suppress
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import TypedDict

from rooflinecli.core.errors import DataError
from rooflinecli.importers.source import read_text

FAILED = ("FAILED", "NODE_FAIL", "BOOT_FAIL", "OUT_OF_MEMORY", "ERROR", "CRASHED")
PLANNED = ("CANCELLED", "PREEMPTED", "TIMEOUT", "REQUEUED", "SUSPENDED", "STOPPED", "DEADLINE")
DONE = ("COMPLETED", "RUNNING", "SUCCEEDED", "FINISHED")


class History(TypedDict):
    """Counts of ends, exposure and the median time from a failure to the next start."""

    jobs: int
    failures: int
    planned: int
    device_hours: float
    restart_s: float | None


def history(path: Path, devices: float) -> History:
    """Read a history of jobs on `devices` devices, or on as many as a column `devices` says. Raises DataError with file:line."""
    ended: list[tuple[float, float, str]] = []
    hours = 0.0
    for line, row in _rows(path):
        if "." in row.get("jobid", ""):
            continue  # a step of a job
        state = row.get("state", "").split(" ")[0].rstrip("+").upper()
        if state in ("PENDING", "") or row.get("start", "").lower() in ("unknown", "none"):
            continue
        if state not in (*FAILED, *PLANNED, *DONE):
            raise DataError(f"{path}:{line}: unknown state '{state}'; expected one of {', '.join((*FAILED, *PLANNED, *DONE))}")  # fmt: skip
        if state == "RUNNING" and row.get("end", "").lower() in ("unknown", ""):
            continue
        start, end = (_time(row.get(name, ""), name, path, line) for name in ("start", "end"))
        if end < start:
            raise DataError(f"{path}:{line}: the job ends before it starts")
        count = row.get("devices", "")
        if count and not count.replace(".", "", 1).isdigit():
            raise DataError(f"{path}:{line}: devices '{count}': expected a number")
        hours += (end - start) / 3600 * (float(count) if count else devices)
        ended.append((start, end, state))
    if not ended:
        why = f"{path}: no job with a start, an end and a state; sacct -P -o JobID,Start,End,State prints them"
        raise DataError(why)
    ended.sort()
    gaps = [later[0] - job[1] for job, later in pairwise(ended) if job[2] in FAILED]
    waits = [gap for gap in gaps if gap >= 0]
    failures, planned = (sum(state in kind for _, _, state in ended) for kind in (FAILED, PLANNED))
    restart = median(waits) if waits else None
    return History(jobs=len(ended), failures=failures, planned=planned, device_hours=hours, restart_s=restart)


def _rows(path: Path) -> list[tuple[int, dict[str, str]]]:
    """Lines by their column names in lower case."""
    written = read_text(path, give="a history of jobs").splitlines()
    lines = [(i, text) for i, text in enumerate(written, 1) if text.strip()]
    if lines and lines[0][1].lstrip().startswith("{"):
        rows = []
        for number, text in lines:
            try:
                row = json.loads(text)
            except ValueError as error:
                raise DataError(f"{path}:{number}: not JSON: {error}") from None
            if not isinstance(row, dict):
                raise DataError(f"{path}:{number}: expected an object with start, end and state")
            rows.append((number, {str(k).lower(): "" if v is None else str(v) for k, v in row.items()}))
        return rows
    if not lines:
        return []
    head = lines[0][1]
    separator = "|" if "|" in head else ","
    names = [name.strip().lower() for name in head.split(separator)]
    if not {"start", "end", "state"} <= set(names):
        raise DataError(f"{path}:{lines[0][0]}: expected columns start, end and state, got {', '.join(names)[:80]!r}")
    values = csv.reader((text for _, text in lines[1:]), delimiter=separator)
    return [(n, dict(zip(names, row, strict=False))) for (n, _), row in zip(lines[1:], values, strict=True)]


def _time(written: str, name: str, path: Path, line: int) -> float:
    """Seconds of a date in ISO notation or of a UNIX time."""
    for read in (float, lambda text: datetime.fromisoformat(text).timestamp()):
        with suppress(ValueError):
            return float(read(written))
    raise DataError(f"{path}:{line}: {name} '{written}': expected a date such as 2026-01-31T12:00:00")
