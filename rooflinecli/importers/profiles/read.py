"""A trace file, or the folder a profiler wrote, -> kernels."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path

from rooflinecli.core.errors import DataError
from rooflinecli.importers.profiles.chrome_trace import read_chrome
from rooflinecli.importers.profiles.hlo_shapes import gemm_shapes
from rooflinecli.importers.profiles.kernel import KINDS, Kernel, classify
from rooflinecli.importers.profiles.kernel_csv import read_csv
from rooflinecli.importers.source import read_text

_SQLITE = b"SQLite format 3\0"
_KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
_COPIES = {"CUPTI_ACTIVITY_KIND_MEMCPY": "memcpy", "CUPTI_ACTIVITY_KIND_MEMSET": "memset"}
_LARGEST = 4 * 2**30  # bytes: a profiler writes more than a log holds
_TRACES = ("*.trace.json.gz", "*.trace.json", "*.pt.trace.json", "*.pt.trace.json.gz")


def read(path: Path) -> list[Kernel]:
    """The kernels of a CSV, a Chrome trace (.json, .json.gz), an nsys database or a jax.profiler folder, each with its kind."""
    file = _newest(path) if path.is_dir() else path
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
            raise DataError(
                f"{file}: bound '{kernel.bound}' of {kernel.name} is unknown; use memory, compute or latency"
            )
    return [kernel if kernel.kind else replace(kernel, kind=classify(kernel.name)) for kernel in kernels]


def _newest(folder: Path) -> Path:
    found = sorted({file for pattern in _TRACES for file in folder.rglob(pattern)}, key=lambda f: f.stat().st_mtime)
    if not found:
        raise DataError(f"{folder}: no trace in this folder; give the folder passed to jax.profiler.trace, or a file")
    return found[-1]


def _read_sqlite(file: Path) -> list[Kernel]:
    """The launches on each device that the database of Nsight Systems lists (`nsys export --type sqlite`). Raises DataError for another one."""
    try:
        link = sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)
    except sqlite3.Error as error:
        raise DataError(f"{file}: cannot be read ({error}); give the file that nsys export wrote") from None
    try:
        tables = {str(row[0]) for row in link.execute("select name from sqlite_master where type = 'table'")}
        if _KERNELS not in tables:
            raise DataError(
                f"{file}: no table {_KERNELS}; give an nsys export (--type sqlite) of a run with CUDA kernels"
            )
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
