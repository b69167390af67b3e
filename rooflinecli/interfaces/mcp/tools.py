"""The questions as tools of the Model Context Protocol, names, descriptions and schemas from the records; and their server (SDK mcp 2)."""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path
from typing import Any

from rooflinecli.core.errors import RooflineError
from rooflinecli.core.record import Json
from rooflinecli.interfaces import verbs
from rooflinecli.interfaces.schemas import estimate_answer, option_schema
from rooflinecli.render.answer import bare
from rooflinecli.specs.name_lookup import files
from rooflinecli.specs.options import OPTIONS

NAMES = verbs.NAMES
_TEXT = {"type": "string"}
_FILES = {"check": "plan", "fleet": "file"}  # whose file may be given as its YAML too


def schema(tool: str) -> Json:
    """JSON Schema of a tool's arguments: the fields of its question under their long names."""
    kind = verbs.question(tool)
    fields = kind.fields().values()
    return {
        "type": "object",
        "properties": {
            f.long: option_schema(f, kind.helps.get(f.parameter), several=f.parameter in kind.ranged) for f in fields
        },
        "required": [f.long for f in fields if f.required],
        "additionalProperties": False,
    }


def output_schema(tool: str) -> Json:
    """JSON Schema of what a tool answers: for an estimate the whole contract, for the others an object."""
    answer: Json = {"type": "object"}
    definitions: Json = {}
    if tool == "estimate":
        contract = estimate_answer()
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
    return " ".join((verbs.question(tool).__doc__ or "").split())


def call(tool: str, arguments: Json | None) -> tuple[Json | None, str]:
    """(structured answer, its text); the answer is None where the text is an error, one sentence with its remedy."""
    if tool not in NAMES:
        return None, f"unknown tool '{tool}'; known: {', '.join(NAMES)}"
    try:
        asked = verbs.question(tool)
        with verbs.with_file(_FILES.get(tool, ""), dict(arguments or {})) as written:
            found: Json = bare(verbs.answer_with_sources(lambda: asked.read(written), written))
    except RooflineError as error:
        return None, _without_content(str(error), arguments)
    except (ArithmeticError, ValueError, TypeError, MemoryError) as error:
        return None, f"these values cannot be calculated with ({error}); give sizes that a machine could have"
    return found, json.dumps(found, ensure_ascii=False)


_QUOTED = re.compile(r"(['\"])(.+?)\1")
_WORD = re.compile(r"[^\s:;,'\"()=]{4,}")
_LARGEST = 2**20  # bytes of a file that are looked through


def _without_content(text: str, arguments: Json | None) -> str:
    """An error without words of the files that it is about, nor what it quotes of them, which may end within a word: a client names
    paths, and may not be who may read them.

    Its own words, names of fields and of registered models and chips stay.
    """
    given = json.dumps(arguments or {}, ensure_ascii=False)
    paths = [Path(word) for word in re.findall(r'"((?:[^"\\]|\\.)+)"', given)]
    content = ""
    for path in paths:
        with contextlib.suppress(OSError, ValueError):
            if path.is_file():
                with path.open(encoding="utf-8", errors="replace") as stream:
                    content += stream.read(_LARGEST)
    fields = {name for option in OPTIONS.values() for name in option.names}
    known = {*fields, *files("models"), *files("hardware"), "model", "hardware", "number", "plans"}
    private = {word for word in _WORD.findall(content) if word not in given and word.strip("-") not in known}
    content += repr(content)
    text = _QUOTED.sub(
        lambda m: f"{m[1]}…{m[1]}" if m[2] in content and m[2] not in given and m[2] not in known else m[0], text
    )
    return _WORD.sub(lambda word: "…" if word[0] in private else word[0], text)


INSTRUCTIONS = (
    "Roofline estimates for transformers. Every time comes as floor_s (speed of light), time_s (expected) and interval_s "
    "(80%); cite `sources`, and never report a time below its floor. Call explain for how a number follows."
)


def server() -> Any:
    """The server, not yet connected. Raises ImportError without the `mcp` extra."""
    from importlib.metadata import version

    from mcp.server.lowlevel import Server
    from mcp_types import CallToolResult, ListToolsResult, TextContent, Tool, ToolAnnotations

    async def list_tools(context: object, params: object) -> ListToolsResult:
        return ListToolsResult(
            tools=[
                Tool(
                    name=name,
                    description=describe(name),
                    input_schema=schema(name),
                    output_schema=output_schema(name),
                    annotations=ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True),
                )
                for name in NAMES
            ]
        )

    async def call_tool(context: Any, params: Any) -> CallToolResult:
        from anyio import to_thread

        found, text = await to_thread.run_sync(call, params.name, params.arguments)
        return CallToolResult(
            content=[TextContent(type="text", text=text)], structured_content=found, is_error=found is None
        )

    return Server(
        "roofline",
        version=version("rooflinecli"),
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def run() -> None:
    """Serve until standard input ends."""
    import anyio

    async def main() -> None:
        from mcp.server.stdio import stdio_server

        made = server()
        async with stdio_server() as (read, write):
            await made.run(read, write, made.create_initialization_options())

    anyio.run(main)
