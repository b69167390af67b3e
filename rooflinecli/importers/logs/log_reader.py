"""A format of logs that a pattern recognizes, and tables of comma-separated values in a log."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rooflinecli.core.errors import DataError
from rooflinecli.importers.source import MeasuredRow, Source


@dataclass(frozen=True)
class LogReader:
    """A format: the pattern of its text, and what reads it; `rows(source, TOOL)`."""

    TOOL: str
    marker: re.Pattern[str]
    rows: Callable[[Source, str], list[MeasuredRow]]

    def claims(self, source: Source) -> bool:
        return self.marker.search(source.plain) is not None

    def read(self, source: Source) -> list[MeasuredRow]:
        return self.rows(source, self.TOOL)


def csv_rows(source: Source, begins: str) -> Iterator[tuple[int, dict[str, str]]]:
    """(line, column -> cell) of the tables whose header begins so, up to an empty line or the end of a listing. Raises DataError for a row
    that is cut short."""
    header: list[str] = []
    for line, cells in enumerate(csv.reader(map(str.strip, source.lines)), start=1):
        if not cells or cells[0].startswith("```"):
            header = []
        elif ",".join(cells).startswith(begins):
            header = cells
        elif header:
            cut = len(cells) != len(header)
            if cut:
                raise DataError(
                    f"{source.at(line)}: {len(cells)} cells under {len(header)} columns; was the file cut short?"
                )
            yield line, dict(zip(header, cells, strict=True))
