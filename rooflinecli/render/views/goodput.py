"""Goodput: a few sentences, or the object in another format."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rooflinecli.core.lift import PLAIN
from rooflinecli.core.text import plural
from rooflinecli.core.units import duration
from rooflinecli.render.formats import terminal
from rooflinecli.render.formats.terminal_style import PIPE


def text(
    answer: Callable[[Any], dict[str, Any]], format: str, explain: str | None = None, depth: int = 3, width: int = PIPE
) -> str:
    """`roofline goodput` in a format, or the derivation of one quantity."""
    if format != "table" or explain is not None:
        from rooflinecli.render.views.kernel import text as plain

        return plain(answer, format, explain, depth)
    r = answer(PLAIN)
    lines = [
        f"{plural(r['devices'], 'device')}: a failure every {duration(r['mtbf_s'])}",
        f"save every {duration(r['interval_s'])} ({duration(r['checkpoint_s'])} each; best: {duration(r['daly_interval_s'])})",
        f"goodput {r['goodput']:.1%}: saving takes {r['checkpoint_overhead']:.1%}, a restart {duration(r['restart_s'])} and the lost work",
    ]
    if "run_s" in r:
        lines.append(f"the run takes {duration(r['run_s'])} with {plural(round(r['failures']), 'failure')}")
    return "\n".join(line for said in lines for line in terminal.prose(said, width, "  "))
