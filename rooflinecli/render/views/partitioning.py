"""Partitionings of a layer: one ranking for the feed-forward, one for attention."""

from __future__ import annotations

from typing import Any

from rooflinecli.questions.calculator import CalculatorAnswer
from rooflinecli.render.blocks import Column, Headline, Page, Prose, Table, page
from rooflinecli.render.numbers import text

_COLUMNS = (
    Column("layout", text=True), Column("time"), Column("sends", drop=2), Column("communication"), Column("reads", drop=1), Column("memory"),
)  # fmt: skip


def view(answer: CalculatorAnswer) -> Page:
    """Time of each partitioning; what it sends and reads, and how long either takes."""
    r = answer.values
    return page(
        [Headline(f"{r['model']} on {r['devices']} x {r['hardware']}: one layer, {r['tokens']:.0f} tokens")],
        [Prose("feed-forward, fastest first"), _ranking(r["feedforward"], "layout", "weights_read_bytes")],
        [
            Prose(f"attention over {r['context']:.0f} cached tokens"),
            _ranking(r["attention"], "attention", "cache_bytes"),
        ],
    )


def _ranking(rows: list[dict[str, Any]], name: str, read: str) -> Table:
    cells = [
        [
            r[name], text(r["time_s"], "time_s"), text(r["sent_bytes"], "sent_bytes"), text(r["communication_s"], "time_s"),
            text(r[read], "read_bytes"), text(r["memory_s"], "time_s"),
        ]
        for r in rows
    ]  # fmt: skip
    return Table(_COLUMNS, cells, indent=2)
