"""The questions as tools of the Model Context Protocol: names, descriptions and schemas, from the table of options."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from rooflinecli.core.errors import RooflineError, UsageError
from rooflinecli.interfaces import dispatch
from rooflinecli.questions.check.schema import option_schema
from rooflinecli.questions.estimate.schema import generate
from rooflinecli.specs.options import NOT_SIMULATED, OPTIONS, find

Question = Callable[[dict[str, Any]], dict[str, Any]]
_TEXT = {"type": "string"}
QUESTIONS: dict[str, Question] = {
    "estimate": dispatch.estimate, "explain": dispatch.explain, "check": dispatch.check, "search": dispatch.search,
    "compare": dispatch.compare, "fleet": dispatch.fleet, "simulate": dispatch.simulate, "calibrate": dispatch.calibrate,
}  # fmt: skip
_OWN: dict[str, dict[str, Any]] = {
    "estimate": {"from": {**_TEXT, "description": "a launch command, script or config to read options from"}},
    "explain": {
        "quantity": {**_TEXT, "description": "dotted path of the estimate's JSON, such as decode.time_s"},
        "depth": {"type": "integer", "minimum": 0, "maximum": 12, "description": "levels of the explanation (3)"},
    },
    "search": {
        "objective": {**_TEXT, "description": "throughput, latency, cost, energy, devices, or any quantity"},
        "where": {"type": "array", "items": _TEXT, "description": "conditions such as 'train.mfu >= 0.4'"},
        "ttft": {**_TEXT, "description": "serving: time to first token at most, e.g. '300 ms'"},
        "itl": {**_TEXT, "description": "serving: inter-token latency at most, e.g. '40 ms'"},
        "slo": {**_TEXT, "description": "serving: both in one, e.g. ttft=1s,itl=40ms"},
        "qps": {**_TEXT, "description": "serving: requests per second to carry"},
        "top": {"type": "integer", "minimum": 1, "maximum": 50, "description": "layouts to show (5)"},
    },
    "compare": {
        "hw": {**_TEXT, "description": "two chips or more, comma-separated"},
        "at": {"enum": ["same-devices", "same-cost", "same-memory"], "description": "what is held equal"},
        "rank": {**_TEXT, "description": "the quantity to rank by (the time of the phase, else decode.time_s)"},
    },
    "simulate": {
        "qps": {**_TEXT, "description": "open loop: requests per second over all replicas"},
        "concurrency": {"type": "integer", "minimum": 1, "description": "closed loop: requests in flight per replica"},
        "trace": {**_TEXT, "description": "path of a recorded load"},
        "arrivals": {**_TEXT, "description": "poisson, gamma:CV or constant"},
        "prompt": {**_TEXT, "description": "tokens, or a distribution such as lognormal:2048,0.6"},
        "output": {**_TEXT, "description": "tokens, or a distribution"},
        "requests": {"type": "integer", "minimum": 1, "description": "how many requests"},
        "warmup": {**_TEXT, "description": "leave requests that come earlier out of every number, e.g. 30s"},
        "lose": {**_TEXT, "description": "replicas that stop, and for how long: 1@2min:10min"},
        "slo": {
            **_TEXT,
            "description": "limits with their share, e.g. ttft=2s,itl=50ms@99; several, and by class: ttft=1s@50,batch:e2e=10min@95",
        },
        "replicas": {"type": "integer", "minimum": 1, "description": "replicas of the plan (1)"},
        "router": {**_TEXT, "description": "round-robin, least-loaded or prefix"},
        "seed": {"type": "integer", "minimum": 0, "description": "of arrivals and lengths"},
    },
    "calibrate": {
        "files": {
            "type": ["string", "array"],
            "items": _TEXT,
            "description": "paths of logs and of benchmarks' results on this machine",
        },
        "hold-out": {
            "type": "number",
            "minimum": 0,
            "maximum": 0.9,
            "description": "share of the rows that the fit does not see (0.3)",
        },
    },
    "fleet": {
        "file": {**_TEXT, "description": "a fleet's file (fleet:, models:): its path, or its YAML"},
        "hold": {"enum": ["floor", "expected", "pessimistic"], "description": "which end is held to rates and limits"},
        "objective": {"enum": ["cost", "devices"], "description": "what there shall be least of"},
        "split": {"type": "boolean", "description": "a model may run on several groups wherever that is less"},
    },
    "check": {
        "plan": {**_TEXT, "description": "a plan file of named checks: its path, or its YAML"},
        "hold": {"enum": ["floor", "expected", "pessimistic"], "description": "which end is held to the limits"},
    },
}
_NEEDS = {
    "estimate": [],
    "explain": ["model", "hw", "quantity"],
    "search": ["model", "hw"],
    "compare": ["model", "hw"],
    "simulate": ["model", "hw"],
    "check": ["plan"],
    "fleet": ["file"],
    "calibrate": ["files", "hw"],
}


def schema(tool: str) -> dict[str, Any]:
    """JSON Schema of a tool's arguments: the options of an estimate under their long names, and its own."""
    without = OPTIONS if tool in ("check", "fleet") else NOT_SIMULATED if tool == "simulate" else ()
    options = {name: option_schema(option) for name, option in OPTIONS.items() if name not in without}
    if tool == "search":  # several values, as ranges and lists
        options = {
            name: {**about, "type": ["string", "number", "boolean"]} if "type" in about else about
            for name, about in options.items()
        }
    return {
        "type": "object",
        "properties": options | _OWN[tool],
        "required": _NEEDS[tool],
        "additionalProperties": False,
    }


def output_schema(tool: str) -> dict[str, Any]:
    """JSON Schema of what a tool answers: for an estimate the whole contract, for the others an object."""
    answer: dict[str, Any] = {"type": "object"}
    definitions: dict[str, Any] = {}
    if tool == "estimate":
        contract = generate()
        definitions = contract.pop("$defs", {})
        answer = {key: value for key, value in contract.items() if key != "$schema"}
    properties = {
        "answer": answer,
        "remarks": {"type": "array", "items": _TEXT, "description": "what the command line says on standard error"},
        "sources": {"type": "object", "description": "where the figures come from, to be cited"},
    }
    return {"type": "object", "properties": properties, "required": list(properties)} | (
        {"$defs": definitions} if definitions else {}
    )


def describe(tool: str) -> str:
    """What a tool answers, for whoever chooses one."""
    return " ".join((QUESTIONS[tool].__doc__ or "").split())


def _spelled(given: dict[str, Any], properties: set[str]) -> dict[str, Any]:
    """The arguments by their names in the schema; an option may have any of the names that Python takes. Raises UsageError for others."""
    found: dict[str, Any] = {}
    for written, value in given.items():
        dashed = written.replace("_", "-")
        name = dashed if dashed in properties else _option(dashed)
        if name not in properties:
            raise UsageError(f"unknown argument {written[:60]}; the tool's schema lists those there are")
        if name in found:
            raise UsageError(f"{name} is given twice; keep one", name)
        found[name] = value
    return found


def _option(written: str) -> str:
    try:
        return find(written).name
    except UsageError:
        return ""


def call(tool: str, arguments: dict[str, Any] | None) -> tuple[dict[str, Any] | None, str]:
    """(structured answer, its text); the answer is None where the text is an error, one sentence with its remedy."""
    if tool not in QUESTIONS:
        return None, f"unknown tool '{tool}'; known: {', '.join(QUESTIONS)}"
    try:
        found = dispatch.asked(QUESTIONS[tool], _spelled(arguments or {}, set(schema(tool)["properties"])))
    except RooflineError as error:
        return None, str(error)
    except (ArithmeticError, ValueError, TypeError, MemoryError) as error:
        return None, f"these values cannot be calculated with ({error}); give sizes that a machine could have"
    return found, json.dumps(found, ensure_ascii=False)
