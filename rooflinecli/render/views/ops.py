"""Operations on the roofline, of a model or of a compiled function: tables, and the picture."""

from __future__ import annotations

import re

from rooflinecli.core.units import count, si
from rooflinecli.measure.aot import AotAnswer
from rooflinecli.questions.ops.answer import OpsAnswer, PhaseOperations, Roofs
from rooflinecli.render.blocks import Block, Column, Headline, Page, Pairs, Prose, Table, page, records
from rooflinecli.render.numbers import error, interval, percent, text

COLUMNS = (
    Column("operation", "name", text=True),
    Column("shape", "shape", text=True, drop=4),
    Column("launches", lambda r: "" if r.launches is None else count(r.launches), drop=1),
    Column("FLOPs", lambda r: si(r.flops, "") if r.flops else "", drop=3),
    Column("bytes", lambda r: si(r.bytes, "B") if r.bytes else "", drop=2),
    Column("FLOP/B", lambda r: f"{r.intensity_flops_per_byte:,.4g}" if r.intensity_flops_per_byte else "", drop=5),
    Column("bound", lambda r: "" if r.launches is None else r.bound, text=True, drop=7),
    Column("floor", lambda r: text(r.floor_s, "floor_s") if r.floor_s else "", drop=6),
    Column("expected", "time_s"),
    Column("share", lambda r: error(r.share)),
)
SMALL, OF_SEVERAL = (
    0.0005,
    0.05,
)  # of a phase: rows below it are details, where it is the only one and where there are several


def view(answer: OpsAnswer) -> Page:
    """The roofs, a table for each phase, and what does not fit."""
    model, chip = answer.model.name, answer.hardware.name
    least = SMALL if len(answer.phases) == 1 else OF_SEVERAL
    about = "one device, all launches; FLOP/B is intensity; elementwise rows have no floor, since an ideal engine fuses them"
    return page(
        [
            Headline(f"{model} on {chip}: {'; '.join(map(_longest, answer.phases.items()))}"),
            Prose(peaks(answer.roofs, ridge=True), style="dim"),
        ],
        *([*table(name, phase, least)] for name, phase in answer.phases.items()),
        [Prose(about, style="dim")],
        *([Prose(f"does not fit: {v.message}", style="red")] for v in answer.violations),
        details=[[small] for name, phase in answer.phases.items() if (small := _small(name, phase, least))],
        about=f"operations below {percent(least)} of a phase",
    )


def _longest(named: tuple[str, PhaseOperations]) -> str:
    """'decode 10.5 ms, most of it attention.core 28.9%, feedforward.gate_up 25.3%'."""
    name, phase = named
    first = sorted(phase.operations, key=lambda row: -row.share)[:2]
    return f"{name} {text(phase.time_s, 'time_s')}, most of it {', '.join(f'{row.name} {error(row.share)}' for row in first)}"


def peaks(roofs: Roofs, ridge: bool = False) -> str:
    """'3.35 TB/s, 989 TFLOP/s bf16 (ridge 295 FLOP/B)'."""
    rates = (
        f"{si(rate, 'FLOP/s')} {dtype}" + (f" (ridge {rate / roofs.bandwidth_bytes_per_s:.0f} FLOP/B)" if ridge else "")
        for dtype, rate in roofs.peak_flops_per_s.items()
    )
    return ", ".join((si(roofs.bandwidth_bytes_per_s, "B/s"), *rates))


def table(name: str, phase: PhaseOperations, least: float = SMALL) -> list[Block]:
    """A title, and the operations that take time."""
    title = f"{name}: {text(phase.time_s, 'time_s')} expected, floor {text(phase.floor_s, 'floor_s')}"
    return [Headline(title), records(COLUMNS, (row for row in phase.operations if row.share >= least))]


def _small(name: str, phase: PhaseOperations, least: float) -> Table | None:
    rows = [row for row in phase.operations if row.share < least]
    return records(COLUMNS, rows, f"{name}, below {percent(least)} each") if rows else None


def compiled(answer: AotAnswer) -> Page:
    """The answer with the two counts next to each other, its operations, and what was not counted or does not fit."""
    counts, xla = answer.counts, answer.xla
    low, high = answer.interval_s
    # ShapeDtypeStruct(shape=(64, 128), dtype=float32) -> float32[64, 128]
    structs = re.compile(r"ShapeDtypeStruct\(shape=\(([\d, ]*?),?\), dtype=(\w+)\)")
    arguments = structs.sub(r"\2[\1]", ", ".join(answer.arguments))
    intensity = counts["intensity_flops_per_byte"]
    flops = "no flops" if xla["flops"] is None else si(xla["flops"], "FLOP")
    rows = [
        ("floor", f"{text(answer.floor_s, 'floor_s')}, bound by {answer.bound}"),
        ("expected", f"{text(answer.time_s, 'time_s')}, 80% interval {interval(low, high, 's')}"),
        ("intensity", f"{intensity:,.4g} FLOP/B" if intensity else "none"),
        ("FLOPs", f"{si(counts['matmul_flops'], 'FLOP')} of matmuls, {si(counts['elementwise_flops'], 'FLOP')} elementwise"),
        ("bytes at least", f"{si(counts['argument_bytes_read'], 'B')} read, {si(counts['result_bytes'], 'B')} written"),
        ("XLA counts", f"{flops}, {si(xla['bytes_accessed'] or 0.0, 'B')} accessed"),
        ("memory", f"arguments {si(xla['argument_bytes'], 'B')}, results {si(xla['output_bytes'], 'B')}, temporaries {si(xla['temp_bytes'], 'B')}"),
    ]  # fmt: skip
    notes = [d["message"] for d in answer.differences] + counts["loops"]
    notes += [f"not counted: {name}" for name in dict.fromkeys(counts["uncounted"])]
    model, chip = answer.model.name, answer.hardware.name
    return page(
        [
            Headline(f"{model}({arguments}) on {chip}"),
            Prose(f"{peaks(answer.roofs)}; compiled for {answer.compiled_for}", style="dim"),
        ],
        [Pairs(rows)],
        table("call", answer.phases["call"]),
        [Prose(note) for note in notes],
        *([Prose(f"does not fit: {v['message']}", style="red")] for v in answer.violations),
    )
