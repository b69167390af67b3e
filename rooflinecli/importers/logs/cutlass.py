"""CUTLASS profiler CSV (--output): a row per kernel and problem, runtime in milliseconds; the best kernel of each problem counts."""

from __future__ import annotations

import csv
from typing import Any

from rooflinecli.core.errors import DataError
from rooflinecli.importers.source import MeasuredRow, Source, positive

TOOL = "CUTLASS profiler"
_NAMES = {"bf16": "bf16", "f16": "fp16", "e4m3": "fp8", "e5m2": "fp8", "tf32": "tf32", "f32": "fp32", "s8": "int8"}


def claims(source: Source) -> bool:
    return any(text.startswith("Problem,Provider,OperationKind") for text in source.lines[:50])


def read(source: Source) -> list[MeasuredRow]:
    start = next(i for i, text in enumerate(source.lines) if text.startswith("Problem,Provider,OperationKind"))
    header, *rows = csv.reader(source.lines[start:])
    best: dict[Any, MeasuredRow] = {}
    for i, cells in enumerate(rows):
        line = start + i + 2
        if not cells:
            continue
        if len(cells) != len(header):
            raise DataError(
                f"{source.at(line)}: {len(cells)} cells under {len(header)} columns; was the file cut short?"
            )
        row = dict(zip(header, cells, strict=True))
        time = positive(row.get("Runtime"))
        if time is None or row.get("OperationKind") != "gemm":
            continue
        m, n, k = (positive(row.get(name)) for name in ("m", "n", "k"))
        if m and n and k and (positive(row.get("batch_count")) or 1) == 1:
            probe = {"m": m, "n": n, "k": k, "dtype": _NAMES.get(str(row.get("A", "")).partition(":")[0])}
            found = MeasuredRow(source.at(line), TOOL, "matmul", time * 1e-3, probe=probe)
            key = (m, n, k, probe["dtype"])
            if key not in best or found.value < best[key].value:
                best[key] = found
    return list(best.values())
