"""Packaged YAML files as they were last read and validated, so that a start needs neither a parser nor a validator.

A snapshot stands in the user's cache folder: plain data in Python's marshal format behind a checksum. It counts only while the file,
all that it extends and the modules that read them have the size and the time of change that they had; whatever else is wrong
with it, or with the folder, the YAML is read. Files of a user's own always are. ROOFLINE_CACHE names another folder; 0 means none.
"""

from __future__ import annotations

import contextlib
import marshal
import os
import sys
import time
import zlib
from collections.abc import Callable
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any, TypeVar

from rooflinecli.core.errors import UsageError
from rooflinecli.core.files import replacing
from rooflinecli.core.record import Json
from rooflinecli.core.text import plural
from rooflinecli.specs.document import Document, Unread
from rooflinecli.specs.figure import FileSpec, Spec
from rooflinecli.specs.name_lookup import SETTLED, shipped

S = TypeVar("S", bound=FileSpec)
Stamp = tuple[str, int, int]  # a file, when it changed, and its size
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
    """What was kept of a file, None where nothing was or it no longer counts."""
    place = _cache_path(path, kind)
    if place is None:
        return None
    try:
        with open(place, "rb") as file:
            written = file.read()
        if int.from_bytes(written[:4], "little") != zlib.crc32(written[4:]):
            return None
        code, subject, stamps, data = marshal.loads(memoryview(written)[4:])
        whole = code == _code() and subject == (str(path), kind) and all(_stamp(stamp[0]) == stamp for stamp in stamps)
    except (OSError, ValueError, EOFError, TypeError):
        return None
    return data if whole else None


def _store(path: Path, kind: str, document: Document | None, data: Any) -> None:
    """Keep what a file says, unless it changed so lately that it may change again within a tick of the file system's clock."""
    place = _cache_path(path, kind)
    if place is None:
        return
    stamps = [_stamp(str(path))]
    while document is not None and document.base_document is not None:
        folder, document = document.path.resolve().parent, document.base_document
        under = document.path.resolve()
        if not under.is_relative_to(folder):  # found by the search path, where a nearer file may come to stand
            return
        stamps.append(_stamp(str(under)))
    if time.time_ns() - max(changed for _, changed, _ in stamps) < SETTLED:
        return
    # no place to write, or what marshal does not know, such as a date
    with contextlib.suppress(OSError, ValueError, UsageError):
        written = marshal.dumps((_code(), (str(path), kind), stamps, data))
        os.makedirs(os.path.dirname(place), mode=0o700, exist_ok=True)
        with replacing(Path(place)) as file:
            file.write_bytes(zlib.crc32(written).to_bytes(4, "little") + written)


def _stamp(path: str) -> Stamp:
    state = os.stat(path)
    return path, state.st_mtime_ns, state.st_size


@cache
def _code() -> int:
    """What identifies the modules that read specs."""
    with os.scandir(_SPECS) as entries:
        files = sorted(entry.path for entry in entries if entry.name.endswith(".py"))
    return zlib.crc32(repr([_stamp(file) for file in (*files, os.path.join(_PACKAGE, "core", "units.py"))]).encode())


def _cache_path(path: Path, kind: str) -> str | None:
    """The file of a snapshot; None for a file that the package did not bring, and where there are to be none."""
    written, folder = str(path), os.environ.get("ROOFLINE_CACHE", "")
    packaged = any(written.startswith(root + os.sep) for root in (_PACKAGE, shipped("hardware"), shipped("models")))
    if not packaged or folder == "0":
        return None
    if not folder:
        root = os.environ.get("XDG_CACHE_HOME", "")
        root = root if os.path.isabs(root) else os.path.join(os.path.expanduser("~"), ".cache")
        folder = os.path.join(root, "rooflinecli")
    name = f"{path.stem}-{zlib.crc32(f'{written} {kind}'.encode()):08x}.{sys.implementation.cache_tag}"
    return os.path.join(folder, name)
