"""Chips side by side: the best in a line, the ranked table, chips that are infeasible, the command of the best;
measured rows with their estimates; how sensitive times and rankings are."""

from __future__ import annotations

from rooflinecli.core.text import plural
from rooflinecli.core.units import si
from rooflinecli.questions.compare.question import INSIDE, CompareAnswer, ComparedChip, MeasuredAnswer
from rooflinecli.questions.estimate.answer_types import EstimateAnswer
from rooflinecli.questions.multi_chip import remedy
from rooflinecli.questions.sensitivity.answer_types import SensitivityAnswer, Tornado, TornadoRow, Value
from rooflinecli.render.blocks import Block, Column, Headline, Page, Pairs, Prose, Table, labelled, page, records
from rooflinecli.render.numbers import NONE, around, label, layout, money, percent, text
from rooflinecli.render.views.estimate import limits, notes

BOUNDS = {"pessimistic": "the pessimistic bound", "expected": "the expected value", "floor": "the floor"}


def view(answer: CompareAnswer, estimate: EstimateAnswer | None = None) -> Page:
    """Blocks of a comparison; `estimate` is that of the best chip."""
    best = next(iter(answer.ranked), None)
    return page(
        [Headline(_headline(answer, best))],
        [_table(answer)] if best else [],
        _notes(answer),
        [Pairs(limits(estimate)), *notes(estimate, True)] if estimate is not None else [],
        labelled("best", best.command) if best and best.command else [],
        tornado(answer.tornado) if answer.tornado is not None else [],
        details=[
            notes(estimate, False) if estimate is not None else [],
            *(labelled(f"{row.rank}", row.command) for row in answer.ranked[1:] if row.command),
            tornado(answer.tornado, _WIDEST)[1:2] if answer.tornado is not None else [],
        ],
        about="all commands",
    )


def _headline(answer: CompareAnswer, best: ComparedChip | None) -> str:
    basis = f"{answer.model['name']}, iso-{answer.iso.removeprefix('same-')} ({answer.iso_text})"
    if best is None:
        return f"{basis}: infeasible on every chip"
    order = "higher" if answer.better == "more" else "lower"
    rank = f"ranked by {BOUNDS[answer.bound]} ({order} is better)"
    return f"{basis}: {best.name} is best, {label(answer.rank)} {around(best.value, best.interval or None, answer.rank)}; {rank}"


def _table(answer: CompareAnswer) -> Table:
    others = list(dict.fromkeys(q for row in answer.rows for q in row.quantities if q != answer.rank))
    dropped = {q: len(others) + 5 - i for i, q in enumerate(others)} | {"memory.headroom_fraction": 2}
    dropped |= {q: 5 for q in others if q.endswith("tokens_per_s")}  # it follows from the time and the batch
    loads = {row.sequences for row in answer.ranked}  # the batch is that of a replica
    columns = (
        Column("", lambda r: str(r.rank)),
        Column("chip", "name", text=True),
        Column(
            "layout",
            lambda r: f"n {r.layout['devices']} {layout(r.layout)}".strip() if r.layout else NONE,
            text=True,
            drop=len(others) + 5 if len(loads) > 1 else 4,
        ),
        *([Column("sequences", lambda r: text(r.sequences, "batch"))] if len(loads) > 1 else []),
        Column(label(answer.rank), lambda r: text(r.value, answer.rank)),
        Column("80% interval", lambda r: text(r.interval, answer.rank) if r.interval else NONE, drop=len(others) + 7),
        Column(
            "vs best" if answer.bound == "expected" else "vs best at bound",
            lambda r: NONE if r.relative is None else f"{r.relative:.2f}x{' ~' if r.overlaps_previous else ''}",
            drop=len(others) + 6,
        ),
        *(_quantity(q, dropped[q]) for q in others),
        Column("cost", "usd_per_hour", drop=3),
        Column("bottleneck", lambda r: r.bottleneck or NONE, text=True, drop=1),
    )
    return records(columns, answer.ranked)


def _quantity(name: str, drop: int) -> Column:
    return Column(label(name).removesuffix(" tokens"), lambda r: text(r.quantities.get(name), name), drop=drop)


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
    Column("row", "row", text=True, least=24),
    Column("quantity", "quantity", text=True, drop=2),
    Column("measured", "measured_s"),
    Column("floor", "floor_s", drop=1),
    Column("expected", "expected_s"),
    Column("80% interval", "interval_s"),
    Column("gap", lambda r: f"{r.gap:+.0%}"),
    Column("verdict", "verdict", text=True),
)


def measured(answer: MeasuredAnswer) -> Page:
    """A table of the rows, then explanations, rows that were not compared, and notes."""
    notes = []
    for row in answer.rows:
        if row.explained_by and row.verdict != INSIDE:
            each = ", ".join(f"{e.what} (asks {e.asks:.2g})" for e in row.explained_by)  # the mildest first
            notes.append(f"{row.row}: any one of these would explain {row.gap:+.0%}: {each}")
    for aside in answer.aside:
        count = plural(float(aside["rows"] or 0), "row")
        notes.append(f"{count} from {aside['row']} on not compared: {aside['reason']}")
    return page([records(_MEASURED, answer.rows)], [Prose(note, 2) for note in (*notes, *answer.notes)])


_ELASTICITIES = (
    Column("phase", "phase", text=True),
    Column("value", "figure", text=True, least=24),
    Column("elasticity", lambda r: f"{r.elasticity:+.4f}"),
    Column("current", lambda r: values(r.value, "1"), text=True, drop=1),
)


def sensitivity(answer: SensitivityAnswer) -> Page:
    """A row for each value that the time follows, strongest first."""
    strongest = ", ".join(f"{phase} time by {found[0].figure}" for phase, found in answer.phases.items() if found)
    head = f"{answer.model} on {answer.hardware}: % change in time per 1% change of each value; most: {strongest}"
    return page([Headline(head)], [records(_ELASTICITIES, answer.rows)])


_TORNADO = (
    Column("current", lambda r: values(r.value, r.unit), drop=1),
    Column("lead with it changed by 10%", lambda r: f"{percent(r.lead_at_least)} .. {percent(r.lead_at_most)}", drop=2),
    Column("flips at", lambda r: _flips(r)),
    Column("new best", lambda r: r.winner_after_flip or NONE),
    Column(
        "uncertainty (80%)",
        lambda r: f"{percent(r.error)}{' *' if r.within_error else ''}" if r.error else NONE,
        drop=3,
    ),
)
_NEAREST, _WIDEST = 3, 10  # rows of a tornado on the first screen, and with the details


def tornado(found: Tornado, most: int = _NEAREST) -> list[Block]:
    """The rows nearest to a flip or widest, the break-even price, and the one measurement."""
    rows = found.rows[:most]
    several = len({row.chip for row in found.rows}) > 1
    value = Column("value", lambda r: f"{r.chip}: {r.figure}" if several else r.figure, text=True, least=30)
    lead = f"{found.first} leads by {percent(found.lead)} on {found.compared}; values at which the order changes:"
    return [
        Prose(lead),
        records([value, *_TORNADO], rows),
        *(Prose(text, indent=2) for text in _conclusions(found, rows)),
    ]


def _flips(row: TornadoRow) -> str:
    if not row.factor or row.flip_value is None:
        return NONE
    return f"{values(row.flip_value, row.unit)} ({'+' if row.factor > 1 else ''}{percent(row.factor - 1)})"


def _conclusions(tornado: Tornado, rows: list[TornadoRow]) -> list[str]:
    found = []
    if any(row.within_error for row in rows):
        found.append("* the ranking flips within the constant's uncertainty")
    price = tornado.break_even
    if price is not None:
        now = "no price is known" if price.current_value is None else f"now {money(price.current_value)}"
        found.append(
            f"break-even: {price.chip} costs as much as {price.against} at {money(price.usd_per_device_hour)} per device-hour ({now})"
        )
    measurement = tornado.resolving_measurement
    if measurement is not None:
        found.append(
            f"one measurement would resolve the ranking: {measurement['figure']} on {measurement['chip']}, by `{measurement['command']}`"
        )
    elif tornado.rows:
        found.append("no single constant flips the ranking within its uncertainty")
    return found


def values(value: Value, unit: str) -> str:
    """A spec value or constant; the first three where formats or network levels differ."""
    each = value[:3] if isinstance(value, list) else [value]
    return ", ".join(f"{v:.3g}" if unit == "1" else si(v, unit) for v in each)
