"""Why a plan: the layouts considered, as text."""

from __future__ import annotations

from rooflinecli.core.text import plural
from rooflinecli.core.units import duration, si
from rooflinecli.importers.source import Json
from rooflinecli.render.formats import terminal
from rooflinecli.render.formats.terminal_style import PIPE
from rooflinecli.render.numbers import devices

_SHOWN = 12


def why(answers: list[dict[str, object]], width: int = PIPE) -> str:
    """One block per kind of work: the choice, why not fewer devices, the layouts tried, fastest first."""
    return "\n\n".join(_block(answer, width) for answer in answers)


def _block(answer: Json, width: int) -> str:
    lines = terminal.prose(f"{answer['work']}: {devices(answer['chosen'])}", width, "  ")
    said = [answer["reason"]]
    smaller = answer["smaller"]
    if smaller:
        fewer = plural(smaller["devices"], "device")
        least, room = smaller["least_bytes_per_device"], answer["capacity_bytes"]
        said.append(f"on {fewer} the leanest layout needs {si(least, 'B')} of {si(room, 'B')}")
    lines += [f"  {line}" for text in said for line in terminal.prose(text, width - 2, "  ")]
    grid = [
        ["", "layout", "per device", "expected", "held", "mostly"],
        *(_row(answer, r) for r in answer["considered"][:_SHOWN]),
    ]
    drop = ("per device", "mostly")
    lines += ["", *terminal.table(grid, width, left=("", "layout", "mostly"), drop=drop, shrink={"layout": 24})]
    if len(answer["considered"]) > _SHOWN:
        lines.append(f"  … {len(answer['considered']) - _SHOWN} more")
    return "\n".join(lines)


def _row(answer: Json, row: Json) -> list[str]:
    mark = "*" if {k: row[k] for k in answer["chosen"]} == answer["chosen"] else ""
    outcome = (
        [duration(row["time_s"]), duration(row["held_s"]), row["bound"]] if row["fits"] else ["-", "-", "does not fit"]
    )
    return [mark, devices(row), si(row["bytes_per_device"], "B"), *outcome]
