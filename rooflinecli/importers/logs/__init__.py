"""Readers of other tools' logs: one module per format, recognized by the content of a file, never by its name."""

from __future__ import annotations

import math
import pkgutil
import re
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Protocol

from rooflinecli.core.errors import DataError
from rooflinecli.importers.logs import result_tables
from rooflinecli.importers.logs.server_logs import ServerLog
from rooflinecli.importers.source import MeasuredRow, Source, load, patterns

_P = patterns("all")
_MIXED = "reinforcement learning: a step generates its answers too, and calibrate fits serving and training apart"
_TRACES = ('"traceEvents"', "Total Time (ns),Instances", 'Total Time (ns)","Instances')  # torch, JAX; nsys stats


class Reader(Protocol):
    """A format: a module, or a row of step_logs."""

    TOOL: str

    def claims(self, source: Source) -> bool: ...

    def read(self, source: Source) -> list[MeasuredRow]: ...


@cache
def readers() -> tuple[Reader, ...]:
    """Every reader: a module with TOOL, claims(source) and read(source), or the READERS of one."""
    names = [m.name for m in pkgutil.iter_modules(__path__) if m.name not in ("serving_run", "result_tables")]
    modules = [import_module(f"{__name__}.{name}") for name in names]
    return tuple(reader for module in modules for reader in getattr(module, "READERS", (module,)))


def read(path: Path) -> list[MeasuredRow]:
    """The measurements in a file. Raises DataError with file:line for an unknown format, a file cut short, or one without results."""
    return read_source(load(path))


def read_source(source: Source) -> list[MeasuredRow]:
    """Read the measurements of a loaded file."""
    claimed = [reader for reader in readers() if reader.claims(source)]
    if not claimed and any(mark in source.head for mark in _TRACES):
        raise DataError(f"{source.at(1)}: a trace of kernels, no benchmark; give it to `roofline profile`")
    tables = result_tables.read(source)
    if not claimed and not tables:
        why = f"{source.at(1)}: unknown measurement format{_near(source)}{result_tables.unknown(source)}; `roofline calibrate --help` and docs/calibrate.md list those that are read"
        raise DataError(why)
    # of one run a client's result counts, then what its server reports, then a table that sums it up
    own = [reader for reader in claimed if not isinstance(reader, ServerLog)] or claimed
    found = [reading for reader in own for reading in reader.read(source)] if own else tables
    others = [reader.TOOL for reader in claimed if reader not in own]
    if not {row.where for row in tables} & {row.where for row in found}:
        others += [f"the table at {row.where.rpartition('/')[2]}" for row in tables[:1]]
    if found and others:
        note = f"{' and '.join(others)} not read next to it"
        found[0] = replace(found[0], notes=(*found[0].notes, note))
    if not found:
        names = " and ".join(reader.TOOL for reader in claimed)
        why = f"{source.at(len(source.lines))}: looks like {names}, but has no result in the form that they print; give their whole output"
        raise DataError(why)
    for row in found:
        if not (row.value > 0 and math.isfinite(row.value)):
            why = f"{row.where}: {row.tool}: {row.value:g} {row.unit} is no measurement; was the file changed?"
            raise DataError(why)
    if _P.pairs.search(source.plain):
        pairs = "preference optimization: a sample is a pair, and a reference model reads it too"
        found = [
            replace(r, options={"recipe": "dpo", **r.options}, notes=(*r.notes, pairs)) if r.quantity == "train" else r
            for r in found
        ]
    if _P.generates.search(source.plain):
        found = [replace(row, unread=_MIXED) if row.quantity == "train" else row for row in found]
    return _once(found)


def _near(source: Source) -> str:
    """The formats whose tools a file names, though it has no result of them."""
    text = f"{source.name}\n{source.head}".lower()
    first = {tool: [each.split()[0].lower() for each in tool.split(" / ")] for tool in (r.TOOL for r in readers())}
    named = [tool for tool, words in first.items() if any(re.search(rf"\b{re.escape(w)}\b", text) for w in words)]
    return f" (it names {', '.join(named[:4])}, and has no result of it)" if named else ""


def _once(rows: list[MeasuredRow]) -> list[MeasuredRow]:
    """Rows without repetitions: every rank of a job may print the same result, which is one measurement."""
    kept: dict[str, list[MeasuredRow]] = {}
    for row in rows:
        kept.setdefault(repr(replace(row, where="", notes=())), []).append(row)
    times = [(first, f"printed {1 + len(others)} times, read once", others) for first, *others in kept.values()]
    return [replace(first, notes=(*first.notes, note)) if others else first for first, note, others in times]
