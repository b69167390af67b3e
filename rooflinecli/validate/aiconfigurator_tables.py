"""Measured kernels and serving runs inside the aiconfigurator-core wheel (Apache-2.0): read where pip put them, never copied."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import yaml

from rooflinecli.core.errors import UsageError
from rooflinecli.core.extras import install
from rooflinecli.core.record import Json
from rooflinecli.price.chip import Chip
from rooflinecli.specs.hardware import load_hardware
from rooflinecli.validate.stats import Array

if TYPE_CHECKING:
    import pyarrow

Columns = dict[str, Array]
PIP = install("validate")
MISSING = f"Measured kernels and collected serving runs need the wheel: {PIP}."
DATA: Json = yaml.safe_load((Path(__file__).parent / "aiconfigurator.yaml").read_text(encoding="utf-8"))
CHIPS: dict[str, str] = {name: row["hw"] for name, row in DATA["chips"].items()}


def matches(record: Mapping[str, object], patterns: Mapping[str, Any]) -> bool:
    """Whether fields of a record match patterns (one or several), as file names do; `since` is the first day of `day`."""
    wanted = {
        name: given if isinstance(given, list) else [given] for name, given in patterns.items() if name != "since"
    }
    found = all(any(fnmatchcase(str(record[name]), str(p)) for p in given) for name, given in wanted.items())
    return found and str(record.get("day", "")) >= patterns.get("since", "")


@lru_cache(maxsize=16)
def chip(name: str) -> Chip:
    """A chip that aiconfigurator measured, with its shipped constants."""
    return Chip(load_hardware(CHIPS[name]))


def installed() -> bool:
    return find_spec("aiconfigurator_core") is not None and find_spec("pyarrow") is not None


def systems() -> Path:
    """The folder of measurements. Raises UsageError with the pip line when the extra is not installed."""
    found = find_spec("aiconfigurator_core")
    if found is None or not found.submodule_search_locations or find_spec("pyarrow") is None:
        raise UsageError(f"measured kernels are read from the aiconfigurator-core wheel, which is not installed; {PIP}")
    return Path(found.submodule_search_locations[0]) / "systems"


@lru_cache(maxsize=64)
def columns(chip: str, folder: str, library: str, file: str, behind: int = 0) -> Columns | None:
    """The newest file of that kind (or the one `behind` versions older) as arrays, None when there is none for chip and library."""
    base = systems() / "data" / chip / folder / library
    found = sorted(base.glob(f"*/{file}"), key=lambda p: [int(n) for n in re.findall(r"\d+", p.parent.name)])
    if len(found) <= behind:
        return None
    from pyarrow import parquet

    path = found[-1 - behind]
    table = parquet.read_table(path)
    arrays = {name: _array(table[name].combine_chunks()) for name in table.column_names}
    return arrays | {"version": np.array(path.parent.name)}


def _array(column: pyarrow.Array) -> Array:
    """A column as an array; text by way of its dictionary, which is a hundred times as fast."""
    from pyarrow import types

    if column.null_count:
        return np.asarray(column.to_pylist())
    if not (types.is_string(column.type) or types.is_large_string(column.type)):
        return np.asarray(column.to_numpy(zero_copy_only=False))
    coded = column.dictionary_encode()
    texts, codes = coded.dictionary.to_pylist(), coded.indices.to_numpy()
    array: Array = np.asarray(texts)[codes]
    return array


def median_rows(keys: list[Array], seconds: Array) -> tuple[list[Array], Array]:
    """One row per distinct shape, with the median of its repetitions."""
    columns = [k.astype(np.int64) for k in keys]
    order = np.lexsort([seconds, *columns[::-1]])
    ranked = [c[order] for c in columns]
    new = np.ones(len(order), dtype=bool)
    if len(order):
        new[1:] = np.any([c[1:] != c[:-1] for c in ranked], axis=0)
    first = np.flatnonzero(new)
    count = np.diff(np.append(first, len(order)))
    times = seconds[order]
    merged = (times[first + (count - 1) // 2] + times[first + count // 2]) / 2
    return [c[first].astype(np.float64) for c in ranked], merged


def serving_runs() -> list[dict[str, str]]:
    """Rows of the collected end-to-end serving runs (InferenceX dumps and vendor runs), aggregated mode only."""
    with (systems() / "silicon_sample.csv").open(newline="", encoding="utf-8") as handle:
        return [row for row in csv.DictReader(handle) if row["mode"] == "agg"]
