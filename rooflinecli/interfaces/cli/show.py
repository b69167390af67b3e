"""Answer a question and print it: the run of every verb that has no delivery of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import typer

from rooflinecli.core.errors import Infeasible
from rooflinecli.core.lift import TracedLift
from rooflinecli.interfaces.cli.from_question import Delivery, Explained, add
from rooflinecli.interfaces.cli.main import QUIET
from rooflinecli.interfaces.cli.output import columns, write
from rooflinecli.questions.question import Question


def show(answer: Any, view: str, how: Delivery, *, table: str = "") -> None:
    """Print an answer by `view` of render/views/VIEW.py, or write it to --out. `table` is what CSV has as rows."""
    from rooflinecli.render.answer import render

    out = None if how.out is None else Path(how.out)
    page = import_module(f"rooflinecli.render.views.{view}").view
    write(render(answer, page, how.format, columns(how.wide, out), table=table, schema=how.schema), out)


def show_text(
    found: Any, page: Callable[[Any, str, int], str], how: Delivery, former: dict[str, str] | None = None
) -> None:
    """Print an answer by a page of (answer, format, columns), or write it to --out. `former` are keys of --schema 1 by today's."""
    out = None if how.out is None else Path(how.out)
    if how.schema == "1" and how.format == "json":
        from rooflinecli.render.answer import first_keys

        found = first_keys(found, former or {})
    write(page(found, how.format, columns(how.wide, out)), out)


def calculator(view: str, *, table: str = "") -> Callable[[Question[Any], Explained], int]:
    """The run of a question whose answer(lift) is arithmetic on its fields: printed, or one of its quantities explained."""

    def run(question: Question[Any], how: Explained) -> int:
        if how.explain is None:
            answer = question.answer()
            show(answer, view, how, table=table)
            problem = question.infeasible(answer)
            if problem:
                raise Infeasible(problem)
            return 0
        from rooflinecli.core import num
        from rooflinecli.core.derivation import leaf
        from rooflinecli.core.derivation_text import explain
        from rooflinecli.core.errors import unknown
        from rooflinecli.core.record import leaves

        lift = TracedLift()
        known = dict(leaves(question.lifted(lift).answer(lift)))  # type: ignore[call-arg]
        numbers = {
            path: value for path, value in known.items() if not isinstance(value, (str, bool)) and value is not None
        }
        if how.explain not in numbers:
            raise unknown("quantity", how.explain, numbers, option="explain")
        found = numbers[how.explain]
        traced = leaf(how.explain, found, "", "a constant") if num.value(found) is found else found
        write(explain(traced, int(how.depth)), None if how.out is None else Path(how.out))
        return 0

    return run


def calculators(
    questions: Sequence[type[Question[Any]]], help: str, also: Mapping[str, str] | None = None
) -> typer.Typer:
    """The application of a verb with a sub-command for each question; `also` are hidden names of earlier releases."""
    app = typer.Typer(no_args_is_help=True, help=help, **QUIET)
    for question in questions:
        name = question.verb.partition(" ")[2]
        add(app, question, calculator("quantities"), Explained, name)
        for old in (old for old, new in (also or {}).items() if new == name):
            add(app, question, calculator("quantities"), Explained, old, hidden=True)
    return app
