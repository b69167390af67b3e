"""Blocks of an answer, independent of the format: headlines, pairs, tables, pictures of points, notes, commands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from typing import Any

from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.render.numbers import NONE
from rooflinecli.render.numbers import text as written


@dataclass(frozen=True)
class Headline:
    """The first line of an answer, which stands out where a terminal can show that."""

    text: str


@dataclass(frozen=True)
class Prose:
    """Sentences, broken where the line ends; the lines after the first are indented by `indent`."""

    text: str
    indent: int = 0
    style: str = ""  # "dim" or "red"


@dataclass(frozen=True)
class Pairs:
    """Labels and values, one pair to a line, under a title where there is one."""

    rows: Sequence[tuple[str, str]]
    title: str = ""


@dataclass(frozen=True)
class Column:
    """A column of a table. `text` ones are aligned to the left. `drop` ranks those that go first where there is no room, the
    lowest first; 0 stays as long as it can. `least` is the width that a long text may be cut down to. `cell` gives the text of a
    record's cell: a function of the record, or the dotted name of its field, which is written as the quantity of that name. One that
    is `optional` is left out where no row has a value."""

    head: str
    cell: Callable[[Any], str] | str = ""
    text: bool = False
    drop: int = 0
    least: int = 0
    optional: bool = False


@dataclass(frozen=True)
class Table:
    """Rows of cells under columns. The first column stays whatever the width; it holds text, unless all of them are `numeric`."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[str]]
    title: str = ""
    indent: int = 0
    numeric: bool = False


def records(columns: Sequence[Column], rows: Iterable[object], title: str = "", indent: int = 0) -> Table:
    """A table with a row for each record, its cells those that the columns say."""
    cells = {column: [_cell(column, row) for row in rows] for rows in (list(rows),) for column in columns}
    kept = [column for column in columns if not column.optional or set(cells[column]) - {NONE}]
    return Table(kept, [list(row) for row in zip(*(cells[column] for column in kept), strict=True)], title, indent)


def _cell(column: Column, row: Any) -> str:
    if callable(column.cell):
        return column.cell(row)
    names = column.cell.split(".")
    for name in names:
        row = row.get(name) if isinstance(row, dict) else getattr(row, name)
    return written(row, names[-1])


@dataclass(frozen=True)
class Drawing:
    """Lines drawn in characters that are not broken: bars, curves, trees. `words` says the same where characters cannot."""

    lines: Sequence[str]
    words: str = ""


@dataclass
class Picture:
    """series label -> (x, y) points; roofs: label -> (peak FLOP/s, bytes/s) or a capacity; axis titles and scales; names: of points.

    log: both axes are logarithmic; log_up: the upward one alone. curves: points of a series are joined. boxes: label -> (left, right,
    bottom, top), next to the series or instead of them.
    """

    title: str
    x: str
    y: str
    log: bool
    series: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    roofs: dict[str, tuple[float, float]] = field(default_factory=dict)
    limits: dict[str, float] = field(default_factory=dict)
    names: dict[tuple[float, float], str] = field(default_factory=dict)
    log_up: bool = False
    curves: bool = False
    boxes: dict[str, list[tuple[float, float, float, float]]] = field(default_factory=dict)

    def points(self) -> list[tuple[float, float]]:
        """The points of all series, and the corners of boxes."""
        boxes = (box for found in self.boxes.values() for box in found)
        corners = (p for left, right, low, high in boxes for p in ((left, low), (right, high)))
        return [*(p for points in self.series.values() for p in points), *corners]


@dataclass(frozen=True)
class Note:
    """A remark below the answer."""

    text: str


@dataclass(frozen=True)
class Command:
    """A command line that can be copied."""

    words: str


Block = Headline | Prose | Pairs | Table | Drawing | Note | Command


def labelled(label: str, words: str) -> list[Block]:
    """A command line under what it answers."""
    return [Prose(f"{label}:"), Command(words)]


@dataclass(frozen=True)
class Page:
    """An answer as blocks, with an empty line between groups of them. `details` follow them where a reader asks for more than one
    screen (--details), and in Markdown; `about` says what they are."""

    groups: list[list[Block]] = field(default_factory=list)
    details: list[list[Block]] = field(default_factory=list)
    about: str = ""


def page(*groups: Sequence[Block | None], details: Sequence[Sequence[Block | None]] = (), about: str = "") -> Page:
    """A page of groups without the blocks that are None and without empty groups."""
    first, further = (
        [kept for group in part if (kept := [block for block in group if block is not None])]
        for part in (groups, details)
    )
    return Page(first, further, about)
