"""Calculators: questions whose answer is arithmetic on their own fields, so that any number of it can be explained."""

from __future__ import annotations

from dataclasses import field
from typing import Any, ClassVar

from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.lift import PLAIN, PlainLift
from rooflinecli.core.record import SPREAD, Record, former_keys
from rooflinecli.questions.question import Question

Values = dict[str, Any]  # quantities by name, tables of them (rows by name), and notes
FORMER = former_keys(
    wave_utilization="wave_utilisation",
    output_tile_utilization="output_tile_utilisation",
    column_utilization="column_utilisation",
    weight_tile_utilization="weight_tile_utilisation",
    cycle_utilization="cycle_utilisation",
    utilization="utilisation",
    static_utilization="static_utilisation",
    continuous_utilization="continuous_utilisation",
)


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class CalculatorAnswer(Record):
    """Quantities in the order of the JSON."""

    schema: str
    values: Values = field(metadata=SPREAD | FORMER)


class Calculator(Question[CalculatorAnswer]):
    """A question whose `compute` reads its fields, which are plain numbers or traced ones."""

    version: ClassVar[int] = 1  # of the answer's schema

    def answer(self, lift: PlainLift = PLAIN) -> CalculatorAnswer:
        """The answer; the fields are of the kind of number that the question was lifted to."""
        self.__dict__["_lift"] = lift
        try:
            values = self.compute(lift)
        finally:
            self.__dict__["_lift"] = PLAIN
        return CalculatorAnswer(schema=f"roofline/{self.verb.replace(' ', '-')}/{self.version}", values=values)

    def compute(self, lift: PlainLift) -> Values:
        """The quantities of the answer."""
        raise NotImplementedError(self.verb)

    def infeasible(self, values: Values) -> str:
        """Why the answer cannot be met; empty where it can."""
        return ""
