"""Options and the derivation of `roofline profile`."""

from __future__ import annotations

from typing import Any

import typer

from rooflinecli.interfaces.cli.common_options import levels

EXPLAIN = typer.Option(None, "--explain", help="Print how this quantity follows, by its name in the JSON, e.g. tokens.")
DEPTH = levels(3)


def derived(answer: dict[str, Any], name: str, depth: int) -> str:
    """How the quantity called `name` follows from the inputs."""
    from rooflinecli.core import num
    from rooflinecli.core.derivation import leaf
    from rooflinecli.core.derivation_text import explain
    from rooflinecli.core.errors import unknown
    from rooflinecli.core.record import leaves

    known = {path: n for path, n in leaves(answer) if n is not None and not isinstance(n, (str, bool))}
    if name not in known:
        raise unknown("quantity", name, known)
    found = known[name]
    return explain(leaf(name, found, "", "a constant") if num.value(found) is found else found, depth)
