"""A load: synthetic, of an open loop's arrival times and distributions of lengths, or recorded in a trace file and replayed."""

from __future__ import annotations

import gzip
import math
import warnings
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import count
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rooflinecli.core import units
from rooflinecli.core.errors import DataError, RooflineWarning, UsageError
from rooflinecli.core.files import missing_reason
from rooflinecli.importers.traces.formats import FORMATS, Row, TraceFormat, beginning
from rooflinecli.simulate.request import INF, SimRequest
from rooflinecli.specs import parse_values

EXAMPLES = "2048, uniform:512,4096, lognormal:2048,0.8 (mean, sigma of the logarithm), exponential:256"
LONGEST = 1 << 24  # tokens
_PARAMETERS = {"uniform": 2, "lognormal": 2, "exponential": 1}


def arrival_times(written: str, rate: float, count: int, seed: int) -> list[float]:
    """`count` arrivals at `rate` per second: `poisson`, `gamma:CV` (coefficient of variation of the gaps) or `constant`.

    Raises UsageError for anything else.
    """
    rng = np.random.Generator(np.random.PCG64([seed, 1]))
    gaps: NDArray[np.float64]
    if written == "poisson":
        gaps = rng.exponential(1 / rate, count)
    elif written == "constant":
        gaps = np.full(count, 1 / rate)
    else:
        kind, _, text = written.partition(":")
        if kind != "gamma":
            raise UsageError(
                f"--arrivals {written}: expected poisson, constant or gamma:CV, such as gamma:2", "arrivals"
            )
        try:
            cv = float(text)
        except ValueError:
            cv = 0.0
        if not 0 < cv < 100:
            raise UsageError(
                f"--arrivals {written}: give a coefficient of variation above 0, such as gamma:2", "arrivals"
            )
        gaps = rng.gamma(cv**-2, cv**2 / rate, count)
    gaps[0] = 0.0
    return [float(t) for t in np.cumsum(gaps)]


@dataclass(frozen=True)
class Lengths:
    """A distribution of whole numbers of at least one token; each is scaled by a factor drawn uniformly from the range `spread`."""

    kind: str
    values: tuple[float, ...]
    spread: tuple[float, float] = (1.0, 1.0)

    @property
    def mean(self) -> float:
        """Mean in tokens, before rounding."""
        center = sum(self.values) / 2 if self.kind == "uniform" else self.values[0]
        return max(center * sum(self.spread) / 2, 1.0)

    def draw(self, count: int, seed: int, stream: int) -> list[int]:
        """`count` lengths; equal seeds and streams draw equal lengths."""
        rng = np.random.Generator(np.random.PCG64([seed, stream]))
        drawn: NDArray[np.float64]
        if self.kind == "fixed":
            drawn = np.full(count, self.values[0])
        elif self.kind == "uniform":
            drawn = rng.uniform(self.values[0], self.values[1], count)
        elif self.kind == "exponential":
            drawn = rng.exponential(self.values[0], count)
        else:
            mean, sigma = self.values
            drawn = rng.lognormal(math.log(mean) - sigma * sigma / 2, sigma, count)
        if self.spread != (1.0, 1.0):
            drawn = drawn * rng.uniform(*self.spread, count)
        return [int(v) for v in np.clip(np.rint(drawn), 1, LONGEST)]


def lengths(option: str, written: object, spread: tuple[float, float] = (1.0, 1.0)) -> Lengths:
    """Parse a length or a distribution of lengths. Raises UsageError that names the option."""
    kind, colon, rest = str(written).partition(":")
    if not colon:
        return Lengths("fixed", (max(parse_values.number(f"--{option}", written, "length", option), 1.0),), spread)
    parts = rest.split(",")
    if kind not in _PARAMETERS or len(parts) != _PARAMETERS[kind]:
        raise UsageError(f"--{option} {written}: not a length or a distribution; write {EXAMPLES}", option)
    values = [
        parse_values.number(f"--{option}", part.strip(), "length" if i == 0 or kind == "uniform" else "number", option)
        for i, part in enumerate(parts)
    ]
    below = kind == "uniform" and values[1] < values[0]
    if values[0] < 1 or below or (kind == "lognormal" and not 0 <= values[1] <= 5):
        raise UsageError(f"--{option} {written}: out of range; write {EXAMPLES}", option)
    return Lengths(kind, tuple(values), spread)


def spread(written: str) -> tuple[float, float]:
    """Parse --length-range `0.8:1`: factors between which every length is scaled. Raises UsageError."""
    low, colon, high = written.partition(":")
    try:
        factors = float(low), float(high)
    except ValueError:
        factors = (0.0, 0.0)
    if not colon or not 0 < factors[0] <= factors[1] <= 100:
        raise UsageError(f"--length-range {written}: write two fractions such as 0.8:1", "length-range")
    return factors


LATEST = 1e9  # s, thirty years: beyond it a float does not resolve a millisecond


@dataclass
class Trace:
    """Rows in order of time, how many were skipped as malformed or failed when they were recorded, and the format."""

    rows: list[Row]
    skipped: int
    format: str
    failed: int = 0

    @property
    def timed(self) -> bool:
        """Whether every row has an arrival or a think time."""
        return all(row.time is not None or row.think is not None for row in self.rows)

    @property
    def means(self) -> tuple[float, float]:
        """Mean ISL and OSL."""
        count = max(len(self.rows), 1)
        return sum(r.prompt for r in self.rows) / count, sum(r.output for r in self.rows) / count

    def jobs(
        self, instants: Callable[[int], list[float]] | None = None
    ) -> tuple[list[SimRequest], Callable[[SimRequest], SimRequest | None] | None]:
        """Requests that arrive by themselves, in order, and what follows when one ends (None where nothing does).

        `instants` draws that number of arrivals in place of the recorded ones.
        """
        first: list[Row] = []
        later: dict[str, list[Row]] = {}
        for row in self.rows:
            if row.think is not None and row.session in later:
                later[row.session].append(row)
                continue
            if row.session:
                later.setdefault(row.session, [])
            first.append(row)
        arrivals = instants(len(first)) if instants is not None else [float(r.time or 0.0) for r in first]
        jobs = [_job(i, t, row) for i, (t, row) in enumerate(zip(arrivals, first, strict=True))]
        jobs.sort(key=lambda job: job.arrival)
        if not any(later.values()):
            return jobs, None
        turns = {name: rows[::-1] for name, rows in later.items() if rows}
        index = count(len(jobs))

        def follow(job: SimRequest) -> SimRequest | None:
            rows = turns.get(job.session)
            if not rows:
                return None
            row = rows.pop()
            return _job(next(index), job.finish + float(row.think or 0.0), row)

        return jobs, follow


def _job(index: int, arrival: float, row: Row) -> SimRequest:
    return SimRequest(
        index, arrival, row.prompt, row.output, row.session, row.hashes, row.span, row.think or 0.0, row.label
    )


def read(name: str, speed: float = 1.0, window: str = "", skip_bad: bool = False, most: int = 0) -> Trace:
    """Read a trace file of any format, its times from zero, `speed` times as fast, cut to a window and a count.

    Raises UsageError for an unknown format and an empty window, DataError for a missing file and, with file:line, a malformed row.
    """
    path = Path(name)
    if not path.is_file():
        raise DataError(
            f"--trace {name}: {missing_reason(path)}; give a recorded load (docs/simulate.md lists the formats)"
        )
    state = path.stat()
    trace = _read(name, (state.st_mtime_ns, state.st_size), speed, window, skip_bad, most)
    if images := sum(row.images for row in trace.rows):
        warnings.warn(
            f"--trace {name}: {images:,} images in {sum(row.images > 0 for row in trace.rows):,} of {len(trace.rows):,} requests: prompts have "
            "the recorded tokens, the time of a vision encoder is left out; estimate prices it with --num-images",
            RooflineWarning,
            stacklevel=2,
        )
    return trace


@lru_cache(maxsize=4)
def _read(name: str, state: tuple[int, int], speed: float, window: str, skip_bad: bool, most: int) -> Trace:
    """Read each version of a file once: a run needs its trace several times."""
    path = Path(name)
    try:
        format, reader = _reader(path)
        rows, skipped, failed = _valid_rows(reader.rows(path), skip_bad)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{path}:1: gzip cannot unpack it ({error}); fetch the file again") from None
    if all(row.time is not None for row in rows):  # else turns of a session keep the order of the file
        rows.sort(key=lambda row: float(row.time or 0.0))
    kept = _cut(rows, speed, window, most)
    if rows and not kept:
        raise UsageError(
            f"--trace-window {window}: no request of {name} falls into it; widen it or leave it out", "trace-window"
        )
    if not kept:
        raise UsageError(f"--trace {name}: it holds no request; give one that does", "trace")
    last = max(max(row.time or 0.0, row.think or 0.0) for row in kept)
    if last > LATEST:
        raise UsageError(
            f"--trace {name}: a request comes {last:.3g} s after another, more than the {LATEST:g} s that the clock resolves; "
            "give times in the unit of the format, or take a part with --trace-window",
            "trace",
        )
    return Trace(kept, skipped, format, failed)


def _valid_rows(found: Iterable[Row | DataError | None], skip_bad: bool) -> tuple[list[Row], int, int]:
    """Rows, and how many were malformed and failed. Raises DataError for the first malformed one, unless they are skipped."""
    rows: list[Row] = []
    skipped = failed = 0
    for row in found:
        if row is None:
            failed += 1
        elif isinstance(row, Row):
            rows.append(row)
        elif skip_bad:
            skipped += 1
        else:
            raise row
    return rows, skipped, failed


def _reader(path: Path) -> tuple[str, TraceFormat]:
    head = beginning(path)
    for name, reader in FORMATS.items():
        if reader.matches(head):
            return name, reader
    first = head.strip().partition("\n")[0]
    seen = f"it begins {first[:40]!r}" if first else "it is empty"
    raise UsageError(
        f"--trace {path}: {seen}, none of the formats known ({', '.join(FORMATS)}); a CSV with the heading time,prompt,output always works",
        "trace",
    )


def _cut(rows: list[Row], speed: float, window: str, most: int) -> list[Row]:
    """Shift times to zero, keep the window of recorded seconds and the first `most` rows, divide times and think times by `speed`.

    A later turn is inside where the first of its session is.
    """
    start = min((row.time for row in rows if row.time is not None), default=0.0)
    low, high = between(window) if window else (0.0, INF)
    kept, begun = [], dict[str, bool]()
    for row in rows:
        time = None if row.time is None else row.time - start
        inside = time is None or low <= time < high
        if row.think is not None and row.time is None and row.session in begun:
            inside = begun[row.session]
        else:
            begun.setdefault(row.session, inside)
        if inside:
            think = None if row.think is None else row.think / speed
            kept.append(replace(row, time=None if time is None else (time - low) / speed, think=think))
    return kept[:most] if most else kept


def between(window: str) -> tuple[float, float]:
    """Parse --trace-window `10min:20min`, in seconds from the first request. Raises UsageError."""
    low, colon, high = window.partition(":")
    try:
        start, end = (float(t) if t.replace(".", "", 1).isdigit() else units.parse(t, "s") for t in (low or "0", high))
    except ValueError:
        start = end = 0.0
    if not colon or not 0 <= start < end:
        raise UsageError(
            f"--trace-window {window}: write two times since the first request, such as 10min:20min", "trace-window"
        )
    return start, end
