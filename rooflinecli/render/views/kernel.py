"""One operation on the roofline: its quantities by name."""

from __future__ import annotations

import math
from typing import Any

from rooflinecli.core import num
from rooflinecli.core.record import leaves
from rooflinecli.core.units import count, duration, si
from rooflinecli.questions.calculator import CalculatorAnswer
from rooflinecli.render.blocks import Page, Pairs, page
from rooflinecli.render.numbers import interval


def view(answer: CalculatorAnswer) -> Page:
    """Label and value of everything; both ends of an interval on one line, the bottleneck with how far the next resource is."""
    values = dict(answer.values)
    if "interval_s" in values:
        low, high = values.pop("interval_s")
        values["80% interval"] = interval(low, high, "s")
    if "bound_by" in values:
        times = float(num.value(values.pop("bound_by")))
        values["bound"] = (
            f"{values['bound']}, {times:.3g}x the next resource" if math.isfinite(times) else values["bound"]
        )
    names = {"bound": "bottleneck"}
    return page(
        [Pairs([(names.get(path, label(path)), shown(path, num.value(value))) for path, value in leaves(values)])]
    )


def label(name: str) -> str:
    """What a quantity is called: its name in the JSON without the unit, which stands beside the value."""
    for unit in ("_flops_per_byte", "_bytes_per_s", "_flops_per_s", "_bytes", "_s"):
        if name.endswith(unit) and name.removesuffix(unit):
            name = name.removesuffix(unit)
            break
    return name.replace("_", " ").replace(".", " ")


def shown(name: str, value: Any) -> str:
    """A value with the unit its key names."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    if not math.isfinite(value):
        return "-"
    if name.endswith("_flops_per_byte"):
        return f"{value:,.5g} FLOP/B"
    for suffix, unit in (("_flops_per_s", "FLOP/s"), ("_bytes_per_s", "B/s"), ("bytes", "B"), ("flops", "FLOP")):
        if name.endswith(suffix):
            return si(value, unit)
    return duration(value) if name.endswith("_s") else count(value)
