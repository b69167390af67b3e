"""`roofline hardware [NAME ...]`: the list of chips, one of them with its sources, or several compared."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rooflinecli.core.errors import DataError, UsageError
from rooflinecli.interfaces.cli.from_question import Delivery, command
from rooflinecli.interfaces.cli.output import columns, write
from rooflinecli.questions.question import Question
from rooflinecli.specs.options import OptNumber, OptText, Switch, Texts, field

if TYPE_CHECKING:
    from rooflinecli.questions.hardware.answer import Chips, ChipSheet


class Hardware(Question["ChipSheet | Chips"]):
    """List chips, show one with the source of every figure, or compare several.

    A file of the registry that cannot be read is named on stderr once the others are listed; the exit code is 3 then.
    """

    verb = "hardware"
    # fmt: off
    names: Texts = field("name", "A name, alias or YAML path: its page. Several, with commas or repeated: compared. None: all.", default=None, positional=True, several=True, metavar="NAMES...", name="hw")
    vendor: OptText = field("free", "List only this vendor's chips, e.g. nvidia.", default=None, metavar="CHOICE")
    min_memory: OptNumber = field("bytes", "List only chips with this much memory, e.g. '80 GiB'.", default=None, least=1e6)
    dtype: OptText = field("free", "List only chips with a rate for this dtype, e.g. fp8.", default=None, metavar="CHOICE")
    schema: Switch = field("switch", "Print the JSON Schema of a hardware file.", default=False)
    # fmt: on

    def check(self) -> None:
        filters = [field.flag for name, field in self.fields().items() if name in ("vendor", "min_memory", "dtype") and self.is_given(field)]  # fmt: skip
        if filters and (self.names or self.schema):
            raise UsageError(
                f"{filters[0]} filters the list of chips; leave out {'--schema' if self.schema else 'the names'}"
            )
        if self.schema and self.names:
            raise UsageError("--schema describes every hardware file; leave out the names")

    @property
    def chips(self) -> list[str]:
        """The chips asked for."""
        return [part for name in self.names for part in name.split(",") if part]

    def answer(self) -> ChipSheet | Chips:
        """The page of one chip, a comparison of several, or the list; files that cannot be read are left out of it."""
        from rooflinecli.questions.hardware import answer

        if len(self.chips) == 1:
            return answer.sheet(self.chips[0])
        return answer.named(self.chips) if self.chips else self.listed()[0]

    def listed(self) -> tuple[Chips, list[DataError]]:
        """The chips that pass the filters, and what is wrong with files that cannot be read."""
        from rooflinecli.questions.hardware.answer import chips

        return chips(self.vendor, self.min_memory, self.dtype)


def run(question: Hardware, how: Delivery) -> None:
    """Print the list, a page, a comparison or the schema."""
    from rooflinecli.render.answer import render, to_json
    from rooflinecli.render.formats.terminal_style import PIPE
    from rooflinecli.render.views import hardware as views
    from rooflinecli.specs.name_lookup import raise_unreadable

    out, unreadable = None if how.out is None else Path(how.out), list[DataError]()
    width, names = columns(how.wide, out), question.chips
    if question.schema:
        from rooflinecli.specs.schema import text

        write(text("hardware"), out)
    elif len(names) == 1:
        width = min(width, PIPE)
        write(render(question.answer(), views.sheet, how.format, width, table="figures", details=how.details), out)
    else:
        found, unreadable = (question.answer(), unreadable) if names else question.listed()
        page = views.comparison if names else views.view
        write(
            to_json(found["chips"]) if how.format == "json" else render(found, page, how.format, width, table="chips"),
            out,
        )
        raise_unreadable(unreadable)


app = command(Hardware, run)
