"""JSON Schema for the two kinds of YAML, from the specs, so that an editor completes and checks a file.

`python docs/generate.py` rewrites docs/schema/; a test compares the checked-in files with what this makes.
"""

from __future__ import annotations

import json
import re
from typing import Any

from rooflinecli.core import units
from rooflinecli.core.errors import unknown
from rooflinecli.specs.figure import Figure
from rooflinecli.specs.hardware import HardwareSpec
from rooflinecli.specs.model import ModelSpec
from rooflinecli.specs.validation import adapter

JsonSchema = dict[str, Any]  # keywords of JSON Schema by name
KINDS = ("hardware", "model")
_SAID = ("symbol", "shaped", "structural", "most")  # what a constant says to the program, not to an editor
_PARTIAL = ("Memory", "Units")  # an overlay with `extends` may give only some of their fields


def generate(kind: str) -> JsonSchema:
    """The schema of hardware/*.yaml or models/*.yaml as plain data. Raises UsageError for another kind."""
    if kind not in KINDS:
        raise unknown("kind of file", kind, KINDS)
    schema: JsonSchema = adapter(HardwareSpec if kind == "hardware" else ModelSpec).json_schema()
    if "$ref" in schema:  # a spec that contains itself is written as a reference to its definition
        itself = schema.pop("$ref").rpartition("/")[2]
        schema = {**schema, **schema["$defs"][itself]}
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
    if kind == "model":
        _shorthand(schema)
    defs = schema.get("$defs", {})
    for figure in Figure.__subclasses__():
        if figure.dimension != "1" and figure.__name__ in defs:
            value = {"type": "string", "pattern": _written(figure.dimension)}
            shown = {**value, "description": f"a number with its unit, in {figure.dimension}"}
            defs[figure.__name__]["properties"]["value"] = shown
    constants = defs.get("Efficiency", {}).get("properties", {})
    constants.get("p", {}).pop("default", None)  # infinity, which JSON cannot write
    for field in constants.values():
        unit = field.pop("unit", None)
        if unit is not None:
            limits = {k: field.pop(k) for k in list(field) if k not in ("title", "description", "default", *_SAID)}
            field["anyOf"] = [limits, {"type": "string", "pattern": _written(unit)}]
        for key in _SAID:
            field.pop(key, None)
    _overlay(schema)
    return schema


def text(kind: str) -> str:
    return json.dumps(generate(kind), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _written(dimension: str) -> str:
    """The pattern of a number with a unit of this dimension."""
    names = "|".join(sorted(map(re.escape, units.UNITS[dimension]), key=len, reverse=True))
    return rf"^\s*[0-9][0-9_,.]*(e[-+]?[0-9]+)?\s*({names})\s*$"


def _shorthand(schema: JsonSchema) -> None:
    """Add the shorthands of model files: blocks at the top, a number of layers, patterns."""
    defs = schema["$defs"]
    layer = {"$ref": "#/$defs/LayerSpec"}
    for name in ("AttentionSpec", "FeedForwardSpec", "LayerSpec"):
        defs[name].pop("required", None)  # a group gives only what differs from the blocks at the top
    defs["LayerSpec"]["properties"]["pattern"] = {
        "type": "array",
        "items": layer,
        "description": "layers that follow one another, `repeat` times",
    }
    blocks = {
        key: defs["LayerSpec"]["properties"][key]
        for key in ("attention", "feedforward", "cross", "pieces", "parallel", "norms")
    }
    layers = {
        "anyOf": [{"type": "integer", "exclusiveMinimum": 0}, {"type": "array", "items": layer, "minItems": 1}],
        "description": "a number of equal layers, or groups that override the blocks at the top",
    }
    for spec in (schema, defs.get("ModelSpec", {"properties": {}})):
        spec["properties"] = {**spec["properties"], **blocks, "layers": layers}


def _overlay(schema: JsonSchema) -> None:
    """`extends` names a base file; with it nothing else is required."""
    what = {"type": "string", "description": "a file this one overlays: mappings merge, everything else is replaced"}
    schema["properties"] = {"extends": what, **schema["properties"]}
    whole: JsonSchema = {"required": schema.pop("required", [])}
    for field, value in schema["properties"].items():
        for name in _PARTIAL:
            if f"#/$defs/{name}" in json.dumps(value) and "required" in schema["$defs"].get(name, {}):
                needed = schema["$defs"][name].pop("required")
                whole.setdefault("properties", {})[field] = {"anyOf": [{"required": needed}, {"type": "null"}]}
    schema["if"], schema["else"] = {"required": ["extends"]}, whole
