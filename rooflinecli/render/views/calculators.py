"""Answers of the calculators: collectives, sharded matmuls, partitionings, training goodput, formulas, and quantities by name."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import groupby

from rooflinecli.core.derivation_text import explain
from rooflinecli.core.num import Number
from rooflinecli.core.record import Record, entries
from rooflinecli.core.text import plural
from rooflinecli.core.units import count
from rooflinecli.questions.collective.question import CollectiveAnswer
from rooflinecli.questions.formula.question import FormulaAnswer, FormulaList
from rooflinecli.questions.goodput.question import GoodputAnswer
from rooflinecli.questions.kernel.question import KernelAnswer
from rooflinecli.questions.layouts.question import (
    AttentionPartitioning,
    FeedForwardPartitioning,
    PartitioningAnswer,
)
from rooflinecli.questions.shard.question import ShardAnswer
from rooflinecli.render.blocks import Block, Column, Command, Drawing, Headline, Note, Page, Pairs, Prose, Table, page
from rooflinecli.render.numbers import interval, percent, text

_COLLECTIVE = (
    Column("level", text=True),
    Column("kind", text=True, drop=1),
    Column("algorithm", text=True, drop=5),
    Column("sends", drop=4),
    Column("bandwidth", drop=3),
    Column("latency", drop=2),
    Column("floor", drop=6),
    Column("expected"),
)


def collective(r: CollectiveAnswer) -> Page:
    """Three sentences, and a table of the levels where there is more than one."""
    levels = [
        (
            level.name, level.kind, level.algorithm, text(level.volume_bytes, "volume_bytes"), text(level.bandwidth_bytes_per_s, "bandwidth_bytes_per_s"),
            *(text(seconds, "time_s") for seconds in (level.latency_s, level.floor_s, level.expected_s)),
        )
        for level in r.levels
    ]  # fmt: skip
    sender = {"scatter": "the root sends", "gather": "the root receives"}.get(r.op, "each device sends")
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
                f"bus bandwidth {text(r.bus_bandwidth_bytes_per_s, 'bytes_per_s')}; {sender} {text(r.volume_bytes, 'volume_bytes')}; "
                f"latency {text(r.latency_s, 'time_s')}"
            ),
        ],
        [Table(_COLLECTIVE, levels)] if len(levels) > 1 else [],
    )


_SHARD = (
    Column("split", text=True),
    Column("matmul", text=True),
    Column("time"),
    Column("sent", drop=2),
    Column("memory", drop=1),
)


def shard(answer: ShardAnswer) -> Page:
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
        Table(_SHARD, rows, indent=2),
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


_PARTITIONING = (
    Column("layout", text=True), Column("time"), Column("sends", drop=2), Column("communication"), Column("reads", drop=1), Column("memory"),
)  # fmt: skip


def partitioning(r: PartitioningAnswer) -> Page:
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
    return Table(_PARTITIONING, cells, indent=2)


def goodput(r: GoodputAnswer) -> Page:
    """A sentence for each."""
    lines = [
        f"{plural(r.devices, 'device')}: a failure every {text(r.mtbf_s, 'mtbf_s')} ({text(r.mtbf_interval_s, 'mtbf_s')})",
        f"checkpoint interval {text(r.interval_s, 'checkpoint_s')} ({text(r.checkpoint_s, 'checkpoint_s')} each; best: {text(r.daly_interval_s, 'checkpoint_s')})",
        f"training goodput {percent(r.goodput)} ({percent(r.goodput_interval[0])}–{percent(r.goodput_interval[1])}): checkpoint overhead {percent(r.checkpoint_overhead)}, restarts of {text(r.restart_s, 'restart_s')} and the lost work",
    ]
    if r.run_s is not None:
        lines.append(
            f"the run takes {text(r.run_s, 'run_s')} ({text(r.run_interval_s, 'run_s')}) with {plural(round(r.failures), 'failure')}"
        )
    if r.logged is not None:
        waited = "" if r.logged.restart_s is None else f", back after {text(r.logged.restart_s, 'restart_s')}"
        lines.append(
            f"of {plural(r.logged.jobs, 'job')} in {count(r.logged.device_hours)} device-hours {r.logged.failures} failed{waited}, {r.logged.planned} were planned ends"
        )
    return page([Prose(line, indent=2) for line in lines])


def formula(r: FormulaAnswer | FormulaList) -> Page:
    """A list by module; the arithmetic and source of one formula; or its value on one line."""
    if isinstance(r, FormulaList):
        return page(
            *(
                [Pairs([(f.formula, f"[{f.unit}]  {f.summary}") for f in formulas], title=module)]
                for module, formulas in groupby(r.formulas, lambda f: f.module)
            )
        )
    if r.value is not None:
        return page([Headline(explain(r.value, 1).splitlines()[0])])
    from rooflinecli.formulas.catalogue import every

    entry = every()[r.formula]
    arguments = " ".join(f"{name}=..." for name in r.parameters or ())
    return page(
        [Headline(entry.signature)],
        [Prose(entry.doc)],
        [Drawing([f"  {r.symbol} [{r.unit}]", *(f"    {line}" for line in (r.arithmetic or "").splitlines())])],
        [Prose(f"source: {r.source}", indent=2), Command(f"roofline formula {r.formula} {arguments}".rstrip())],
    )


_UNITS = re.compile(r"(?<=.)_(bytes_per_s|flops_per_s|usd_per_hour|bytes|usd|(?<!per_)s)$")
_WRITTEN = {word.lower(): word for word in ("ITL", "KV", "MFU", "TTFT", "TPOT", "FLOPs")}
_CALLED = {
    "training_usd": "cost",
    "bound": "bottleneck",
    "bound_by": "time over the next resource",
    "interval_s": "80% interval",
    "pflop_s_days": "PFLOP/s-days",
}


def quantities(answer: Record, without: tuple[str, ...] = ()) -> Page:
    """Quantities but for some as pairs, each mapping as a table, then the notes."""
    scalars: list[tuple[str, str]] = []
    tables: list[list[Block]] = []
    notes: list[Block] = []
    for key, value in answer.entries():
        if key == "notes":
            notes = [Note(note) for note in value]
        elif isinstance(value, Mapping):
            tables.append([_table(key, value)])
        elif key not in ("schema", *without) and value is not None:
            scalars.append((label(key), text(value, key)))
    return page([Pairs(scalars)], *tables, notes)


def kernel(answer: KernelAnswer) -> Page:
    """The expected time with its interval and bottleneck, then every quantity."""
    headline = Headline(
        f"{answer.op} on {answer.hardware}, {answer.dtype}: expected {text(answer.time_s, 'time_s')}, 80% interval "
        f"{text(answer.interval_s, 'interval_s')}, bottleneck {answer.bound}",
        (answer.op, answer.hardware),
    )
    return page([headline], *quantities(answer, ("op", "hardware", "dtype", "interval_s")).groups)


def _table(title: str, rows: Mapping[str, object]) -> Table:
    """A row for each entry, or one row of numbers."""
    cells = {name: dict(entries(row) or ()) for name, row in rows.items()}
    if not all(cells.values()):
        cells = {"": dict(rows)}
    heads = list(dict.fromkeys(key for row in cells.values() for key in row))
    columns = [Column("", text=True), *(Column(label(head)) for head in heads)]
    body = [[label(name), *(text(row.get(head), head) for head in heads)] for name, row in cells.items()]
    return Table(columns, body, title=label(title), indent=2)


def label(key: str) -> str:
    """A quantity's name: its key without the unit, which stands with the value."""
    if key in _CALLED:
        return _CALLED[key]
    if key.endswith("_interval"):
        return f"{label(key.removesuffix('_interval'))}, 80% interval"
    return " ".join(_WRITTEN.get(word, word) for word in _UNITS.sub("", key).split("_"))
