"""Quantities as text: the only place that decides how a number is written for people.

duration 29.5 ms      interval 29.5–39.0 ms     rate 943 tok/s        money $1.77/M tokens
fraction 47%          bytes 141 GB (1e9)        layout tp8 pp4 dp16   count 70.6B
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

from rooflinecli.core import num
from rooflinecli.core.record import Record
from rooflinecli.core.units import count, duration, si
from rooflinecli.specs import quantities
from rooflinecli.specs.quantities import Quantity

NONE = "-"
# key, or the last part of it -> the head of a column, where the label of its quantity is longer
_HEADS = {
    "prefill.time_s": "TTFT", "decode.time_s": "ITL", "train.time_s": "step time", "ttft_s": "TTFT", "itl_s": "ITL",
    "tokens_per_s": "throughput", "run_s": "full run", "usd_per_million_tokens": "$/M tokens",
    "usd_per_million_input_tokens": "$/M input tokens",
    "usd_per_million_output_tokens": "$/M output tokens", "usd_per_million_training_tokens": "$/M training tokens",
    "training_usd": "cost of the run", "headroom_fraction": "headroom", "devices": "device count",
}  # fmt: skip

_UNITS = {"J": "J", "W": "W", "tokens/s": "tok/s"}  # of quantities whose label is what they are per


def label(key: str) -> str:
    """A quantity of the JSON as a column of a table is called; an end of an interval, 'ITL, high end'."""
    group, _, last = key.rpartition(".")
    if last in ("0", "1") and "interval" in group:
        whole = re.sub(r"_interval$", "", re.sub(r"\binterval_s$", "time_s", group))
        return f"{label(whole)}, {'high' if last == '1' else 'low'} end"
    quantity = quantities.find(last)
    found = _HEADS.get(key) or _HEADS.get(last) or (quantity.label if quantity is not None else "")
    if quantity is not None and found.startswith("per "):
        found = f"{_UNITS[quantity.unit]} {found}" if quantity.unit in _UNITS else ""
    return found or key


def text(value: object, row: Quantity | str) -> str:
    """A value as its quantity is written; `row` is the quantity, or its key in the JSON. A pair of ends is an interval."""
    quantity = quantities.find(row) if isinstance(row, str) else row
    unit = quantity.unit if quantity is not None else quantities.unit_of(str(row))
    if value is None:
        return NONE
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    if isinstance(value, (list, tuple)):
        return interval(value[0], value[1], unit) if len(value) == 2 else ", ".join(text(v, row) for v in value)
    return amount(float(num.value(value)), unit, distance=quantity is not None and quantity.distance)


def amount(value: float, unit: str, *, distance: bool = False) -> str:
    """A number in SI with its unit."""
    if not isfinite(value):
        return NONE
    if unit == "s":
        return duration(value)
    if unit == "fraction":
        return percent(value)
    if unit in ("USD", "USD/h"):
        return money(value) + unit.removeprefix("USD")
    if unit == "g" and abs(value) >= 1e6:
        return si(value / 1e6, "t")
    if unit == "tokens/s":
        return rate(value)
    return count(value) if unit in ("count", "1", "") else si(value, unit)


def interval(low: float, high: float, unit: str) -> str:
    """'29.5–39.0 ms': the unit once where both ends share it."""
    first, last = amount(float(num.value(low)), unit), amount(float(num.value(high)), unit)
    start, _, ending = first.partition(" ")
    if ending and last.endswith(f" {ending}"):
        return f"{start}–{last}"
    if unit == "fraction":
        if "." in last and "." not in first and low:  # 99.62%: both ends to hundredths
            first = f"{float(num.value(low)):.2%}"
        return f"{first.removesuffix('%')}–{last}"
    return f"{first}–{last}"


def around(value: object, ends: Sequence[Any] | None, row: Quantity | str) -> str:
    """'24.8 s (21.8–28.1 s)': a value with its interval, which is left out where both ends are written as the value is."""
    shown = text(value, row)
    return shown if ends is None or {text(end, row) for end in ends} == {shown} else f"{shown} ({text(ends, row)})"


def to_bound(seconds: float, bound: float | None, word: str = "") -> str:
    """'34.6 (39.8) ms', with a word '34.6 ms (to 39.8 ms)': a latency, and the value at which it was limited where that is another."""
    value, limited = duration(seconds), NONE if bound is None else duration(bound)
    if limited in (NONE, value):
        return value
    number, _, unit = value.partition(" ")
    if word or not limited.endswith(f" {unit}"):
        return f"{value} ({word}{limited})"
    return f"{number} ({limited.removesuffix(f' {unit}')}) {unit}"


def rate_bound(expected: float, bound: float, word: str = "") -> str:
    """'3.47 (2.95)', with a word '3.47 req/s (2.95 WORD)': requests per second, and those at the bound where they are others."""
    value, limited = f"{expected:.3g}", f"{bound:.3g}"
    unit = " req/s" if word else ""
    return f"{value}{unit}" if limited == value else f"{value}{unit} ({limited}{word})"


def binary(size: float) -> str:
    """'80 GiB', '831.3 TiB': the capacity of a memory, which is sold in powers of two."""
    return f"{size / 2**30:.4g} GiB" if size < 2**43 else f"{size / 2**40:.4g} TiB"


def short(value: float | None, unit: str) -> str:
    """'3.35 TB', '989 T': a figure of a chip in a column whose head says the rest of the unit."""
    return NONE if value is None else si(value, unit)


def rate(tokens_per_s: float) -> str:
    """'943 tok/s'."""
    size = abs(tokens_per_s)
    if size >= 999_500:
        return f"{count(tokens_per_s)} tok/s"
    return (
        f"{tokens_per_s:#.3g}".rstrip(".") + " tok/s"
        if 0 < size < 999.5
        else f"{float(f'{tokens_per_s:.3g}'):,g} tok/s"
    )


def percent(fraction: float) -> str:
    """'47%', '4.7%', '0.47%': two digits at least, and what 99.42% lacks of all."""
    size = abs(fraction) * 100
    if 99 <= size < 99.995:
        return f"{fraction * 100:.2f}%"
    if 0 < size < 0.0995:
        return f"{fraction * 100:.2g}%"
    digits = 0 if size >= 9.95 or size == 0 else 1 if size >= 0.995 else 2
    return f"{fraction * 100:.{digits}f}%"


def room(size: float) -> str:
    """'85.9 GB (80 GiB)': the memory of a device in the unit of sizes, and as it is sold where that is a whole number."""
    said, sold = si(size, "B"), size / 2**30
    return f"{said} ({sold:.0f} GiB)" if abs(sold - round(sold)) < 0.005 else said


def times(value: float) -> str:
    """'4.8x', '12x': how many times as much."""
    return f"{value:.{0 if value >= 9.95 else 1}f}x"


def ratio(value: float, digits: int = 2) -> str:
    """'1.25x'."""
    return f"{float(num.value(value)):.{digits}f}x"


def error(fraction: float, *, signed: bool = False) -> str:
    """'15.0%', '-40.0%': a relative error, to a tenth of a per cent so that a column of them compares."""
    return f"{fraction:+.1%}" if signed else f"{fraction:.1%}"


def money(usd: float) -> str:
    """'$1.77', '$0.00042', '$12,400', '$3.1M'."""
    size = abs(usd)
    if size >= 1e6:
        return f"${si(usd, '').strip().replace(' ', '').replace('G', 'B')}"
    if size >= 1000:
        return f"${usd:,.0f}"
    return f"${usd:.2f}" if size >= 0.1 or usd == 0 else f"${usd:.2g}"


def layout(sizes: Mapping[str, Any] | Record) -> str:
    """'tp8 pp4 dp16 zero1 mb1': parallel sizes above one, then ZeRO and its shard group, micro-batch, virtual stages and recomputation."""
    parts = [f"{axis}{sizes[axis]:g}" for axis in ("tp", "pp", "dp", "cp", "ep") if sizes.get(axis, 1) > 1]
    if sizes.get("zero") and sizes.get("dp", 1) > 1:
        parts.append(f"zero{sizes['zero']:g}")
    if sizes.get("shard"):
        parts.append(f"hsdp{sizes['shard']:g}")
    if sizes.get("pp", 1) > 1 or sizes.get("micro_batch", 1) > 1:
        parts += [f"mb{sizes['micro_batch']:g}"] if sizes.get("micro_batch") else []
    if sizes.get("virtual_stages", 1) > 1:
        parts.append(f"vs{sizes['virtual_stages']:g}")
    if sizes.get("placement"):
        parts.append(str(sizes["placement"]))
    if sizes.get("sequence_parallel"):
        parts.append("sp")
    if sizes.get("recompute", "none") != "none":
        modules = ":" + "+".join(sizes["recompute_modules"]) if sizes.get("recompute_modules") else ""
        layers = f":{sizes['recompute_layers']:g}-layers" if "recompute_layers" in sizes else ""
        parts.append(f"recompute-{sizes['recompute']}{modules}{layers}")
    return " ".join(parts)


def devices(sizes: Mapping[str, object] | Record) -> str:
    """'16 devices (tp8 pp2 recompute-full)'."""
    count, split = sizes["devices"], layout(sizes)
    return f"{count:,} device{'' if count == 1 else 's'}" + (f" ({split})" if split else "")


def joined(values: Sequence[str]) -> str:
    """'a, b and c'."""
    return " and ".join(filter(None, (", ".join(values[:-1]), *values[-1:])))
