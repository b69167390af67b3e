"""A calculator: a function that answers, made a command that writes the answer or the derivation of one of its quantities."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import typer

from rooflinecli.core.errors import Infeasible
from rooflinecli.interfaces.cli.calculator_inputs import Reader
from rooflinecli.interfaces.cli.common_options import FORMAT, OUT, WIDE, levels
from rooflinecli.interfaces.cli.output import Format

Answer = Any  # the answer's data, alone or with a sentence that says why it cannot be met

EXPLAIN = typer.Option(None, "--explain", help="Print how this quantity follows, by its name in the JSON, e.g. tokens.")
DEPTH = levels(3)
_COMMON = (
    ("wide", bool, WIDE),
    ("fmt", Format, FORMAT),
    ("out", Path, OUT),
    ("explain", str, EXPLAIN),
    ("depth", int, DEPTH),
)


def calculator(command: str) -> Callable[[Callable[..., Answer]], Callable[..., None]]:
    """Hand `read` to the function, add --wide, --format, --out, --explain and --depth to its options, and write what it returns.

    The command raises Infeasible, once the answer is written, where the function returns a sentence beside it.
    """

    def decorate(answer: Callable[..., Answer]) -> Callable[..., None]:
        own = list(inspect.signature(answer, eval_str=True).parameters.values())[1:]
        common = [
            inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=option, annotation=kind)
            for name, kind, option in _COMMON
        ]

        @wraps(answer)
        def run(*, wide: bool, fmt: Format, out: Path | None, explain: str | None, depth: int, **given: Any) -> None:
            found = answer(Reader(explain), **given)
            data, problem = found if isinstance(found, tuple) else (found, None)
            emit(command, data, fmt, out, explain, depth, wide)
            if problem is not None:
                raise Infeasible(problem)

        run.__signature__ = inspect.Signature([*own, *common])  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in (*own, *common)}
        return run

    return decorate


def emit(
    command: str, answer: dict[str, Any], fmt: Format, out: Path | None, explain: str | None, depth: int, wide: bool
) -> None:
    """Write the answer in the format asked for, or the derivation of one of its quantities."""
    from rooflinecli.interfaces.cli.output import columns, write
    from rooflinecli.render.views import record

    answer = {"schema": f"roofline/{command}/1", **answer}
    page = record.render(answer, fmt.value, columns(wide, out)) if explain is None else derived(answer, explain, depth)
    write(page, out)


def derived(answer: dict[str, Any], name: str, depth: int) -> str:
    """How the quantity called `name` follows from the inputs."""
    from rooflinecli.core import num
    from rooflinecli.core.derivation import leaf
    from rooflinecli.core.derivation_text import explain
    from rooflinecli.render.views import record

    found = record.find(answer, name)
    return explain(leaf(name, found, "", "a constant") if num.value(found) is found else found, depth)
