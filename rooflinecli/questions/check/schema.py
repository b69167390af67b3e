"""docs/schema/check.json: the plan file's schema, from its pydantic spec and the table of options.

`python docs/generate.py` writes it.
"""

from __future__ import annotations

from collections.abc import Iterable

from rooflinecli.core.record import Json
from rooflinecli.questions.check.cases import FROM, CheckFile
from rooflinecli.questions.check.run import simulation_fields
from rooflinecli.specs.options import KINDS, OPTIONS, Option


def generate() -> Json:
    """The schema as plain data."""
    schema = CheckFile.model_json_schema()
    options = _schemas(OPTIONS.values())
    defs = schema["$defs"]
    check = defs["CheckSpec"]
    check["properties"] |= options | {
        FROM: {"type": "string", "description": "a launch script, config or command to read options from"}
    }
    check["additionalProperties"] = False
    check["properties"]["simulate"] |= {
        "properties": _schemas(simulation_fields(), former=True),
        "additionalProperties": False,
    }
    check["properties"]["matrix"] |= {
        "properties": {k: {"type": "array", "minItems": 1} for k in options},
        "additionalProperties": False,
    }
    check["properties"]["require"]["additionalProperties"] = {
        "anyOf": [_limit(), {"type": "array", "minItems": 1, "items": _limit()}]
    }
    schema["properties"]["defaults"] |= {"properties": options, "additionalProperties": False}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "roofline check plan"}


def _schemas(options: Iterable[Option], former: bool = False) -> Json:
    """Name of an option -> what it takes, under every spelling of today, with `former` those of earlier releases too."""
    names = {
        spelt: option
        for option in options
        for name in (option.long, *option.also, *(option.names if former else (option.name,)))
        for spelt in (name, name.replace("-", "_"))
    }
    return {name: option_schema(option) for name, option in sorted(names.items())}


def option_schema(option: Option, help: str | None = None, several: bool = False) -> Json:
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


def _limit() -> Json:
    """true, false, a word, or a comparison with its unit."""
    return {
        "anyOf": [{"type": "boolean"}, {"type": "string", "pattern": r"^\s*(<=|>=|==|=|<|>|≤|≥)\s*\S|^\s*[A-Za-z]"}]
    }
