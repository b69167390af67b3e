"""Calculators that are rows of a table: a question whose answer is formulas of its fields, from calculators.yaml next to the verb's questions."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

from rooflinecli.core.expressions import Scope, compiled
from rooflinecli.core.lift import PLAIN, PlainLift
from rooflinecli.core.record import Quantities
from rooflinecli.questions.question import Question
from rooflinecli.specs.options import Group, field


class _Values(Scope):
    """A scope in which an expression has no value where one of its names has none, unless it asks for that."""

    def value(self, expression: str) -> Any:
        if "None" not in expression and any(self[name] is None for name in compiled(expression).co_names):
            return None
        return super().value(expression)

    def row(self, written: dict[str, Any]) -> dict[str, Any]:
        """Expressions by name, worked out; those without a value are left out."""
        found = {k: self.row(e) if isinstance(e, dict) else self.value(str(e)) for k, e in written.items()}
        return {name: value for name, value in found.items() if value is not None}


class Calculator(Question[Quantities]):
    """A row of a table: `formulas` are modules whose functions its expressions call, `let` names more, `answer` is what is worked out."""

    row: ClassVar[dict[str, Any]] = {}

    def answer(self, lift: PlainLift = PLAIN) -> Quantities:
        modules = [import_module(f"rooflinecli.formulas.{name}") for name in self.row["formulas"]]
        functions = {name: f for module in modules for name, f in vars(module).items() if name not in self.fields()}
        found = _Values(functions, self.row.get("let", {}), self).row(self.row["answer"])
        return Quantities.of(self.row["schema"], **found, notes=self.row.get("notes"))


def calculators(module: str, groups: tuple[type[Group], ...] = ()) -> dict[str, type[Calculator]]:
    """The calculators of the table next to the module of a verb, by class name. A row has the fields of the `groups` that it names too."""
    from rooflinecli.specs.snapshots import table

    found = {}
    for name, row in table(Path(module).with_name("calculators.yaml")).items():
        bases = (*(group for group in groups if group.__name__ in row.get("groups", ())), Calculator)
        fields = {name: field(kind, help, **more) for name, (kind, help, more) in row["fields"].items()}
        about = {"__doc__": row["about"], "__module__": __name__, "verb": row["verb"], "row": row}
        found[name] = type(name, bases, about | fields)
    return found
