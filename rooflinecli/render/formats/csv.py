"""An estimate as two columns, quantity and value: SI, one line per number."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from typing import Any


def estimate(result: dict[str, Any]) -> str:
    from rooflinecli.questions.estimate.explain import (
        quantities,  # here: the calculators write CSV too, and need no YAML
    )

    words = {
        "model.name": result["model"]["name"],
        "hardware.name": result["hardware"]["name"],
        "feasible": str(result["feasible"]).lower(),
    }
    return rows([("quantity", "value"), *words.items(), *quantities(result).items()])


def rows(table: Iterable[Iterable[Any]]) -> str:
    """Any rows as CSV text."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([inert(cell) for cell in row] for row in table)
    return out.getvalue()


_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def inert(cell: Any) -> Any:
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
