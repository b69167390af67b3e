"""A sharded matmul: a few lines and the ranking, or the object in another format."""

from __future__ import annotations

from typing import Any

from rooflinecli.core.units import duration, si
from rooflinecli.render.formats import terminal
from rooflinecli.render.formats.terminal_style import PIPE


def text(result: dict[str, Any], format: str, width: int = PIPE) -> str:
    """`roofline shard` in a format."""
    if format != "table":
        from rooflinecli.questions.calculator import CalculatorAnswer
        from rooflinecli.render.answer import render
        from rooflinecli.render.views.kernel import view

        return render(CalculatorAnswer(schema="roofline/shard/1", values=result), view, format, width)
    sends = result["collectives"]
    lines = [
        f"{result['matmul']} on {result['hardware']['name']}, {result['dtype']}",
        f"case {result['case']}: {result['case_name']}",
    ]
    lines += [
        f"  {c['op']} of {c['array']} over {c['axes']} ({c['devices']:.0f} devices): {si(c['bytes'], 'B')}, "
        f"{si(c['sent_bytes'], 'B')} sent, {duration(c['expected_s'])} (floor {duration(c['floor_s'])})"
        for c in sends
    ]
    if result["instead"]:
        other = result["instead"]
        c = other["collectives"][-1]
        lines.append(
            f"  or use {other['slice']} and {c['op']} {c['array']}: {si(other['communication_bytes'], 'B')} sent, "
            f"{duration(other['communication_s'])}{', fewer bytes' if other['cheaper'] else ''}"
        )
    lines += [
        f"  result {result['result']}",
        f"matmul {duration(result['compute_s'])}, communication {duration(result['communication_s'])}; "
        f"one after the other {duration(result['expected_s'])}, floor {duration(result['floor_s'])}",
        f"held {si(result['held_bytes'], 'B')} per device",
        "",
        "split over the whole mesh instead, least communication first",
    ]
    return "\n".join(
        [*(line for said in lines for line in terminal.prose(said, width, "  ")), *_ranking(result, width)]
    )


def _ranking(result: dict[str, Any], width: int) -> list[str]:
    """The other ways to split it, as a table."""
    grid = [
        [r["sharding"], r["matmul"], duration(r["time_s"]), si(r["communication_bytes"], "B"), si(r["held_bytes"], "B")]
        for r in result["ranking"]
    ]
    head = ["split", "matmul", "time", "sent", "held"]
    return terminal.table([head, *grid], width, left=(0, "matmul"), drop=("held", "sent"), indent="  ") if grid else []
