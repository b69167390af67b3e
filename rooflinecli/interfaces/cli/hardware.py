"""`roofline hardware [NAME ...]`."""

from __future__ import annotations

from pathlib import Path

import typer

from rooflinecli.core.errors import UsageError
from rooflinecli.interfaces.cli.common_options import FORMAT, OUT, WIDE
from rooflinecli.interfaces.cli.completion import chips, on_tab
from rooflinecli.interfaces.cli.main import QUIET
from rooflinecli.interfaces.cli.output import Format, columns

app = typer.Typer(**QUIET)


@app.command()
def hardware(
    names: list[str] = typer.Argument(
        None,
        help="A name, alias or YAML path: its page. Several: side by side. None: all.",
        autocompletion=on_tab(chips),
    ),
    vendor: str = typer.Option(None, "--vendor", help="List only this vendor's chips, e.g. nvidia."),
    min_memory: str = typer.Option(None, "--min-memory", help="List only chips with this much memory, e.g. '80 GiB'."),
    dtype: str = typer.Option(None, "--dtype", help="List only chips with a rate for this dtype, e.g. fp8."),
    schema: bool = typer.Option(False, "--schema", help="Print the JSON Schema of a hardware file."),
    wide: bool = WIDE,
    fmt: Format = FORMAT,
    out: Path = OUT,
) -> None:
    """List chips, show one with the source of every figure, or set several side by side.

    A file of the registry that cannot be read is named on stderr once the others are listed; the exit code is 3 then.
    """
    from rooflinecli.interfaces.cli.output import write

    filters = {"--vendor": vendor, "--min-memory": min_memory, "--dtype": dtype}
    given = [flag for flag, value in filters.items() if value is not None]
    if given and (names or schema):
        raise UsageError(f"{given[0]} filters the list of chips; leave out {'--schema' if schema else 'the names'}")
    if schema:
        if names:
            raise UsageError("--schema describes every hardware file; leave out the names")
        from rooflinecli.specs.schema import text

        write(text("hardware"), out)
        return
    if names:
        write(_chips(names, fmt.value, columns(wide, out)), out)
        return
    from rooflinecli.questions.hardware.answer import chips as listed
    from rooflinecli.render.views.hardware import listing
    from rooflinecli.specs.name_lookup import raise_unreadable

    found, broken = listed(vendor, _bytes(min_memory), dtype)
    write(listing(found, fmt.value, dtype, columns(wide, out)), out)
    raise_unreadable(broken)


def _chips(names: list[str], fmt: str, width: int) -> str:
    from rooflinecli.questions.hardware import answer as answers
    from rooflinecli.render.views import hardware as render

    if len(names) == 1:
        return render.sheet(answers.sheet(names[0]), fmt, width)
    return render.compare(answers.named(names), fmt, width)


def _bytes(text: str | None) -> float | None:
    if text is None:
        return None
    from rooflinecli.core import units

    try:
        return units.parse(text, "B")
    except ValueError as error:
        raise UsageError(f"--min-memory {error}") from None
