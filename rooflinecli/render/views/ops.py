"""Operations on the roofline, of a model or of a compiled function: tables, and the picture."""

from __future__ import annotations

from rooflinecli.core.units import count, si
from rooflinecli.measure.aot import AotAnswer
from rooflinecli.questions.ops.answer import Operation, OpsAnswer, PhaseOperations, Roofs
from rooflinecli.render.blocks import Block, Column, Headline, Page, Prose, Table, page
from rooflinecli.render.numbers import error, percent, text

COLUMNS = (Column("operation", text=True), Column("shape", text=True, drop=4, least=20), Column("launches", drop=1), Column("FLOPs", drop=3), Column("bytes", drop=2), Column("FLOP/B", drop=5), Column("bound", text=True, drop=7), Column("floor", drop=6), Column("expected"), Column("share"))  # fmt: skip
SMALL = 0.0005  # of a phase: rows below it are details


def view(answer: OpsAnswer) -> Page:
    """The roofs, a table for each phase, and what does not fit."""
    model, chip = answer.model.name, answer.hardware.name
    about = "one device, all launches; FLOP/B is intensity; fused by an ideal engine, elementwise rows have no floor"
    return page(
        [Headline(f"{model} on {chip}: {peaks(answer.roofs, ridge=True)}", (model, chip))],
        *([*table(name, phase)] for name, phase in answer.phases.items()),
        [Prose(about, style="dim")],
        *([Prose(f"does not fit: {v.message}", style="red")] for v in answer.violations),
        details=[[small] for name, phase in answer.phases.items() if (small := _small(name, phase))],
        about=f"operations below {percent(SMALL)} of a phase",
    )


def peaks(roofs: Roofs, ridge: bool = False) -> str:
    """'3.35 TB/s, 989 TFLOP/s bf16 (ridge 295 FLOP/B)'."""
    rates = (
        f"{si(rate, 'FLOP/s')} {dtype}" + (f" (ridge {rate / roofs.bandwidth_bytes_per_s:.0f} FLOP/B)" if ridge else "")
        for dtype, rate in roofs.peak_flops_per_s.items()
    )
    return ", ".join((si(roofs.bandwidth_bytes_per_s, "B/s"), *rates))


def table(name: str, phase: PhaseOperations) -> list[Block]:
    """A title, and the operations that take time."""
    title = f"{name}: {text(phase.time_s, 'time_s')} expected, floor {text(phase.floor_s, 'floor_s')}"
    return [Headline(title), Table(COLUMNS, [cells(row) for row in phase.operations if row.share >= SMALL])]


def _small(name: str, phase: PhaseOperations) -> Table | None:
    rows = [cells(row) for row in phase.operations if row.share < SMALL]
    return Table(COLUMNS, rows, f"{name}, below {percent(SMALL)} each") if rows else None


def cells(row: Operation) -> list[str]:
    """One operation for people, in the order of COLUMNS."""
    intensity = row.intensity_flops_per_byte
    return [
        row.name,
        row.shape,
        "" if row.launches is None else count(row.launches),
        si(row.flops, "") if row.flops else "",
        si(row.bytes, "B") if row.bytes else "",
        f"{intensity:,.4g}" if intensity else "",
        "" if row.launches is None else row.bound,
        text(row.floor_s, "floor_s") if row.floor_s else "",
        text(row.time_s, "time_s"),
        error(row.share),
    ]


def draw(answer: OpsAnswer | AotAnswer, target: str) -> str | None:
    """The roofline with the operations on it; text for target `-`. Points are what an operation is expected to achieve."""
    from rooflinecli.questions.sweep.plot_points import Picture
    from rooflinecli.render.formats import plot

    roofs = answer.roofs
    series: dict[str, list[tuple[float, float]]] = {}
    for phase, part in answer.phases.items():
        for row in part.operations:
            if row.flops and row.intensity_flops_per_byte and row.achieved_flops_per_s:
                label = f"{phase} {row.group}".strip()
                series.setdefault(label, []).append((row.intensity_flops_per_byte, row.achieved_flops_per_s))
    return plot.draw(
        Picture(
            title=f"{answer.model.name} on {answer.hardware.name}",
            x="FLOP per byte",
            y="FLOP/s per device",
            log=True,
            series=series,
            roofs={dtype: (rate, roofs.bandwidth_bytes_per_s) for dtype, rate in roofs.peak_flops_per_s.items()},
        ),
        target,
    )
