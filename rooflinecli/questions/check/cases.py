"""Plan files -> cases: every named check with its defaults filled in and its matrix expanded."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from math import prod
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from rooflinecli.core import files
from rooflinecli.core.errors import DataError, UsageError
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.engine import build_request
from rooflinecli.importers.source import Options
from rooflinecli.questions.conditions import Requirement, phase_of, requirement
from rooflinecli.specs import name_lookup
from rooflinecli.specs.document import Document, KeyPath
from rooflinecli.specs.options import OPTIONS, find
from rooflinecli.specs.options import Option as EstimateOption
from rooflinecli.specs.request import BOUNDS, kinds_of_work
from rooflinecli.specs.validation import validate
from rooflinecli.specs.yaml_loader import read


def as_options(written: Options, document: Document, key: tuple[str, ...]) -> Options:
    """Options by the names of the table. Raises DataError for one that does not exist or cannot hold what it was given."""
    found: Options = {}
    for name, value in written.items():
        where = document.location(*key, name)
        try:
            option = find(name)
        except UsageError as error:
            raise DataError(f"{where}: {error}") from None
        if option.name in found:
            raise DataError(f"{where}: {name}: the same option is given twice; keep one")
        for one in value if key[-1] == "matrix" else [value]:
            _fits(option, one, where)
        found[option.name] = value
    return found


def _fits(option: EstimateOption, value: object, where: str) -> None:
    """Kinds that reading an option would bend instead of refusing."""
    name, switch = option.name, option.kind == "switch"
    if switch and not isinstance(value, bool):
        raise DataError(f"{where}: {name}: expected true or false, got {value!r}")
    if not switch and isinstance(value, bool):
        raise DataError(
            f"{where}: {name}: expected a value, got {str(value).lower()}; write it in quotes if it is a name"
        )
    if option.kind != "phases" and isinstance(value, list):
        raise DataError(f"{where}: {name}: expected one value, got a list; use `matrix` to try several")
    if option.kind == "phases" and not all(isinstance(p, str) for p in (value if isinstance(value, list) else [value])):
        raise DataError(f"{where}: {name}: expected {', '.join(option.choices)}, got {value!r}")


_registered = lru_cache(maxsize=1024)(name_lookup.find)


def path_of(kind: str, name: str, folder: Path) -> str:
    """A registry name as the path of its file, looked up once; a path is tried relative to the plan first."""
    local = folder / name
    if (name.endswith((".yaml", ".yml", ".json")) or os.sep in name) and local.exists():
        return str(local)
    try:
        return str(_registered(kind, name))
    except UsageError:
        return name


def _scalar(value: object) -> object:
    """A value YAML may write where a number, a word or a switch belongs."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value!r} is not a finite number; write a number, with its unit where it has one")
    if isinstance(value, str) and not value.isprintable():
        raise ValueError(f"{value!a} holds characters that cannot be shown; write plain text")
    if isinstance(value, (bool, int, float)) or (isinstance(value, str) and value.strip()):
        return value
    shown = "nothing" if value is None or value == "" else f"a {type(value).__name__}"
    raise ValueError(f"expected a number, a word or true/false, got {shown}; write one")


def _listed(value: object) -> object:
    """A scalar, or a list of them; never an empty one."""
    if not isinstance(value, list):
        return _scalar(value)
    if not value:
        raise ValueError("an empty list; give at least one value or remove it")
    return [_scalar(item) for item in value]


def _name(value: object) -> object:
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise ValueError(f"{value!a} cannot name a check; use plain text")
    return value


def _prose(value: object) -> object:
    if isinstance(value, str) and not all(c.isprintable() or c in "\n\t" for c in value):
        raise ValueError("holds characters that cannot be shown; write plain text")
    return value


def _axis(value: object) -> object:
    if not isinstance(value, list):
        raise ValueError("expected a list of values to try, such as [h100, h200]")
    return _listed(value)


Bound = Literal["floor", "expected", "pessimistic"]
Scalar = bool | int | float | str
Option = Annotated[Scalar | list[Scalar], BeforeValidator(_listed)]
Axis = Annotated[list[Scalar], BeforeValidator(_axis)]
Name = Annotated[str, BeforeValidator(_name)]
Prose = Annotated[str, BeforeValidator(_prose)]


def aliased(default: str | None, description: str, *names: str) -> Any:
    """A field of a file that is read under each of its names, the first of which schemas show."""
    return Field(default, description=description, validation_alias=AliasChoices(*names))


CLOSED = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())  # of a file: unknown fields are errors


class WithOptions(BaseModel):
    """A part of a file of which everything but its fields is an option of `roofline estimate` by its long name."""

    model_config = ConfigDict(extra="allow", frozen=True, protected_namespaces=())
    __pydantic_extra__: dict[str, Option]

    @property
    def options(self) -> Options:
        return dict(self.__pydantic_extra__ or {})


class CheckSpec(WithOptions):
    """One named check. Everything except these fields is an option of `roofline estimate` by its long name."""

    description: Prose = Field("", description="what the plan promises and to whom; shown in reports")
    bound: Bound | None = aliased(
        None, "which bound of the interval limits apply to, instead of the file's", "bound", "hold"
    )
    matrix: dict[str, Axis] = Field(
        default_factory=dict, description="option -> values; the check runs once for every combination"
    )
    simulate: dict[Name, Option] = Field(
        default_factory=dict,
        description="the load of `simulate.*` requirements beyond the options: trace, arrivals, requests, replicas, slo, ...",
    )
    measured: Option | None = Field(
        None, description="results of a benchmark or a training log next to the plan, for `measured.*` requirements"
    )
    fleet: Name | None = Field(
        None,
        description="the file of a fleet next to the plan (`roofline fleet`), for `fleet.*` requirements, in place of options",
    )
    require: dict[Name, Option] = Field(
        description='quantity of the estimate\'s JSON -> comparison with unit, such as decode.time_s: "<= 40 ms"',
        min_length=1,
    )


class CheckFile(BaseModel):
    """A plan file."""

    model_config = CLOSED

    bound: Bound = aliased("pessimistic", "which bound of the interval limits apply to", "bound", "hold")
    on_inconclusive: Literal["fail", "warn"] = aliased(
        "fail", "what a limit inside the interval amounts to", "on_inconclusive", "on-inconclusive", "unsure"
    )
    defaults: dict[str, Option] = Field(
        default_factory=dict,
        description="options of `roofline estimate` that every check shares unless it gives its own",
    )
    checks: dict[Name, CheckSpec] = Field(description="name -> check", min_length=1)

    @model_validator(mode="before")
    @classmethod
    def _not_empty(cls, data: object) -> object:
        if isinstance(data, dict) and data.get("checks") is None:
            raise ValueError("no checks; add `checks:` with at least one named check")
        return data


FLEET = "fleet."  # quantities of a whole fleet
FROM = "from"  # a check's launch: a script, a config or a command, in place of options

FILES = {"model": "models", "hw": "hardware"}
LARGEST_MATRIX = 10_000


@dataclass(frozen=True)
class CheckCase:
    """One estimate and its requirements."""

    name: str
    options: Options
    requirements: tuple[Requirement, ...]
    bound: str
    where: str
    description: str
    lines: dict[str, str]
    simulate: tuple[tuple[str, object], ...] = ()
    measured: tuple[Path, ...] = ()
    fleet: Path | None = None

    @property
    def line(self) -> int:
        return int(self.where.rpartition(":")[2])

    @property
    def file(self) -> str:
        return self.where.rpartition(":")[0]


def load(path: Path, bound: str | None = None) -> tuple[list[CheckCase], CheckFile]:
    """Every case of a plan file, and the file. Raises DataError with file:line."""
    document = read(path)
    if ("extends",) in document.lines:
        why = "a plan cannot extend another; share options with `defaults`, or give several files"
        raise DataError(f"{document.location('extends')}: {why}")
    plan = validate(CheckFile, document)
    defaults = as_options(plan.defaults, document, ("defaults",))
    readers = [_CheckReader(name, check, plan, document, bound) for name, check in plan.checks.items()]
    cases = [
        case for reader in readers for case in (reader.of_fleet() if reader.check.fleet else reader.cases(defaults))
    ]
    return cases, plan


class _CheckReader:
    """One check of a plan file, read into cases. Methods raise DataError with file:line."""

    def __init__(self, name: str, check: CheckSpec, plan: CheckFile, document: Document, bound: str | None) -> None:
        self.name, self.check, self.plan, self.document, self.bound = name, check, plan, document, bound
        self.key: tuple[str, ...] = ("checks", name)
        self.folder = document.path.parent
        self.own = {k: v for k, v in check.options.items() if k != FROM}
        self.requirements = tuple(self._requirements())

    def cases(self, defaults: Options) -> Iterator[CheckCase]:
        """A case for every combination of the matrix."""
        own = as_options(self.own, self.document, self.key)
        if "bound" in own:  # a former name next to today's
            raise self._error("hold", "the same option as bound; keep one")
        own = self._launched(defaults) | own
        axes = as_options(self.check.matrix, self.document, (*self.key, "matrix"))
        groups: tuple[tuple[KeyPath, Options], ...] = (
            (("defaults",), self.plan.defaults),
            (self.key, self.own),
            ((*self.key, "matrix"), self.check.matrix),
        )
        lines = {find(k).name: self.document.location(*at, k) for at, group in groups for k in group if k != FROM}
        for option in axes:
            if option in own:
                raise DataError(
                    f"{lines[option]}: {option}: given twice, once as an option and once in the matrix; keep one"
                )
        if prod(map(len, axes.values())) > LARGEST_MATRIX:
            raise self._error("matrix", f"more than {LARGEST_MATRIX} combinations; split it or drop values")
        # The load of `simulate:`, with the path of a trace relative to the plan
        load = dict(self.check.simulate)
        trace = load.get("trace")
        if isinstance(trace, str) and (self.folder / trace).is_file():
            load["trace"] = str(self.folder / trace)
        simulate, measured = tuple(load.items()), self._measured()
        for values in product(*axes.values()):
            point = dict(zip(axes, values, strict=True))
            options = self._complete({**defaults, **own, **point})
            named = options["phase"] if isinstance(options["phase"], list) else options["phase"].split(",")
            kinds = {"", *kinds_of_work([phase.strip() for phase in named])}  # one that does not exist is refused later
            kept = own.keys() | point.keys() | {k for k in options if OPTIONS[k].phase in kinds}
            options = {k: v for k, v in options.items() if k in kept}
            # the bound is an option too, by which the layout is chosen; pessimistic is its default
            written = self.bound or options.pop("bound", self.check.bound or self.plan.bound)
            options.pop("bound", None)
            bound = str(build_request.value(OPTIONS["bound"], written))
            label = ", ".join(f"{k}={v}" for k, v in point.items())
            yield CheckCase(
                f"{self.name}[{label}]" if label else self.name,
                options | ({"bound": bound} if bound != BOUNDS[0] else {}),
                self.requirements,
                bound,
                self.document.location(*self.key),
                self.check.description,
                lines,
                simulate,
                measured,
            )

    def of_fleet(self) -> list[CheckCase]:
        """The case of a whole fleet."""
        path = self.folder / str(self.check.fleet)
        if not path.is_file():
            reason = f"{path}: {files.missing_reason(path)}; give the file of a fleet, relative to the plan"
            raise self._error("fleet", reason)
        for other in (*self.check.options, *(f for f in ("matrix", "simulate", "measured") if getattr(self.check, f))):
            raise self._error(other, f"not allowed in a fleet check; set it in {self.check.fleet}")
        for one in self.requirements:
            if not one.quantity.startswith(FLEET):
                raise DataError(
                    f"{one.where}: {one.quantity}: not a fleet quantity; use for example fleet.growth: '>= 1.2'"
                )
        where, bound = self.document.location(*self.key), self.bound or self.check.bound or self.plan.bound
        options = {"fleet": str(self.check.fleet)}
        return [CheckCase(self.name, options, self.requirements, bound, where, self.check.description, {}, fleet=path)]

    def _error(self, field: str, reason: str) -> DataError:
        return DataError(f"{self.document.location(*self.key, field)}: {field}: {reason}")

    def _requirements(self) -> Iterator[Requirement]:
        for quantity, written in self.check.require.items():
            at: KeyPath = (*self.key, "require", quantity)
            limits = (
                [(one, (*at, i)) for i, one in enumerate(written)] if isinstance(written, list) else [(written, at)]
            )
            for one, place in limits:
                yield requirement(quantity.removeprefix("phases."), one, self.document.location(*place))

    def _measured(self) -> tuple[Path, ...]:
        """The measured files."""
        written = [] if self.check.measured is None else self.check.measured
        paths = tuple(self.folder / str(name) for name in (written if isinstance(written, list) else [written]))
        for path in paths:
            if not path.is_file():
                reason = f"{path}: {files.missing_reason(path)}; give benchmark results or a training log, relative to the plan"
                raise self._error("measured", reason)
        if paths and not any(r.quantity.startswith("measured.") for r in self.requirements):
            raise self._error("measured", "has no requirement; add one, for example measured.gap: '<= 20%'")
        return paths

    def _launched(self, defaults: Options) -> Options:
        """Options of the launch that `from` names, a file relative to the plan or a command."""
        written = self.check.options.get(FROM)
        if written is None:
            return {}
        from rooflinecli.importers.launch import read

        script = self.folder / str(written)
        launch = str(script) if files.is_existing_file(script, "#") else str(written)
        given = {k: v for k, v in {**defaults, **self.own}.items() if k not in self.check.matrix}
        given |= {name: values[0] for name, values in self.check.matrix.items()}
        try:
            options = read.options(launch, given, build_request.warn)
        except (UsageError, DataError) as error:
            raise self._error(FROM, str(error)) from None
        taken = {find(name).name for name in (*given, *self.check.matrix)}
        return {k: v for k, v in options.items() if k not in taken}

    def _complete(self, options: Options) -> Options:
        """The options with paths relative to the plan; without phases, those of the requirements, else training by its options, else serving."""
        for option, kind in FILES.items():
            if isinstance(options.get(option), str):
                options[option] = path_of(kind, options[option], self.folder)
        if "phase" not in options:
            named = {phase_of(r.quantity) for r in self.requirements} - {""}
            if not named:
                named = {"train"} if build_request.implied(options) == "train" else {"decode"}
            serving = ["prefill", "decode"] if named - {"train"} else []
            options["phase"] = [*serving, *(["train"] if "train" in named else [])]
        return options
