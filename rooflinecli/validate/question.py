"""`roofline validate [SUBJECT]` as a record."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

from rooflinecli.core.errors import UsageError, unknown
from rooflinecli.core.record import Record, ReportTable
from rooflinecli.questions.question import Question
from rooflinecli.specs.options import Text, field

if TYPE_CHECKING:  # a help page needs none of it
    from rooflinecli.validate.stats import Table

EVERYTHING = "all"
SUBJECTS = ("kernels", "training", "inference", "collectives", "desk", "rl", "energy")
MODULES = {
    "training": "published_training",
    "desk": "local_machines",
}  # of `tables`, where it is not the subject's name


class ValidateAnswer(Record):
    """Tables of errors of a subject."""

    schema: str = "roofline/validate/1"
    subject: str
    tables: list[ReportTable]


class Validate(Question[ValidateAnswer]):
    """Predictions against published and measured rows: error, bias, coverage of the interval, and the error of the bare roofline.

    Measured kernels and collected serving runs are read from a wheel, the extra `validate`.
    """

    verb = "validate"
    # fmt: off
    subject: Text = field("free", "kernels, training, inference, collectives, desk, rl, energy, or all.", default="all", positional=True)
    # fmt: on

    def tables(self, progress: Callable[[int, int], None] = lambda done, total: None) -> list[Table]:
        """The tables with the points behind them; `progress` is called with (1, all) as each subject is done. Raises UsageError for an unknown subject or a missing extra."""
        if self.subject == "search":
            raise UsageError("search is a study of the repository; run `python -m lab.search_vs_tuned` in a checkout")
        if self.subject not in (*SUBJECTS, EVERYTHING):
            raise unknown("subject", self.subject, (*SUBJECTS, EVERYTHING))
        if self.subject == "kernels":
            import_module("rooflinecli.validate.aiconfigurator_tables").systems()  # raises where the wheel is missing
        asked = SUBJECTS if self.subject == EVERYTHING else (self.subject,)
        tables: list[Table] = []
        try:
            for name in asked:
                tables += import_module(f"rooflinecli.validate.{MODULES.get(name, name)}").tables()
                progress(1, len(asked))
        except KeyboardInterrupt:
            if not tables:
                raise
            from rooflinecli.engine.build_request import warn

            warn(f"interrupted in {name}: the tables before it")
        return tables

    def answer(self) -> ValidateAnswer:
        return self.answer_of(self.tables())

    def answer_of(self, tables: list[Table]) -> ValidateAnswer:
        """The answer of tables that were computed."""
        return ValidateAnswer(subject=self.subject, tables=[table.report() for table in tables])
