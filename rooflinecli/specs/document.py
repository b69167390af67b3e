"""A YAML file as it was read: plain data, and the line of each value."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from rooflinecli.specs.name_lookup import display_path

KeyPath = tuple[str | int, ...]


class Document:
    """One YAML file (after `extends`): plain data, and where each key path was written; the file it extends, and what it says itself."""

    def __init__(
        self,
        data: dict[str, Any],
        path: Path,
        lines: dict[KeyPath, tuple[str, int]] | None = None,
        base_document: Document | None = None,
        own: frozenset[str] = frozenset(),
    ):
        self.data, self.path, self.lines = data, path, {} if lines is None else lines
        self.base_document, self.own = base_document, own

    def location(self, *key: str | int) -> str:
        """'hardware/h100-sxm.yaml:14' for a key path, or for its nearest ancestor that is written down."""
        for end in range(len(key), -1, -1):
            if key[:end] in self.lines:
                name, line = self.lines[key[:end]]
                return f"{name}:{line}"
        return display_path(self.path)


class Unread(Document):
    """A file that is read once its text or a line is asked for: what it says comes from a snapshot."""

    def __init__(self, path: Path, read: Callable[[], Document]):
        self.path, self._read = path, read

    def __getattr__(self, name: str) -> Any:
        if name not in ("data", "lines", "base_document", "own"):
            raise AttributeError(name)
        self.__dict__.update(vars(self._read()))
        return self.__dict__[name]
