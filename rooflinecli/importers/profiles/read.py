"""A trace file, or the folder a profiler wrote, -> kernels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from rooflinecli.core.errors import DataError
from rooflinecli.importers.profiles.chrome_trace import read_chrome
from rooflinecli.importers.profiles.hlo_shapes import gemm_shapes
from rooflinecli.importers.profiles.kernel import KINDS, Kernel, classify
from rooflinecli.importers.profiles.kernel_csv import read_csv
from rooflinecli.importers.profiles.nsys_sqlite import MAGIC, read_sqlite
from rooflinecli.importers.source import read_text

_LARGEST = 4 * 2**30  # bytes: a profiler writes more than a log holds
_TRACES = ("*.trace.json.gz", "*.trace.json", "*.pt.trace.json", "*.pt.trace.json.gz")


def read(path: Path) -> list[Kernel]:
    """The kernels of a CSV, a Chrome trace (.json, .json.gz), an nsys database or a jax.profiler folder, each with its kind."""
    file = _newest(path) if path.is_dir() else path
    try:
        with file.open("rb") as stream:
            is_database = stream.read(len(MAGIC)) == MAGIC
    except OSError:
        is_database = False  # read_text raises the reason
    if is_database:
        kernels = read_sqlite(file)
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
