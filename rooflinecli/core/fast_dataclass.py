"""`dataclass` as the standard library's, for a tenth of its price: a start defines some eighty classes before it answers.

The standard decorator writes and compiles up to six methods for each class. Here only `__init__` is written, for the first object; what a
class says of itself, compares by and refuses is the same for all. What is taken: frozen, eq, repr, slots and kw_only; fields by
`dataclasses.field`, and `replace`, `fields` and `asdict` as usual. Type checkers see the standard decorator.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from inspect import get_annotations
from operator import attrgetter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(kind=None, /, *, frozen=False, eq=True, repr=True, slots=False, kw_only=False):
        """A class whose annotated names are its fields."""
        if kind is None:
            return lambda kind: _made(kind, frozen, eq, repr, slots, kw_only)
        return _made(kind, frozen, eq, repr, slots, kw_only)


__all__ = ["dataclass", "declared_fields"]
_FIELD: object = getattr(dataclasses, "_FIELD")  # noqa: B009 - what marks a field as none of a class or of __init__ alone
_MISSING = dataclasses.MISSING
Fields = dict[str, "dataclasses.Field[object]"]


class _Instance(Protocol):
    """An object of a class that was made here."""

    __dataclass_fields__: Fields
    _compared: Callable[[object], object]


def _made(kind: type, frozen: bool, eq: bool, repr: bool, slots: bool, kw_only: bool) -> type:
    inherited: Fields = {}
    for base in reversed(kind.__mro__[1:]):
        inherited |= base.__dict__.get("__dataclass_fields__", {})
    own = declared_fields(kind, kw_only)
    fields = inherited | own
    methods: dict[str, object] = {"__dataclass_fields__": fields, "_values": _values}
    methods["__dataclass_params__"] = SimpleNamespace(frozen=frozen)  # what a standard dataclass asks of its bases

    def init(self: object, /, *given: object, **named: object) -> None:
        made.__init__ = written = _init(fields.values(), frozen, hasattr(kind, "__post_init__"))  # type: ignore[misc]
        written(self, *given, **named)

    methods["__init__"] = init
    if repr:
        methods["__repr__"] = _repr
    if eq:
        compared = [name for name, one in fields.items() if one.compare]
        methods["_compared"] = staticmethod(attrgetter(*compared) if compared else _nothing)
        methods |= {"__eq__": _eq, "__hash__": _hash if frozen else None}
    if frozen:
        methods |= {"__setattr__": _refuse, "__delattr__": _refuse}
    if frozen and slots:
        methods |= {"__getstate__": _values, "__setstate__": _restore}
    written = {
        name: method for name, method in methods.items() if name not in kind.__dict__ or name.startswith("__dataclass")
    }
    made = kind
    if slots:
        rest = {name: value for name, value in kind.__dict__.items() if name not in (*own, "__dict__", "__weakref__")}
        made = type(kind)(kind.__name__, kind.__bases__, {**rest, **written, "__slots__": tuple(own)})
        return made
    for name, method in written.items():
        setattr(kind, name, method)
    return made


def declared_fields(kind: type, kw_only: bool) -> Fields:
    """The fields that a class itself declares; their defaults are left in it, as for any class."""
    found: Fields = {}
    for name, type_ in get_annotations(kind).items():
        if str(type_).startswith(("ClassVar", "typing.ClassVar")):
            continue
        given = kind.__dict__.get(name, _MISSING)
        one: dataclasses.Field[object] = (
            given if isinstance(given, dataclasses.Field) else dataclasses.field(default=given)
        )
        if type(one.default).__hash__ is None:
            raise ValueError(f"{kind.__name__}.{name}: a default that can change is shared by all; use default_factory")
        one.name, one.type, one._field_type = name, type_, _FIELD  # type: ignore[attr-defined]
        if one.kw_only is _MISSING:
            one.kw_only = kw_only
        found[name] = one
        if one is given and one.default is _MISSING:
            delattr(kind, name)
        elif one is given:
            setattr(kind, name, one.default)
    return found


def _init(fields: Iterable[dataclasses.Field[object]], frozen: bool, after: bool) -> Callable[..., None]:
    """`__init__`, the one method whose text differs from class to class.

    Attributes are set one by one as the standard one does: filling `__dict__` is quicker, but attributes read from it are slower.
    """
    given: dict[str, object] = {"_missing": _MISSING, "_set": object.__setattr__}
    arguments: dict[bool, list[str]] = {False: [], True: []}
    lines: list[str] = []
    for one in fields:
        name, value = one.name, one.name
        if one.default_factory is not _MISSING:
            given[f"_make_{name}"] = one.default_factory
            value = f"_make_{name}() if {name} is _missing else {name}" if one.init else f"_make_{name}()"
        elif one.default is not _MISSING:
            given[f"_of_{name}"] = one.default
        if one.init:
            default = f"=_of_{name}" if f"_of_{name}" in given else "=_missing" if f"_make_{name}" in given else ""
            arguments[one.kw_only is True].append(name + default)
        elif value == name:
            continue  # __post_init__ sets it
        lines.append(f"_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    named = ["*", *arguments[True]] if arguments[True] else []
    body = "\n ".join([*lines, *(["self.__post_init__()"] if after else [])] or ["pass"])
    exec(f"def __init__({', '.join(['self', *arguments[False], *named])}):\n {body}", given)
    return given["__init__"]  # type: ignore[return-value]


def _values(self: _Instance) -> tuple[object, ...]:
    return tuple([getattr(self, name) for name in self.__dataclass_fields__])


def _restore(self: _Instance, state: tuple[object, ...]) -> None:
    for name, value in zip(self.__dataclass_fields__, state, strict=True):
        object.__setattr__(self, name, value)


def _repr(self: _Instance) -> str:
    shown = (f"{name}={getattr(self, name)!r}" for name, one in self.__dataclass_fields__.items() if one.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _eq(self: _Instance, other: _Instance) -> bool:
    return self._compared(self) == self._compared(other) if type(other) is type(self) else NotImplemented


def _hash(self: _Instance) -> int:
    return hash(self._compared(self))


def _nothing(self: _Instance) -> tuple[()]:
    return ()


def _refuse(self: _Instance, name: str, *value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot change {name} of a {type(self).__name__}; make another with replace")
