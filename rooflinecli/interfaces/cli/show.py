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
        lift = TracedLift()
        answer = question.lifted(lift).answer(lift)  # type: ignore[call-arg]
        write(explained(answer, how.explain, int(how.depth)), None if how.out is None else Path(how.out))
        return 0

    return run


def explained(answer: Any, name: str, depth: int) -> str:
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
