"""Options as a file of plans or of fleets writes them: their names, their kinds, and files next to it."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

from rooflinecli.core.errors import DataError, UsageError
from rooflinecli.importers.source import Options
from rooflinecli.specs import options as table
from rooflinecli.specs.document import Document
from rooflinecli.specs.name_lookup import find
from rooflinecli.specs.options import Option


def as_options(written: Options, document: Document, key: tuple[str, ...]) -> Options:
    """Options by the names of the table. Raises DataError for one that does not exist or cannot hold what it was given."""
    found: Options = {}
    for name, value in written.items():
        where = document.location(*key, name)
        try:
            option = table.find(name)
        except UsageError as error:
            raise DataError(f"{where}: {error}") from None
        if option.name in found:
            raise DataError(f"{where}: {name}: the same option is given twice; keep one")
        for one in value if key[-1] == "matrix" else [value]:
            _fits(option, one, where)
        found[option.name] = value
    return found


def _fits(option: Option, value: object, where: str) -> None:
    """Kinds that reading an option would bend instead of refusing."""
    name, switch = option.name, option.kind == "switch"
    if switch and not isinstance(value, bool):
        raise DataError(f"{where}: {name}: expected true or false, got {value!r}")
    if not switch and isinstance(value, bool):
        raise DataError(
            f"{where}: {name}: expected a value, got {str(value).lower()}; write it in quotes if it is a name"
        )
    if option.kind != "phases" and isinstance(value, list):
        raise DataError(f"{where}: {name}: expected one value, got a list; use `matrix` to try several")
    if option.kind == "phases" and not all(isinstance(p, str) for p in (value if isinstance(value, list) else [value])):
        raise DataError(f"{where}: {name}: expected {', '.join(option.choices)}, got {value!r}")


_registered = lru_cache(maxsize=1024)(find)


def path_of(kind: str, name: str, folder: Path) -> str:
    """A registry name as the path of its file, looked up once; a path is tried relative to the plan first."""
    local = folder / name
    if (name.endswith((".yaml", ".yml", ".json")) or os.sep in name) and local.exists():
        return str(local)
    try:
        return str(_registered(kind, name))
    except UsageError:
        return name
