"""`roofline mcp`: the questions as tools for an agent."""

from __future__ import annotations

from rooflinecli.core.errors import UsageError
from rooflinecli.core.extras import install
from rooflinecli.interfaces.cli.from_question import Delivery, command
from rooflinecli.questions.question import Question


class ToolServer(Question[None]):
    """Serve estimate, explain, check, search and compare as tools of the Model Context Protocol, on standard input and output.

    An agent starts it itself: {"command": "roofline", "args": ["mcp"]}.
    """

    verb = "mcp"


class NoDelivery(Delivery):
    """A server prints no answer."""

    without = frozenset({"wide", "format", "schema", "out"})


def run(question: ToolServer, how: NoDelivery) -> None:
    """Serve until standard input ends. Raises UsageError without the SDK."""
    from rooflinecli.interfaces.mcp import server

    try:
        server.run()
    except ImportError:
        raise UsageError(f"`roofline mcp` needs the SDK; install it with: {install('mcp')}") from None


app = command(ToolServer, run, NoDelivery)
