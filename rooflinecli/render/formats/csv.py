"""Rows as CSV, safe to open in a spreadsheet."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from typing import TypeVar

C = TypeVar("C")


def rows(table: Iterable[Iterable[object]]) -> str:
    """object rows as CSV text."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([inert(cell) for cell in row] for row in table)
    return out.getvalue()


_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def inert(cell: C) -> C | str:
    """A cell that no spreadsheet takes for a formula: text that begins like one gets an apostrophe; numbers stay."""
    if not isinstance(cell, str) or not cell.startswith(_FORMULA) or _number(cell):
        return cell
    return "'" + cell


def _number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
