"""`roofline hardware` and `roofline prices` as records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rooflinecli.core.errors import DataError, UsageError
from rooflinecli.questions.question import Question
from rooflinecli.specs.options import OptNumber, OptText, Switch, Text, Texts, field

if TYPE_CHECKING:
    from rooflinecli.questions.hardware.answer import Chips, ChipSheet, OffersAnswer


class Hardware(Question["ChipSheet | Chips"]):
    """List chips, show one with the source of every figure, or compare several.

    A file of the registry that cannot be read is named on stderr once the others are listed; the exit code is 3 then.
    """

    verb = "hardware"
    kind, rows, figures = (
        "hardware",
        "chips",
        "figures",
    )  # of its schema; the list that is its JSON; rows of a page in CSV
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

    def answer(self) -> ChipSheet | Chips:
        """The page of one chip, a comparison of several, or the list; files that cannot be read are left out of it."""
        from rooflinecli.questions.hardware.answer import sheet

        return self.listed()[0] if self.shown is None else sheet(self.shown)

    def listed(self) -> tuple[Chips, list[DataError]]:
        """The chips asked for, or all that pass the filters and what is wrong with files that cannot be read."""
        from rooflinecli.questions.hardware import answer

        return (answer.named(self.chips), []) if self.chips else answer.chips(self.vendor, self.min_memory, self.dtype)


class Prices(Question["OffersAnswer"]):
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

    def answer(self) -> OffersAnswer:
        """The offers of the chip, the cheapest first."""
        from rooflinecli.questions.hardware.answer import offers

        return offers(self.chip)
