"""Base of everything read from YAML, and hardware figures: value with unit, source, basis.

A spec is a plain class: what an estimate needs of it costs no validator. `specs.validation` checks data by the annotations,
with pydantic, which is imported only where a file is checked.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Annotated, Any, ClassVar, Self

from rooflinecli.core import units
from rooflinecli.core.fast_dataclass import declared_fields
from rooflinecli.core.record import Json
from rooflinecli.core.text import one_line
from rooflinecli.specs.document import Document
from rooflinecli.specs.registry import canonical, kinds

REQUIRED: Any = dataclasses.MISSING  # default of an entry that must be given


def Field(default: Any = REQUIRED, description: str = "", **checks: Any) -> Any:
    """An entry of a spec: its default, or the class that makes one for each, and what pydantic's `Field` takes (gt, ge, le, pattern, ...)."""
    made = {"default_factory" if isinstance(default, type) and default is not REQUIRED else "default": default}
    return dataclasses.field(**made, metadata=checks | ({"description": description} if description else {}))


class Through:
    """Annotates an entry whose value passes through a function once its type is checked, or `before` that."""

    def __init__(self, read: Callable[[Any], object], *, before: bool = False):
        self.read, self.before = read, before

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], Any]) -> Any:
        from pydantic_core import core_schema as to

        make = to.no_info_before_validator_function if self.before else to.no_info_after_validator_function
        return make(self.read, handler(source))


class OneOf(Through):
    """Annotates an entry whose values are the names of the files in a folder."""

    def __init__(self, folder: str):
        super().__init__(self.known)
        self.folder = folder

    def known(self, kind: str) -> str:
        kind = canonical(self.folder, kind)
        if kind not in kinds(self.folder):
            raise ValueError(f"unknown kind '{kind}'; expected one of {', '.join(kinds(self.folder))}")
        return kind

    def __get_pydantic_json_schema__(self, schema: Json, handler: object) -> Json:
        return {"type": "string", "enum": list(kinds(self.folder))}


class WithUnit(Through):
    """Annotates a number that may be written as text with its unit; a bare number is in `unit` as it is."""

    def __init__(self, unit: str):
        super().__init__(lambda value: units.parse(value, unit) if isinstance(value, str) else value, before=True)


class Limit:
    """Annotates a number by a bound: `gt`, `ge`, `lt` or `le`."""

    def __init__(self, **bound: float):
        self.bound = bound

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], Any]) -> Any:
        return {**handler(source), **self.bound}


OneLine = Annotated[str, Through(one_line)]  # a name: it stands in headings and tables
Whole = Annotated[int, Limit(gt=0)]
Time = Annotated[float, Limit(ge=0), WithUnit("s")]
Scalar = Annotated[float, WithUnit("1")]


class Spec:
    """Base of everything read from YAML: unknown fields are errors, never silently ignored.

    An object has the entries that were written, and those that are made for each; other defaults are read from the class.
    """

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]] = {}
    __pydantic_config__: ClassVar[Json] = {"extra": "forbid"}
    KINDS: ClassVar[dict[str, type[Spec]]] = {}  # all by name
    DERIVED: ClassVar[tuple[str, ...]] = ()  # what else a snapshot keeps: it follows from the text of the file

    def __init_subclass__(cls) -> None:
        Spec.KINDS[cls.__name__] = cls
        own = declared_fields(cls, kw_only=True).items()
        cls.__dataclass_fields__ = cls.__dataclass_fields__ | {name: one for name, one in own if name[0] != "_"}

    def __init__(self, **written: Any):
        unknown = written.keys() - self.__dataclass_fields__.keys()
        if unknown:
            raise TypeError(f"{type(self).__name__} has no {', '.join(sorted(unknown))}")
        for name, one in self.__dataclass_fields__.items():
            if name not in written and one.default_factory is not dataclasses.MISSING:
                written[name] = one.default_factory()
            elif name not in written and one.default is dataclasses.MISSING:
                raise TypeError(f"{type(self).__name__} needs {name}")
        self.__dict__.update(written)
        self.__post_init__()

    def __post_init__(self) -> None:
        """Check entries against one another. Raises ValueError."""

    @classmethod
    def complete(cls, data: Json) -> Json:
        """The entries as written, with those that follow from others. Raises ValueError."""
        return data

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Callable[[Any], Any]) -> Any:
        from pydantic_core.core_schema import no_info_wrap_validator_function

        schema = handler(source)
        ref = schema.pop("ref", None)  # what refers to the class, itself included, refers to the whole
        return no_info_wrap_validator_function(cls._validated, schema, ref=ref)

    @classmethod
    def _validated(cls, data: object, validate: Callable[[object], Self]) -> Self:
        """The spec with what was written: pydantic sets every entry."""
        if not isinstance(data, dict):
            return validate(data)
        data = cls.complete(data)
        made = validate(data)
        for name, one in cls.__dataclass_fields__.items():
            if name not in data and one.default_factory is dataclasses.MISSING:
                made.__dict__.pop(name, None)
        return made

    @property
    def given(self) -> Json:
        """The entries that were written, or made for this object, in the order of the class."""
        return {name: self.__dict__[name] for name in self.__dataclass_fields__ if name in self.__dict__}

    def items(self) -> Iterator[tuple[str, Any]]:
        return ((name, getattr(self, name)) for name in self.__dataclass_fields__)

    def to_dict(self, keep: Callable[[dataclasses.Field[Any], object], bool] = lambda field, value: True) -> Json:
        """The entries as plain data, those of the specs inside too, where `keep` says so of an entry and its value."""
        fields = self.__dataclass_fields__
        return {name: _plain(value, keep) for name, value in self.items() if keep(fields[name], value)}

    def with_changes(self, **changes: object) -> Self:
        """A copy with some entries replaced, and with nothing that was worked out of the others."""
        other = object.__new__(type(self))
        kept = ((k, v) for k, v in self.__dict__.items() if k in self.__dataclass_fields__ or k[0] == "_")
        other.__dict__.update(kept, **changes)
        return other

    def __setattr__(self, name: str, value: object) -> None:
        if name[0] != "_":
            raise dataclasses.FrozenInstanceError(f"cannot change {name} of a {type(self).__name__}; use with_changes")
        object.__setattr__(self, name, value)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and list(self.items()) == list(other.items())

    def __hash__(self) -> int:
        return hash(tuple(self.items()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.given.items())})"


def _plain(value: Any, keep: Callable[[dataclasses.Field[Any], object], bool]) -> Any:
    if isinstance(value, Spec):
        return value.to_dict(keep)
    if isinstance(value, dict):
        return {key: _plain(item, keep) for key, item in value.items()}
    return type(value)(_plain(item, keep) for item in value) if isinstance(value, (list, tuple)) else value


def differs(field: dataclasses.Field[Any], value: object) -> bool:
    """Whether an entry has another value than its default."""
    made = field.default_factory
    return value != (field.default if made is dataclasses.MISSING else made())


class FileSpec(Spec):
    """A spec that is a whole file, whose lines can be cited."""

    _document: Document

    @property
    def document(self) -> Document:
        return self._document

    def locate(self, document: Document) -> None:
        """Say where it was written."""
        self._document = document


class Figure(Spec):
    """One number about a chip. `value` is written with its unit; `source` names a key of the file's `sources` or cites one."""

    DERIVED: ClassVar[tuple[str, ...]] = ("_si",)
    dimension: ClassVar[str] = "1"
    value: str | float
    source: str
    basis: str = ""
    note: str = ""
    verified: bool = True

    def __post_init__(self) -> None:
        self._si = units.parse(self.value, self.dimension)
        if self._si < 0:
            raise ValueError(f"{self.value!r} is negative; expected a {self.dimension} figure above zero")
        if not self.source.strip():
            raise ValueError("a figure without a source; cite where the value comes from")

    @property
    def si(self) -> float:
        return self._si


class FlopRate(Figure):
    dimension: ClassVar[str] = "FLOP/s"


class Bytes(Figure):
    dimension: ClassVar[str] = "B"


class ByteRate(Figure):
    dimension: ClassVar[str] = "B/s"


class Seconds(Figure):
    dimension: ClassVar[str] = "s"


class Hertz(Figure):
    dimension: ClassVar[str] = "Hz"


class Watts(Figure):
    dimension: ClassVar[str] = "W"


class Count(Figure):
    dimension: ClassVar[str] = "1"


class Price(Figure):
    dimension: ClassVar[str] = "USD/h"
    provider: str = ""
    date: str = ""
