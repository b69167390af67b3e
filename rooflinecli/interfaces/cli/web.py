"""`roofline web`: the page to play with."""

from __future__ import annotations

import typer

from rooflinecli.core.errors import UsageError
from rooflinecli.interfaces.cli.main import QUIET

app = typer.Typer(**QUIET)
_Opt = typer.Option


@app.command()
def web(
    host: str = _Opt("127.0.0.1", "--host", metavar="NAME", help="Where to listen; this machine alone by default."),
    port: int = _Opt(8765, "--port", min=0, max=65535, metavar="COUNT", help="The port; 0 takes a free one."),
) -> None:
    """Open a page that answers as you move batch, lengths and layout: times, memory, roofline, latency against throughput.

    It loads nothing from elsewhere and stores nothing. The address bar holds the question, so a link reproduces the answer.
    """
    try:
        import uvicorn

        from rooflinecli.interfaces.web.app import LOOPBACK
        from rooflinecli.interfaces.web.app import app as made
    except ImportError:
        raise UsageError(
            "`roofline web` needs a web server; install it with: pip install 'rooflinecli[serve]'"
        ) from None
    hosts = LOOPBACK if host in LOOPBACK or host == "::1" else (host,) if host not in ("0.0.0.0", "::") else ("*",)
    # No log_config: uvicorn's own would close the handlers that other packages of this process hold.
    config = uvicorn.Config(
        made(hosts), host=host, port=port, log_level="warning", log_config=None, access_log=False, server_header=False
    )
    server = uvicorn.Server(config)
    _listening(server, host, port)


def _listening(server: object, host: str, port: int) -> None:
    """Listen, say where, and serve until interrupted. Raises UsageError where the port is taken."""
    import socket

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
        except OSError as error:
            raise UsageError(
                f"--host {host} --port {port}: cannot listen there ({error.strerror}); give another --port"
            ) from None
        listener.listen(2048)  # from here on a browser waits instead of being refused
        shown = f"[{host}]" if ":" in host else host
        print(f"http://{shown}:{listener.getsockname()[1]}/  (Ctrl-C ends it)", flush=True)
        server.run(sockets=[listener])  # type: ignore[attr-defined]
