"""Points of a sweep as a table: how its columns are headed, which of them go first, and how their values are written."""

from __future__ import annotations

from collections.abc import Sequence

from rooflinecli.questions.sweep.question import SweepAnswer
from rooflinecli.render import numbers
from rooflinecli.render.blocks import Column, Headline, Note, Page, page, records
from rooflinecli.specs.request import PHASES

MOST = 2000  # rows of a page
# columns of a table go in this order where there is no room for all: the last parts of their names
DROPPED = (
    "violation", "usd_per_million_input_tokens", "usd_per_million_output_tokens", "usd_per_million_training_tokens",
    "mfu", "total_bytes", "bound", "tokens_per_s",
)  # fmt: skip


def view(answer: SweepAnswer) -> Page:
    """How many points over what, and a row for each; columns that say nothing of any are left out."""
    over = ", ".join(name for name, values in answer.axes.items() if len(values) > 1) or "nothing that varies"
    more = len(answer.points) - MOST
    return page(
        [Headline(f"{len(answer.points):,} points over {over}")],
        [records(columns(answer.columns), answer.points[:MOST])],
        [Note(f"{more:,} more points are in the JSON")] if more > 0 else [],
    )


def columns(names: Sequence[str]) -> list[Column]:
    """A column for each name, with the rank by which it goes where there is no room for all."""
    places = {name: n for n, name in enumerate(reversed(names), 1)}
    lasts = {name: name.rpartition(".")[2] for name in names}
    ranks = {n: 1000 * DROPPED.index(last) + places[n] if last in DROPPED else 0 for n, last in lasts.items()}
    return [
        Column(_title(name), lambda point, name=name: shown(name, point[name]) or numbers.NONE, drop=ranks[name], optional=True)  # type: ignore[misc]
        for name in names
    ]  # fmt: skip


def _title(name: str) -> str:
    """'decode' above 'ITL' for a quantity of a phase; an axis is called as its option."""
    phase, dot, _ = name.partition(".")
    if not dot:
        return name
    head = numbers.label(name).rpartition(".")[2]
    return f"{phase}\n{head}" if phase in PHASES else head


def shown(name: str, value: object) -> str:
    """A value of a column as text."""
    if value is None or (isinstance(value, float) and value != value):
        return numbers.NONE
    if isinstance(value, float) and name.startswith("cost."):
        return f"${value:,.4g}" if abs(value) < 1000 else numbers.money(value)
    return numbers.text(value, name)
