"""Rows of recorded load, and the shared code of their readers: cells, lines and tables, each with file:line."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rooflinecli.core.errors import DataError
from rooflinecli.core.record import Json
from rooflinecli.importers.source import open_text, parse

HEAD = 1 << 16  # characters by which a format is recognized
LONGEST = 1 << 24
CHARACTERS = 4  # per token of text without a count: English under current tokenizers
ANSWER = 128  # output tokens of a request without a count, GuideLLM's default
SPAN = 16  # tokens of a block of a prompt whose text is known, or whose prefix has a name


@dataclass(slots=True)
class Row:
    """A recorded request. time: seconds, None where the format has none (then a rate must be given). think: seconds after
    the turn before it in its session ended, for turns without an instant. hashes: keys of prompt blocks of `span` tokens.
    label: the class of requests that it belongs to, as the file names it."""

    time: float | None
    prompt: int
    output: int
    session: str = ""
    hashes: tuple[int | str, ...] = ()
    span: int = 0
    think: float | None = None
    label: str = ""
    images: int = 0


Read = Iterator[Row | DataError | None]  # None: a request that failed when it was recorded


def beginning(path: Path) -> str:
    """The part of a file by which its format is recognized."""
    with open_text(path) as stream:
        return stream.read(HEAD)


def bad(where: str, why: str) -> DataError:
    """The error of a malformed row."""
    return DataError(f"{where}: {why}; mend the row, or --skip-invalid leaves such rows out")


def tokens(where: str, name: str, written: object, least: int = 1) -> int:
    """A count of tokens. Raises DataError."""
    if written is None or written == "":
        raise bad(where, f"{name} is missing")
    try:
        found = float(str(written))
        whole = int(found)
    except (ValueError, OverflowError):
        raise bad(where, f"{name} is {str(written)[:40]!r}, expected a whole number of tokens") from None
    if whole != found or not least <= whole <= LONGEST:
        raise bad(where, f"{name} is {str(written)[:40]}, expected a whole number from {least} to {LONGEST:,}")
    return whole


def timestamp(where: str, name: str, text: str) -> float:
    """Seconds since 1970 of `2023-11-16 18:15:46.6805900`, `2024-05-10 00:00:00.009930+00:00` or `2024-05-10T00:00:00Z`. Raises DataError."""
    whole, dot, rest = text.strip().partition(".")
    digits = rest[: len(rest) - len(rest.lstrip("0123456789"))]
    zone = rest[len(digits) :]
    try:
        when = datetime.fromisoformat(whole + zone)
    except ValueError:
        raise bad(where, f"{name} is {text[:40]!r}, expected for example 2023-11-16 18:15:46.68") from None
    when = when if when.tzinfo else when.replace(tzinfo=UTC)
    return when.timestamp() + (float(f"0.{digits}") if dot and digits else 0.0)


def seconds(where: str, name: str, written: object, per: float = 1.0) -> float:
    """An instant in seconds, of units of which a second has `per`. Raises DataError."""
    try:
        found = float(str(written)) / per
    except ValueError:
        found = float("nan")
    if not -1e18 < found < 1e18:
        raise bad(where, f"{name} is {str(written)[:40]!r}, expected seconds")
    return found


def pause(where: str, name: str, written: object, per: float = 1.0) -> float:
    """Seconds between an answer and the turn after it: none is negative. Raises DataError."""
    found = seconds(where, name, written, per)
    if found < 0:
        raise bad(
            where, f"{name} is {str(written)[:40]}, expected no less than 0: a turn starts after the previous one"
        )
    return found


def estimated(text: str) -> int:
    """Estimated tokens of a text without a count."""
    return max(len(text) // CHARACTERS, 1)


def chat_text(messages: object) -> str | None:
    """The text of a chat as OpenAI's clients write it, {role, content} or {from, value} each; None where it is none."""
    if not isinstance(messages, list) or not all(isinstance(m, dict) for m in messages):
        return None
    return "".join(_content(m.get("content", m.get("value"))) for m in messages)


def _content(content: object) -> str:
    if isinstance(content, list):
        return "".join(_content(part.get("text")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def prefix_block_keys(name: str, count: int) -> tuple[str, ...]:
    """Keys of the first `count` tokens of a prompt that begins as others of that name do, in blocks of SPAN tokens."""
    return tuple(f"{name}/{i}" for i in range(count // SPAN))


def keys(head: str) -> set[str]:
    """Top-level names of the first object in a file's beginning; all names in it where the object does not end there."""
    text = head.lstrip().lstrip("[").lstrip()
    if not text.startswith("{"):
        return set()
    try:
        return set(json.JSONDecoder().raw_decode(text)[0])
    except (ValueError, RecursionError):
        return set(re.findall(r'"(\w+)"\s*:', text))


def heading(head: str) -> set[str]:
    """Columns of a CSV file's first line, in lower case."""
    return {name.strip().lower() for name in head.partition("\n")[0].split(",")}


def lines(path: Path) -> Iterator[tuple[str, Json | DataError]]:
    """(file:line, object) of a JSONL file; an error for a line that is none."""
    with open_text(path) as stream:
        for number, line in enumerate(stream, 1):
            if not line.strip():
                continue
            where = f"{path}:{number}"
            try:
                found = json.loads(line)
            except (ValueError, RecursionError) as error:
                yield where, bad(where, f"not JSON ({error})")
                continue
            yield where, found if isinstance(found, dict) else bad(where, "expected an object")


def document(path: Path) -> Any:
    """Parse a JSON file. Raises DataError."""
    with open_text(path) as stream:
        return parse(stream.read(), str(path))


def table(path: Path) -> Iterator[tuple[str, dict[str, str] | DataError]]:
    """(file:line, column -> text) of a CSV file with a heading; columns by their names in lower case. Cells beyond them are an error."""
    import csv

    with open_text(path, newline="") as stream:
        reader = csv.reader(stream)
        names = [name.strip().lower() for name in next(reader, [])]
        for row in reader:
            if not row:
                continue
            where = f"{path}:{reader.line_num}"
            if any(cell.strip() for cell in row[len(names) :]):
                yield where, bad(where, f"{len(row)} cells under {len(names)} columns")
            else:
                yield where, dict(zip(names, row, strict=False))


def read_rows(objects: Iterator[tuple[str, Any]], make: Callable[[str, Any], Row | None]) -> Read:
    """Yield a row, or an error, for each object or line."""
    for where, each in objects:
        if isinstance(each, DataError):
            yield each
            continue
        try:
            yield make(where, each)
        except DataError as error:
            yield error
