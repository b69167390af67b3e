"""A tornado in lines: the lead with every figure moved by a tenth, where another wins, and what would settle it."""

from __future__ import annotations

from typing import Any

from rooflinecli.core.units import si
from rooflinecli.render.formats import terminal

SHOWN = 10


def lines(found: dict[str, Any], width: int) -> list[str]:
    """The rows nearest to a flip or widest, the break-even price, and the one measurement."""
    several = len({row["chip"] for row in found["rows"]}) > 1
    said = f"{found['first']} leads by {_share(found['lead'])} of {found['compared']}; the lead with one figure 10 % lower or higher, and where another wins:"
    grid = [["figure", "now", "lead at 10 % off", "flips at", "then", "its error"]]
    for row in found["rows"][:SHOWN]:
        grid.append(
            [
                f"{row['chip']}: {row['figure']}" if several else row["figure"],
                _value(row["value"], row["unit"]),
                f"{_share(row['lead_at_least'])} .. {_share(row['lead_at_most'])}",
                f"{_value(row['flips_at'], row['unit'])} ({row['factor'] - 1:+.1%})".replace("%)", " %)")
                if row["factor"]
                else "-",
                row["then"] or "-",
                f"{row['error']:.0%}".replace("%", " %") + (" *" if row["inside_error"] else "")
                if row["error"]
                else "-",
            ]
        )
    drop = ("now", "lead at 10 % off", "its error")
    body = terminal.table(grid, width, left=(0, "figure"), drop=drop, shrink={"figure": 30})
    return [
        "",
        *terminal.prose(said, width),
        *body,
        *(line for text in _ends(found) for line in terminal.prose(text, width, "  ")),
    ]


def _ends(found: dict[str, Any]) -> list[str]:
    """What it comes down to, in sentences."""
    said = []
    if any(row["inside_error"] for row in found["rows"][:SHOWN]):
        said.append("* another wins inside the error that the constant has (80%)")
    price = found["break_even"]
    if price:
        now = f"it is {price['now']:.2f} now" if price["now"] is not None else "its price is not known"
        said.append(
            f"break-even: {price['chip']} costs as much as {price['against']} at {price['usd_per_device_hour']:.2f} USD per device-hour; {now}"
        )
    settles = found["settles"]
    if settles:
        said.append(
            f"one measurement would settle it: {settles['figure']} on {settles['chip']}, by `{settles['command']}`"
        )
    elif found["rows"]:
        said.append("no single constant changes the winner inside its own error")
    return said


def _share(value: float) -> str:
    return f"{100 * value:.3g} %"


def _value(value: Any, unit: str) -> str:
    several = value[:3] if isinstance(value, list) else [value]
    return ", ".join(f"{v:.3g}" if unit == "1" else si(v, unit) for v in several)
