"""`roofline prices CHIP | import CATALOG.csv --provider NAME`: the offers of a chip, or a SkyPilot catalog as offers."""

from __future__ import annotations

from pathlib import Path

from rooflinecli.core.errors import UsageError
from rooflinecli.interfaces.cli.from_question import Delivery, command
from rooflinecli.interfaces.cli.output import columns, write
from rooflinecli.questions.question import Question
from rooflinecli.specs.options import OptText, Text, field


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


def run(question: Prices, how: Delivery) -> None:
    """Print the offers, or write those of a catalog below the working directory."""
    from rooflinecli.questions.prices import answer
    from rooflinecli.render.answer import render
    from rooflinecli.render.views.hardware import prices as view

    out = None if how.out is None else Path(how.out)
    if question.catalog is not None:
        path = Path(question.catalog).expanduser()
        folder = Path(how.out or "hardware/prices")
        made = answer.import_catalog(path, question.provider or path.resolve().parent.name, folder)
        write("\n".join(made or [f"{path}: no chip of it is described here"]), None)
        return
    write(
        render(
            answer.offers(question.chip), view, how.format, columns(how.wide, out), table="offers", details=how.details
        ),
        out,
    )


app = command(Prices, run)
