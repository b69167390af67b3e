"""Tables, lists and sentences for a terminal: nothing wider than it is given, no figure broken.

Headings are bold where a terminal shows styles; output that is piped, or written with NO_COLOR, is plain. A table
that does not fit is folded into several under each other, or into labels and values where there is still less room. On the first
screen of an answer with details, columns that may go are left to them. Lists of more rows than a screen has drop columns
instead, in the order they state, and say which; `--wide` shows all.
"""

from __future__ import annotations

import math
import os
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import zip_longest

from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.text import CONTROL
from rooflinecli.render.blocks import Block, Column, Command, Drawing, Headline, Note, Page, Pairs, Prose, Table

PIPE = 120  # columns of a pipe or a file, which have none of their own
NARROWEST = 20
SCREEN, LINES = 80, 24  # that a first screen is laid out for
WIDE = 10**6  # with --wide


def draw(page: Page, width: int, details: bool = False) -> str:
    """The blocks of an answer for a terminal of `width` columns, on one screen or with the details."""
    groups, moved = [*page.groups, *(page.details if details else [])], list[str]()
    if page.about and not details:
        if width >= SCREEN:
            groups = [[_lean(b, width, moved) if isinstance(b, Table) else b for b in group] for group in groups]
        if said := [*([page.about] if page.details else []), *dict.fromkeys(moved)]:
            groups[-1] = [*groups[-1], Note(f"--details shows {', '.join(said)}")]
    texts = ["\n".join(line for block in group for line in _block(block, width)) for group in groups]
    over = sum(text.count("\n") + 2 for text in texts) - 1 - LINES if page.about and not details else 0
    spaced = len(texts) - max(over, 0)  # the last groups stand close where that keeps the screen
    ends = ["\n\n" if i < max(spaced, 3) else "\n" for i in range(1, len(texts))]
    return "".join(text + end for text, end in zip(texts, [*ends, ""], strict=False))


def _lean(block: Table, width: int, moved: list[str]) -> Table:
    """A table without as many of its columns that may go as it takes to fit; their names are added to `moved`."""
    dropped = fit(block, width).dropped
    kept = [i for i, column in enumerate(block.columns) if not (column.drop and clean(column.head) in dropped)]
    moved += [clean(c.head) for i, c in enumerate(block.columns) if i not in kept]
    return replace(block, columns=[block.columns[i] for i in kept], rows=[[row[i] for i in kept] for row in block.rows])


def _block(block: Block, width: int) -> list[str]:
    if isinstance(block, Headline):
        return [bold(line) for line in prose(block.text, width, "  ")]
    if isinstance(block, Prose):
        style = {"dim": dim, "red": red}.get(block.style, str)
        return [style(line) for line in prose(block.text, width, " " * block.indent)]
    if isinstance(block, Pairs):
        return [*(bold(line) for line in prose(block.title, width) if line), *pairs(block.rows, width, bold)]
    if isinstance(block, Table):
        return table(block, width)
    if isinstance(block, Drawing):
        return list(block.lines)
    return (
        command(block.words, width) if isinstance(block, Command) else [dim(line) for line in prose(block.text, width)]
    )


GAP = "  "
FOLDED = 12  # rows of a table that keeps all of its columns; a longer one is a list


@dataclass
class FittedTable:
    """A table made to fit: which columns stayed, how wide each is, which hold text, what was dropped."""

    widths: dict[int, int]
    left: set[int]
    dropped: list[str]
    indent: int

    def line(self, row: Sequence[str]) -> str:
        """One row of the table, aligned; a cell wider than its column goes on below itself."""
        parts = {i: _broken(row[i], w) for i, w in self.widths.items()}
        lines = []
        for n in range(max(map(len, parts.values()))):
            shown = ((part[n] if n < len(part) else "", self.widths[i], i in self.left) for i, part in parts.items())
            padded = (cell + _pad(cell, w) if left else _pad(cell, w) + cell for cell, w, left in shown)
            lines.append((" " * self.indent + GAP.join(padded)).rstrip())
        return "\n".join(lines)

    def head(self, columns: Sequence[Column]) -> list[str]:
        """The headings; one that holds line breaks takes several lines, the last of them above its figures."""
        parts = [column.head.split("\n") for column in columns]
        depth = max(map(len, parts))
        stacked = [[""] * (depth - len(p)) + p for p in parts]
        return [self.line([column[i] for column in stacked]) for i in range(depth)]


def fit(block: Table, width: int) -> FittedTable:
    """How a table stands in `width` columns.

    Columns that may be cut are cut down to their least first; then columns go in the order of their `drop`, and after those from
    the right. The first column stays, cut if it must be.
    """
    columns = block.columns
    body = [max((cells(clean(row[i])) for row in block.rows), default=0) for i in range(len(columns))]
    above = [max(map(cells, column.head.split("\n"))) for column in columns]
    natural = dict(enumerate(map(max, body, above)))
    least = {i: min(w, columns[i].least or w) for i, w in natural.items()}
    room = max(width - block.indent, 1)
    order = sorted(range(1, len(columns)), key=lambda i: (columns[i].drop or math.inf, i if columns[i].drop else -i))
    gone = []
    while _total(least) > room and len(least) > 1:
        gone.append(order.pop(0))
        del least[gone[-1]]
    widths = {i: min(w, room) for i, w in least.items()}
    for i in widths:  # columns that were cut down take back what room is left
        widths[i] += max(min(natural[i] - widths[i], room - _total(widths)), 0)
    left = {i for i, column in enumerate(columns) if column.text or (i == 0 and not block.numeric)}
    return FittedTable(widths, left, [clean(columns[i].head) for i in sorted(gone) if body[i]], block.indent)


def _total(widths: dict[int, int]) -> int:
    return sum(widths.values()) + len(GAP) * (len(widths) - 1)


def table(block: Table, width: int = PIPE) -> list[str]:
    """The lines of a table made to fit (see `fit`): title, headings, rows, and a note where columns were dropped."""
    made, title = fit(block, width), [bold(block.title)] if block.title else []
    if made.dropped and len(block.rows) <= FOLDED and width - block.indent >= NARROWEST:
        return [*title, *_folded(block, width)]
    lines = [*title, *map(bold, made.head(block.columns)), *map(made.line, block.rows)]
    if made.dropped:
        more = f"not shown for lack of room: {', '.join(made.dropped)}; --wide shows all"
        lines += map(dim, prose(more, width))
    return [part for line in lines for part in line.split("\n")]


def _folded(block: Table, width: int) -> list[str]:
    """The lines of a table that is too wide: its columns in tables under each other, each with the columns that tell the rows
    apart; labels and values for each row where that would take more than six."""
    rows, columns = block.rows, block.columns
    full = [i for i in range(len(columns)) if i == 0 or any(clean(row[i]).strip() for row in rows)]
    keys = full[: 1 if len({row[0] for row in rows}) == len(rows) else 2]
    rest, lines, tables = full[len(keys) :], [], 0
    while rest and tables < 6:
        for stop in range(len(rest), 0, -1):
            taken = [*keys, *rest[:stop]]
            part = replace(
                block, columns=[columns[i] for i in taken], rows=[[row[i] for i in taken] for row in rows], title=""
            )
            if not fit(part, width).dropped:
                break
        else:
            break
        lines += table(part, width)
        rest, tables = rest[stop:], tables + 1
    if not rest:
        return lines
    lines, inner = [], " " * (block.indent + 2) if width >= 40 else ""
    for row in rows:
        title = "  ".join(row[i] for i in keys if row[i].strip())
        lines += [bold(line) for line in prose(title, width - block.indent)]
        found = [(columns[i].head, row[i]) for i in full[len(keys) :] if row[i].strip()]
        lines += [inner + line for line in pairs(found, width - len(inner))]
    return lines


def pairs(rows: Iterable[Sequence[str]], width: int = PIPE, style: Callable[[str], str] = str) -> list[str]:
    """Label and value, one to a line; a long value goes on below itself. `style` is of the labels."""
    cleaned = [(clean(label), clean(value)) for label, value in rows]
    wide = min(max((cells(label) for label, _ in cleaned), default=0), max(width // 2, 8))
    lines = []
    for label, value in cleaned:
        parts = _broken(label, wide), wrap(value, max(width - wide - len(GAP), 8)) or [""]
        for first, line in zip_longest(*parts, fillvalue=""):
            lines.append((style(first) + _pad(first, wide) + GAP + line).rstrip())
    return lines


def prose(text: str, width: int = PIPE, indent: str = "") -> list[str]:
    """Sentences in lines of at most `width`; lines after the first begin with `indent`."""
    return wrap(text, width, indent) or [""]


def command(words: str, width: int = PIPE) -> list[str]:
    """A command line that can be copied: broken before an option where possible, with the shell's continuation."""
    lines, pieces = [""], words.replace(" -", "\n-").split("\n")
    for piece in (p for whole in pieces for p in ([whole] if len(whole) + 4 <= width else whole.split())):
        if lines[-1] and len(lines[-1]) + len(piece) + 3 > width:
            lines[-1] += " \\"
            lines.append("  " + piece)
        else:
            lines[-1] += (" " if lines[-1] else "") + piece
    return lines


def wrap(text: str, width: int, indent: str = "") -> list[str]:
    """Lines of at most `width`, broken at spaces; textwrap counts characters, so text with wide ones gets half of it."""
    text = clean(text)
    width = max(width if cells(text) <= len(text) else width // 2, 4)
    indent = indent if len(indent) * 2 < width else ""
    if len(text) <= width and text.isascii():  # it has its line to itself, as nearly all have
        return [text.rstrip()] if text.strip() else []
    return textwrap.wrap(text, width, subsequent_indent=indent, break_on_hyphens=False)


def clean(text: str) -> str:
    """One line without control characters; spaces stay as they are, since labels are indented with them."""
    if text.isprintable():  # nearly all of it is
        return text
    return CONTROL.sub("", text.replace("\n", " ").replace("\t", " "))


def cells(text: str) -> int:
    """Cells that a terminal gives to `text`: two for the wide characters of East Asia, none for marks that combine."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)


def _pad(text: str, width: int) -> str:
    return " " * (width - cells(text))


def _broken(text: str, width: int) -> list[str]:
    """A cell as lines of its column."""
    text = clean(text)
    return [text] if cells(text) <= width else [_cut(line, width) for line in wrap(text, width)] or [""]


def _cut(text: str, width: int) -> str:
    """`text`, or as much of it as leaves room for the mark that says so."""
    if cells(text) <= width:
        return text
    while text and cells(text) > width - 1:
        text = text[:-1]
    return text + "…" if width else ""


def colored() -> bool:
    """Whether standard output is a terminal that shows styles."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return sys.stdout.isatty()


def _style(code: str, text: str) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if text and colored() else text


def columns(wide: bool = False, to_file: bool = False) -> int:
    """Columns to write for: COLUMNS, else the terminal's, else those of a pipe."""
    if wide:
        return WIDE
    given = os.environ.get("COLUMNS", "")[:6]
    if given.isdecimal() and int(given) > 0:
        return max(int(given), NARROWEST)
    try:
        found = os.get_terminal_size(sys.stdout.fileno()).columns if not to_file else 0
    except (OSError, ValueError, AttributeError):  # no terminal, closed, or not a stream of the system's
        found = 0
    return max(found, NARROWEST) if found else PIPE


def bold(text: str) -> str:
    return _style("1", text)


def dim(text: str) -> str:
    return _style("2", text)


def red(text: str) -> str:
    return _style("31", text)
