"""A hardware figure: value with unit, source, basis; and how pydantic's complaints become one sentence with file:line."""

import re
from typing import Annotated, ClassVar, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    GetCoreSchemaHandler,
    PrivateAttr,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic_core.core_schema import CoreSchema, no_info_before_validator_function

from rooflinecli.core import units
from rooflinecli.core.errors import DataError
from rooflinecli.core.text import one_line
from rooflinecli.specs.registry import canonical, kinds
from rooflinecli.specs.yaml_loader import Document


def one_of(folder: str) -> tuple[AfterValidator, WithJsonSchema]:
    """Annotations of a field whose values are the names of the files in a folder."""

    def known(kind: str) -> str:
        kind = canonical(folder, kind)
        if kind not in kinds(folder):
            raise ValueError(f"unknown kind '{kind}'; expected one of {', '.join(kinds(folder))}")
        return kind

    return AfterValidator(known), WithJsonSchema({"type": "string", "enum": list(kinds(folder))})


OneLine = Annotated[str, AfterValidator(one_line)]  # a name: it stands in headings and tables


class Spec(BaseModel):
    """Base of everything read from YAML: unknown fields are errors, never silently ignored."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=(), defer_build=True)


class FileSpec(Spec):
    """A spec that is a whole file, whose lines can be cited."""

    _document: Document = PrivateAttr()

    @property
    def document(self) -> Document:
        return self._document


class Figure(Spec):
    """One number about a chip. `value` is written with its unit; `source` names a key of the file's `sources` or cites one."""

    dimension: ClassVar[str] = "1"
    value: str | float
    source: str
    basis: str = ""
    note: str = ""
    verified: bool = True
    _si: float = PrivateAttr()

    @model_validator(mode="after")
    def _parse(self) -> Self:
        self._si = units.parse(self.value, self.dimension)
        if self._si < 0:
            raise ValueError(f"{self.value!r} is negative; expected a {self.dimension} figure above zero")
        if not self.source.strip():
            raise ValueError("a figure without a source; cite where the value comes from")
        return self

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


class WithUnit:
    """Annotates a number that may be written as text with its unit; a bare number is in `unit` as it is."""

    def __init__(self, unit: str):
        self.unit = unit

    def read(self, value: object) -> object:
        return units.parse(value, self.unit) if isinstance(value, str) else value

    def __get_pydantic_core_schema__(self, source: type, handler: GetCoreSchemaHandler) -> CoreSchema:
        return no_info_before_validator_function(self.read, handler(source))  # BeforeValidator inspects each anew


Time = Annotated[float, WithUnit("s")]
Scalar = Annotated[float, WithUnit("1")]

M = TypeVar("M", bound=BaseModel)


def validate(kind: type[M], document: Document) -> M:
    """The spec, or a DataError that says file:line, the field and what was expected."""
    try:
        spec = kind.model_validate(document.data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        path = tuple(p for p in first["loc"] if not (isinstance(p, str) and (p.startswith("function-") or "[" in p)))
        field = ".".join(str(p) for p in path) or "the file"
        message = validation_message(first["type"], first["msg"])
        if first["type"] == "extra_forbidden":
            message = "no such field; `docs/schema` lists the fields, or remove it"
        elif first["type"] == "missing":
            message = "required, but missing; add it"
        elif first["type"] in ("int_type", "int_parsing", "int_from_float"):
            message = f"expected a whole number, got {first['input']!r}"
        elif not message.endswith((".", "'")) and first["type"] != "value_error":
            message = f"{message}, got {str(first['input'])[:60]!r}"
        more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
        raise DataError(f"{document.location(*path)}: {field}: {message}{more}") from None
    if isinstance(spec, FileSpec):
        spec._document = document
    return spec


_COUNTED = re.compile(r"\w+ should have at (least|most) (\d+ \w+)( after validation)?, not \d+")
_EXPECTED = {  # what pydantic calls a kind of mistake, and what was expected, in our words
    "dict_type": "expected names with values",
    "model_type": "expected names with values",
    "model_attributes_type": "expected names with values",
    "list_type": "expected a list",
    "tuple_type": "expected a list",
    "string_type": "expected text",
    "float_type": "expected a number",
    "float_parsing": "expected a number",
    "finite_number": "expected a finite number",
    "bool_type": "expected true or false",
    "bool_parsing": "expected true or false",
}


def validation_message(kind: str, message: str) -> str:
    """Return a validator's message in our words: `kind` and `message` as pydantic gives them."""
    plain = _EXPECTED.get(kind, message.removeprefix("Value error, "))
    return _COUNTED.sub(r"expected at \1 \2", plain).replace("Input should be", "expected")
