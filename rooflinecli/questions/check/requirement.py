"""`decode.time_s: "<= 40 ms"` -> a comparison with an SI limit. The unit follows from the quantity's name."""

from __future__ import annotations

import re
from typing import Any

from rooflinecli.core import units
from rooflinecli.core.errors import DataError
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.specs.quantities import find, unit_of

_WRITTEN = re.compile(r"^\s*(<=|>=|==|=|<|>|≤|≥)?\s*(.*?)\s*$", re.DOTALL)
_SPELLING = {"≤": "<=", "≥": ">=", "=": "=="}
_BARE = ("USD", "USD/h", "count", "fraction")


@dataclass(frozen=True)
class Requirement:
    """The limit of one quantity, and its line. `limit` is SI, a word, or true/false."""

    quantity: str
    comparison: str
    limit: float | str | bool
    unit: str
    written: str
    where: str
    implied: bool = False

    @property
    def file(self) -> str:
        return self.where.rpartition(":")[0]

    @property
    def line(self) -> int:
        return int(self.where.rpartition(":")[2])

    def met(self, value: Any) -> bool:
        """Whether `value` meets the limit."""
        if self.comparison == "==":
            return bool(value == self.limit)
        return bool(
            {"<=": value <= self.limit, "<": value < self.limit, ">=": value >= self.limit, ">": value > self.limit}[
                self.comparison
            ]
        )

    @property
    def upper(self) -> bool:
        """Whether the limit is one from above, so that a larger value is the worse one."""
        return self.comparison in ("<=", "<")


def parse(quantity: str, written: float | str | bool, where: str) -> Requirement:
    """Raises DataError when the comparison, the number or the unit is missing or wrong."""
    if isinstance(written, bool):
        return Requirement(quantity, "==", written, "", str(written).lower(), where)
    if isinstance(written, (int, float)):
        raise DataError(
            f'{where}: {quantity}: {written!r} has no comparison operator; write it as a string, for example "<= {_example(quantity)}"'
        )
    sign, rest = _WRITTEN.match(written).groups()  # type: ignore[union-attr]
    if not rest:
        raise DataError(f'{where}: {quantity}: {written!r} has no limit; write for example "<= {_example(quantity)}"')
    comparison = _SPELLING.get(sign, sign) if sign else None
    if rest[0].isalpha() and comparison in (None, "==") and unit_of(quantity) == "count":
        return Requirement(quantity, "==", rest, "", rest, where)
    if comparison is None:
        raise DataError(f"{where}: {quantity}: {written!r} has no comparison operator; begin with <=, >=, <, > or ==")
    return Requirement(
        quantity, comparison, _limit(quantity, rest, where), unit_of(quantity), f"{comparison} {rest}", where
    )


def _limit(quantity: str, text: str, where: str) -> float:
    unit = unit_of(quantity)
    try:
        value = units.parse(_number(text, unit), {"count": "tokens", "fraction": "1"}.get(unit, unit))
    except (ValueError, OverflowError) as error:
        plain = {"count": "a count", "fraction": "a fraction"}.get(unit)
        why = f"{text!r}: wrong unit; {quantity} is {plain}, for example '{_example(quantity)}'"
        raise DataError(f"{where}: {quantity}: {why if plain else error}") from None
    if value != value or abs(value) == float("inf"):
        raise DataError(f"{where}: {quantity}: {text!r} is not a finite number; write a limit that can be met")
    row = find(quantity)
    if unit == "fraction" and abs(value) > 1 and not (row is not None and row.distance):
        raise DataError(f"{where}: {quantity}: {text!r} exceeds 100%; write a fraction such as '40%' or '0.4'")
    return value


def _number(text: str, unit: str) -> float | str:
    """Dollars may lead with $ and name what they buy; a bare number is enough where the name leaves no doubt."""
    if unit == "USD":
        text = re.sub(r"\s*(/\s*M\s?tok(ens)?|per million( \w+)? tokens)$", "", text)
    if unit in ("USD", "USD/h") and text.startswith("$"):
        text = f"{text[1:]} USD" + ("/h" if unit == "USD/h" and not text.endswith("/h") else "")
    if unit in _BARE:
        try:
            return f"{float(text)!r} {unit}" if unit.startswith("USD") else float(text)
        except ValueError:
            return re.sub(r"(?<=\d)\s+(?=[MkBT] USD)", "", text)
    return text


def _example(quantity: str) -> str:
    return {
        "s": "40 ms",
        "B": "70 GB",
        "J": "2 J",
        "W": "500 W",
        "g": "50 g",
        "L": "2 L",
        "USD": "2 USD",
        "USD/h": "3 USD/h",
        "FLOP": "1 EFLOP",
        "FLOP/s": "1 PFLOP/s",
        "B/s": "3 TB/s",
        "tokens/s": "1500 tokens/s",
        "fraction": "40 %",
        "count": "8",
    }[unit_of(quantity)]
