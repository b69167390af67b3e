"""An answer in a format: JSON and CSV from the record itself, tables and Markdown from its view."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from rooflinecli.core import num
from rooflinecli.core.record import Record, leaves, plain
from rooflinecli.core.text import one_line
from rooflinecli.render.blocks import Block, Command, Drawing, Headline, Page, Pairs, Table

C = TypeVar("C")
_EXACT = 1e16  # a larger float is written with an exponent


def render(
    answer: Record,
    view: Callable[[Any], Page],
    format: str,
    width: int,
    *,
    table: str = "",
    schema: str | None = None,
    details: bool = False,
) -> str:
    """The text of an answer. `table` names the list of rows that CSV writes instead of one line per number.

    details: more than one screen of a table; schema: the version whose JSON keys are written, "1" or "2".
    """
    if format == "json":
        return to_json(answer, schema)
    if format == "csv":
        return _csv(answer, table)
    if format == "markdown":
        return markdown(view(answer))
    if format == "html":
        from rooflinecli.render.report.page import whole

        return whole(answer, view(answer))
    from rooflinecli.render.formats.terminal import draw

    return draw(view(answer), width, details)


def to_json(answer: Record | Sequence[Record], schema: str | None = None) -> str:
    """The JSON contract; a `schema` number for the keys of that version."""
    return dumps(plain(answer, None if schema is None else int(schema)))


def dumps(result: object) -> str:
    """JSON text: SI, the unit in the key, stable order; no NaN or infinity leaves the program."""
    import json  # a table needs none

    return json.dumps(bare(result), indent=2, allow_nan=False)


def bare(value: Any) -> Any:
    """Numbers without the derivation that an explanation gave them, whole ones without a point, and none that JSON cannot hold."""
    if isinstance(value, dict):
        return {key: bare(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [bare(item) for item in value]
    found = num.value(value)
    if not isinstance(found, float):
        return found
    return None if not math.isfinite(found) else int(found) if found % 1 == 0 and abs(found) < _EXACT else found


def _csv(answer: Record, table: str) -> str:
    """One line per number in SI, dotted names; or the rows of `table`, one line each."""
    if table:
        found = getattr(answer, table)
        named = (
            [({"name": name}, row) for name, row in found.items()]
            if isinstance(found, dict)
            else [({}, row) for row in found]
        )
        rows = [
            name
            | {
                path: cell
                for key, value in (row.items() if isinstance(row, dict) else row.entries())
                if not isinstance(value, list) or not any(isinstance(item, (Record, dict)) for item in value)
                for path, cell in ([(key, " ".join(value))] if _words(value) else leaves(value, f"{key}."))
            }
            for name, row in named
        ]
        head = list(dict.fromkeys(name for row in rows for name in row))
        return csv_rows([head, *([row.get(name, "") for name in head] for row in rows)])
    cells = [(path.removeprefix("phases."), num.value(value)) for path, value in leaves(answer)]
    words = [
        (path, v if isinstance(v, str) else str(v).lower() if isinstance(v, bool) else repr(v))
        for path, v in cells
        if v is not None
    ]
    return csv_rows([("quantity", "value"), *words])


def _words(value: object) -> bool:
    """Whether a value is several words, which are one cell."""
    return isinstance(value, list) and bool(value) and all(isinstance(item, str) for item in value)


def csv_rows(table: Iterable[Iterable[object]]) -> str:
    """object rows as CSV text."""
    import csv
    import io

    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([inert(cell) for cell in row] for row in table)
    return out.getvalue()


_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def inert(cell: C) -> C | str:
    """A cell that no spreadsheet takes for a formula: text that begins like one gets an apostrophe; numbers stay."""
    if not isinstance(cell, str) or not cell.startswith(_FORMULA):
        return cell
    try:
        float(cell)
    except ValueError:
        return "'" + cell
    return cell


def markdown(page: Page) -> str:
    """The blocks of an answer as Markdown."""
    return "\n\n".join("\n\n".join(map(_block, group)) for group in (*page.groups, *page.details))


def _block(block: Block) -> str:
    if isinstance(block, Headline):
        return f"### {cell(block.text)}"
    if isinstance(block, Pairs):
        title = f"**{cell(block.title)}**\n\n" if block.title else ""
        return title + table([("quantity", "value"), *block.rows], right=[1])
    if isinstance(block, Table):
        title = f"**{cell(block.title)}**\n\n" if block.title else ""
        numbers = [i for i, column in enumerate(block.columns) if i and not column.text]
        return title + table([[column.head for column in block.columns], *block.rows], right=numbers)
    if isinstance(block, Drawing):
        return block.words or "```\n" + "\n".join(block.lines) + "\n```"
    return f"```sh\n{block.words}\n```" if isinstance(block, Command) else cell(block.text)


def table(rows: Sequence[Sequence[object]], right: Iterable[int] = ()) -> str:
    """A Markdown table; the first row is its head. Columns in `right` are aligned to the right."""
    head, *body = [[cell(item) for item in row] for row in rows]
    numbers = set(right)
    rule = ["---:" if i in numbers else "---" for i in range(len(head))]
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, rule, *body])


def cell(item: object) -> str:
    """One line of text that ends no cell and opens no HTML."""
    return one_line(str(item)).replace("<", "&lt;").replace("|", "\\|")
