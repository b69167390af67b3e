"""Parquet, one row group per chunk. Needs the extra `parquet` (pyarrow)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rooflinecli.core.errors import UsageError
from rooflinecli.core.extras import install
from rooflinecli.render.views.sweep import Chunk, length

GROUP = 1_000_000


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
        if hasattr(column, "dtype") and column.dtype.kind != "O":
            return pa.array(column, from_pandas=True)
        values = (
            pa.array(column, type=pa.string())
            if hasattr(column, "dtype")
            else pa.array([column]).take(pa.array([0] * rows))
        )
        return values

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
