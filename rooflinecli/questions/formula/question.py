"""`roofline formula [NAME [argument=value ...]]`: the list, one formula, or one at the numbers given, with the arithmetic that ran."""

from __future__ import annotations

import inspect
import math
import re
from dataclasses import field as key
from importlib import import_module
from typing import Any

from rooflinecli.core import num, units
from rooflinecli.core.derivation import Formula, Traced, leaf
from rooflinecli.core.errors import UsageError, unknown
from rooflinecli.core.num import Number as Quantity
from rooflinecli.core.record import OPTIONAL, Record
from rooflinecli.questions.question import Question
from rooflinecli.specs.options import OptText, Texts, field


class FormulaAnswer(Record):
    """A formula: its parameters and arithmetic, or its value at the arguments given (in SI)."""

    schema: str = "roofline/formula/1"
    formula: str
    symbol: str
    unit: str
    source: str
    parameters: list[str] | None = key(default=None, metadata=OPTIONAL)
    arithmetic: str | None = key(default=None, metadata=OPTIONAL)
    value: Quantity | None = key(default=None, metadata=OPTIONAL)
    arguments: dict[str, float] | None = key(default=None, metadata=OPTIONAL)


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


class FormulaQuestion(Question[FormulaAnswer | FormulaList]):
    """List every formula, show one (arithmetic, unit, source), or evaluate it at the numbers given.

    Values may carry units; a bare B is a billion, and bytes are kB, MB, GiB or plain numbers.
    """

    verb = "formula"
    examples = ("roofline formula ridge_point peak=989TFLOP/s bandwidth=3.35TB/s",)
    # fmt: off
    name: OptText = field("free", "A formula's name; omitted: list all.", default=None, positional=True, kw_only=False)
    arguments: Texts = field("free", "argument=value each, with units: peak=989TFLOP/s size=80GiB params=70B rows=8x4096.", default=None, several=True, positional=True)
    # fmt: on

    def answer(self, *, evaluated: bool = False) -> FormulaAnswer | FormulaList:
        """With `evaluated`, a formula without arguments is an error that lists those it needs, not its page."""
        from rooflinecli.formulas import all_formulas

        if self.name is None:
            return FormulaList(
                formulas=[
                    FormulaSummary(
                        module=entry.module.rpartition(".")[2],
                        formula=name,
                        unit=entry.unit,
                        summary=entry.doc.splitlines()[0] if entry.doc else "",
                    )
                    for name, entry in all_formulas().items()
                ]
            )
        entry = find(self.name, all_formulas())
        found = FormulaAnswer(formula=entry.name, symbol=entry.symbol, unit=entry.unit, source=entry.source)
        if self.arguments or evaluated or not parameters(entry):
            found.value, found.arguments = evaluate(entry, list(self.arguments))
        else:
            found.parameters, found.arithmetic = parameters(entry), entry.body
        return found


_FACTORS = re.compile(r"\s*[x×*]\s*(?=[-+.0-9])")
_NUMBER = re.compile(r"[-+]?(?:[0-9][0-9_,]*\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_ARGUMENT_UNITS = {
    "peak": "FLOP/s",
    "bandwidth": "B/s",
    "size": "B",
    "capacity": "B",
    "clock": "Hz",
    "seconds": "s",
    "flops": "FLOP",
}


def find(name: str, formulas: dict[str, Formula]) -> Formula:
    """The formula called `name`, British spellings included. Raises UsageError with near misses."""
    name = american(name)
    if name not in formulas:
        raise unknown("formula", name, formulas, "`roofline formula` lists them")
    return formulas[name]


def american(name: str) -> str:
    """The name of a formula or of an argument in the spelling of today."""
    return name.replace("utilisation", "utilization").replace("quantise", "quantize")


def parameters(entry: Formula) -> list[str]:
    return list(inspect.signature(entry.function).parameters)


def evaluate(entry: Formula, written: list[str]) -> tuple[Any, dict[str, float]]:
    """The traced value of a formula and its arguments in SI; `written` is 'name=value' each.

    Raises UsageError for a missing or unknown argument, a number that cannot be read, or a point outside its domain.
    """
    names, given = parameters(entry), {}  # every argument exactly once, as text
    for text in written:
        name, sign, value = text.partition("=")
        name = american(name.strip().replace("-", "_"))
        if not sign:
            raise UsageError(f"'{text}' is not argument=value; {entry.name} takes {', '.join(names) or 'none'}")
        if name not in names:
            raise unknown("argument", name, names, f"{entry.name} takes {', '.join(names) or 'none'}")
        if name in given:
            raise UsageError(f"{name} is given twice; give each argument once")
        given[name] = value
    missing = [name for name in names if name not in given]
    if missing:
        raise UsageError(f"{entry.name} also needs {', '.join(missing)}; write {missing[0]}=NUMBER")
    arguments = {name: _read(name, given[name]) for name in parameters(entry)}
    leaves = [leaf(name, value, unit, given[name].strip()) for name, (value, unit) in arguments.items()]
    call = getattr(import_module(entry.module), entry.name)
    try:
        result = call(*leaves)
        bare = num.value(result)
        finite = not isinstance(bare, complex) and math.isfinite(bare)
    except (ValueError, ZeroDivisionError, OverflowError):
        finite = False
    if not finite:
        raise UsageError(f"{entry.name} has no value at {', '.join(written)}; give numbers inside its domain")
    if not isinstance(result, Traced):
        result = leaf(entry.symbol, result, entry.unit, f"{entry.name}: {entry.source}")
    return result, {name: value for name, (value, _) in arguments.items()}


def _read(name: str, text: str) -> tuple[float, str]:
    """'3.35 TB/s', '70B', '40%' or a product such as '2x8192x28672' -> SI value and the dimension it was written in."""
    product, unit = 1.0, ""
    for factor in _FACTORS.split(text.strip()):
        match = _NUMBER.match(factor.strip())
        written = factor.strip()[match.end() :].strip() if match else ""
        dimension = next((d for d in ("1", *units.UNITS) if written in units.UNITS[d]), None)
        if match is None or dimension is None:
            raise UsageError(
                f"{name}={text}: not a number with a known unit; write 4096, 70e9, 70B (a billion), 80GiB, 3.35TB/s or 2x8192"
            )
        try:
            number = units.value(match[0])
        except ValueError as error:
            raise UsageError(f"{name}={text}: {error}") from None
        measures = "" if dimension in ("1", "tokens") else dimension
        if unit and measures:
            raise UsageError(f"{name}={text}: more than one unit; write at most one")
        product, unit = product * (number * units.UNITS[dimension][written]), unit or measures
    words = name.split("_")  # the dimension of an argument follows from its name, where that does not leave it open
    expected = _ARGUMENT_UNITS.get(name) or ("s" if words[-1] in ("s", "time") or words[0] == "t" else "")
    if "bytes" in words and "per" not in words:
        expected = "B"
    if unit and expected and unit != expected:
        raise UsageError(f"{name}={text}: measures {unit}, but {name} is in {expected}")
    if expected in units.RATES and not unit:
        raise UsageError(f"{name}={text}: the unit is missing; write {name}={text.strip()}{expected}")
    if not math.isfinite(product):
        raise UsageError(f"{name}={text}: expected a finite number")
    if expected and product < 0:
        raise UsageError(f"{name}={text}: an amount in {expected} is not negative; write a positive number")
    return product, unit or expected
