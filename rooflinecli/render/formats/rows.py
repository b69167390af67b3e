"""Swept points as they stream by: csv, json, jsonl, Parquet, markdown and table, one writer each. Files hold SI; tables are for people.

A writer takes chunks (column name -> array, or one value for the whole chunk) and writes to an open text stream.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from rooflinecli.core.errors import UsageError
from rooflinecli.core.extras import install
from rooflinecli.engine import legality
from rooflinecli.questions.sweep.axes import Space
from rooflinecli.questions.sweep.question import SweepAnswer
from rooflinecli.questions.sweep.run import Choice, SweepBlock, points
from rooflinecli.render import blocks
from rooflinecli.render.answer import cell, inert, to_json
from rooflinecli.render.blocks import Picture
from rooflinecli.render.formats import terminal
from rooflinecli.render.views import sweep

Chunk = dict[str, Any]


def length(chunk: Chunk) -> int:
    return len(chunk["feasible"])


def texts(column: Any, rows: int, null: str = "") -> list[str]:
    """A column as machine-readable text: shortest exact decimals, whole numbers without a point, `null` for nothing."""
    if not hasattr(column, "dtype"):
        return [_text(column, null)] * rows
    if column.dtype.kind == "b":
        return ["true" if value else "false" for value in column.tolist()]
    if column.dtype.kind == "f" and not (column % 1).any() and abs(column).max(initial=0) < 1e15:
        return list(map(str, column.astype("int64").tolist()))
    if column.dtype.kind == "f" and (abs(column) < 1e300).all():  # finite: spares the checks below
        return [text[:-2] if text.endswith(".0") else text for text in map(repr, column.tolist())]
    return [_text(value, null) for value in column.tolist()]


def _text(value: object, null: str) -> str:
    if value is None or value != value or value in (float("inf"), float("-inf")):
        return null
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)


class Jsonl:
    """One JSON object on each line."""

    def __init__(self, stream: TextIO, names: list[str], about: dict[str, object]):
        self.stream, self.names = stream, names

    def add(self, chunk: Chunk) -> None:
        self.stream.write("".join(text + "\n" for text in objects(chunk, self.names)))

    def close(self) -> None:
        pass


class Csv(Jsonl):
    """A header and one line per point; infeasible quantities are empty."""

    def __init__(self, stream: TextIO, names: list[str], about: dict[str, object]):
        super().__init__(stream, names, about)
        stream.write(",".join(names) + "\n")

    def add(self, chunk: Chunk) -> None:
        rows = length(chunk)
        columns = [
            [_quoted(t) for t in texts(chunk[n], rows)] if _words(chunk[n]) else texts(chunk[n], rows)
            for n in self.names
        ]
        self.stream.write("\n".join(map(",".join, zip(*columns, strict=True))) + "\n" if rows else "")


def _words(column: object) -> bool:
    return column.dtype.kind not in "fb" if hasattr(column, "dtype") else isinstance(column, str)


def _quoted(text: str) -> str:
    text = inert(text)
    return '"' + text.replace('"', '""') + '"' if any(c in text for c in ',"\n') else text


def objects(chunk: Chunk, names: list[str]) -> Iterator[str]:
    """One JSON object per point."""
    rows = length(chunk)
    keys = [json.dumps(n) + ": " for n in names]
    columns = []
    for key, name in zip(keys, names, strict=True):
        column = chunk[name]
        values = [json.dumps(v) for v in texts(column, rows)] if _words(column) else texts(column, rows, "null")
        columns.append([key + v for v in values])
    for row in zip(*columns, strict=True):
        yield "{" + ", ".join(row) + "}"


class Json:
    """One object: what was asked, and `points`, a list written as it streams."""

    def __init__(self, stream: TextIO, names: list[str], about: dict[str, object]):
        self.stream, self.names, self.first = stream, names, True
        stream.write(json.dumps({"schema": "roofline/sweep/2", **about}, indent=2)[:-2] + ',\n  "points": [')

    def add(self, chunk: Chunk) -> None:
        for text in objects(chunk, self.names):
            self.stream.write(("\n    " if self.first else ",\n    ") + text)
            self.first = False

    def close(self) -> None:
        self.stream.write("\n  ]\n}\n")


class Table:
    """Rows with units for people, at most `limit` of them."""

    limit = 200

    def __init__(self, stream: TextIO, names: list[str], about: dict[str, object], width: int = terminal.PIPE):
        self.stream, self.names, self.width = stream, names, width
        self.grid: list[tuple[str, ...]] = []
        self.total = 0

    def add(self, chunk: Chunk) -> None:
        rows = min(length(chunk), self.limit - len(self.grid))
        self.total += length(chunk)
        heads = (chunk[n][:rows].tolist() if hasattr(chunk[n], "dtype") else [chunk[n]] * rows for n in self.names)
        self.grid += zip(
            *([sweep.shown(n, v) for v in head] for n, head in zip(self.names, heads, strict=True)), strict=True
        )

    def lines(self) -> list[str]:
        return terminal.table(blocks.Table(sweep.columns(self.names), self.grid, numeric=True), self.width)

    def close(self) -> None:
        lines = self.lines() if self.grid else []
        if self.total > len(self.grid):
            more = f"… {self.total - len(self.grid):,} more points; --format csv, jsonl or parquet holds them all"
            lines += terminal.prose(more, self.width)
        self.stream.write("".join(line + "\n" for line in lines))


class Markdown(Table):
    """The same rows as a Markdown table, all columns."""

    limit = 2000

    def lines(self) -> list[str]:
        return [f"| {' | '.join(map(cell, row))} |" for row in (self.names, ["---:"] * len(self.names), *self.grid)]


class Html:
    """A self-contained page: the rows as a table, the picture of the points, and all of it as JSON inside."""

    picture: Picture | None = None

    def __init__(self, stream: TextIO, names: list[str], about: dict[str, Any]):
        self.stream, self.answer = stream, SweepAnswer(points=[], **about)

    def add(self, chunk: Chunk) -> None:
        self.answer.points += points(chunk)

    def close(self) -> None:
        from rooflinecli.render.report.page import whole_of

        drawn = [self.picture] if self.picture is not None and any(self.picture.series.values()) else []
        self.stream.write(whole_of("roofline sweep", sweep.view(self.answer), drawn, to_json(self.answer)))


GROUP = 1_000_000  # rows of a row group of Parquet


class Parquet:
    """Writes to a path. Raises UsageError when pyarrow is not installed."""

    def __init__(self, path: Path, names: list[str], about: dict[str, object]):
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError:
            raise UsageError(f"--format parquet needs pyarrow; install it with `{install('parquet')}`") from None
        self.arrow, self.names, self.path, self.about = pyarrow, names, path, about
        self.writer: Any = None
        self.held: list[Any] = []

    def add(self, chunk: Chunk) -> None:
        pa, rows = self.arrow, length(chunk)
        batch = pa.table({name: self._column(chunk[name], rows) for name in self.names})
        if self.writer is None:
            schema = batch.schema.with_metadata({"roofline": json.dumps(self.about)})
            self.writer = pa.parquet.ParquetWriter(self.path, schema)
        self.held.append(batch.cast(self.writer.schema))
        if sum(b.num_rows for b in self.held) >= GROUP:
            self._flush()

    def _column(self, column: object, rows: int) -> object:
        pa = self.arrow
        if not hasattr(column, "dtype"):
            return pa.array([column]).take(pa.array([0] * rows))
        return pa.array(column, type=pa.string()) if column.dtype.kind == "O" else pa.array(column, from_pandas=True)

    def _flush(self) -> None:
        if self.held:
            self.writer.write_table(self.arrow.concat_tables(self.held))
            self.held = []

    def close(self) -> None:
        if self.writer is None:
            empty = self.arrow.table({name: self.arrow.array([], type=self.arrow.float64()) for name in self.names})
            self.writer = self.arrow.parquet.ParquetWriter(self.path, empty.schema)
        self._flush()
        self.writer.close()


WRITERS: dict[str, Callable[..., Any]] = {
    kind.__name__.lower(): kind for kind in (Csv, Json, Jsonl, Markdown, Html, Parquet)
}


MOST_POINTS, MOST_SERIES = 20_000, 12


class Gathered:
    """Collects what a plot of `kind` (latency, roofline, memory) shows while a sweep streams by."""

    def __init__(self, kind: str, space: Space):
        self.kind, self.space = kind, space
        self.phase = "decode" if "decode" in space.phases else space.phases[0]
        self.every = max(space.points // MOST_POINTS, 1)
        numbers = [a for a in space.sizes if len(a.values) > 1]
        self.along = next(
            (a.name for a in numbers if a.name == "batch"),
            max(numbers, key=lambda a: len(a.values)).name if numbers else "batch",
        )
        self.by = self._series([a.name for a in numbers if a.name != self.along])
        self.picture = self._empty()

    def _series(self, names: list[str]) -> list[str]:
        """The axes whose values name a series: as many of the short ones as stay readable."""
        sizes = {a.name: len(a.values) for a in self.space.sizes}
        kept, count = [], 1
        for a in self.space.structure:
            count *= len(a.values)
        for name in sorted(names, key=lambda n: sizes[n]):
            count *= sizes[name]
            if count <= MOST_SERIES:
                kept.append(name)
        return kept

    def _empty(self) -> Picture:
        if self.kind == "roofline":
            return Picture(f"{self.phase} on the roofline", "FLOP per byte", "FLOP/s per device", True)
        if self.kind == "memory":
            return Picture(f"{self.phase} memory", self.along, "GB per device", False)
        latency = {"decode": "inter-token latency, ms", "prefill": "time to first token, ms"}.get(
            self.phase, "step time, ms"
        )
        return Picture(f"{self.phase}: latency against throughput", latency, "tokens/s per device", False)

    def add(self, choice: Choice, answer: SweepBlock) -> None:
        """Take a thinned part of the feasible points of a box (of all legal ones where memory itself is shown)."""
        if not answer.phases:
            return
        fits = legality.all_hold(answer.rules)
        for _, enough in answer.fits if self.kind != "memory" else ():
            fits = fits & enough
        chosen = np.flatnonzero(answer.flat(fits))[:: self.every]
        x, y = (answer.flat(v)[chosen] for v in self._values(answer))
        names = [answer.flat(answer.axes[n])[chosen] for n in self.by]
        fixed = " ".join(str(choice[a.name]) for a in self.space.structure if len(a.values) > 1)
        for i in range(len(chosen)):
            label = " ".join([fixed, *(f"{n}={column[i]:g}" for n, column in zip(self.by, names, strict=True))]).strip()
            self.picture.series.setdefault(label, []).append((float(x[i]), float(y[i])))
        # Roofs, or the capacity, of the chip
        if self.kind == "memory":
            self.picture.limits[f"{choice['hw']} capacity"] = (
                float(np.max(answer.phases[self.phase].memory.capacity_bytes)) / 1e9
            )
        elif self.kind == "roofline":
            peak, bandwidth = (float(np.max(answer.roofs[k])) for k in ("peak", "bandwidth"))
            self.picture.roofs[f"{choice['hw']} {choice.get('dtype', '')}".strip()] = peak, bandwidth

    def _values(self, answer: SweepBlock) -> tuple[Any, Any]:
        result = answer.phases[self.phase]
        if self.kind == "memory":
            return answer.axes.get(self.along, np.nan), result.memory.total_bytes / 1e9
        if self.kind == "roofline":
            parts, roofs = result.resources_s, answer.roofs
            intensity = parts.compute * roofs["peak"] / (parts.memory * roofs["bandwidth"])
            return intensity, result.mfu * roofs["peak"]
        return result.time_s * 1e3, result.tokens_per_s / answer.layout["devices"]
