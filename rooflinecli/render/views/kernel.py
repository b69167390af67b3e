"""One kernel or collective: a short table, or the object in another format."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from rooflinecli.core import units
from rooflinecli.core.derivation import Traced, leaf
from rooflinecli.core.errors import ImpossibleValue, UsageError, unknown
from rooflinecli.core.lift import PLAIN
from rooflinecli.core.lift import TracedLift as TracedInputs
from rooflinecli.core.units import count, duration, si
from rooflinecli.questions.estimate.explain import quantities
from rooflinecli.render.formats import csv, markdown, terminal
from rooflinecli.render.formats.json import dumps
from rooflinecli.render.formats.terminal_style import PIPE

Answer = Callable[[Any], dict[str, Any]]


def text(
    answer: Answer,
    format: str,
    explain: str | None = None,
    depth: int = 3,
    measured: str | None = None,
    width: int = PIPE,
) -> str:
    """`answer(lift)` in a format, or the derivation of one of its quantities."""
    if explain is not None:
        return _derivation(answer(TracedInputs()), explain, depth)
    result = answer(PLAIN)
    if measured is not None:
        result["measured_s"] = _possible(measured, result)
    flat = list(_flat(result).items())
    if format == "json":
        return dumps(result)
    if format == "csv":
        return csv.rows([("quantity", "value"), *flat])
    if format == "markdown":
        return markdown.table([["quantity", "value"], *([name, person(name, value)] for name, value in flat)])
    return "\n".join(terminal.pairs(_for_people(result), width))


def _flat(result: dict[str, Any]) -> dict[str, Any]:
    """Dotted paths of everything, words included."""
    flat: dict[str, Any] = {}
    for key, value in result.items():
        if isinstance(value, dict):
            flat |= {f"{key}.{k}": v for k, v in _flat(value).items()}
        elif isinstance(value, list):
            flat |= {
                f"{key}.{k}": v for k, v in _flat(dict(zip(map(str, range(len(value))), value, strict=True))).items()
            }
        else:
            flat[key] = value
    return flat


def _for_people(result: dict[str, Any]) -> list[tuple[str, str]]:
    """Label and value of everything; both ends of an interval on one line."""
    ends = result.get("interval_s")
    if ends is not None:
        result = {k: v for k, v in result.items() if k != "interval_s"} | {
            "80 % interval": " to ".join(map(duration, ends))
        }
    by = result.get("bound_by")
    if by is not None:
        result = {k: v for k, v in result.items() if k != "bound_by"}
        result["bound"] = f"{result['bound']}, {by:.3g} times the next" if math.isfinite(by) else result["bound"]
    return [(label(name), person(name, value)) for name, value in _flat(result).items()]


def label(name: str) -> str:
    """What a quantity is called to a person: its name in the JSON without the unit, which stands beside the value."""
    for unit in ("_flops_per_byte", "_bytes_per_s", "_flops_per_s", "_bytes", "_s"):
        if name.endswith(unit) and name.removesuffix(unit):
            name = name.removesuffix(unit)
            break
    return name.replace("_", " ").replace(".", " ")


def person(name: str, value: Any) -> str:
    """A value with the unit its key names."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    if not math.isfinite(value):
        return "-"
    stem = name.split(".")[0] if name.rsplit(".", 1)[-1].isdigit() else name
    if stem.endswith("_flops_per_byte"):
        return f"{value:,.5g} FLOP/B"
    for suffix, unit in (("_flops_per_s", "FLOP/s"), ("_bytes_per_s", "B/s"), ("bytes", "B"), ("flops", "FLOP")):
        if stem.endswith(suffix):
            return si(value, unit)
    return duration(value) if stem.endswith("_s") else count(value)


def _possible(written: str, result: dict[str, Any]) -> float:
    """A measured time that physics allows. Raises Impossible when it beats the floor."""
    try:
        seconds = units.parse(written, "s")
    except ValueError as error:
        raise UsageError(f"--measured {error}") from None
    if seconds < result["floor_s"]:
        raise ImpossibleValue(
            f"--measured {written}: impossible; the floor of this operation is {duration(result['floor_s'])}. "
            "Check the sizes, the dtype, and that the clock waited for the device"
        )
    return seconds


def _derivation(result: dict[str, Any], quantity: str, depth: int) -> str:
    from rooflinecli.core.derivation_text import explain

    found = quantities(result)
    if quantity not in found:
        raise unknown("quantity", quantity, found)
    value = found[quantity]
    return explain(value if isinstance(value, Traced) else leaf(quantity, value, "", "given"), depth)
