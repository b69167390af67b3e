"""JSON schemas that are generated: of an option, and of the answer of an estimate (docs/schema/estimate.json)."""

from __future__ import annotations

import types
from typing import Any, Union, get_args, get_origin, get_type_hints

from rooflinecli.core.record import Json, Record
from rooflinecli.engine.evaluate import ANSWERS
from rooflinecli.questions.estimate.answer_types import SCHEMA, EstimateAnswer
from rooflinecli.specs.options import KINDS, Option
from rooflinecli.specs.quantities import DERIVED, find

JsonSchema = Json  # keywords of JSON Schema by name
_NUMBER = {"type": "number"}
_PLAIN: dict[Any, JsonSchema] = {
    Any: _NUMBER,
    float: _NUMBER,
    int: {"type": "integer"},
    str: {"type": "string"},
    bool: {"type": "boolean"},
    type(None): {"type": "null"},
}


def option_schema(option: Option, help: str | None = None, several: bool = False) -> JsonSchema:
    """JSON Schema of one option's value; `several` where ranges and lists are read too."""
    about = {"description": help or option.help}
    if several:
        return {"type": ["string", "number", "boolean", "array"], **about}
    if option.kind == "switch":
        return {"type": "boolean", **about}
    if option.kind == "choice":
        return {"enum": list(option.choices), **about}
    if option.kind == "phases":
        phase = {"enum": list(option.choices)}
        return {"anyOf": [{"type": "string"}, {"type": "array", "minItems": 1, "items": phase}], **about}
    if option.several:
        return {"type": ["string", "array"], "items": {"type": "string"}, **about}
    return {
        "type": ["number", "string"] if KINDS[option.kind].unit or option.kind == "distribution" else "string",
        **about,
    }


def estimate_answer() -> JsonSchema:
    """Of the answer of an estimate, from its records and the table of quantities: docs/schema/estimate.json."""
    defs: JsonSchema = {}
    root = _record(EstimateAnswer, defs)
    root["properties"]["schema"] = {"const": SCHEMA}
    root["properties"]["phases"] = {
        "type": "object",
        "properties": {phase: _ref(kind, defs) for phase, kind in ANSWERS.items()},
        "additionalProperties": False,
        "minProperties": 1,
    }
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": SCHEMA, **root, "$defs": defs}


def _record(kind: type[Record], defs: JsonSchema) -> JsonSchema:
    """An object whose keys are the fields of a record; optional ones may be missing, a spread stands for further keys."""
    hints = get_type_hints(kind)
    properties: JsonSchema = {}
    required: list[str] = []
    open_ended = False
    for name, field in kind.__dataclass_fields__.items():
        if "hidden" in field.metadata:
            continue
        if "spread" in field.metadata:
            # computed from others, with their errors and the interval that these make
            for row in DERIVED if name == "derived" else ():
                properties |= {key: _described(key, _NUMBER) for key in (row.name, *row.errors)}
                if row.errors and not row.detail:
                    properties[f"{row.name}_interval"] = _type(tuple[Any, Any], defs)
            open_ended = open_ended or not name.startswith("derived")
            continue
        optional = "optional" in field.metadata
        properties[name] = _described(name, _type(hints[name], defs, optional))
        if "former" in field.metadata:  # the key of --schema 1
            properties[name] = {**properties[name], "x-former": field.metadata["former"][0]}
        required += [] if optional else [name]
    return {
        "type": "object",
        "description": " ".join((kind.__doc__ or "").split()),
        "properties": properties,
        "required": required,
        "additionalProperties": open_ended,
    }


def _described(name: str, schema: JsonSchema) -> JsonSchema:
    """A number with its label and unit, where the table of quantities knows it."""
    row = find(name)
    if row is None or "$ref" in schema:
        return schema
    return {**schema, "description": f"{row.label}, {row.unit}"}


def _type(hint: Any, defs: JsonSchema, optional: bool = False) -> JsonSchema:
    if hint in _PLAIN:
        return _PLAIN[hint]
    origin, inside = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        kinds = [_type(one, defs) for one in inside if not (optional and one is type(None))]
        return kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
    if origin is dict:
        return {"type": "object", "additionalProperties": _type(inside[1], defs)}
    if origin is tuple:
        return {
            "type": "array",
            "prefixItems": [_type(one, defs) for one in inside],
            "items": False,
            "minItems": len(inside),
        }
    if origin is list:
        return {"type": "array", "items": _type(inside[0], defs)}
    return _ref(hint, defs)


def _ref(kind: type[Record], defs: JsonSchema) -> JsonSchema:
    if kind.__name__ not in defs:
        defs[kind.__name__] = {}  # a record that holds itself ends here
        defs[kind.__name__] = _record(kind, defs)
    return {"$ref": f"#/$defs/{kind.__name__}"}
