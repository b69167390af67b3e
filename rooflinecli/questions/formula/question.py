"""`roofline formula [NAME [argument=value ...]]` as a record."""

from __future__ import annotations

from dataclasses import field as key

from rooflinecli.core.num import Number as Quantity
from rooflinecli.core.record import OPTIONAL, Record
from rooflinecli.questions.question import Question
from rooflinecli.specs.options import OptText, Texts, field


class FormulaAnswer(Record):
    """A formula: its parameters and arithmetic, or its value at the arguments given (in SI)."""

    schema: str = "roofline/formula/1"
    formula: str
    symbol: str
    unit: str
    source: str
    parameters: list[str] | None = key(default=None, metadata=OPTIONAL)
    arithmetic: str | None = key(default=None, metadata=OPTIONAL)
    value: Quantity | None = key(default=None, metadata=OPTIONAL)
    arguments: dict[str, float] | None = key(default=None, metadata=OPTIONAL)


class FormulaSummary(Record):
    """A formula in one line."""

    module: str
    formula: str
    unit: str
    summary: str


class FormulaList(Record):
    """Every formula, in the order of the catalogue."""

    schema: str = "roofline/formula/1"
    formulas: list[FormulaSummary]


class FormulaQuestion(Question[FormulaAnswer | FormulaList]):
    """List every formula, show one (arithmetic, unit, source), or evaluate it at the numbers given.

    Values may carry units; a bare B is a billion, and bytes are kB, MB, GiB or plain numbers.
    """

    verb = "formula"
    examples = ("roofline formula ridge_point peak=989TFLOP/s bandwidth=3.35TB/s",)
    # fmt: off
    name: OptText = field("free", "A formula's name; omitted: list all.", default=None, positional=True, kw_only=False)
    arguments: Texts = field("free", "argument=value each, with units: peak=989TFLOP/s size=80GiB params=70B rows=8x4096.", default=None, several=True, positional=True)
    # fmt: on

    def answer(self, *, evaluated: bool = False) -> FormulaAnswer | FormulaList:
        """With `evaluated`, a formula without arguments is an error that lists those it needs, not its page."""
        from rooflinecli.formulas.catalogue import every
        from rooflinecli.questions.formula.answer import evaluate, find, parameters

        if self.name is None:
            return FormulaList(
                formulas=[
                    FormulaSummary(
                        module=entry.module.rpartition(".")[2],
                        formula=name,
                        unit=entry.unit,
                        summary=entry.doc.splitlines()[0] if entry.doc else "",
                    )
                    for name, entry in every().items()
                ]
            )
        entry = find(self.name, every())
        found = FormulaAnswer(formula=entry.name, symbol=entry.symbol, unit=entry.unit, source=entry.source)
        if self.arguments or evaluated or not parameters(entry):
            found.value, found.arguments = evaluate(entry, list(self.arguments))
        else:
            found.parameters, found.arithmetic = parameters(entry), entry.body
        return found
