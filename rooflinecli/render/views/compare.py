"""Chips side by side: the best in a line, the ranked table, chips that are infeasible, the command of the best; measured rows with their estimates."""

from __future__ import annotations

from rooflinecli.core.text import plural
from rooflinecli.questions.compare.question import INSIDE, CompareAnswer, ComparedChip, MeasuredAnswer, MeasuredGap
from rooflinecli.questions.multi_chip import remedy
from rooflinecli.render.blocks import Block, Column, Command, Headline, Page, Prose, Table, page
from rooflinecli.render.numbers import NONE, layout, text
from rooflinecli.render.views.search import BOUNDS
from rooflinecli.render.views.sensitivity import tornado

_LABELS = {
    "decode.time_s": "ITL",
    "prefill.time_s": "TTFT",
    "train.time_s": "step time",
    "decode.tokens_per_s": "decode throughput",
    "train.tokens_per_s": "throughput",
    "train.mfu": "MFU",
    "train.run_s": "full run",
    "cost.usd_per_million_output_tokens": "$/M output tokens",
    "cost.usd_per_million_training_tokens": "$/M training tokens",
    "cost.training_usd": "cost of the run",
    "memory.headroom_fraction": "headroom",
}


def view(answer: CompareAnswer) -> Page:
    """Blocks of a comparison."""
    best = next(iter(answer.ranked), None)
    return page(
        [Headline(_headline(answer, best), (best.name,) if best else ())],
        [_table(answer)] if best else [],
        _notes(answer),
        [Prose(f"{best.name}:"), Command(best.command)] if best and best.command else [],
        tornado(answer.tornado) if answer.tornado is not None else [],
    )


def _headline(answer: CompareAnswer, best: ComparedChip | None) -> str:
    basis = f"{answer.model.name}, iso-{answer.iso.removeprefix('same-')} ({answer.iso_text})"
    if best is None:
        return f"{basis}: infeasible on every chip"
    order = "higher" if answer.better == "more" else "lower"
    rank = f"ranked by {BOUNDS[answer.bound]} ({order} is better)"
    interval = f" ({text(best.interval, answer.rank)})" if best.interval else ""
    return f"{basis}: {best.name} is best, {label(answer.rank)} {text(best.value, answer.rank)}{interval}; {rank}"


def label(quantity: str) -> str:
    """A quantity as a column is called."""
    return _LABELS.get(quantity, quantity)


def _table(answer: CompareAnswer) -> Table:
    others = list(dict.fromkeys(q for row in answer.rows for q in row.quantities if q != answer.rank))
    dropped = {q: len(others) + 4 - i for i, q in enumerate(others)}
    if "memory.headroom_fraction" in dropped:
        dropped["memory.headroom_fraction"] = 2
    columns = [
        Column(""),
        Column("chip", text=True),
        Column("layout", text=True, drop=3),
        Column(label(answer.rank)),
        Column("80% interval", drop=len(others) + 7),
        Column("vs best", drop=len(others) + 6),
        *(Column(label(q), drop=dropped[q]) for q in others),
        Column("cost", drop=4),
        Column("bottleneck", text=True, drop=1),
    ]
    rows = [
        [
            str(row.rank),
            row.name,
            f"n {row.layout.devices} {layout(row.layout)}".strip() if row.layout else NONE,
            text(row.value, answer.rank),
            text(row.interval, answer.rank) if row.interval else NONE,
            f"{row.relative:.2f}x{' ~' if row.overlaps_previous else ''}" if row.relative is not None else NONE,
            *(text(row.quantities.get(q), q) for q in others),
            text(row.usd_per_hour, "usd_per_hour"),
            row.bottleneck or NONE,
        ]
        for row in answer.ranked
    ]
    return Table(columns, rows)


def _notes(answer: CompareAnswer) -> list[Block]:
    notes = [f"{row.name}: infeasible, {row.infeasible_reason}" for row in answer.rows if not row.feasible]
    notes += [
        f"{row.name}: not ranked, it has no {answer.rank} here" for row in answer.rows if row.feasible and not row.rank
    ]
    feasible = {row.chip for row in answer.rows if row.feasible}
    unpriced = [chip for chip in answer.unpriced if chip in feasible]
    if unpriced:
        notes.append(remedy(unpriced))
    if any(row.overlaps_previous for row in answer.rows):
        notes.append("~ interval overlaps the row above: order uncertain")
    return [Prose(note) for note in notes]


_MEASURED = (
    Column("row", text=True, least=24),
    Column("quantity", text=True, drop=2),
    Column("measured"),
    Column("floor", drop=1),
    Column("expected"),
    Column("80% interval"),
    Column("gap"),
    Column("verdict", text=True),
)


def measured(answer: MeasuredAnswer) -> Page:
    """A table of the rows, then explanations, rows that were not compared, and notes."""
    rows = [
        (
            row.row,
            row.quantity,
            *(text(seconds, "time_s") for seconds in (row.measured_s, row.floor_s, row.expected_s)),
            text(row.interval_s, "interval_s"),
            f"{row.gap:+.0%}",
            row.verdict,
        )
        for row in answer.rows
    ]
    notes = [_explanation(row) for row in answer.rows if row.explained_by and row.verdict != INSIDE]
    for aside in answer.aside:
        count = plural(float(aside["rows"] or 0), "row")
        notes.append(f"{count} from {aside['row']} on not compared: {aside['reason']}")
    return page([Table(_MEASURED, rows)], [Prose(note, 2) for note in (*notes, *answer.notes)])


def _explanation(row: MeasuredGap) -> str:
    """The explanations of a row, the mildest first."""
    each = ", ".join(f"{e.what} (asks {e.asks:.2g})" for e in row.explained_by)
    return f"{row.row}: any one of these would explain {row.gap:+.0%}: {each}"
