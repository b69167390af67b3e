"""Axes as people write them: `1..512`, `1..512/8` (step), `1..512x2` (factor), lists `1k,4k,32k`, and any mix of them."""

from __future__ import annotations

import re
from collections.abc import Callable

from rooflinecli.core.errors import UsageError

LARGEST = 100_000_000
_RANGE = re.compile(r"^(?P<low>.+?)\.\.(?P<high>[^/x*]+?)(?:\s*(?P<op>[/x*])\s*(?P<step>[^\s/x*]+))?$")
_UNIT = re.compile(r"^(?P<numbers>.*[0-9x])\s*(?P<unit>[A-Za-z%][A-Za-z%/$]*)$")

Read = Callable[[str], float]


def values(flag: str, text: str, read: Read, unit_shared: bool = False) -> tuple[float, ...]:
    """The numbers an axis names, in the order written, repeats dropped.

    `read` turns one written number into SI; with `unit_shared` a unit at the very end holds for every number of an item
    (`2..5/0.5 TB/s`). Raises UsageError with the flag when a range is empty, endless or not a range.
    """
    found: list[float] = []
    for item in str(text).split(","):
        found += _item(flag, item.strip(), read, unit_shared)
    return tuple(dict.fromkeys(found))


def _item(flag: str, item: str, read: Read, unit_shared: bool) -> list[float]:
    if ".." not in item:
        return [read(item)]
    unit = ""
    if unit_shared and (with_unit := _UNIT.match(item)) and with_unit["unit"] != "x":
        item, unit = with_unit["numbers"], " " + with_unit["unit"]
    match = _RANGE.match(item)
    if not match:
        raise UsageError(f"{flag} {item}: not a range; write 1..512, 1..512/8 (step) or 1..512x2 (factor)")
    low, high = read(match["low"].strip() + unit), read(match["high"].strip() + unit)
    if high < low:
        raise UsageError(f"{flag} {item}: ends below its start; write {match['high']}..{match['low']}")
    if match["op"] in ("x", "*"):
        return _geometric(flag, item, low, high, float(_number(flag, item, match["step"])))
    step = read(match["step"] + unit) if match["op"] == "/" else 1.0
    return _linear(flag, item, low, high, step)


def _number(flag: str, item: str, text: str) -> str:
    try:
        float(text)
    except ValueError:
        raise UsageError(f"{flag} {item}: '{text}' is not a factor; write for example 1..512x2") from None
    return text


def _linear(flag: str, item: str, low: float, high: float, step: float) -> list[float]:
    if step <= 0:
        raise UsageError(f"{flag} {item}: the step must be above zero")
    count = int((high - low) / step * (1 + 1e-12)) + 1
    if count > LARGEST:
        many = f"{count:,}" if count < 1e15 else f"{float(count):.3g}"
        raise UsageError(f"{flag} {item}: {many} values; give a step (/8) or a factor (x2)")
    return [low + i * step for i in range(count)]


def _geometric(flag: str, item: str, low: float, high: float, factor: float) -> list[float]:
    if factor <= 1 or low <= 0:
        raise UsageError(
            f"{flag} {item}: a geometric range starts above zero and its factor is above one, as in 1..512x2"
        )
    result = []
    while low <= high * (1 + 1e-12):
        result.append(low)
        low *= factor
    return result
