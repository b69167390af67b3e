"""Text with a unit <-> SI numbers. Inside the program everything is SI (FLOP/s, bytes, seconds); units live at the edges.

GB is 1e9, GiB is 2**30, Gb is bits. `parse("3.35 TB/s", "B/s")` is 3.35e12. The length of a sequence is counted in 1024s, as
models are described: 2k is 2048, whether written 2k, 2K or 2.0k. A comma is refused: 2,150 is 2150 to one reader and 2.15 to another.
"""

from __future__ import annotations

import re

_SI = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_LENGTH = {"": 1.0, "k": 2.0**10, "K": 2.0**10, "M": 2.0**20, "G": 2.0**30, "B": 2.0**30}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
_DAY = 86400.0
_TIME = {
    "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9, "min": 60.0, "h": 3600.0, "d": _DAY, "day": _DAY, "days": _DAY,
    "week": 7 * _DAY, "weeks": 7 * _DAY,
}  # fmt: skip
# what a quantity is shown in: prefix and factor; for a time the limit up to which a unit is used, its factor and its name
_PREFIXES = (
    ("Y", 1e24), ("Z", 1e21), ("E", 1e18), ("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3), ("", 1.0),
)  # fmt: skip
_DURATIONS = (
    (1e-6, 1e-9, "ns"), (1e-3, 1e-6, "µs"), (1.0, 1e-3, "ms"), (600.0, 1.0, "s"), (7200.0, 60.0, "min"), (172800.0, 3600.0, "h"),
    (float("inf"), _DAY, "days"),
)  # fmt: skip
_FLOP_NAMES = ("FLOP/s", "FLOPS", "FLOPs/s", "OP/s", "OPS")
_TEXT = re.compile(
    r"^\s*([-+]?[0-9][0-9_,]*(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?|[-+]?\.[0-9]+(?:[eE][-+]?[0-9]+)?)\s*(.*?)\s*$"
)


def _table() -> dict[str, dict[str, float]]:
    """unit as written -> factor, per SI dimension."""
    scales = {**_SI, **_BINARY}
    flops = {p + n: f for n in _FLOP_NAMES for p, f in _SI.items()}
    size = {p + "B": f for p, f in scales.items()} | {p + "b": f / 8 for p, f in scales.items() if p} | {"bytes": 1.0}
    rate = {u + "/s": f for u, f in size.items()} | {p + "bps": f / 8 for p, f in _SI.items() if p}
    plain = _SI | {"B": 1e9, "%": 1e-2}
    return {
        "FLOP/s": flops,
        "FLOP": {p + n: f for n in ("FLOP", "FLOPs") for p, f in _SI.items()},
        "B": size,
        "B/s": rate,
        "s": _TIME,
        "Hz": {p + "Hz": f for p, f in _SI.items()},
        "W": {p + "W": f for p, f in _SI.items()},
        "J": {p + "J": f for p, f in _SI.items()} | {"Wh": 3600.0, "kWh": 3.6e6, "MWh": 3.6e9, "GWh": 3.6e12},
        "g": {p + "g": f for p, f in _SI.items()} | {"t": 1e6, "kt": 1e9},
        "L": {p + "L": f for p, f in _SI.items()},
        "USD/kWh": {"USD/kWh": 1.0, "$/kWh": 1.0},
        "USD/h": {"USD/h": 1.0, "$/h": 1.0, "USD/hour": 1.0},
        "USD": {p + n: f for n in ("USD", " USD") for p, f in _SI.items()} | {"$": 1.0},
        "tokens/s": {p + n: f for n in ("tokens/s", "tok/s") for p, f in _SI.items()},
        "tokens": {p + n: f for n in ("tokens", "tok", " tokens", "") for p, f in (_SI | {"B": 1e9}).items()},
        "length": {p + n: f for n in ("", "tokens", " tokens") for p, f in _LENGTH.items()},
        "1": plain,
    }


UNITS = _table()
EXAMPLES = {
    "FLOP/s": "989 TFLOP/s", "B": "80 GiB", "B/s": "3.35 TB/s", "s": "40 ms", "Hz": "1.83 GHz", "W": "700 W", "J": "2 J", "1": "0.8", "g": "50 g", "L": "2 L", "USD/kWh": "0.09 USD/kWh",
    "USD/h": "2.50 USD/h", "tokens": "15T", "length": "4k", "USD": "9 MUSD", "FLOP": "1 EFLOP", "tokens/s": "1500 tokens/s",
}  # fmt: skip
RATES = ("B/s", "FLOP/s", "Hz")  # of a machine: 15 is never meant as 15 bytes per second, so they always say their unit
_EXPECTED = {
    "s": "a time in us, ms, s, min, h or days",
    "1": "a plain number",
    "tokens": "a count",
    "length": "a number of tokens",
}
_UNITLESS = ("1", "tokens", "length")  # may come as a bare number


def parse(text: str | float | int, unit: str, example: str = "") -> float:
    """The SI value of `text`, whose unit must be one of dimension `unit`; `example` is shown where it is none.

    Zero needs no unit. Raises ValueError with what was expected when the number or the unit is missing, wrong or of another dimension.
    """
    example = example or EXAMPLES[unit]
    if isinstance(text, bool) or not isinstance(text, (str, int, float)):
        raise ValueError(f"expected a number in {unit}, got {text!r}")
    if isinstance(text, (int, float)):
        if unit in _UNITLESS or text == 0:
            return float(text)
        raise ValueError(f"{text!r} has no unit; write it with one, for example '{example}'")
    match = _TEXT.match(text)
    if not match:
        what = "a number" if unit in _UNITLESS else "a number with a unit"
        raise ValueError(f"{text!r} is not {what}; write for example '{example}'")
    number, written = value(match[1], unit), match[2]
    if number == 0 and not written:
        return 0.0
    factors = UNITS[unit]
    if written not in factors:
        other = next((dim for dim, table in UNITS.items() if written in table and written), None)
        missing = f"unknown unit '{written}'" if written else "the unit is missing"
        why = f"'{written}' measures {other}" if other else missing
        raise ValueError(f"{text!r}: {why}; expected {_EXPECTED.get(unit, unit)}, for example '{example}'")
    return number * factors[written]


def value(digits: str, unit: str = "1") -> float:
    """The number that digits write. Raises ValueError for a comma, which may separate thousands or decimals.

    Of a count, 1,000 can only be 1000, and 0,5 of anything 0.5.
    """
    if "," in digits:
        joined, point = digits.replace(",", ""), digits.replace(",", ".")
        if (unit in _UNITLESS and re.fullmatch(r"[-+]?[1-9]\d{0,2}(,\d{3})+", digits)) or digits.count(",") > 1:
            either = joined
        else:
            either = point if digits.startswith("0,") else f"{joined} or {point}"
        raise ValueError(f"one number has no comma; write {either}")
    return float(digits.replace("_", ""))


def si(value: float, unit: str, digits: int = 3) -> str:
    """`value` with the SI prefix that leaves 1 to 999 before the point: si(3.35e12, 'B/s') -> '3.35 TB/s'."""
    if value != value or value in (float("inf"), float("-inf")):
        return f"{value} {unit}"
    if value == 0:
        return f"0 {unit}"
    if unit == "s":
        return duration(value, digits)
    for prefix, factor in _PREFIXES:
        if abs(value) >= factor * (1 - 0.5 * 10.0**-digits):
            return f"{_round(value / factor, digits)} {prefix}{unit}".rstrip()
    return f"{value:.{digits}g} {unit}".rstrip()


def duration(seconds: float, digits: int = 3) -> str:
    """A time for people: '24.3 ms', '1.28 s', '3.1 h', '95.2 days'."""
    size = abs(seconds)
    for limit, factor, name in _DURATIONS:
        if size < limit:
            return f"{_round(seconds / factor, digits)} {name}"
    return f"{seconds} s"


def count(value: float, digits: int = 3) -> str:
    """A plain count for people: 70.6B, 12.8k, 512."""
    for suffix, factor in (("T", 1e12), ("B", 1e9), ("M", 1e6), ("k", 1e4)):
        if abs(value) >= factor:
            return f"{_round(value / (1e3 if suffix == 'k' else factor), digits)}{suffix}"
    return str(int(value)) if value == int(value) else _round(value, max(digits, 4))


def _round(value: float, digits: int) -> str:
    """Fixed-point text with `digits` significant digits, never in exponent form."""
    magnitude = len(str(int(abs(value)))) if abs(value) >= 1 else 0
    return f"{value:.{max(digits - magnitude, 0)}f}" if abs(value) >= 1 else f"{value:.{digits}g}"
