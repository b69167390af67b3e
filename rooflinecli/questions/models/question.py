"""`roofline models` as a record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rooflinecli.core.errors import DataError
from rooflinecli.questions.question import Question
from rooflinecli.specs.options import OptText, Switch, field

if TYPE_CHECKING:
    from rooflinecli.questions.models.answer import ModelList, ModelSheet


class Models(Question["ModelSheet | ModelList"]):
    """List models, show one in detail, or turn a Hugging Face config into a model file: `models import CONFIG.json --out my.yaml`.

    A file of the registry that cannot be read is named on stderr once the others are listed; the exit code is 3 then.
    """

    verb = "models"
    kind, rows, figures = "model", "models", ""  # as of Hardware
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
