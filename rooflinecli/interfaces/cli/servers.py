"""`roofline web`, the page to play with, and `roofline mcp`, the questions as tools for an agent."""

from __future__ import annotations

import typer

from rooflinecli.core.errors import UsageError
from rooflinecli.core.extras import install
from rooflinecli.interfaces.cli.from_question import Delivery, command
from rooflinecli.questions.question import Question
from rooflinecli.specs.options import Text, Whole, field


class ToolServer(Question[None]):
    """Serve the questions as tools of the Model Context Protocol, on standard input and output.

    An agent starts it itself: {"command": "roofline", "args": ["mcp"]}.
    """

    verb = "mcp"


class NoDelivery(Delivery):
    """A server prints no answer."""

    without = frozenset({"wide", "details", "format", "schema", "out"})


def serve_tools(question: ToolServer, how: NoDelivery) -> None:
    """Serve until standard input ends. Raises UsageError without the SDK."""
    from rooflinecli.interfaces.mcp import tools

    try:
        tools.run()
    except ImportError:
        raise UsageError(f"`roofline mcp` needs the SDK; install it with: {install('mcp')}") from None


class Web(Question[None]):
    """Open a page that answers as you move batch, lengths and layout: times, memory, roofline, latency against throughput.

    It loads nothing from elsewhere and stores nothing. The address bar holds the question, so a link reproduces the answer.
    """

    verb = "web"
    # fmt: off
    host: Text = field("free", "Where to listen; this machine alone by default.", default="127.0.0.1", metavar="NAME")
    port: Whole = field("whole", "The port; 0 takes a free one.", default=8765, least=0, most=65535)
    # fmt: on


def serve_page(question: Web, how: NoDelivery) -> None:
    """Listen, say where, and serve until interrupted. Raises UsageError without a web server, and where the port is taken."""
    import socket

    host = question.host
    try:
        import uvicorn

        from rooflinecli.interfaces.web.app import LOOPBACK
        from rooflinecli.interfaces.web.app import app as made
    except ImportError:
        raise UsageError(f"`roofline web` needs a web server; install it with: {install('serve')}") from None
    hosts = LOOPBACK if host in LOOPBACK or host == "::1" else (host,) if host not in ("0.0.0.0", "::") else ("*",)
    # No log_config: uvicorn's own would close the handlers that other packages of this process hold.
    config = uvicorn.Config(
        made(hosts), host=host, port=question.port, log_level="warning", log_config=None, access_log=False, server_header=False,
    )  # fmt: skip
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, question.port))
        except OSError as error:
            raise UsageError(
                f"--host {host} --port {question.port}: cannot listen there ({error.strerror}); give another --port"
            ) from None
        listener.listen(2048)  # from here on a browser waits instead of being refused
        shown = f"[{host}]" if ":" in host else host
        print(f"http://{shown}:{listener.getsockname()[1]}/  (Ctrl-C ends it)", flush=True)
        uvicorn.Server(config).run(sockets=[listener])


def app(verb: str) -> typer.Typer:
    """The application of a verb."""
    return command(Web, serve_page, NoDelivery) if verb == "web" else command(ToolServer, serve_tools, NoDelivery)
