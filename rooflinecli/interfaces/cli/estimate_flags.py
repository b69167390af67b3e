"""An estimate's flags written as one argument: `--target 'llama70b -n 64 --batch 512'`."""

from __future__ import annotations

import shlex

import typer

from rooflinecli.core.errors import RooflineError, UsageError
from rooflinecli.specs.options import OPTIONS


def estimate_options(flag: str, text: str, hw: str | None = None) -> dict[str, object]:
    """Options of an estimate by name. Raises UsageError that names `flag` for what `roofline estimate` would refuse."""
    from rooflinecli.interfaces.cli import estimate

    try:
        words = shlex.split(text)
        command = typer.main.get_command(estimate.app)
        context = command.make_context("estimate", words if "--hw" in words or hw is None else [*words, "--hw", hw])
    except RooflineError:
        raise
    except Exception as error:
        message = error.format_message() if hasattr(error, "format_message") else str(error)
        raise UsageError(f"{flag} '{text}': {message}; write it as the flags of `roofline estimate`") from None
    return {
        o.name: context.params[o.parameter]
        for o in OPTIONS.values()
        if context.params.get(o.parameter) not in (None, [], ())
    }
