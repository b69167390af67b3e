"""Files that importers read: size limits, gzip, encodings and syntax errors with file:line; logs as lines, and the rows read from them."""

from __future__ import annotations

import csv
import gzip
import json
import re
import zlib
from bisect import bisect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

from rooflinecli.core.errors import DataError
from rooflinecli.core.record import Json
from rooflinecli.core.text import one_line
from rooflinecli.specs.snapshots import table

Tree = Mapping[str, Any]  # a config, nested
Options = Json  # options of an estimate by name, as written or parsed
LARGEST = 256 * 2**20  # bytes of a file, unpacked, that are read
_GZIP = b"\x1f\x8b"
_HEAD = 4096  # bytes by which a text and its encoding are recognized
_MARKS = {b"\xff\xfe\0\0": "utf-32", b"\0\0\xfe\xff": "utf-32", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_FEW = 4  # consecutive lines from which a prefix is a launcher's
_CELL = re.compile(r'^\s*"((?:[^"\\]|\\.)*)",?$', re.MULTILINE)  # a line of a notebook's cell
_ESCAPED = re.compile(r"\[(?:3[0-9]|0|39)m")  # color codes whose escape character a copy has lost


@dataclass(frozen=True)
class MeasuredRow:
    """One measurement as its file states it. `unit` says what `value` is, `options` are those of an estimate that the file gives.

    quantity: train, itl, ttft, prefill, static, throughput (phases of a model), collective or matmul (a probe of the hardware).
    unit: s; tokens/s (all devices), tokens/s/device, samples/s; for rates, seconds follow once batch and lengths are known.
    probe: sizes of a micro-benchmark; `device`, the names of the devices that took part as the file has them; `cpu`: no accelerator did.
    """

    where: str
    tool: str
    quantity: str
    value: float
    unit: str = "s"
    options: Options = field(default_factory=dict)
    probe: Json = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    doubt: str = ""  # why the row cannot be true, where it contradicts itself
    unread: str = ""  # why no estimate has what it measures


@dataclass(frozen=True)
class Source:
    """The text of a log; `name` is how it is cited."""

    name: str
    text: str

    def at(self, line: int) -> str:
        """File and line, as an editor counts them."""
        return f"{self.name}:{max(line - bisect(self._returns, line), 1)}"

    @cached_property
    def _returns(self) -> list[int]:
        """Lines that begin at a lone carriage return, which a progress bar ends with, and no editor."""
        ends = re.findall(r"[\r\n]", self.text) if "\r" in self.text else ()
        return [line for line, end in enumerate(ends, start=2) if end == "\r"]

    @cached_property
    def plain(self) -> str:
        """The text without terminal colors, and without a launcher's prefix where most lines, or several in a row, have it."""
        text = self.text.replace("\r", "\n")
        if self._notebook:
            text = _CELL.sub(lambda cell: " ".join(json.loads(f'"{cell[1]}"').splitlines()), text)
        text = _ESCAPED.sub("", _COLOUR.sub("", text))
        lines = sum(1 for line in text.split("\n") if line.strip())
        for block, prefix in _launchers():
            if 2 * len(prefix.findall(text)) > max(lines, 2):
                text = prefix.sub("", text)
            else:
                text = block.sub(lambda match, prefix=prefix: prefix.sub("", match[0]), text)  # type: ignore[misc]
        return text

    @property
    def _notebook(self) -> bool:
        return '"nbformat"' in self.text and self.text.lstrip().startswith("{")

    @cached_property
    def lines(self) -> list[str]:
        return self.plain.split("\n")

    @cached_property
    def head(self) -> str:
        return self.plain[:200_000]

    def line_of(self, position: int) -> int:
        """The line of a character of `plain`."""
        return self.plain.count("\n", 0, position) + 1

    @cached_property
    def looks_like_json(self) -> bool:
        """Whether the first thing that is not a stray message is a JSON object or array."""
        return not self._notebook and any(_begins(line) for line in self.lines[:50])

    @cached_property
    def objects(self) -> list[tuple[int, Json]]:
        """(line, object) of every JSON object of the file: a document, an array's elements, or one on each line.

        Messages of other programs between them are skipped. Raises DataError at an object that is cut short.
        """
        return list(_objects(self))

    @property
    def members(self) -> list[tuple[int, Json]]:
        """The same, and the objects that are fields of those: a script may keep a tool's result in its own."""
        return [(at, o) for at, whole in self.objects for o in (whole, *whole.values()) if isinstance(o, dict)]


@dataclass(frozen=True)
class LogReader:
    """A format: the pattern of its text, and what reads it; `rows(source, TOOL)`."""

    TOOL: str
    marker: re.Pattern[str]
    rows: Callable[[Source, str], list[MeasuredRow]]

    def claims(self, source: Source) -> bool:
        return self.marker.search(source.plain) is not None

    def read(self, source: Source) -> list[MeasuredRow]:
        return self.rows(source, self.TOOL)


@cache
def _launchers() -> list[tuple[re.Pattern[str], re.Pattern[str]]]:
    """Of each launcher's prefix: several lines in a row that have it, and the prefix."""
    found = [f"^{pattern.pattern}" for pattern in vars(patterns("launchers")).values()]
    return [tuple(re.compile(p, re.M) for p in (rf"(?:{each}[^\n]*(?:\n|\Z)){{{_FEW},}}", each)) for each in found]  # type: ignore[misc]


@cache
def patterns(module: str) -> SimpleNamespace:
    """The patterns of a reader of logs by name, as logs/patterns.yaml has them."""
    rows = table(Path(__file__).parent / "logs" / "patterns.yaml")[module]
    return SimpleNamespace(**{name: re.compile(pattern) for name, pattern in rows.items()})


def csv_rows(source: Source, begins: str) -> Iterator[tuple[int, dict[str, str]]]:
    """(line, column -> cell) of the tables whose header begins so, up to an empty line or the end of a listing. Raises DataError for a row
    that is cut short."""
    header: list[str] = []
    for line, cells in enumerate(csv.reader(map(str.strip, source.lines)), start=1):
        if not cells or cells[0].startswith("```"):
            header = []
        elif ",".join(cells).startswith(begins):
            header = cells
        elif header:
            if len(cells) != len(header):
                why = f"{source.at(line)}: {len(cells)} cells under {len(header)} columns; was the file cut short?"
                raise DataError(why)
            yield line, dict(zip(header, cells, strict=True))


def _begins(line: str) -> bool:
    return line.lstrip().startswith(("{", "[{", "[\r")) or line.strip() == "["


def _objects(source: Source) -> Any:
    decoder, text, position = json.JSONDecoder(), source.plain, 0
    while position < len(text):
        end = text.find("\n", position)
        line = text[position : end if end >= 0 else len(text)]
        if not _begins(line):
            position = end + 1 if end >= 0 else len(text)
            continue
        position += len(line) - len(line.lstrip())
        start = source.line_of(position)
        try:
            value, position = decoder.raw_decode(text, position)
        except ValueError as error:
            cut = source.line_of(getattr(error, "pos", position))
            why = f"{source.at(cut)}: not valid JSON ({getattr(error, 'msg', error)}); was the file cut short?"
            raise DataError(why) from None
        except RecursionError:
            raise DataError(f"{source.at(start)}: nested too deeply to be a result") from None
        yield from _members(value, start, text, source)


def _members(value: Any, start: int, text: str, source: Source) -> Any:
    if isinstance(value, dict):
        yield start, value
        return
    line = start
    lines = source.lines
    for member in value if isinstance(value, list) else ():
        if isinstance(member, dict):
            first = next(iter(member), None)
            while first is not None and line <= len(lines) and f'"{first}"' not in lines[line - 1]:
                line += 1
            yield min(line, len(lines)), member
            line += 1 if len(lines) > start else 0


def _encoding(head: bytes) -> str:
    """The encoding of a text by its mark, or by where its zero bytes are; empty for what is no text."""
    marked = next((name for mark, name in _MARKS.items() if head.startswith(mark)), "")
    zeros = [head[first::2].count(0) for first in (0, 1)]
    if marked or not any(zeros):
        return marked or "utf-8-sig"
    most = max(zeros) > len(head) / 4 and not min(zeros)  # one of the two bytes of most characters
    return ("utf-16-be", "utf-16-le")[zeros[1] > 0] if most else ""


def _packed(path: Path) -> bool:
    with path.open("rb") as stream:
        return stream.read(len(_GZIP)) == _GZIP


def open_text(path: Path, give: str = "a text") -> IO[str]:
    """A stream of a text file, unpacked where gzip wrote it. Raises DataError for one that is no text."""
    opened = gzip.open if _packed(path) else open
    with opened(path, "rb") as stream:
        encoding = _encoding(stream.read(_HEAD))
    if not encoding:
        raise DataError(f"{path}:1: a binary file; give {give}")
    return opened(path, "rt", encoding=encoding, errors="replace")


def read_text(path: Path, largest: int = LARGEST, give: str = "a log or a result file", lone_return: str = "\n") -> str:
    """The text of a file of at most `largest` bytes, unpacked and decoded (UTF-8, UTF-16 or UTF-32), lines ended by \\n.

    Raises DataError that says what to `give` for one that cannot be read, is too long, or is no text.
    """
    try:
        with (gzip.open if _packed(path) else open)(path, "rb") as stream:
            raw = stream.read(largest + 1)
    except FileNotFoundError:
        raise DataError(f"{path}: no such file; give {give}") from None
    except (OSError, EOFError, zlib.error) as error:
        why = f"{path}{':1' if path.is_file() else ''}: cannot be read ({getattr(error, 'strerror', None) or error}); give {give}"
        raise DataError(why) from None
    if len(raw) > largest:
        raise DataError(f"{path}: more than {largest / 1e6:,.0f} MB; give {give} cut to what is needed")
    encoding = _encoding(raw[:_HEAD])
    if not encoding:
        raise DataError(f"{path}:1: a binary file; give {give}")
    return raw.decode(encoding, "replace").replace("\r\n", "\n").replace("\r", lone_return)


def parse(text: str, name: str, reader: Callable[[str], Any] = json.loads) -> Any:
    """What JSON, TOML or another parser that raises ValueError makes of a text. Raises DataError with file:line."""
    try:
        return reader(text)
    except (ValueError, RecursionError) as error:
        at = re.search(r"\bline (\d+)", str(error))
        raise DataError(f"{name}:{at[1] if at else 1}: not valid ({one_line(str(error))}); mend the syntax") from None


def load(path: Path) -> Source:
    """The text of a log. Raises DataError when it cannot be read."""
    return Source(str(path), read_text(path, lone_return="\r"))


def number(value: Any) -> float | None:
    """A number from JSON or text ("6,785", "8") of a size whose ratios are finite; None for anything else."""
    if isinstance(value, bool) or value is None:
        return None
    try:
        found = float(value.replace(",", "")) if isinstance(value, str) else float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return found if not found or 1e-100 < abs(found) < 1e100 else None


def positive(value: object) -> float | None:
    """As `number`, and above zero."""
    found = number(value)
    return found if found is not None and found > 0 else None


def at(holder: Any, path: str | None) -> Any:
    """A field of a record, or one inside it by a path with dots; None where there is none."""
    if isinstance(holder, dict) and path in holder:
        return holder[path]
    for name in (path or "").split("."):
        holder = holder.get(name) if isinstance(holder, dict) else None
    return holder


def need(source: Source, line: int, holder: Json, *names: str) -> float:
    """The first of several fields that is there. Raises DataError for none, or one that is no number above zero."""
    for name in names:
        if (value := at(holder, name)) is not None:
            found = positive(value)
            if found is None:
                raise DataError(f"{source.at(line)}: {name}: expected a number above zero, got {str(value)[:40]!r}")
            return found
    why = f"{source.at(line)}: {' or '.join(names)}: missing; was the file cut short, or written by another version?"
    raise DataError(why)
