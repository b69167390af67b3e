"""A sharded matmul: its case and collectives, the time it takes, and the other ways to split it."""

from __future__ import annotations

from typing import Any

from rooflinecli.core.text import plural
from rooflinecli.questions.calculator import CalculatorAnswer
from rooflinecli.render.blocks import Block, Column, Headline, Page, Prose, Table, page
from rooflinecli.render.numbers import text

_COLUMNS = (
    Column("split", text=True),
    Column("matmul", text=True),
    Column("time"),
    Column("sent", drop=2),
    Column("held", drop=1),
)


def view(answer: CalculatorAnswer) -> Page:
    """Sentences, then the ranking of shardings over the whole mesh."""
    r = answer.values
    rows = [
        (one["sharding"], one["matmul"], _s(one["time_s"]), _b(one["communication_bytes"]), _b(one["held_bytes"]))
        for one in r["ranking"]
    ]
    return page(
        [
            Headline(f"{r['matmul']} on {r['hardware']['name']}, {r['dtype']}"),
            Prose(f"case {r['case']}: {r['case_name']}"),
        ],
        [*_collectives(r), *_times(r)],
        [Prose("split over the whole mesh instead, least communication first"), Table(_COLUMNS, rows, indent=2)]
        if rows
        else [],
    )


def _collectives(r: dict[str, Any]) -> list[Block]:
    lines = [
        f"{c['op']} of {c['array']} over {c['axes']} ({plural(c['devices'], 'device')}): {_b(c['bytes'])}, {_b(c['sent_bytes'])} sent, "
        f"{_s(c['expected_s'])} (floor {_s(c['floor_s'])})"
        for c in r["collectives"]
    ]
    if r["instead"]:
        other, last = r["instead"], r["instead"]["collectives"][-1]
        fewer = ", fewer bytes" if other["cheaper"] else ""
        lines.append(
            f"or use {other['slice']} and {last['op']} {last['array']}: {_b(other['communication_bytes'])} sent, {_s(other['communication_s'])}{fewer}"
        )
    return [Prose(line, indent=2) for line in lines]


def _times(r: dict[str, Any]) -> list[Block]:
    return [
        Prose(f"result {r['result']}", indent=2),
        Prose(
            f"matmul {_s(r['compute_s'])}, communication {_s(r['communication_s'])}; one after the other {_s(r['expected_s'])}, floor {_s(r['floor_s'])}"
        ),
        Prose(f"held {_b(r['held_bytes'])} per device"),
    ]


def _s(seconds: Any) -> str:
    return text(seconds, "time_s")


def _b(size: Any) -> str:
    return text(size, "bytes")
