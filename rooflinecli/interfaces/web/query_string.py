"""The address bar as options: names of the table, nothing that reaches the disk, nothing longer than a person would type."""

from __future__ import annotations

from collections.abc import Iterable

from rooflinecli.core.errors import UsageError
from rooflinecli.core.text import one_line
from rooflinecli.importers.source import Options
from rooflinecli.specs.options import find

LONGEST = 200
DEFAULTS = {"model": "llama-3-70b", "hw": "h100", "phase": "prefill,decode"}
_ENDINGS = (".yaml", ".yml", ".json")


def options(pairs: Iterable[tuple[str, str]]) -> Options:
    """Options of a query; those left empty are as if not given, and without any the page opens on an example.

    Raises UsageError for a name that does not exist, one given twice, a value that is too long or names a file.
    """
    found: Options = {}
    for name, value in pairs:
        option = find(one_line(name)[:60], "the page's fields show those there are")
        text = value.strip()
        if not text:
            continue
        if len(text) > LONGEST or not text.isprintable():
            raise UsageError(
                f"{option.flag}: longer than {LONGEST} characters, or not plain text; shorten it", option.name
            )
        if option.kind == "name" and ({"/", "\\", "\x00"} & set(text) or text.lower().endswith(_ENDINGS)):
            raise UsageError(
                f"{option.flag} {text}: a page answers for names of the registry, not for files", option.name
            )
        if option.name in found:
            raise UsageError(f"{option.flag} is given twice; keep one", option.name)
        found[option.name] = text
    return found or dict(DEFAULTS)
