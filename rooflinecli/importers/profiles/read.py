"""A trace file, or the folder a profiler wrote, -> kernels: a Chrome trace, a database of Nsight Systems, or a CSV, one of one's own or what
Nsight Systems (kernel summary, GPU trace) and rocprof export (statistics, kernel trace).
"""

from __future__ import annotations

import csv
import re
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from rooflinecli.core.errors import DataError
from rooflinecli.importers.profiles.chrome_trace import read_chrome
from rooflinecli.importers.profiles.hlo_shapes import gemm_shapes
from rooflinecli.importers.profiles.kernel import KINDS, Kernel, classify
from rooflinecli.importers.source import read_text
from rooflinecli.specs.snapshots import packaged

_SQLITE = b"SQLite format 3\0"
_KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
_COPIES = {"CUPTI_ACTIVITY_KIND_MEMCPY": "memcpy", "CUPTI_ACTIVITY_KIND_MEMSET": "memset"}
_LARGEST = 4 * 2**30  # bytes: a profiler writes more than a log holds
_TRACES = ("*.trace.json.gz", "*.trace.json", "*.pt.trace.json", "*.pt.trace.json.gz")


def read(path: Path) -> list[Kernel]:
    """The kernels of a CSV, a Chrome trace (.json, .json.gz), an nsys database or a jax.profiler folder, each with its kind."""
    file = path
    if path.is_dir():
        traces = {trace for pattern in _TRACES for trace in path.rglob(pattern)}
        if not traces:
            raise DataError(f"{path}: no trace in this folder; give the folder passed to jax.profiler.trace, or a file")
        file = max(sorted(traces), key=lambda trace: trace.stat().st_mtime)
    try:
        with file.open("rb") as stream:
            is_database = stream.read(len(_SQLITE)) == _SQLITE
    except OSError:
        is_database = False  # read_text raises the reason
    if is_database:
        kernels = _read_sqlite(file)
    else:
        give = "a trace as Chrome JSON or CSV (nsys stats --format csv), or a profiler's folder"
        text = read_text(file, _LARGEST, give)
        is_json = text.lstrip()[:1] in ("{", "[")
        kernels = read_chrome(file, text, gemm_shapes(file)) if is_json else read_csv(file, text)
    if not any(kernel.seconds for kernel in kernels):
        raise DataError(f"{file}: every kernel takes zero time; check the unit of the time column")
    for kernel in kernels:
        if kernel.kind and kernel.kind not in KINDS:
            raise DataError(f"{file}: kind '{kernel.kind}' of {kernel.name} is unknown; use one of {', '.join(KINDS)}")
        if kernel.bound and kernel.bound not in ("memory", "compute", "latency"):
            why = f"{file}: bound '{kernel.bound}' of {kernel.name} is unknown; use memory, compute or latency"
            raise DataError(why)
    return [kernel if kernel.kind else replace(kernel, kind=classify(kernel.name)) for kernel in kernels]


def _read_sqlite(file: Path) -> list[Kernel]:
    """The launches on each device that the database of Nsight Systems lists (`nsys export --type sqlite`). Raises DataError for another one."""
    try:
        link = sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)
    except sqlite3.Error as error:
        raise DataError(f"{file}: cannot be read ({error}); give the file that nsys export wrote") from None
    try:
        tables = {str(row[0]) for row in link.execute("select name from sqlite_master where type = 'table'")}
        if _KERNELS not in tables:
            why = f"{file}: no table {_KERNELS}; give an nsys export (--type sqlite) of a run with CUDA kernels"
            raise DataError(why)
        named = f"select start, end, deviceId, streamId, coalesce(s.value, 'kernel') from {_KERNELS} k left join StringIds s on s.id = k.demangledName"
        found = [_launch(*row) for row in link.execute(named)]
        for table, name in _COPIES.items():
            if table in tables:
                copied = link.execute(f"select start, end, deviceId, streamId, '{name}' from {table}")
                found += [_launch(*row) for row in copied]
    except sqlite3.Error as error:
        raise DataError(f"{file}: not a whole nsys export ({error}); export the report again") from None
    finally:
        link.close()
    return found


def _launch(start: int, end: int, device: int, stream: int, name: str) -> Kernel:
    return Kernel(name, (end - start) * 1e-9, start_s=start * 1e-9, device=f"GPU {device}", lane=f"stream {stream}")


_TABLE = packaged(__file__, "columns")


def read_csv(path: Path, text: str) -> list[Kernel]:
    """The kernels of a CSV. Raises DataError with the line when a cell cannot be read."""
    table = enumerate((next(csv.reader([line]), []) for line in text.splitlines()), start=1)
    for _, header in table:
        if (columns := _columns(header)) is not None:
            return _rows(path, table, columns, len(header))
    why = f"{path}: no header with a kernel name and a time; write for example 'name,time_ms' on the first line"
    raise DataError(why)


def _columns(header: list[str]) -> dict[str, tuple[int, float]] | None:
    """Column -> index and factor to SI, or None when this line is not a header."""
    plain = [re.sub(r"(?<=[a-z])Ns$", "_ns", cell.strip()).lower() for cell in header]
    found = {
        name: (plain.index(alias), 1.0)
        for name, aliases in _TABLE["columns"].items()
        for alias in aliases
        if alias in plain
    }
    names = [plain.index(alias) for alias in _TABLE["names"] if alias in plain]
    times = {i: unit for i, cell in enumerate(plain) if (unit := _unit(cell, _TABLE["times"])) is not None}
    total = _first(plain, times, r"^total") or _first(plain, times, r"^(duration|dur|time|kernel time|(ms|us|ns|s)$)")
    stamps = [] if total else [(plain.index(name), 1e-9) for name in _TABLE["stamps"] if name in plain]
    if not names or (total is None and len(stamps) < 2):
        return None
    if stamps:
        found.pop("kind", None)  # of rocprof's record
    found |= {"name": (names[0], 1.0)}
    found |= {"time": total} if total else dict(zip(("start", "end"), stamps, strict=True))
    if start := _first(plain, times, r"^(start|begin)"):
        found["start"] = start
    for i, cell in enumerate(plain):
        if cell.startswith("bytes (") and (size := _unit(cell, _TABLE["sizes"])) is not None:
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
    name, device, lane, kind, bound, dtype = map(word, ("name", "device", "lane", "kind", "bound", "dtype"))
    calls, shards = int(number("calls") or 1), number("shards") or 1.0
    kind, bound = kind.lower(), bound.lower()
    return Kernel(name, seconds, calls, start, device, lane, kind, bound, shards=shards, dtype=dtype, **sizes)
