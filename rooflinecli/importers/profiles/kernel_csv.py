"""Kernel times from a CSV: one of one's own, or what Nsight Systems (kernel summary, GPU trace) and rocprof export (statistics, kernel trace)."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path

from rooflinecli.core.errors import DataError
from rooflinecli.importers.profiles.kernel import Kernel

_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "sec": 1.0, "seconds": 1.0}
_SIZES = {"b": 1.0, "bytes": 1.0, "kb": 1e3, "mb": 1e6, "gb": 1e9}
_NAMES = ("name", "kernel", "kernel name", "kernel_name", "kernelname", "op", "operation")
_STAMPS = ("start_timestamp", "end_timestamp")  # of rocprofv3, in ns
# column -> names it goes by; times are found by their unit
_COLUMNS = {
    "calls": ("instances", "calls", "count", "num calls"),
    "kind": ("kind", "class", "category"),
    "bound": ("bound",),
    "flops": ("flops", "flop"),
    "bytes": ("bytes", "bytes_moved"),
    "m": ("m",),
    "k": ("k",),
    "n": ("n",),
    "shards": ("shards", "tp"),
    "dtype": ("dtype",),
    "device": ("device", "gpu", "gpu-id", "agent_id"),
    "lane": ("stream", "strm", "lane", "stream_id", "queue_id", "queue-id"),
}


def read_csv(path: Path, text: str) -> list[Kernel]:
    """The kernels of a CSV. Raises DataError with the line when a cell cannot be read."""
    table = enumerate((next(csv.reader([line]), []) for line in text.splitlines()), start=1)
    for _, header in table:
        if (columns := _columns(header)) is not None:
            return _rows(path, table, columns, len(header))
    raise DataError(
        f"{path}: no header with a kernel name and a time; write for example 'name,time_ms' on the first line"
    )


def _columns(header: list[str]) -> dict[str, tuple[int, float]] | None:
    """Column -> index and factor to SI, or None when this line is not a header."""
    plain = [re.sub(r"(?<=[a-z])Ns$", "_ns", cell.strip()).lower() for cell in header]
    found = {
        name: (plain.index(alias), 1.0) for name, aliases in _COLUMNS.items() for alias in aliases if alias in plain
    }
    names = [plain.index(alias) for alias in _NAMES if alias in plain]
    times = {i: unit for i, cell in enumerate(plain) if (unit := _unit(cell, _UNITS)) is not None}
    total = _first(plain, times, r"^total") or _first(plain, times, r"^(duration|dur|time|kernel time|(ms|us|ns|s)$)")
    stamps = {} if total else {name: (plain.index(name), 1e-9) for name in _STAMPS if name in plain}
    if not names or (total is None and len(stamps) < len(_STAMPS)):
        return None
    if stamps:
        found.pop("kind", None)  # of rocprof's record
    found |= {"name": (names[0], 1.0)}
    found |= {"time": total} if total else {"start": stamps[_STAMPS[0]], "end": stamps[_STAMPS[1]]}
    if start := _first(plain, times, r"^(start|begin)"):
        found["start"] = start
    for i, cell in enumerate(plain):
        if cell.startswith("bytes (") and (size := _unit(cell, _SIZES)) is not None:
            found["bytes"] = (i, size)
    return found


def _first(plain: list[str], times: dict[int, float], pattern: str) -> tuple[int, float] | None:
    return next(((i, unit) for i, unit in times.items() if re.match(pattern, plain[i])), None)


def _unit(cell: str, units: dict[str, float]) -> float | None:
    """The factor of 'Total Time (ns)', 'time_ms' or 'ms'; None when the column names no unit."""
    match = re.search(r"(?:^|[_\s(\[])([a-zµμ]+)[)\]]?$", cell)
    return units.get(match[1]) if match else None


def _rows(
    path: Path, table: Iterator[tuple[int, list[str]]], columns: dict[str, tuple[int, float]], width: int
) -> list[Kernel]:
    kernels = []
    for number, cells in table:
        if "".join(cells).strip() and (len(cells) > 1 or width == 1):
            whole = [*cells, *[""] * (width - len(cells))]
            kernels.append(_kernel(f"{path}:{number}", whole, columns))
    if not kernels:
        raise DataError(f"{path}: a header and no kernels; add a line for each kernel")
    return kernels


def _kernel(where: str, cells: list[str], columns: dict[str, tuple[int, float]]) -> Kernel:
    def number(column: str) -> float | None:
        if column not in columns or not (text := cells[columns[column][0]].strip()):
            return None
        try:
            value = float(text.replace(",", ""))
        except ValueError:
            raise DataError(f"{where}: {column}: expected a number, got {text!r}") from None
        if not 0 <= value < float("inf"):
            raise DataError(f"{where}: {column}: expected a finite number, zero or more, got {text!r}")
        return value * columns[column][1]

    def word(column: str) -> str:
        return cells[columns[column][0]].strip() if column in columns else ""

    seconds, start, end = number("time"), number("start"), number("end")
    if seconds is None and start is not None and end is not None and end >= start:
        seconds = end - start
    if seconds is None:
        raise DataError(f"{where}: the time is missing; give one in every line")
    sizes = {name: number(name) for name in ("flops", "bytes", "m", "k", "n")}
    return Kernel(
        word("name"),
        seconds,
        int(number("calls") or 1),
        start,
        word("device"),
        word("lane"),
        word("kind").lower(),
        word("bound").lower(),
        shards=number("shards") or 1.0,
        dtype=word("dtype"),
        **sizes,
    )
