"""Data -> specs, checked by pydantic; its complaints become one sentence with file:line. Imported only where a file is checked."""

from __future__ import annotations

import re
from functools import cache
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from rooflinecli.core.errors import DataError
from rooflinecli.specs.document import Document
from rooflinecli.specs.figure import FileSpec

T = TypeVar("T")
adapter: Any = cache(TypeAdapter)  # of a class


def validated(kind: type[T], data: object) -> T:
    """The spec of data in memory. Raises ValidationError."""
    found: T = adapter(kind).validate_python(data)
    return found


def validate(kind: type[T], document: Document) -> T:
    """The spec, or a DataError that says file:line, the field and what was expected."""
    try:
        spec = validated(kind, document.data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        path = tuple(p for p in first["loc"] if not (isinstance(p, str) and (p.startswith("function-") or "[" in p)))
        field = ".".join(str(p) for p in path) or "the file"
        message = validation_message(first["type"], first["msg"])
        if first["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
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
        spec.locate(document)
    return spec


_COUNTED = re.compile(r"\w+ should have at (least|most) (\d+ \w+)( after validation)?, not \d+")
_EXPECTED = {  # what pydantic calls a kind of mistake, and what was expected, in our words
    "dict_type": "expected names with values",
    "model_type": "expected names with values",
    "model_attributes_type": "expected names with values",
    "dataclass_type": "expected names with values",
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
