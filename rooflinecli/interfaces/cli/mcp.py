"""`roofline mcp`: the questions as tools for an agent."""

from __future__ import annotations

import typer

from rooflinecli.core.errors import UsageError
from rooflinecli.interfaces.cli.main import QUIET

app = typer.Typer(**QUIET)


@app.command()
def mcp() -> None:
    """Serve estimate, explain, check, search and compare as tools of the Model Context Protocol, on standard input and output.

    An agent starts it itself: {"command": "roofline", "args": ["mcp"]}.
    """
    from rooflinecli.interfaces.mcp.server import run

    try:
        run()
    except ImportError:
        raise UsageError("`roofline mcp` needs the SDK; install it with: pip install 'rooflinecli[mcp]'") from None
