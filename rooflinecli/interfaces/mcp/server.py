"""`roofline mcp`: the tools over standard input and output, by the official SDK (mcp 2)."""

from __future__ import annotations

from typing import Any

from rooflinecli.interfaces.mcp import tools

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
                    name=t,
                    description=tools.describe(t),
                    input_schema=tools.schema(t),
                    output_schema=tools.output_schema(t),
                    annotations=ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True),
                )
                for t in tools.NAMES
            ]
        )

    async def call_tool(context: Any, params: Any) -> CallToolResult:
        from anyio import to_thread

        found, text = await to_thread.run_sync(tools.call, params.name, params.arguments)
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
