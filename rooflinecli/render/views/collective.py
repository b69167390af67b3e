"""One collective: what it takes and what each network level adds, or the object in another format."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rooflinecli.core.lift import PLAIN
from rooflinecli.core.text import plural
from rooflinecli.core.units import duration, si
from rooflinecli.render.formats import terminal
from rooflinecli.render.formats.terminal_style import PIPE
from rooflinecli.render.views import kernel

# columns of the table go in this order where there is no room for all
_DROP = ("kind", "latency", "bandwidth", "sends", "algorithm", "floor")


def text(
    answer: Callable[[Any], dict[str, Any]], format: str, explain: str | None = None, depth: int = 3, width: int = PIPE
) -> str:
    """`roofline collective` in a format, or the derivation of one quantity."""
    if format != "table" or explain is not None:
        return kernel.text(answer, format, explain, depth)
    r = answer(PLAIN)
    low, high = r["interval_s"]
    said = [
        f"{r['op']} of {si(r['bytes'], 'B')} over {plural(r['devices'], 'device')} of {r['hardware']['name']}: {r['algorithm']}",
        f"expected {duration(r['expected_s'])}, 80 % interval {duration(low)} to {duration(high)}; "
        f"floor {duration(r['floor_s'])}, bound by {r['bound']}",
        f"bus bandwidth {si(r['bus_bandwidth_bytes_per_s'], 'B/s')}; each device sends {si(r['volume_bytes'], 'B')}; "
        f"latency {duration(r['latency_s'])}",
    ]
    return "\n".join([*(line for s in said for line in terminal.prose(s, width, "  ")), *_levels(r["levels"], width)])


def _levels(levels: list[dict[str, Any]], width: int) -> list[str]:
    """The network from the inside out; nothing where one level says it all."""
    if len(levels) < 2:
        return []
    head = ["level", "kind", "algorithm", "sends", "bandwidth", "latency", "floor", "expected"]
    grid = [
        [
            level["name"],
            level["kind"],
            level["algorithm"],
            si(level["volume_bytes"], "B"),
            si(level["bandwidth_bytes_per_s"], "B/s"),
            *(duration(level[key]) for key in ("latency_s", "floor_s", "expected_s")),
        ]
        for level in levels
    ]
    return ["", *terminal.table([head, *grid], width, left=("level", "kind", "algorithm"), drop=_DROP)]
