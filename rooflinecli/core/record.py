"""Typed answers that are also the JSON contract: a dataclass whose fields are its keys, walked by dotted path.

A field marked OPTIONAL is a key only where it has a value; the keys of a SPREAD mapping or record are keys of the object itself; one that
`former` marks had another key until a version of its schema. A key that is a keyword of Python (`from`, `pass`) is the name
of its field without the underscore at the end.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, ClassVar, Self, dataclass_transform

from rooflinecli.core.fast_dataclass import dataclass

Json = dict[str, Any]  # an object of a JSON or YAML document
# nearly every value of an answer, and a class is found sooner than asked about
_BARE = frozenset((float, int, str, bool, type(None)))
MISSING: Any = object()  # what `at` finds where a path leads nowhere


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(dataclasses.field,))
class _Answer(type):
    """Makes each class a dataclass with slots whose fields are given by name."""

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> Any:
        made = super().__new__(mcs, name, bases, namespace)
        if "__slots__" in namespace:  # the base, or the second time, with slots
            return made
        return dataclass(slots=True, kw_only=True, eq=False, repr=False)(made)


class Record(metaclass=_Answer):
    """Base of answers, each a dataclass, with one shared __eq__ and __repr__: generating them per class slows start-up."""

    __slots__ = ()
    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and list(self.entries()) == list(other.entries())

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.entries())})"

    def entries(self, version: int | None = None) -> Iterator[tuple[str, Any]]:
        """The keys and values of the object, in the order of the contract; those of an earlier `version` of its schema where one is given."""
        for attribute, key, optional, spread, renamed in _layout(type(self), version):
            value = getattr(self, attribute)
            if renamed is not None:
                value = _with_former_keys(value, renamed)
            if spread:
                yield from value.entries(version) if isinstance(value, Record) else value.items()
            elif key == "schema" and version is not None:
                name, _, number = value.rpartition("/")
                yield key, f"{name}/{min(version, int(number))}"
            elif not optional or value is not None:
                yield key, value

    @classmethod
    def like(cls, source: object, /, **given: Any) -> Self:
        """A record of the fields given, and of those of the same name that `source` has."""
        shared = (name for name in cls.__dataclass_fields__ if name not in given and hasattr(source, name))
        return cls(**given, **{name: getattr(source, name) for name in shared})

    def __getitem__(self, key: str) -> Any:
        """The value of a key of the JSON object. Raises KeyError where there is none."""
        for name, value in self.entries():
            if name == key:
                return value
        raise KeyError(key)

    def __contains__(self, key: object) -> bool:
        return any(name == key for name, _ in self.entries())

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a key, or the default where there is none."""
        return next((value for name, value in self.entries() if name == key), default)

    def keys(self) -> list[str]:
        """The keys of the JSON object."""
        return [name for name, _ in self.entries()]

    def to_dict(self) -> dict[str, Any]:
        """The JSON contract as plain dicts and lists, numbers untouched."""
        return dict(plain(self))


OPTIONAL = {"optional": True}  # metadata of a field that is left out while it is None
HIDDEN = {"hidden": True}  # metadata of a field that is no key
SPREAD = {"spread": True}  # metadata of a mapping or record whose entries are keys of the object itself


def former(key: str, until: int = 1) -> dict[str, Any]:
    """Metadata of a field that was called `key` up to the version `until` of its schema."""
    return {"former": (key, until)}


def former_keys(until: int = 1, /, **keys: str) -> dict[str, Any]:
    """Metadata of a word, a mapping or a list of mappings: what some words or keys were up to the version `until` of its schema."""
    return {"former_keys": (keys, until)}


_BRITISH = former_keys(
    **{
        f"{name}utilization": f"{name}utilisation"
        for name in ("", "static_", "continuous_", "wave_", "output_tile_", "column_", "weight_tile_", "cycle_")
    }
)


class Quantities(Record):
    """An answer of quantities by name, the unit in the name; `of` leaves out those without a value."""

    schema: str
    values: dict[str, Any] = dataclasses.field(metadata=SPREAD | _BRITISH)

    def __getattr__(self, name: str) -> Any:
        if name == "values" or name not in self.values:
            raise AttributeError(f"no {name} in this answer")
        return self.values[name]

    @classmethod
    def of(cls, schema: str, /, **values: Any) -> Self:
        """The answer of a schema such as `serving-cost/2`."""
        return cls(schema=f"roofline/{schema}", values={k: v for k, v in values.items() if v is not None})


class ReportTable(Record):
    """A titled table of `validate` or `calibrate`: rows of column -> number or text, and remarks below them."""

    title: str
    rows: list[dict[str, float | str | None]] = dataclasses.field(
        metadata=former_keys(
            error_before="before", error_after="after", coverage_before="covered_before", coverage_after="covered"
        )
    )
    notes: list[str] | None = dataclasses.field(default=None, metadata=OPTIONAL)


def _with_former_keys(value: Any, keys: dict[str, str]) -> Any:
    if isinstance(value, str):
        return keys.get(value, value)
    if isinstance(value, dict):
        return {keys.get(name, name): item for name, item in value.items()}
    return [_with_former_keys(item, keys) for item in value] if isinstance(value, list) else value


@cache
def _layout(kind: type[Record], version: int | None) -> list[tuple[str, str, bool, bool, dict[str, str] | None]]:
    """Attribute, key, whether it is optional or a spread, and former keys of its value, of every field in a version of the schema."""

    def then(name: str, default: Any, metadata: Mapping[str, Any]) -> Any:
        value, until = metadata.get(name, (default, 0))
        return value if version is not None and version <= until else default

    return [
        (f.name, then("former", f.name.rstrip("_"), f.metadata), "optional" in f.metadata, "spread" in f.metadata,
         then("former_keys", None, f.metadata))
        for f in kind.__dataclass_fields__.values() if "hidden" not in f.metadata
    ]  # fmt: skip


def entries(value: object) -> Iterator[tuple[str, Any]] | None:
    """Keys and values of a record, a mapping or a sequence (whose keys are its places); None for anything else."""
    if isinstance(value, Record):
        return value.entries()
    if isinstance(value, dict):
        return iter(value.items())
    if isinstance(value, (list, tuple)):
        return ((str(i), item) for i, item in enumerate(value))
    return None


def plain(value: object, version: int | None = None) -> Any:
    """The object as dicts and lists, its numbers untouched: what is printed as JSON, in the keys of an earlier `version` where one is given."""
    if value.__class__ in _BARE:
        return value
    if isinstance(value, (list, tuple)):
        return [plain(item, version) for item in value]
    found = value.entries(version) if isinstance(value, Record) else entries(value)
    return value if found is None else {key: plain(item, version) for key, item in found}


def at(value: object, path: str) -> Any:
    """Return the value at a dotted path, MISSING where there is none."""
    for part in path.split("."):
        found = entries(value)
        value = next((item for key, item in found if key == part), MISSING) if found is not None else MISSING
    return value


def leaves(value: object, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """(dotted path, value) of everything that holds no further keys, None included."""
    found = entries(value)
    if found is None:
        yield prefix.removesuffix("."), value
        return
    for key, item in found:
        yield from leaves(item, f"{prefix}{key}.")
