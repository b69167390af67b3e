"""`roofline hardware`, `models` and `prices`: what the registries list, one of it with its sources, imports and offers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from rooflinecli.core.errors import DataError, UsageError
from rooflinecli.interfaces.cli.from_question import Delivery, command, show
from rooflinecli.interfaces.cli.output import write
from rooflinecli.questions.question import Question
from rooflinecli.specs.options import OptNumber, OptText, Switch, Text, Texts, field

if TYPE_CHECKING:
    from rooflinecli.core.record import Json
    from rooflinecli.questions.hardware.answer import Chips, ChipSheet
    from rooflinecli.questions.models.answer import ModelList, ModelSheet


class Hardware(Question["ChipSheet | Chips"]):
    """List chips, show one with the source of every figure, or compare several.

    A file of the registry that cannot be read is named on stderr once the others are listed; the exit code is 3 then.
    """

    verb = "hardware"
    kind, rows, table = "hardware", "chips", "figures"
    # fmt: off
    names: Texts = field("name", "A name, alias or YAML path: its page. Several, with commas or repeated: compared. None: all.", default=None, positional=True, several=True, metavar="NAMES...", name="hw")
    vendor: OptText = field("free", "List only this vendor's chips, e.g. nvidia.", default=None, metavar="CHOICE")
    min_memory: OptNumber = field("bytes", "List only chips with this much memory, e.g. '80 GiB'.", default=None, least=1e6)
    dtype: OptText = field("free", "List only chips with a rate for this dtype, e.g. fp8.", default=None, metavar="CHOICE")
    schema: Switch = field("switch", "Print the JSON Schema of a hardware file.", default=False)
    # fmt: on

    @property
    def chips(self) -> list[str]:
        """The chips asked for."""
        return [part for name in self.names for part in name.split(",") if part]

    @property
    def shown(self) -> str | None:
        """The chip of a page."""
        return self.chips[0] if len(self.chips) == 1 else None

    @property
    def view(self) -> str:
        """How several chips are shown."""
        return "hardware.comparison" if self.chips else "hardware"

    def answer(self) -> ChipSheet | Chips:
        """The page of one chip, a comparison of several, or the list; files that cannot be read are left out of it."""
        from rooflinecli.questions.hardware.answer import sheet

        return self.listed()[0] if self.shown is None else sheet(self.shown)

    def listed(self) -> tuple[Chips, list[DataError]]:
        """The chips asked for, or all that pass the filters and what is wrong with files that cannot be read."""
        from rooflinecli.questions.hardware import answer

        return (answer.named(self.chips), []) if self.chips else answer.chips(self.vendor, self.min_memory, self.dtype)


class Models(Question["ModelSheet | ModelList"]):
    """List models, show one in detail, or turn a Hugging Face config into a model file: `models import CONFIG.json --out my.yaml`.

    A file of the registry that cannot be read is named on stderr once the others are listed; the exit code is 3 then.
    """

    verb = view = "models"
    kind, rows, table = "model", "models", ""
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


class Prices(Question[None]):
    """List the dated offers of a chip, or read a SkyPilot catalog into hardware/prices/: `prices import ~/.sky/catalogs/v8/verda/vms.csv --provider verda`.

    Columns of a catalog: InstanceType, AcceleratorName, AcceleratorCount, Price, SpotPrice, Region. Its day is that of the file.
    """

    verb = "prices"
    # fmt: off
    chip: Text = field("name", "A chip: its offers. 'import': read CATALOG.", positional=True, metavar="NAME")
    catalog: OptText = field("file", "import: a SkyPilot catalog CSV.", default=None, positional=True, metavar="CATALOG")
    provider: OptText = field("word", "import: whose catalog it is; its folder's name by default.", default=None, metavar="NAME")
    # fmt: on

    def check(self) -> None:
        if (self.chip == "import") != (self.catalog is not None):
            raise UsageError("prices shows one chip, or imports one catalog: `roofline prices import CATALOG.csv`")


def registry(question: Hardware | Models, how: Delivery) -> None:
    """Print a list, whose JSON is its rows alone and after which files that cannot be read are named; a page, a comparison, a model file or
    the schema."""
    out = None if how.out is None else Path(how.out)
    if question.schema:
        from rooflinecli.specs.schema import text

        write(text(question.kind), out)
    elif isinstance(question, Models) and question.model == "import":
        from rooflinecli.render.views.models import to_yaml

        if how.is_given(type(how).format):
            raise UsageError("models import writes YAML; leave out --format")
        write(to_yaml(_imported(str(question.config))), out)
    elif question.shown is not None:
        show(question.answer(), f"{question.verb}.sheet", how, table=question.table)
    else:
        from rooflinecli.render.answer import to_json
        from rooflinecli.specs.name_lookup import raise_unreadable

        answer, unreadable = question.listed()
        if how.format == "json":
            write(to_json(answer[question.rows]), out)
        else:
            show(answer, question.view, how, table=question.rows)
        raise_unreadable(unreadable)


def prices(question: Prices, how: Delivery) -> None:
    """Print the offers, or write those of a catalog below the working directory."""
    from rooflinecli.questions.hardware import answer

    if question.catalog is None:
        show(answer.offers(question.chip), "hardware.prices", how, table="offers")
        return
    path = Path(question.catalog).expanduser()
    folder = Path(how.out or "hardware/prices")
    made = answer.import_catalog(path, question.provider or path.resolve().parent.name, folder)
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
