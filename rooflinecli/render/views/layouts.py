"""Layouts of a layer: two rankings, or the object in another format."""

from __future__ import annotations

from typing import Any

from rooflinecli.core.units import duration, si
from rooflinecli.render.formats import terminal
from rooflinecli.render.formats.terminal_style import PIPE


def text(result: dict[str, Any], format: str, width: int = PIPE) -> str:
    """`roofline layouts` in a format."""
    if format != "table":
        from rooflinecli.questions.calculator import CalculatorAnswer
        from rooflinecli.render.answer import render
        from rooflinecli.render.views.kernel import view

        return render(CalculatorAnswer(schema="roofline/layouts/1", values=result), view, format, width)
    head = f"{result['model']} on {result['devices']} x {result['hardware']}: one layer, {result['tokens']:.0f} tokens"
    lines = [*terminal.prose(head, width), "", *terminal.prose("feed-forward, fastest first", width)]
    lines += _ranking(result["feedforward"], "layout", "weights_read_bytes", width)
    lines += ["", *terminal.prose(f"attention over {result['context']:.0f} cached tokens", width)]
    lines += _ranking(result["attention"], "attention", "cache_bytes", width)
    return "\n".join(lines)


def _ranking(rows: list[dict[str, Any]], name: str, read: str, width: int) -> list[str]:
    """Time of each layout; what it sends and reads, and how long either takes."""
    grid = [
        [
            r[name],
            duration(r["time_s"]),
            si(r["sent_bytes"], "B"),
            duration(r["communication_s"]),
            si(r[read], "B"),
            duration(r["memory_s"]),
        ]
        for r in rows
    ]
    head = ["layout", "time", "send", "wires", "read", "memory"]
    return terminal.table([head, *grid], width, drop=("read", "send"), indent="  ")
