"""Shell completion of option values: names of models, chips, engines and formats, and choices.

Nothing is read until a shell asks.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import TYPE_CHECKING

from rooflinecli.interfaces.cli.main import COMPLETING

if TYPE_CHECKING:  # a verb that asks for no estimate needs no table
    from rooflinecli.specs.options import Option

SHELLS = ("bash", "zsh", "fish")
Complete = Callable[[str], list[str]]


_FIELDS = {"family": "models", "vendor": "hardware"}  # options that take a value of the registry's files


def names() -> dict[str, list[str]]:
    """Options whose values are names but no table of choices -> the names, or where they are: `module:attribute` of the package."""
    from rooflinecli.specs.snapshots import packaged

    return packaged(__file__)


def named(option: str) -> list[str]:
    """The names that complete an option; a collection or a function of the package gives them."""
    from rooflinecli.specs.name_lookup import files

    found: list[str] = []
    for entry in names().get(option, ()):
        module, colon, attribute = entry.partition(":")
        given = getattr(import_module(f"rooflinecli.{module}"), attribute) if colon and attribute else (entry,)
        found += given() if callable(given) else given
    if option in _FIELDS:
        texts = (path.read_text(encoding="utf-8") for path in files(_FIELDS[option]).values())
        found += [value for text in texts for value in re.findall(rf"^{option}: *(\S+)", text, re.MULTILINE)]
    return found


def words(option: Option) -> Complete | None:
    """The names an option takes, where they are known."""
    if option.name in ("model", "hw") or (option.name in ("host", "extends") and option.kind == "name"):
        return lambda incomplete: registered("models" if option.name == "model" else "hardware", incomplete)
    listed = option.kind in ("free", "word", "list") and option.long in {*names(), *_FIELDS}
    if not option.choices and option.kind != "dtype" and not listed:
        return None

    def complete(incomplete: str) -> list[str]:
        known: Iterable[str] = option.choices
        if listed and not option.choices:
            known = named(option.long)
        elif option.kind == "dtype":
            from rooflinecli.quantization.formats import FORMATS
            from rooflinecli.quantization.schemes import schemes

            known = (*FORMATS, *(schemes() if option.name == "weight-dtype" else ()))
        return _last(known, incomplete)

    return complete


def registered(kind: str, incomplete: str) -> list[str]:
    """Names of models or chips, after the last comma."""
    from rooflinecli.specs.name_lookup import aliases, files

    found = files(kind)
    names = _last(found, incomplete)
    return names or _last([alias for path in found.values() for alias in aliases(path)], incomplete)


def _last(names: Iterable[str], incomplete: str) -> list[str]:
    """The names that go on from what stands after the last comma."""
    before, comma, start = incomplete.rpartition(",")
    return [before + comma + name for name in sorted(set(names)) if name.startswith(start.lower())]


def install(show: bool, shell: str = "") -> str:
    """Install the script for a shell, by default this one, or return it. Raises UsageError for a shell that has none."""
    import shellingham
    from typer.completion import get_completion_script
    from typer.completion import install as put

    from rooflinecli.core.errors import UsageError

    if not shell:
        with contextlib.suppress(shellingham.ShellDetectionFailure, NotImplementedError, OSError):
            shell = str(shellingham.detect_shell()[0])
        shell = shell if shell in SHELLS else os.path.basename(os.environ.get("SHELL", ""))  # the one of the account
    if shell not in SHELLS:
        raise UsageError(f"completion is for {', '.join(SHELLS)}; name one of them: --show-completion {SHELLS[0]}")
    if show:
        return get_completion_script(prog_name="roofline", complete_var=COMPLETING, shell=shell).strip()
    _, path = put(shell=shell, prog_name="roofline", complete_var=COMPLETING)
    return f"{shell} completion installed in {path}; it takes effect in a new terminal"
