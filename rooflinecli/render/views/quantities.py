"""An answer that is quantities by name: pairs, a table for each mapping of rows, and notes."""

from __future__ import annotations

import re
from collections.abc import Mapping

from rooflinecli.core.record import Record, entries
from rooflinecli.render.blocks import Block, Column, Note, Page, Pairs, Table, page
from rooflinecli.render.numbers import text

_UNITS = re.compile(r"(?<=.)_(bytes_per_s|flops_per_s|usd_per_hour|bytes|usd|(?<!per_)s)$")
_ACRONYMS = ("itl", "kv", "mfu", "ttft")
_CALLED = {
    "training_usd": "cost",
    "bound": "bottleneck",
    "bound_by": "time over the next resource",
    "interval_s": "80% interval",
    "pflop_s_days": "PFLOP/s-days",
}


def view(answer: Record) -> Page:
    """Quantities as pairs, each mapping as a table, then the notes."""
    scalars: list[tuple[str, str]] = []
    tables: list[list[Block]] = []
    notes: list[Block] = []
    for key, value in answer.entries():
        if key == "notes":
            notes = [Note(note) for note in value]
        elif isinstance(value, Mapping):
            tables.append([_table(key, value)])
        elif key != "schema" and value is not None:
            scalars.append((label(key), text(value, key)))
    return page([Pairs(scalars)], *tables, notes)


def _table(title: str, rows: Mapping[str, object]) -> Table:
    """A row for each entry, or one row of numbers."""
    cells = {name: dict(entries(row) or ()) for name, row in rows.items()}
    if not all(cells.values()):
        cells = {"": dict(rows)}
    heads = list(dict.fromkeys(key for row in cells.values() for key in row))
    columns = [Column("", text=True), *(Column(label(head)) for head in heads)]
    body = [[label(name), *(text(row.get(head), head) for head in heads)] for name, row in cells.items()]
    return Table(columns, body, title=label(title), indent=2)


def label(key: str) -> str:
    """A quantity's name: its key without the unit, which stands with the value."""
    words = _UNITS.sub("", key).split("_")
    return _CALLED.get(key) or " ".join(word.upper() if word in _ACRONYMS else word for word in words)
