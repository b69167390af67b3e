"""`roofline models [[show] NAME | import CONFIG.json]`: the list of models, one in detail, or a Hugging Face config as a model file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rooflinecli.core.errors import UsageError
from rooflinecli.interfaces.cli.from_question import Delivery, command
from rooflinecli.interfaces.cli.output import columns, write
from rooflinecli.questions.question import Question
from rooflinecli.specs.options import OptText, Switch, field

if TYPE_CHECKING:
    from rooflinecli.core.errors import DataError
    from rooflinecli.importers.source import Json
    from rooflinecli.questions.models.answer import ModelList, ModelSheet


class Models(Question["ModelSheet | ModelList"]):
    """List models, show one in detail, or turn a Hugging Face config into a model file: `models import CONFIG.json --out my.yaml`.

    A file of the registry that cannot be read is named on stderr once the others are listed; the exit code is 3 then.
    """

    verb = "models"
    # fmt: off
    model: OptText = field("name", "A name, alias, YAML path or config.json: its page; 'show' before it changes nothing. 'import': convert CONFIG. None: all.", default=None, positional=True, metavar="NAME")
    config: OptText = field("free", "import: a Hugging Face config.json, its folder, or '-' for standard input.", default=None, positional=True, metavar="CONFIG")
    family: OptText = field("free", "List only this family, e.g. llama.", default=None, metavar="CHOICE")
    schema: Switch = field("switch", "Print the JSON Schema of a model file.", default=False)
    # fmt: on

    @property
    def shown(self) -> str | None:
        """The model of a page: `show NAME`, as other tools have it, is NAME."""
        return self.config if self.model == "show" else self.model

    def answer(self) -> ModelSheet | ModelList:
        """The page of one model, or the list; files that cannot be read are left out of it."""
        from rooflinecli.questions.models.answer import sheet

        return self.listed()[0] if self.shown is None else sheet(self.shown)

    def listed(self) -> tuple[ModelList, list[DataError]]:
        """The models of the family, and what is wrong with files that cannot be read."""
        from rooflinecli.questions.models.answer import models

        return models(self.family)

    def check(self) -> None:
        if self.model == "show" and self.config is None:
            raise UsageError(
                "models show needs a model: a name, a YAML path or a config.json; `roofline models` lists them"
            )
        if self.model == "import" and self.config is None:
            raise UsageError(
                "models import needs a config: a Hugging Face config.json, its folder, or '-' for standard input"
            )
        if self.model not in ("show", "import") and self.config is not None:
            raise UsageError(
                f"models shows one model; leave out '{self.config}', or write `roofline models import {self.config}`"
            )
        if self.family is not None and self.model is not None:
            raise UsageError("--family filters the list of models; leave out the name")
        if self.schema and (self.model is not None or self.family is not None):
            raise UsageError("--schema describes every model file; leave out the name and --family")


def run(question: Models, how: Delivery) -> None:
    """Print the list, a page, a model file or the schema."""
    from rooflinecli.render.answer import render, to_json
    from rooflinecli.render.views import models as views
    from rooflinecli.specs.name_lookup import raise_unreadable

    out = None if how.out is None else Path(how.out)
    width = columns(how.wide, out)
    if question.schema:
        from rooflinecli.specs.schema import text

        write(text("model"), out)
    elif question.model == "import":
        from rooflinecli.render.views.models import to_yaml

        if how.is_given(type(how).format):
            raise UsageError("models import writes YAML; leave out --format")
        write(to_yaml(_imported(str(question.config))), out)
    elif question.shown is not None:
        write(render(question.answer(), views.sheet, how.format, width), out)
    else:
        listed, unreadable = question.listed()
        as_list = how.format == "json"
        write(to_json(listed.models) if as_list else render(listed, views.view, how.format, width, table="models"), out)
        raise_unreadable(unreadable)


def _imported(config: str) -> Json:
    """The fields of a model file, checked as such a file would be."""
    import sys

    from rooflinecli.importers.hf import model_document
    from rooflinecli.importers.hf.config_json import parse_config
    from rooflinecli.specs.model import model_from

    path = Path("<stdin>" if config == "-" else config)
    document = model_document(path, parse_config(sys.stdin.read(), path) if config == "-" else None)
    model_from(document)
    return document.data


app = command(Models, run)
