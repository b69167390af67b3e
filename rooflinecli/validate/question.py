"""`roofline validate [SUBJECT]` as a record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.record import Record
from rooflinecli.core.report_table import ReportTable
from rooflinecli.questions.question import Question
from rooflinecli.specs.options import Switch, Text, field

if TYPE_CHECKING:  # a help page needs none of it
    from rooflinecli.validate.stats import Table


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class ValidateAnswer(Record):
    """Tables of errors of a subject."""

    schema: str = "roofline/validate/1"
    subject: str
    tables: list[ReportTable]


class Validate(Question[ValidateAnswer]):
    """Predictions against published and measured rows: error, bias, coverage of the interval, and the error of the bare roofline.

    Measured kernels and collected serving runs are read from a wheel: pip install "rooflinecli[validate]".
    """

    verb = "validate"
    # fmt: off
    subject: Text = field("free", "kernels, training, search, inference, collectives, desk, or all.", default="all", positional=True)
    simulate: Switch = field("switch", "Also simulate the collected serving runs, errors next to the formula's (a minute).", default=False)
    full: Switch = field("switch", "Search for every tuned run, not for some of each family (minutes).", default=False)
    # fmt: on

    def tables(self) -> list[Table]:
        """The tables with the points behind them. Raises UsageError for an unknown subject or a missing extra."""
        from rooflinecli.validate.answer import tables_of

        return tables_of(self.subject, self.simulate, self.full)

    def answer(self) -> ValidateAnswer:
        return self.answer_of(self.tables())

    def answer_of(self, tables: list[Table]) -> ValidateAnswer:
        """The answer of tables that were computed."""
        return ValidateAnswer(subject=self.subject, tables=[table.report() for table in tables])
