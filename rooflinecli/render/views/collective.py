"""A collective: what it takes, and what each network level adds."""

from __future__ import annotations

from rooflinecli.core.text import plural
from rooflinecli.questions.collective.question import CollectiveAnswer
from rooflinecli.render.blocks import Column, Headline, Page, Prose, Table, page
from rooflinecli.render.numbers import interval, text

_COLUMNS = (
    Column("level", text=True),
    Column("kind", text=True, drop=1),
    Column("algorithm", text=True, drop=5),
    Column("sends", drop=4),
    Column("bandwidth", drop=3),
    Column("latency", drop=2),
    Column("floor", drop=6),
    Column("expected"),
)


def view(r: CollectiveAnswer) -> Page:
    """Three sentences, and a table of the levels where there is more than one."""
    levels = [
        (
            level.name, level.kind, level.algorithm, text(level.volume_bytes, "volume_bytes"), text(level.bandwidth_bytes_per_s, "bandwidth_bytes_per_s"),
            *(text(seconds, "time_s") for seconds in (level.latency_s, level.floor_s, level.expected_s)),
        )
        for level in r.levels
    ]  # fmt: skip
    return page(
        [
            Headline(
                f"{r.op} of {text(r.bytes, 'bytes')} over {plural(r.devices, 'device')} of {r.hardware.name}: {r.algorithm}"
            ),
            Prose(
                f"expected {text(r.time_s, 'time_s')}, 80% interval {interval(*r.interval_s, 's')}; "
                f"floor {text(r.floor_s, 'floor_s')}, bottleneck {r.bottleneck}"
            ),
            Prose(
                f"bus bandwidth {text(r.bus_bandwidth_bytes_per_s, 'bytes_per_s')}; each device sends {text(r.volume_bytes, 'volume_bytes')}; "
                f"latency {text(r.latency_s, 'time_s')}"
            ),
        ],
        [Table(_COLUMNS, levels)] if len(levels) > 1 else [],
    )
