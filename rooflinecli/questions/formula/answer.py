"""`roofline formula NAME arg=value ...`: one formula at the numbers given, with the arithmetic that ran."""

from __future__ import annotations

import inspect
import math
import re
from importlib import import_module
from typing import Any

from rooflinecli.core import num, units
from rooflinecli.core.derivation import Formula, Traced, leaf
from rooflinecli.core.errors import UsageError, unknown

_FACTORS = re.compile(r"\s*[x×*]\s*(?=[-+.0-9])")
_NUMBER = re.compile(r"[-+]?(?:[0-9][0-9_,]*\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_MEASURES = {
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
    given = _given(entry, written)
    arguments = {name: _read(name, given[name]) for name in parameters(entry)}
    leaves = [leaf(name, value, unit, given[name].strip()) for name, (value, unit) in arguments.items()]
    call = getattr(import_module(entry.module), entry.name)
    try:
        result = call(*leaves)
        bare = num.value(result)
        sound = not isinstance(bare, complex) and math.isfinite(bare)
    except (ValueError, ZeroDivisionError, OverflowError):
        sound = False
    if not sound:
        raise UsageError(f"{entry.name} has no value at {', '.join(written)}; give numbers inside its domain")
    if not isinstance(result, Traced):
        result = leaf(entry.symbol, result, entry.unit, f"{entry.name}: {entry.source}")
    return result, {name: value for name, (value, _) in arguments.items()}


def _given(entry: Formula, written: list[str]) -> dict[str, str]:
    """name -> text, every argument exactly once."""
    names, given = parameters(entry), {}
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
    return given


def _read(name: str, text: str) -> tuple[float, str]:
    """'3.35 TB/s', '70B', '40%' or a product such as '2x8192x28672' -> SI value and the dimension it was written in."""
    product, unit = 1.0, ""
    for factor in _FACTORS.split(text.strip()):
        value, measures = _factor(name, text, factor)
        if unit and measures:
            raise UsageError(f"{name}={text}: more than one unit; write at most one")
        product, unit = product * value, unit or measures
    expected = _measure(name)
    if unit and expected and unit != expected:
        raise UsageError(f"{name}={text}: measures {unit}, but {name} is in {expected}")
    if expected in units.RATES and not unit:
        raise UsageError(f"{name}={text}: the unit is missing; write {name}={text.strip()}{expected}")
    if not math.isfinite(product):
        raise UsageError(f"{name}={text}: expected a finite number")
    if expected and product < 0:
        raise UsageError(f"{name}={text}: an amount in {expected} is not negative; write a positive number")
    return product, unit or expected


def _measure(name: str) -> str:
    """The dimension of an argument, by its name; nothing where the name leaves it open."""
    words = name.split("_")
    if "bytes" in words and "per" not in words:
        return "B"
    return _MEASURES.get(name) or ("s" if words[-1] in ("s", "time") or words[0] == "t" else "")


def _factor(name: str, text: str, factor: str) -> tuple[float, str]:
    match = _NUMBER.match(factor.strip())
    written = factor.strip()[match.end() :].strip() if match else ""
    plain = units.UNITS["1"]
    dimension = "" if written in plain else next((d for d, table in units.UNITS.items() if written in table), None)
    if match is None or dimension is None:
        raise UsageError(
            f"{name}={text}: not a number with a known unit; write 4096, 70e9, 70B (a billion), 80GiB, 3.35TB/s or 2x8192"
        )
    try:
        number = units.value(match[0])
    except ValueError as error:
        raise UsageError(f"{name}={text}: {error}") from None
    return number * (plain if not dimension else units.UNITS[dimension])[
        written
    ], "" if dimension == "tokens" else dimension
