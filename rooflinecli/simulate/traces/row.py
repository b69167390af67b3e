"""What every format of recorded load gives: rows of instant, lengths, session and prompt blocks; and jobs made of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

from rooflinecli import units
from rooflinecli.errors import DataError, UsageError
from rooflinecli.files import absent
from rooflinecli.simulate.job import Job
from rooflinecli.specs.registry import kinds

HEAD = 4096  # characters by which a format is told
LONGEST = 1 << 24
LATEST = 1e9  # s, thirty years: beyond it an instant and a millisecond after it are one number
CHARACTERS = 4  # per token, of text that nobody counted: English under today's tokenizers


@dataclass(slots=True)
class Row:
    """A recorded request. time: seconds, None where the format has none (then a rate must be given). think: seconds after
    the turn before it in its session ended, for turns without an instant. hashes: keys of prompt blocks of `span` tokens."""

    time: float | None
    prompt: int
    output: int
    session: str = ""
    hashes: tuple[int | str, ...] = ()
    span: int = 0
    think: float | None = None


@dataclass
class Trace:
    """Rows in order of time, how many were skipped as malformed, and from what format."""

    rows: list[Row]
    skipped: int
    format: str
    timed: bool = field(init=False)

    def __post_init__(self) -> None:
        self.timed = all(row.time is not None or row.think is not None for row in self.rows)

    @property
    def means(self) -> tuple[float, float]:
        """Mean prompt and answer, in tokens."""
        count = max(len(self.rows), 1)
        return sum(r.prompt for r in self.rows) / count, sum(r.output for r in self.rows) / count

    def jobs(
        self, instants: Callable[[int], list[float]] | None = None
    ) -> tuple[list[Job], Callable[[Job], Job | None] | None]:
        """Jobs that come by themselves, in order, and what follows when one ends (None where nothing does).

        `instants` makes arrivals for so many, in place of those recorded.
        """
        alone: list[Row] = []
        later: dict[str, list[Row]] = {}
        for row in self.rows:
            if row.think is not None and row.session in later:
                later[row.session].append(row)
                continue
            if row.session:
                later.setdefault(row.session, [])
            alone.append(row)
        when = instants(len(alone)) if instants is not None else [float(r.time or 0.0) for r in alone]
        jobs = [_job(i, t, row) for i, (t, row) in enumerate(zip(when, alone, strict=True))]
        jobs.sort(key=lambda job: job.arrival)
        if not any(later.values()):
            return jobs, None
        waiting = {name: rows[::-1] for name, rows in later.items() if rows}
        count = [len(jobs)]

        def follow(job: Job) -> Job | None:
            rows = waiting.get(job.session)
            if not rows:
                return None
            row = rows.pop()
            following = _job(count[0], job.finish + float(row.think or 0.0), row)
            count[0] += 1
            return following

        return jobs, follow


def _job(index: int, arrival: float, row: Row) -> Job:
    return Job(index, arrival, row.prompt, row.output, row.session, row.hashes, row.span, row.think or 0.0)


def bad(where: str, why: str) -> DataError:
    """The error of a malformed row."""
    return DataError(f"{where}: {why}; mend the row, or --skip-bad leaves such rows out")


def tokens(where: str, name: str, written: Any, least: int = 1) -> int:
    """A count of tokens. Raises DataError."""
    try:
        found = float(written)
        whole = int(found)
    except (TypeError, ValueError, OverflowError):
        raise bad(where, f"{name} is {str(written)[:40]!r}, expected a whole number of tokens") from None
    if whole != found or not least <= whole <= LONGEST:
        raise bad(where, f"{name} is {str(written)[:40]}, expected a whole number from {least} to {LONGEST:,}")
    return whole


def seconds(where: str, name: str, written: Any) -> float:
    """An instant or a pause in seconds. Raises DataError."""
    try:
        found = float(written)
    except (TypeError, ValueError):
        found = float("nan")
    if not -1e18 < found < 1e18:
        raise bad(where, f"{name} is {str(written)[:40]!r}, expected seconds")
    return found


def estimated(text: str) -> int:
    """Tokens of a text nobody counted."""
    return max(len(text) // CHARACTERS, 1)


Read = Iterator[Row | DataError]


def lines(path: Path) -> Iterator[tuple[str, dict[str, Any] | DataError]]:
    """(file:line, object) of a JSONL file; an error for a line that is none."""
    with path.open(encoding="utf-8", errors="replace") as stream:
        for number, line in enumerate(stream, 1):
            if not line.strip():
                continue
            where = f"{path}:{number}"
            try:
                found = json.loads(line)
            except ValueError as error:
                yield where, bad(where, f"not JSON ({error})")
                continue
            yield where, found if isinstance(found, dict) else bad(where, "expected an object")


def table(path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """(file:line, column -> text) of a CSV file with a heading; columns by their names in lower case."""
    import csv

    with path.open(newline="", encoding="utf-8-sig", errors="replace") as stream:
        reader = csv.reader(stream)
        names = [name.strip().lower() for name in next(reader, [])]
        for row in reader:
            if row:
                yield f"{path}:{reader.line_num}", dict(zip(names, row, strict=False))


def guarded(where: str, make: Callable[[], Row]) -> Row | DataError:
    """A row, or the error that stands in its place."""
    try:
        return make()
    except DataError as error:
        return error


@lru_cache(maxsize=4)
def read(name: str, speed: float = 1.0, window: str = "", skip_bad: bool = False, most: int = 0) -> Trace:
    """The trace of a file in any format of this folder, its times from zero, `speed` times as fast, cut to a window and a count.

    Raises UsageError for a file that is not there or of no known format and for a window that nothing falls into, DataError with file:line for a malformed row.
    """
    path = Path(name)
    if not path.is_file():
        raise UsageError(
            f"--trace {name}: {absent(path)}; give a recorded load (docs/simulate.md lists the formats)", "trace"
        )
    format, reader = _reader(path)
    rows, skipped = [], 0
    for row in reader.rows(path):
        if isinstance(row, DataError):
            if not skip_bad:
                raise row
            skipped += 1
        else:
            rows.append(row)
    kept = _cut(_ordered(rows), speed, window, most)
    if rows and not kept:
        raise UsageError(f"--window {window}: no request of {name} falls into it; widen it or leave it out", "window")
    if not kept:
        raise UsageError(f"--trace {name}: it holds no request; give one that does", "trace")
    last = max(max(row.time or 0.0, row.think or 0.0) for row in kept)
    if last > LATEST:
        raise UsageError(
            f"--trace {name}: a request comes {last:.3g} s after another, more than the {LATEST:g} s that can be told apart; "
            "give times in the unit of the format, or take a part with --window",
            "trace",
        )
    return Trace(kept, skipped, format)


def _reader(path: Path) -> tuple[str, Any]:
    with path.open(encoding="utf-8-sig", errors="replace") as stream:
        head = stream.read(HEAD)
    for name in kinds("simulate/traces"):
        if name == "row":
            continue
        reader = import_module(f"rooflinecli.simulate.traces.{name.replace('-', '_')}")
        if reader.matches(head):
            return name, reader
    known = ", ".join(name for name in kinds("simulate/traces") if name != "row")
    raise UsageError(
        f"--trace {path}: none of the formats known ({known}); a CSV with the heading time,prompt,output always works",
        "trace",
    )


def _ordered(rows: list[Row]) -> list[Row]:
    """By time where every row has one; sessions whose turns follow one another keep the order of the file."""
    if rows and all(row.time is not None for row in rows):
        return sorted(rows, key=lambda row: float(row.time or 0.0))
    return rows


def _cut(rows: list[Row], speed: float, window: str, most: int) -> list[Row]:
    """Times from zero, the window of recorded seconds, the first so many; faster by `speed`, think times too."""
    known = [row.time for row in rows if row.time is not None]
    start = min(known, default=0.0)
    low, high = between(window) if window else (0.0, float("inf"))
    kept = []
    for row in rows:
        time = None if row.time is None else row.time - start
        if time is not None and not low <= time < high:
            continue
        think = None if row.think is None else row.think / speed
        moved = None if time is None else (time - low) / speed
        kept.append(Row(moved, row.prompt, row.output, row.session, row.hashes, row.span, think))
    return kept[:most] if most else kept


def between(window: str) -> tuple[float, float]:
    """`10min:20min`, seconds from the first request. Raises UsageError."""
    low, colon, high = window.partition(":")
    try:
        found = tuple(float(t) if t.replace(".", "", 1).isdigit() else units.parse(t, "s") for t in (low or "0", high))
    except ValueError:
        found = (0.0, 0.0)
    if not colon or not 0 <= found[0] < found[1]:
        raise UsageError(f"--window {window}: write two times since the first request, such as 10min:20min", "window")
    return found[0], found[1]
