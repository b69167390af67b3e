"""The JSON schema of a plan file, which `python docs/generate.py` writes as docs/schema/check.json."""

from __future__ import annotations

from collections.abc import Iterable

from rooflinecli.interfaces.schemas import JsonSchema, option_schema
from rooflinecli.questions.check.cases import FROM, CheckFile
from rooflinecli.questions.check.run import simulation_fields
from rooflinecli.specs.options import OPTIONS, Option


def plan_file() -> JsonSchema:
    """Of a plan file, from its pydantic spec and the table of options: docs/schema/check.json."""
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
    # a limit: true, false, a word, or a comparison with its unit
    kinds = [{"type": "boolean"}, {"type": "string", "pattern": r"^\s*(<=|>=|==|=|<|>|≤|≥)\s*\S|^\s*[A-Za-z]"}]
    limit: JsonSchema = {"anyOf": kinds}
    check["properties"]["require"]["additionalProperties"] = {
        "anyOf": [limit, {"type": "array", "minItems": 1, "items": limit}]
    }
    for node, old, name in ((schema, "hold", "bound"), (check, "hold", "bound"), (schema, "unsure", "on_inconclusive")):
        node["properties"][old] = {**node["properties"][name], "deprecated": True}
    schema["properties"]["defaults"] |= {"properties": options, "additionalProperties": False}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "roofline check plan"}


def _schemas(options: Iterable[Option], former: bool = False) -> JsonSchema:
    """Name of an option -> what it takes, under every spelling of today, with `former` those of earlier releases too."""
    names = {
        spelt: option
        for option in options
        for name in (option.long, *option.also, *(option.names if former else (option.name,)))
        for spelt in (name, name.replace("-", "_"))
    }
    return {name: option_schema(option) for name, option in sorted(names.items())}
