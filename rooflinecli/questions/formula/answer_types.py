"""The answers of `roofline formula`."""

from __future__ import annotations

from dataclasses import field

from rooflinecli.core.num import Number
from rooflinecli.core.record import OPTIONAL, Record


class FormulaAnswer(Record):
    """A formula: its parameters and arithmetic, or its value at the arguments given (in SI)."""

    schema: str = "roofline/formula/1"
    formula: str
    symbol: str
    unit: str
    source: str
    parameters: list[str] | None = field(default=None, metadata=OPTIONAL)
    arithmetic: str | None = field(default=None, metadata=OPTIONAL)
    value: Number | None = field(default=None, metadata=OPTIONAL)
    arguments: dict[str, float] | None = field(default=None, metadata=OPTIONAL)


class FormulaSummary(Record):
    """A formula in one line."""

    module: str
    formula: str
    unit: str
    summary: str


class FormulaList(Record):
    """Every formula, in the order of the catalogue."""

    schema: str = "roofline/formula/1"
    formulas: list[FormulaSummary]
