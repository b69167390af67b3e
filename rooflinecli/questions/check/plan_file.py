"""A capacity plan as a file: named checks, the options they share, and what each quantity must keep to.

The options of a check are those of `roofline estimate` by their long names; which exist is known one floor up, where
they are read, so here they are whatever a check carries beyond its own fields.
"""

import math
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from rooflinecli.core.errors import DataError
from rooflinecli.importers.source import Options
from rooflinecli.specs.figure import Spec, validate
from rooflinecli.specs.yaml_loader import Document, read


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
Limit = Annotated[Scalar | list[Scalar], BeforeValidator(_listed)]


class CheckSpec(BaseModel):
    """One named check. Everything except these fields is an option of `roofline estimate` by its long name."""

    model_config = ConfigDict(extra="allow", frozen=True, protected_namespaces=())
    __pydantic_extra__: dict[str, Option]

    description: Prose = Field("", description="what the plan promises and to whom; shown in reports")
    hold: Bound | None = Field(None, description="which bound of the interval limits apply to, instead of the file's")
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
    require: dict[Name, Limit] = Field(
        description='quantity of the estimate\'s JSON -> comparison with unit, such as decode.time_s: "<= 40 ms"',
        min_length=1,
    )

    @property
    def options(self) -> Options:
        return dict(self.__pydantic_extra__ or {})


class CheckFile(Spec):
    """A plan file."""

    hold: Bound = Field("pessimistic", description="which bound of the interval limits apply to")
    unsure: Literal["fail", "warn"] = Field("fail", description="what a limit inside the interval amounts to")
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


def load_checks(path: Path) -> tuple[CheckFile, Document]:
    """The plan in a file, and where each of its lines was written. Raises DataError with file:line."""
    document = read(path)
    if ("extends",) in document.lines:
        raise DataError(
            f"{document.location('extends')}: a plan cannot extend another; share options with `defaults`, or give several files"
        )
    return validate(CheckFile, document), document
