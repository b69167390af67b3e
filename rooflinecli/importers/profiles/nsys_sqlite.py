"""Nsight Systems' own database (`nsys export --type sqlite`): kernels and copies of each device, on their streams."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from rooflinecli.core.errors import DataError
from rooflinecli.importers.profiles.kernel import Kernel

MAGIC = b"SQLite format 3\0"
_NANO = 1e-9
_KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
_COPIES = {"CUPTI_ACTIVITY_KIND_MEMCPY": "memcpy", "CUPTI_ACTIVITY_KIND_MEMSET": "memset"}


def read_sqlite(file: Path) -> list[Kernel]:
    """The launches that the database lists. Raises DataError for a database of something else, or without kernels."""
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
        found = [_kernel(*row) for row in link.execute(named)]
        for table, name in _COPIES.items():
            if table in tables:
                copied = link.execute(f"select start, end, deviceId, streamId, '{name}' from {table}")
                found += [_kernel(*row) for row in copied]
    except sqlite3.Error as error:
        raise DataError(f"{file}: not a whole nsys export ({error}); export the report again") from None
    finally:
        link.close()
    return found


def _kernel(start: int, end: int, device: int, stream: int, name: str) -> Kernel:
    return Kernel(name, (end - start) * _NANO, start_s=start * _NANO, device=f"GPU {device}", lane=f"stream {stream}")
