"""`roofline hardware`, `models` and `prices`: what the registries list, one of it with its sources, imports and offers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from rooflinecli.core.errors import UsageError
from rooflinecli.interfaces.cli.from_question import Delivery, command, show
from rooflinecli.interfaces.cli.output import write
from rooflinecli.questions.hardware.question import Hardware, Prices
from rooflinecli.questions.models.question import Models

if TYPE_CHECKING:
    from rooflinecli.core.record import Json


def registry(question: Hardware | Models, how: Delivery) -> None:
    """Print a list, whose JSON is its rows alone and after which files that cannot be read are named; a page, a comparison, a model file or
    the schema."""
    out = None if how.out is None else Path(how.out)
    if question.schema:
        from rooflinecli.specs.schema import text

        write(text(question.kind), out)
    elif isinstance(question, Models) and question.model == "import":
        from rooflinecli.render.formats.model_file import to_yaml

        if how.is_given(type(how).format):
            raise UsageError("models import writes YAML; leave out --format")
        write(to_yaml(_imported(str(question.config))), out)
    elif question.shown is not None:
        show(question.answer(), question.verb, how, table=question.figures)
    else:
        from rooflinecli.render.answer import to_json
        from rooflinecli.specs.name_lookup import raise_unreadable

        answer, unreadable = question.listed()
        if how.format == "json":
            write(to_json(answer[question.rows]), out)
        else:
            show(answer, question.verb, how, table=question.rows)
        raise_unreadable(unreadable)


def prices(question: Prices, how: Delivery) -> None:
    """Print the offers, or write those of a catalog below the working directory."""
    if question.catalog is None:
        show(question.answer(), "hardware", how, table="offers")
        return
    from rooflinecli.questions.hardware.answer import import_catalog

    path = Path(question.catalog).expanduser()
    folder = Path(how.out or "hardware/prices")
    made = import_catalog(path, question.provider or path.resolve().parent.name, folder)
    write("\n".join(made or [f"{path}: no chip of it is described here"]))


def _imported(config: str) -> Json:
    """The fields of a model file, checked as such a file would be."""
    from rooflinecli.importers.hf import model_document
    from rooflinecli.importers.hf.config_json import parse_config
    from rooflinecli.specs.model import model_from

    path = Path("<stdin>" if config == "-" else config)
    document = model_document(path, parse_config(sys.stdin.read(), path) if config == "-" else None)
    model_from(document)
    return document.data


def app(verb: str) -> typer.Typer:
    """The application of a verb."""
    if verb == "prices":
        return command(Prices, prices)
    return command(Hardware, registry) if verb == "hardware" else command(Models, registry)
