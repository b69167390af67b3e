"""Partitionings of a layer: one ranking for the feed-forward, one for attention."""

from __future__ import annotations

from collections.abc import Sequence

from rooflinecli.core.num import Number
from rooflinecli.questions.layouts.question import (
    AttentionPartitioning,
    FeedForwardPartitioning,
    PartitioningAnswer,
)
from rooflinecli.render.blocks import Column, Headline, Page, Prose, Table, page
from rooflinecli.render.numbers import text

_COLUMNS = (
    Column("layout", text=True), Column("time"), Column("sends", drop=2), Column("communication"), Column("reads", drop=1), Column("memory"),
)  # fmt: skip


def view(r: PartitioningAnswer) -> Page:
    """Time of each partitioning; the bytes it sends and reads, and how long either takes."""
    return page(
        [Headline(f"{r.model} on {r.devices} x {r.hardware}: one layer, {r.tokens:.0f} tokens")],
        [
            Prose("feed-forward, fastest first"),
            _ranking([(row, row.layout, row.weights_read_bytes) for row in r.feedforward]),
        ],
        [
            Prose(f"attention over {r.context:.0f} cached tokens"),
            _ranking([(row, row.attention, row.cache_bytes) for row in r.attention]),
        ],
    )


def _ranking(rows: Sequence[tuple[FeedForwardPartitioning | AttentionPartitioning, str, Number]]) -> Table:
    cells = [
        [
            name, text(row.time_s, "time_s"), text(row.sent_bytes, "sent_bytes"), text(row.communication_s, "time_s"),
            text(read, "read_bytes"), text(row.memory_s, "time_s"),
        ]
        for row, name, read in rows
    ]  # fmt: skip
    return Table(_COLUMNS, cells, indent=2)
