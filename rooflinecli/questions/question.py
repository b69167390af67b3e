"""The base of questions: one typed record per verb, from which every interface is derived.

A question is constructed with typed arguments (`Simulate("llama-3-8b", hw="h100", qps=4)`) or read from options as a command
line, a plan file, an MCP client or a form writes them (`Simulate.read({"prompts-per-slot": "4", ...})`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from rooflinecli.core.errors import UsageError, unknown
from rooflinecli.core.expressions import Scope, compiled
from rooflinecli.core.lift import PLAIN, PlainLift
from rooflinecli.core.record import Json, Quantities
from rooflinecli.specs import parse_values
from rooflinecli.specs.options import KINDS, OPTIONS, Group, Option
from rooflinecli.specs.options import field as option

if TYPE_CHECKING:
    from rooflinecli.importers.source import Options


A = TypeVar("A")
Q = TypeVar("Q", bound="Question[Any]")


class Question(Group, Generic[A]):
    """Fields as written and their values in SI; `answer` is what every interface shows.

    Options of an estimate are read when they are used, since the model and the chip decide what some of them mean; the others
    when the question is made. Raises UsageError for a value that cannot be read, or that contradicts another.
    """

    verb: ClassVar[str] = ""
    examples: ClassVar[tuple[str, ...]] = ()
    ranged: ClassVar[frozenset[str]] = frozenset()  # parameters that take several values and are kept as written
    helps: ClassVar[Mapping[str, str]] = {}  # help of inherited fields that mean more here than in their group
    tool: ClassVar[bool] = True  # whether it is a tool of the MCP server

    if not TYPE_CHECKING:

        def __init__(self, *positional: object, **written: object) -> None:
            for name in self.placed(positional, written):
                if name not in self.fields():
                    raise TypeError(f"{type(self).__name__} has no field {name}")
            self._set(
                {
                    name: value
                    for name, value in written.items()
                    if value is not None and not (isinstance(value, list) and not value)
                }
            )

        def __setattr__(self, name: str, value: object) -> None:
            raise AttributeError(f"a question cannot be changed; make another with replace({name}=...)")

    def _set(self, written: dict[str, object]) -> None:
        self.__dict__.update(_written=written, _values={}, _lift=PLAIN)
        for name, field in self.fields().items():
            if name not in written and field.required:
                raise UsageError(self._missing(field), field.name)
            if name in written and not is_estimate_option(field):
                self.value_of(field)
        self.check()

    @classmethod
    def _missing(cls, field: Option) -> str:
        """The sentence for a field that must be given and was not."""
        if field.kind == "name":
            listed = "models" if field.name == "model" else "hardware"
            return f"no {field.flag} given; name one (`roofline {listed}` lists them)"
        initial = field.help[:1] if field.help[1:2].isupper() else field.help[:1].lower()
        help = f"{initial}{field.help[1:]}".rstrip(".")
        if not field.positional:
            return f"no {field.flag} given; {help}"
        places = " ".join(f.metavar or f.long.upper() for f in cls.fields().values() if f.positional)
        return f"no {field.long} given; {help}: `roofline {cls.verb} {places}`"

    @classmethod
    def positional(cls) -> list[str]:
        """Parameters that may be given by place, in order."""
        places = [(not field.positional, name) for name, field in cls.fields().items() if not field.kw_only]
        return [name for _, name in sorted(places, key=lambda place: place[0])]

    @classmethod
    def placed(cls, positional: tuple[object, ...], written: dict[str, object]) -> dict[str, object]:
        """`written` with the values that were given by place. Raises TypeError for too many, and for one given twice."""
        names = cls.positional()
        if len(positional) > len(names):
            raise TypeError(f"{cls.__name__} takes {len(names)} positional arguments, not {len(positional)}")
        for name, value in zip(names, positional, strict=False):
            if name in written:
                raise TypeError(f"{cls.__name__} got several values for {name}")
            written[name] = value
        return written

    @classmethod
    def read(cls: type[Q], written: Mapping[str, object]) -> Q:
        """A question from options by any of their names, with dashes or underscores; None values are as if not given.

        Raises UsageError for a name that does not exist, one given twice, and what a field or `check` refuses.
        """
        given: dict[str, object] = {}
        for name, value in written.items():
            field = cls.named(name)
            if value is None:
                continue
            if field.parameter in given:
                raise UsageError(f"{field.long} is given twice, once as {name}; keep one", field.name)
            given[field.parameter] = value
        return cls(**given)

    @classmethod
    def named(cls, name: str) -> Option:
        """The field of any of its names. Raises UsageError with near misses."""
        found = cls._by_name().get(name.replace("_", "-"))
        if found is None:
            known = [field.long for field in cls.fields().values()]
            raise unknown("option", name, known, f"`roofline {cls.verb} --help` lists them")
        return found

    @classmethod
    @cache
    def _by_name(cls) -> dict[str, Option]:
        """Fields by all their names: the first that has one for its own before those that had it once."""
        fields = list(reversed(cls.fields().values()))
        former = {name: field for field in fields for name in (*field.names, *filter(None, [field.short.strip("-")]))}
        return former | {name: field for field in fields for name in (field.long, *field.also)}

    def value_of(self, field: Option) -> Any:
        """The value of a field in SI, its default where it was not given."""
        values = self.__dict__["_values"]
        if field.parameter not in values:
            written = self.__dict__["_written"].get(field.parameter)
            values[field.parameter] = written if field.parameter in self.ranged else _value(field, written)
        found = values[field.parameter]
        lift: PlainLift = self.__dict__["_lift"]
        if lift is PLAIN or not field.symbol or found is None:
            return found
        source = field.flag if self.is_given(field) else f"default of {field.flag}"
        written = self.__dict__["_written"].get(field.parameter)
        if field.kind == "params" and isinstance(written, str) and not is_number(written):
            source = f"{field.flag} {written}: active parameters of {active_parameters(written)[1]}"
        return lift(field.symbol, found, KINDS[field.kind].unit, source)

    def is_given(self, field: Option) -> bool:
        """Whether the field was written rather than left at its default."""
        return field.parameter in self.__dict__["_written"]

    def lifted(self: Q, lift: PlainLift) -> Q:
        """The same question whose numbers with a symbol are of the lift's kind, so that an answer can be explained."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__, _lift=lift)
        return other

    def options(self) -> Options:
        """The options of an estimate that were given, as written, by their keys."""
        fields = self.fields()
        found = self.__dict__["_written"].items()
        return {fields[name].name: value for name, value in found if is_estimate_option(fields[name])}

    def text_of(self, field: Option) -> str | None:
        """The field as a command line writes it, None where it was not given."""
        written = self.__dict__["_written"].get(field.parameter)
        if written is None or isinstance(written, str):
            return written
        unit = KINDS[field.kind].unit
        if field.kind in parse_values.QUANTITIES and unit not in ("1", "tokens"):
            return f"{written!r} {unit}"
        return str(written)

    def written(self) -> Options:
        """Every field that was given, as written, by parameter."""
        return dict(self.__dict__["_written"])

    def replace(self: Q, **written: object) -> Q:
        """The same question with other values; None takes one out."""
        return type(self)(
            **{name: value for name, value in (self.written() | written).items() if value is not None and value != []}
        )

    def check(self) -> None:
        """Raise UsageError for the first row of conflicts.yaml, under the names of the question's classes, that its fields meet; one with a
        `note` warns instead."""
        from rooflinecli.specs.snapshots import packaged  # here: a help page needs none

        fields, conflicts = self.fields(), packaged(__file__, "conflicts")
        names = {
            "len": len,
            "default": lambda name: fields[name].default,
            "given": lambda *asked: sum(self.is_given(fields[name]) for name in asked),
        }
        for row in (row for kind in type(self).__mro__ for row in conflicts.get(kind.__name__, ())):
            for each in row.get("each", (None,)):
                own = (
                    {}
                    if each is None
                    else {"each": each, "flag": fields[each].flag, "written": self.text_of(fields[each])}
                )
                scope = Scope(names | own, row.get("let", {}), self)
                if not scope.value(row["if"]):
                    continue
                if "note" in row:
                    from rooflinecli.engine.build_request import warn

                    warn(row["note"].format_map(scope))
                else:
                    option = row.get("option", "") if each is None else fields[each].name
                    raise UsageError(row["say"].format_map(scope), option)
        super().check()

    def answer(self) -> A:
        """The answer. Raises Infeasible for a question that nothing satisfies, DataError for a broken file."""
        raise NotImplementedError(self.verb)

    def infeasible(self, answer: A) -> str:
        """Why an answer that is shown is not feasible; empty where it is."""
        return ""

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.__dict__["_written"] == self.__dict__["_written"]

    def __hash__(self) -> int:
        return hash((type(self), repr(sorted(self.__dict__["_written"].items()))))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self.__dict__['_written'].items())})"


class Several(Group):
    """Questions whose options may have several values: options are text, values joined by commas, as a command line writes them."""

    def options(self: Any) -> Options:
        """The options that were given, by their keys."""
        fields = self.fields()
        meant = {name for name, field in fields.items() if is_estimate_option(field) or name == "price"}
        return {fields[n].name: _text(value, fields[n].kind) for n, value in self.written().items() if n in meant}


def _text(written: object, kind: str) -> object:
    if kind == "phases":
        return list(written) if isinstance(written, (list, tuple)) else [written]
    if isinstance(written, (list, tuple, range)):
        return ",".join(map(str, written))
    return written if isinstance(written, bool) else str(written)


def is_estimate_option(field: Option) -> bool:
    """Whether the field is an option of an estimate, read as estimates read it, rather than one of the question's own."""
    known = OPTIONS.get(field.name)
    return known is not None and known.kind == field.kind


def _value(field: Option, written: object) -> Any:
    if written is None:
        return tuple(field.default or ()) if field.several else field.default
    if field.several and field.kind != "phases":
        items = written if isinstance(written, (list, tuple)) else [written]
        return tuple(_read(field, item) for item in items)
    return _read(field, written)


def _read(field: Option, written: object) -> Any:
    """One value in SI. Raises UsageError with the flag."""
    if isinstance(written, str) and not written.strip():
        raise UsageError(f"{field.flag} '': empty; give it a value, or leave it out", field.name)
    if field.kind in ("free", "file", "name"):
        return parse_values.as_text(field.flag, written, field.name)
    if field.kind == "distribution":
        return written if isinstance(written, str) else f"{parse_values.number(field.flag, written, 'amount'):g}"
    if field.kind == "whole":
        return written if written in field.choices else parse_values.whole(field, written)
    if field.kind == "switch" and isinstance(written, bool):
        return written
    if field.kind == "params" and isinstance(written, str) and not is_number(written):
        return active_parameters(written)[0]
    if field.kind in parse_values.QUANTITIES:
        return parse_values.quantity(field, written)
    from rooflinecli.engine.build_request import value  # here: it loads chips and models

    return value(field, written)


def is_number(written: str) -> bool:
    """Whether text begins as a number does, rather than a model's name."""
    return written[:1].isdigit() or written[:1] in ".+-"


def active_parameters(model: str) -> tuple[float, str]:
    """Parameters of a model that a token passes through, embedding included, and the model's name."""
    from rooflinecli.layers.parameter_counts import parameters
    from rooflinecli.specs.model import load_model

    spec = load_model(model)
    return float(parameters(spec).active), spec.name


class _Values(Scope):
    """A scope in which an expression has no value where one of its names has none, unless it asks for that."""

    def value(self, expression: str) -> Any:
        if "None" not in expression and any(self[name] is None for name in compiled(expression).co_names):
            return None
        return super().value(expression)

    def row(self, written: Json) -> Json:
        """Expressions by name, worked out; those without a value are left out."""
        found = {k: self.row(e) if isinstance(e, dict) else self.value(str(e)) for k, e in written.items()}
        return {name: value for name, value in found.items() if value is not None}


class Calculator(Question[Quantities]):
    """A row of a table: `formulas` are modules whose functions its expressions call, `let` names more, `answer` is what is worked out."""

    row: ClassVar[Json] = {}

    def answer(self, lift: PlainLift = PLAIN) -> Quantities:
        modules = [import_module(f"rooflinecli.formulas.{name}") for name in self.row["formulas"]]
        functions = {name: f for module in modules for name, f in vars(module).items() if name not in self.fields()}
        found = _Values(functions, self.row.get("let", {}), self).row(self.row["answer"])
        return Quantities.of(self.row["schema"], **found, notes=self.row.get("notes"))


def calculators(module: str, groups: tuple[type[Group], ...] = ()) -> dict[str, type[Calculator]]:
    """The calculators of the table next to the module of a verb, by class name. A row has the fields of the `groups` that it names too."""
    from rooflinecli.specs.snapshots import packaged

    found = {}
    for name, row in packaged(module, "calculators").items():
        bases = (*(group for group in groups if group.__name__ in row.get("groups", ())), Calculator)
        fields = {name: option(kind, help, **more) for name, (kind, help, more) in row["fields"].items()}
        about = {"__doc__": row["about"], "__module__": __name__, "verb": row["verb"], "row": row}
        found[name] = type(name, bases, about | fields)
    return found
