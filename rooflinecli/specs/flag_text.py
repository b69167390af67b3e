"""Options written as flags in one text: `llama70b -n 64 --batch 512 --no-flash-attention`."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator

from rooflinecli.core.errors import UsageError
from rooflinecli.specs.options import Option, find


def fields(text: str, named: Callable[[str], Option] = find) -> Iterator[tuple[Option, str | bool]]:
    """The fields and values of flags; a word without a flag is the model. Raises UsageError for a flag that does not exist or lacks its value."""
    try:
        words = iter(shlex.split(text))
    except ValueError as error:
        raise UsageError(f"{text!r}: {error}") from None
    for word in words:
        flag, equals, value = word.partition("=")
        if not word.startswith("-"):
            yield named("model"), word
            continue
        name = flag.lstrip("-")
        option = named(name.removeprefix("no-"))
        if option.kind == "switch":
            yield option, not name.startswith("no-")
            continue
        found = value if equals else next(words, None)
        if found is None:
            raise UsageError(f"{flag} has no value", option.name)
        yield option, found


def estimate_options(flag: str, text: str, hw: str | None = None) -> dict[str, object]:
    """Options of an estimate by name, on the chip `hw` where none is written. Raises UsageError that names `flag`."""
    found: dict[str, object] = {} if hw is None else {"hw": hw}
    repeated, written = dict[str, list[object]](), dict[str, object]()
    try:
        for option, value in fields(text):
            if not option.several and written.setdefault(option.name, value) != value:
                raise UsageError(
                    f"{option.flag} {written[option.name]} and {option.flag} {value} are the same option; keep one"
                )
            found[option.name] = value
            if option.several:
                found[option.name] = repeated.setdefault(option.name, [])
                repeated[option.name].append(value)
        if "model" not in found:
            raise UsageError("no model given")
    except UsageError as error:
        raise UsageError(f"{flag} '{text}': {error}; write it as the flags of `roofline estimate`") from None
    return found
