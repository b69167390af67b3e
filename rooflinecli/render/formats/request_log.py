"""Columns of a simulation as a file, its requests or its course over time: CSV, or Parquet with the extra `parquet`."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING

from rooflinecli.core import files
from rooflinecli.core.errors import UsageError
from rooflinecli.core.extras import install

if TYPE_CHECKING:
    from numpy import generic
    from numpy.typing import NDArray

    from rooflinecli.simulate.request import RequestLatencies

    Columns = dict[str, NDArray[generic]]

FORMS = "FILE.csv or FILE.parquet"
WHOLE = ("prompt", "output", "replica", "preempted", "hit")
NAMES = {**{name: f"{name}_s" for name in ("arrival", "queue", "ttft", "tpot", "e2e")}, "label": "class"}


def table(times: RequestLatencies) -> Columns:
    """Arrays by column, in order of arrival: seconds (`_s`), tokens and counts; the class where requests have one."""
    columns: Columns = {NAMES.get(name, name): getattr(times, name) for name in times.columns}
    return columns | {name: columns[name].astype("int64") for name in WHOLE if name in columns}


def save(columns: Columns, path: Path, flag: str) -> None:
    """Arrays by column; what is not a number is left empty. Raises UsageError for another file than FORMS, and without pyarrow."""
    files.check_target(path, flag, FORMS)
    if path.suffix == ".csv":
        with files.replacing(path, flag) as partial, partial.open("w", encoding="utf-8", newline="") as stream:
            writer = csv.writer(stream, lineterminator="\n")
            writer.writerow(columns)
            for row in zip(*(c.tolist() for c in columns.values()), strict=True):
                writer.writerow("" if cell != cell else cell for cell in row)
        return
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise UsageError(f"{flag} FILE.parquet needs pyarrow; install it with `{install('parquet')}`") from None
    with files.replacing(path, flag) as partial:
        pyarrow.parquet.write_table(pyarrow.table(columns), partial)
