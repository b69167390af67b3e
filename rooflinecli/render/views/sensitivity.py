"""Sensitivity: elasticities of the time of each phase; the tornado of a ranking, where it flips and what would resolve it."""

from __future__ import annotations

from rooflinecli.core.units import si
from rooflinecli.questions.sensitivity.answer_types import SensitivityAnswer, Tornado, TornadoRow, Value
from rooflinecli.render.blocks import Block, Column, Headline, Page, Prose, Table, page
from rooflinecli.render.numbers import NONE, money, percent

_COLUMNS = (
    Column("phase", text=True),
    Column("value", text=True, least=24),
    Column("elasticity"),
    Column("current", text=True, drop=1),
)


def view(answer: SensitivityAnswer) -> Page:
    """A row for each value that the time follows, strongest first."""
    rows = [[row.phase, row.figure, f"{row.elasticity:+.4f}", values(row.value, "1")] for row in answer.rows]
    names = (answer.model, answer.hardware)
    strongest = ", ".join(f"{phase} time by {found[0].figure}" for phase, found in answer.phases.items() if found)
    return page(
        [
            Headline(
                f"{answer.model} on {answer.hardware}: % change in time per 1% change of each value; most: {strongest}",
                names,
            )
        ],
        [Table(_COLUMNS, rows)],
    )


SHOWN = 10
_TORNADO = (
    Column("value", text=True, least=30),
    Column("current", drop=1),
    Column("lead with it changed by 10%", drop=2),
    Column("flips at"),
    Column("new best"),
    Column("uncertainty (80%)", drop=3),
)


def tornado(found: Tornado) -> list[Block]:
    """The rows nearest to a flip or widest, the break-even price, and the one measurement."""
    rows = found.rows[:SHOWN]
    several = len({row.chip for row in found.rows}) > 1
    lead = f"{found.first} leads by {percent(found.lead)} on {found.compared}; lead with each value changed by 10%, and where the ranking flips:"
    return [
        Prose(lead),
        Table(_TORNADO, [_cells(row, several) for row in rows]),
        *(Prose(text, indent=2) for text in _conclusions(found, rows)),
    ]


def _cells(row: TornadoRow, several: bool) -> list[str]:
    flips = NONE
    if row.factor and row.flip_value is not None:
        change = percent(row.factor - 1)
        flips = f"{values(row.flip_value, row.unit)} ({'+' if row.factor > 1 else ''}{change})"
    return [
        f"{row.chip}: {row.figure}" if several else row.figure,
        values(row.value, row.unit),
        f"{percent(row.lead_at_least)} .. {percent(row.lead_at_most)}",
        flips,
        row.winner_after_flip or NONE,
        f"{percent(row.error)}{' *' if row.inside_error else ''}" if row.error else NONE,
    ]


def _conclusions(tornado: Tornado, rows: list[TornadoRow]) -> list[str]:
    found = []
    if any(row.inside_error for row in rows):
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
            f"one measurement would resolve the ranking: {measurement.figure} on {measurement.chip}, by `{measurement.command}`"
        )
    elif tornado.rows:
        found.append("no single constant flips the ranking within its uncertainty")
    return found


def values(value: Value, unit: str) -> str:
    """A spec value or constant; the first three where formats or network levels differ."""
    each = value[:3] if isinstance(value, list) else [value]
    return ", ".join(f"{v:.3g}" if unit == "1" else si(v, unit) for v in each)
