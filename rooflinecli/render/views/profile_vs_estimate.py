"""A trace beside an estimate: a row per operation, and what is left over."""

from __future__ import annotations

from typing import Any

from rooflinecli.core.text import plural
from rooflinecli.core.units import duration
from rooflinecli.render.formats import csv as comma
from rooflinecli.render.formats import markdown as marked
from rooflinecli.render.formats import terminal
from rooflinecli.render.formats.json import dumps
from rooflinecli.render.formats.terminal_style import PIPE

_SHOWN = 3  # names of operations in a row


def render(result: dict[str, Any], format: str, top: int, width: int = PIPE) -> str:
    """The answer in one of the formats; `top` rows of the table."""
    if format == "json":
        return dumps(result)
    if format == "csv":
        columns = ("operations", "floor_s", "expected_s", "measured_s", "ratio", "launches")
        return comma.rows([columns, *([_value(row[c]) for c in columns] for row in result["rows"])])
    grid = [["operations", "launches", "floor", "expected", "measured", "measured/expected", "kernels"]]
    grid += [_cells(row) for row in result["rows"][:top]]
    if format == "markdown":
        return "\n\n".join([marked.table(grid), *_sentences(result)])
    body = terminal.table(
        grid,
        width,
        left=("operations", "kernels"),
        drop=("kernels", "launches", "floor"),
        shrink={"operations": 24, "kernels": 16},
    )
    return "\n".join([*body, "", *(line for text in _sentences(result) for line in terminal.prose(text, width))])


def _value(value: Any) -> Any:
    return " ".join(value) if isinstance(value, list) else "" if value is None else value


def _cells(row: dict[str, Any]) -> list[str]:
    names, kernels = row["operations"], row["kernels"]
    said = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
    times = [duration(row[name]) for name in ("floor_s", "expected_s", "measured_s")]
    ratio = f"{row['ratio']:.2f}x" if row["ratio"] is not None else "-"
    return [said, f"{row['launches']:g}", *times, ratio, kernels[0] if kernels else "-"]


def _sentences(result: dict[str, Any]) -> list[str]:
    left = result["unexplained"]
    found = [
        f"{result['phase']}: {plural(result['steps'], 'step')} in the trace, {duration(result['kernels_s'])} of kernels each; "
        f"expected {duration(result['expected_s'])}, floor {duration(result['floor_s'])}",
        f"no operation explains {duration(left['time_s'])} ({left['share']:.0%} of the time)"
        + (f": {', '.join(left['kernels'])}" if left["kernels"] else ""),
    ]
    copies = sum(row["copies_s"] for row in result["rows"])
    if copies:
        found.append(f"copies that lay operands out take {duration(copies)} of what the operations measured")
    if "wall_s" in result:
        found.append(
            f"wall {duration(result['wall_s'])} a step; nothing runs for {duration(result['gaps_s'])}, "
            f"communication alone for {duration(result['exposed_communication_s'])}"
        )
    return found
