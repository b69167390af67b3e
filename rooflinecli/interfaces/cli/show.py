"""Answer a question and print it: the run of every verb that has no delivery of its own."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from rooflinecli.core.errors import UsageError
from rooflinecli.interfaces.cli.from_question import Delivery, Plotted
from rooflinecli.interfaces.cli.output import columns, write


def show(answer: Any, view: str, how: Delivery, *, table: str = "", **shown: object) -> None:
    """Print an answer by `view`, MODULE or MODULE.FUNCTION of render/views, or write it to --out. `table` is what CSV has as rows,
    `shown` the view's own arguments."""
    from rooflinecli.render.answer import render

    out = None if how.out is None else Path(how.out)
    module, _, name = view.partition(".")
    page = partial(getattr(import_module(f"rooflinecli.render.views.{module}"), name or "view"), **shown)
    write(
        render(answer, page, how.format, columns(how.wide, out), table=table, schema=how.schema, details=how.details),
        out,
    )
    if isinstance(how, Plotted) and how.plot:
        plot(answer, how.plot)


def plot(answer: Any, target: str) -> None:
    """Draw the picture of an answer. Raises UsageError where it has no points."""
    from rooflinecli.render.formats.plot import draw
    from rooflinecli.render.views.pictures import pictures

    drawn = pictures(answer)
    if not drawn:
        raise UsageError("--plot: no point to show; nothing is feasible, or it has no price", "plot")
    text = draw(drawn[0], target)
    if text:
        write("\n" + text)


def explained(answer: object, name: str, depth: int) -> str:
    """The derivation of a quantity of an answer in traced numbers. Raises UsageError for a name that it does not have."""
    from rooflinecli.core import num
    from rooflinecli.core.derivation import leaf
    from rooflinecli.core.derivation_text import explain
    from rooflinecli.core.errors import unknown
    from rooflinecli.core.record import leaves

    numbers = {path: n for path, n in leaves(answer) if n is not None and not isinstance(n, (str, bool))}
    if name not in numbers:
        raise unknown("quantity", name, numbers, option="explain")
    number = numbers[name]
    return explain(leaf(name, number, "", "a constant") if num.value(number) is number else number, depth)
