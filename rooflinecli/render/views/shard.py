"""A sharded matmul: its case and collectives, the time it takes, and the other ways to split it."""

from __future__ import annotations

from rooflinecli.core.num import Number
from rooflinecli.core.text import plural
from rooflinecli.questions.shard.question import ShardAnswer
from rooflinecli.render.blocks import Block, Column, Headline, Page, Prose, Table, page
from rooflinecli.render.numbers import text

_COLUMNS = (
    Column("split", text=True),
    Column("matmul", text=True),
    Column("time"),
    Column("sent", drop=2),
    Column("memory", drop=1),
)


def view(answer: ShardAnswer) -> Page:
    """Sentences, then the ranking of shardings over the whole mesh."""
    r = answer.sharding
    lines = [
        f"{c.op} of {c.array} over {c.axes} ({plural(c.devices, 'device')}): {_b(c.bytes)}, {_b(c.sent_bytes)} sent, "
        f"{_s(c.expected_s)} (floor {_s(c.floor_s)})"
        for c in r.collectives
    ]
    other = answer.instead
    if other is not None:
        last, fewer = other.collectives[-1], ", fewer bytes" if other.cheaper else ""
        sent = f"{_b(other.communication_bytes)} sent, {_s(other.communication_s)}{fewer}"
        lines.append(f"or use {other.slice} and {last.op} {last.array}: {sent}")
    times = f"matmul {_s(r.compute_s)}, communication {_s(r.communication_s)}; one after the other {_s(r.expected_s)}, floor {_s(r.floor_s)}"
    rows = [
        (one.sharding, one.matmul, _s(one.time_s), _b(one.communication_bytes), _b(one.held_bytes))
        for one in answer.ranking
    ]
    ranking: list[Block] = [
        Prose("split over the whole mesh instead, least communication first"),
        Table(_COLUMNS, rows, indent=2),
    ]
    return page(
        [
            Headline(f"{answer.matmul} on {answer.hardware.name}, {answer.dtype}"),
            Prose(f"case {r.case}: {r.case_name}"),
        ],
        [
            *(Prose(line, indent=2) for line in lines),
            Prose(f"result {r.result}", indent=2),
            Prose(times),
            Prose(f"{_b(r.held_bytes)} of operands per device"),
        ],
        ranking if rows else [],
    )


def _s(seconds: Number) -> str:
    return text(seconds, "time_s")


def _b(size: Number) -> str:
    return text(size, "bytes")
