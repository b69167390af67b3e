"""Chips side by side: the best in a line, the ranked table, chips that are infeasible, the command of the best."""

from __future__ import annotations

from rooflinecli.questions.compare.question import CompareAnswer, ComparedChip
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
