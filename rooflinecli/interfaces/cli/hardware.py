"""`roofline hardware [NAME ...]`: the list of chips, one of them with its sources, or several compared."""

from __future__ import annotations

from pathlib import Path

from rooflinecli.core.errors import DataError, UsageError
from rooflinecli.interfaces.cli.from_question import Delivery, command
from rooflinecli.interfaces.cli.output import columns, write
from rooflinecli.questions.question import Question
from rooflinecli.specs.options import OptNumber, OptText, Switch, Texts, field


class Hardware(Question[None]):
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


def run(question: Hardware, how: Delivery) -> None:
    """Print the list, a page, a comparison or the schema."""
    from rooflinecli.questions.hardware import answer
    from rooflinecli.render.answer import render, to_json
    from rooflinecli.render.formats.terminal_style import PIPE
    from rooflinecli.render.views import hardware as views
    from rooflinecli.specs.name_lookup import raise_unreadable

    out, unreadable = None if how.out is None else Path(how.out), list[DataError]()
    width, names = columns(how.wide, out), [part for name in question.names or () for part in name.split(",") if part]
    if question.schema:
        from rooflinecli.specs.schema import text

        write(text("hardware"), out)
    elif len(names) == 1:
        width = min(width, PIPE)
        write(render(answer.sheet(names[0]), views.sheet, how.format, width, table="figures", details=how.details), out)
    else:
        if names:
            found = answer.named(names)
        else:
            found, unreadable = answer.chips(question.vendor, question.min_memory, question.dtype)
        as_list = how.format == "json"
        page = views.comparison if names else views.view
        write(to_json(found.chips) if as_list else render(found, page, how.format, width, table="chips"), out)
        raise_unreadable(unreadable)


app = command(Hardware, run)
