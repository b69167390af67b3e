"""Packaged YAML files as they were last read and validated, so that a start needs neither a parser nor a validator.

A snapshot (core/snapshots.py) counts only while the modules that read specs are as they were. Files of a user's own are read each time.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any, TypeVar

from rooflinecli.core.record import Json
from rooflinecli.core.snapshots import keep, kept, stamp
from rooflinecli.core.text import plural
from rooflinecli.specs.document import Document, Unread
from rooflinecli.specs.figure import FileSpec, Spec
from rooflinecli.specs.name_lookup import shipped

S = TypeVar("S", bound=FileSpec)
_SPECS = str(Path(__file__).resolve().parent)
_PACKAGE = os.path.dirname(_SPECS)
PUBLISHED = Path(_PACKAGE) / "published_runs"


def load(kind: type[S], path: Path, base: str) -> S:
    """The spec of a file. Raises DataError."""
    snapshot = _cached(path, kind.__name__)
    if snapshot is not None:
        spec: S = _decoded(snapshot)
        spec.locate(Unread(path, partial(_read, path, base)))
        return spec
    from rooflinecli.specs.validation import validate

    spec = validate(kind, _read(path, base))
    _store(path, kind.__name__, spec.document, _encoded(spec))
    return spec


def table(path: Path, read: Callable[[Path], Any] = lambda path: _read(path, "").data) -> Any:
    """What the package's tables say, as plain data: the file's own, or what `read` makes of it."""
    snapshot = _cached(path, "table")
    if snapshot is None:
        snapshot = read(path)
        _store(path, "table", None, snapshot)
    return snapshot


@cache
def packaged(module: str, name: str = "") -> Json:
    """The table next to a module, whose `__file__` is given, under its name or another: read once, and not to be changed."""
    path = Path(module)
    found: Json = table(path.with_name(f"{name or path.stem}.yaml"))
    return found


@lru_cache(maxsize=16)
def published(name: str) -> Json:
    """Published measurements: sources, excluded and rows of published_runs/NAME.yaml, each with a citation."""
    found: Json = table(PUBLISHED / f"{name}.yaml")
    return found


def excluded(name: str) -> list[str]:
    """The excluded rows of published runs and the reasons, one sentence each."""
    return [f"{plural(len(e['ids']), 'row')} excluded: {e['reason']}." for e in published(name).get("excluded", [])]


def _read(path: Path, base: str) -> Document:
    from rooflinecli.specs.yaml_loader import read

    return read(path, base=base)


def _encoded(value: Any) -> Any:
    """Plain data of a spec: each one inside as its class and entries, a tuple as one without a class."""
    if isinstance(value, Spec):
        extra = {name: getattr(value, name) for name in value.DERIVED}
        return type(value).__name__, {name: _encoded(item) for name, item in (value.given | extra).items()}
    if isinstance(value, dict):
        return {key: _encoded(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return "", [_encoded(item) for item in value]
    return [_encoded(item) for item in value] if isinstance(value, list) else value


def _decoded(value: Any) -> Any:
    kind = value.__class__
    if kind is tuple:
        name, inside = value
        if not name:
            return tuple([_decoded(item) for item in inside])
        spec = object.__new__(Spec.KINDS[name])
        entries = spec.__dict__
        for key, item in inside.items():
            entries[key] = item if item.__class__ in _SCALARS else _decoded(item)
        return spec
    if kind is dict:
        return {key: _decoded(item) for key, item in value.items()}
    return [_decoded(item) for item in value] if kind is list else value


_SCALARS = frozenset((str, float, int, bool, type(None)))


def _cached(path: Path, kind: str) -> Any:
    """What was kept of a file that the package brought, None where nothing was or it no longer counts."""
    return kept(path, kind, _code()) if _packaged(path) else None


def _store(path: Path, kind: str, document: Document | None, data: Any) -> None:
    """Keep what a file says, and all that it extends."""
    if not _packaged(path):
        return
    files = [str(path)]
    while document is not None and document.base_document is not None:
        folder, document = document.path.resolve().parent, document.base_document
        under = document.path.resolve()
        if not under.is_relative_to(folder):  # found by the search path, where a nearer file may come to stand
            return
        files.append(str(under))
    keep(path, kind, _code(), files, data)


@cache
def _code() -> int:
    """What identifies the modules that read specs."""
    with os.scandir(_SPECS) as entries:
        files = sorted(entry.path for entry in entries if entry.name.endswith(".py"))
    return zlib.crc32(repr([stamp(file) for file in (*files, os.path.join(_PACKAGE, "core", "units.py"))]).encode())


def _packaged(path: Path) -> bool:
    """Whether the package brought a file."""
    return any(str(path).startswith(root + os.sep) for root in (_PACKAGE, shipped("hardware"), shipped("models")))
