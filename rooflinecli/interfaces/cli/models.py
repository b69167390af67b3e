"""`roofline models [[show] NAME | import CONFIG.json]`."""

from __future__ import annotations

from pathlib import Path

import typer

from rooflinecli.core.errors import UsageError
from rooflinecli.interfaces.cli.common_options import OUT, WIDE
from rooflinecli.interfaces.cli.completion import models as named
from rooflinecli.interfaces.cli.completion import on_tab
from rooflinecli.interfaces.cli.main import QUIET
from rooflinecli.interfaces.cli.output import Format, columns

app = typer.Typer(**QUIET)


@app.command()
def models(
    name: str | None = typer.Argument(
        None,
        help="A name, alias, YAML path or config.json: its page; 'show' before it changes nothing. 'import': convert CONFIG. None: all.",
        autocompletion=on_tab(named),
    ),
    config: str | None = typer.Argument(
        None, help="import: a Hugging Face config.json, the folder that holds it, or '-' for standard input."
    ),
    family: str = typer.Option(None, "--family", help="List only this family, e.g. llama."),
    schema: bool = typer.Option(False, "--schema", help="Print the JSON Schema of a model file."),
    wide: bool = WIDE,
    fmt: Format = typer.Option(None, "--format", "-f", help="table (default), json, csv or markdown."),
    out: Path = OUT,
) -> None:
    """List models, show one in detail, or turn a Hugging Face config into a model file: `models import CONFIG.json --out my.yaml`.

    A file of the registry that cannot be read is named on stderr once the others are listed; the exit code is 3 then.
    """
    from rooflinecli.interfaces.cli.output import write

    shape = fmt.value if fmt else "table"
    name, config = _shown(name, config)
    _check(name, config, family, schema, fmt)
    if schema:
        from rooflinecli.specs.schema import text

        write(text("model"), out)
    elif name == "import":
        from rooflinecli.render.views.model_yaml import to_yaml

        write(to_yaml(_imported(str(config))), out)
    elif name is not None:
        from rooflinecli.questions.models.answer import sheet
        from rooflinecli.render.views.models import page

        write(page(sheet(name), shape, columns(wide, out)), out)
    else:
        from rooflinecli.questions.models.answer import models as every
        from rooflinecli.render.views.models import listing
        from rooflinecli.specs.name_lookup import raise_unreadable

        found, broken = every(family)
        write(listing(found, shape, columns(wide, out)), out)
        raise_unreadable(broken)


def _shown(name: str | None, config: str | None) -> tuple[str | None, str | None]:
    """`show NAME`, as other tools have it, is NAME."""
    if name != "show":
        return name, config
    if config is None:
        raise UsageError(
            "models show needs a model: a name, a YAML path or a config.json; `roofline models` lists them"
        )
    return config, None


def _check(name: str | None, config: str | None, family: str | None, schema: bool, fmt: Format | None) -> None:
    """Arguments that do not go together."""
    if name == "import":
        if config is None:
            raise UsageError(
                "models import needs a config: a Hugging Face config.json, its folder, or '-' for standard input"
            )
        if fmt is not None:
            raise UsageError("models import writes YAML; leave out --format")
    elif config is not None:
        raise UsageError(f"models shows one model; leave out '{config}', or write `roofline models import {config}`")
    if family is not None and name is not None:
        raise UsageError("--family filters the list of models; leave out the name")
    if schema and (name is not None or family is not None):
        raise UsageError("--schema describes every model file; leave out the name and --family")


def _imported(config: str) -> dict:  # type: ignore[type-arg]
    """The fields of a model file, checked as such a file would be."""
    import sys

    from rooflinecli.importers.hf import model_document
    from rooflinecli.importers.hf.config_json import parse_config
    from rooflinecli.specs.model import model_from

    path = Path("<stdin>" if config == "-" else config)
    document = model_document(path, parse_config(sys.stdin.read(), path) if config == "-" else None)
    model_from(document)
    return document.data
