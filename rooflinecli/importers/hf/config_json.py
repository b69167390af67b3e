"""A Hugging Face config.json -> data that remembers the line of every field, so errors can point at it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from rooflinecli.core.errors import DataError
from rooflinecli.core.record import Json
from rooflinecli.specs.document import Document, KeyPath
from rooflinecli.specs.name_lookup import display_path

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')


def read_config(path: Path) -> Document:
    """The config at `path`: a file, or a folder that holds config.json. Raises DataError with file:line."""
    file = path / "config.json" if path.is_dir() else path
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise DataError(f"{path}: cannot be read ({reason}); give a config.json or the folder that holds it") from None
    return parse_config(text, file)


def parse_config(text: str, path: Path) -> Document:
    """JSON text -> Document. Raises DataError when it is not one JSON object."""
    try:
        data = json.loads(text, object_pairs_hook=_unique, parse_constant=_constant)
    except json.JSONDecodeError as error:
        why = f"{display_path(path)}:{error.lineno}: not valid JSON ({error.msg}); fix the syntax there"
        raise DataError(why) from None
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise DataError(f"{display_path(path)}:1: cannot be read as a config ({reason}); fix it there") from None
    if not isinstance(data, dict):
        raise DataError(f"{display_path(path)}:1: expected a JSON object of fields; give a model's config.json")
    return Document(data, path, {key: (display_path(path), line) for key, line in _lines(text).items()})


def _constant(written: str) -> float:
    """Return an infinity, which limits of time steps are; raise ValueError for NaN, which no field means."""
    if written == "NaN":
        raise ValueError("NaN is no value of a field")
    return float(written)


def _unique(pairs: list[tuple[str, Any]]) -> Json:
    result: Json = {}
    for key, value in pairs:
        if key in result and result[key] != value:
            raise ValueError(f"'{key}' is given twice with different values")
        result[key] = value
    return result


def _lines(text: str) -> dict[KeyPath, int]:
    """Key path -> line of valid JSON. The stack has, per open bracket, the key or index being read."""
    lines: dict[KeyPath, int] = {(): 1}
    stack: list[str | int | None] = []
    line, position = 1, 0
    for match in _TOKEN.finditer(text):
        line += text.count("\n", position, match.start())
        position, token = match.start(), match[0]
        if token in ("{", "["):
            stack.append(None if token == "{" else 0)
        elif token in ("}", "]"):
            stack.pop()
        elif token == "," and stack:
            last = stack[-1]
            stack[-1] = last + 1 if isinstance(last, int) else None
        elif token[0] == '"' and stack and stack[-1] is None:
            stack[-1] = json.loads(token)
            lines[tuple(part for part in stack if part is not None)] = line
    return lines
