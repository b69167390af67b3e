"""Every request of a simulation as a file: CSV, or Parquet with the extra `parquet`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rooflinecli import files
from rooflinecli.errors import UsageError

WHOLE = ("prompt", "output", "replica", "preempted", "hit")
NAMES = {name: f"{name}_s" for name in ("arrival", "queue", "ttft", "tpot", "e2e")}


def check(path: Path) -> None:
    """Raises UsageError, before a long run, for a suffix or a folder that `save` could not write."""
    if path.suffix not in (".csv", ".parquet"):
        raise UsageError(f"--requests-out {path}: write to FILE.csv or FILE.parquet", "requests-out")
    if not path.parent.is_dir():
        raise UsageError(f"--requests-out {path}: there is no folder {path.parent}; make it first", "requests-out")


def table(times: Any) -> dict[str, Any]:
    """Arrays by column, in order of arrival: seconds (`_s`), tokens and counts."""
    return {NAMES.get(name, name): _column(times, name) for name in times.columns}


def save(times: Any, path: Path) -> None:
    """Seconds and tokens by request, in order of arrival. Raises UsageError for what `check` refuses or without pyarrow."""
    check(path)
    columns = table(times)
    if path.suffix == ".csv":
        with files.replacing(path, "--requests-out") as partial, partial.open("w", encoding="utf-8") as stream:
            stream.write(",".join(columns) + "\n")
            for row in zip(*(c.tolist() for c in columns.values()), strict=True):
                stream.write(",".join(map(repr, row)) + "\n")
        return
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise UsageError(
            "--requests-out FILE.parquet needs pyarrow; install it with `pip install 'rooflinecli[parquet]'`"
        ) from None
    with files.replacing(path, "--requests-out") as partial:
        pyarrow.parquet.write_table(pyarrow.table(columns), partial)


def _column(times: Any, name: str) -> Any:
    values = getattr(times, name)
    return values.astype("int64") if name in WHOLE else values
