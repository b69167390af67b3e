r"""Rules of flags/*.yaml: what keys of a launch say together, as rows. Every key that a rule answers counts as read; one whose value none of
them has is left, so that it is listed as not understood.

when: KEY or KEY|KEY -> a pattern of its value, on, off (also where it is absent), given or absent; `$option` is an option, `*` stands for any part.
any: keys of which one is on. set: options as written, `\1` for a part of the first value, or `=` a sum of products of keys, numbers and
`$options`, `KEY:1` with a value where it is absent, `/` before a divisor, `ceil` for a whole number of 1 or more; not: those where keys of
`any` are given and none is on; else: those where the rule does not hold. shape: sizes of the model. drop: options that have no effect.
note, unread, refuse: what is said, `{}` is the first key with its value.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from itertools import pairwise
from typing import Any

from rooflinecli.core.errors import UsageError
from rooflinecli.core.expressions import Scope
from rooflinecli.core.text import one_line
from rooflinecli.importers.launch.launch import Launch, LaunchArguments
from rooflinecli.importers.launch.shell_expansion import readable, unknowns
from rooflinecli.importers.source import Options, Tree

_UNKNOWN = " is known only where it runs; write it out"
_OFF = "|false|0|no|none|null|off"
_PATTERNS = {True: "true|1|yes|on", False: _OFF, "given": ".+", "absent": ""}  # YAML's on and off are booleans


def apply(rules: Iterable[Tree], args: LaunchArguments, launch: Launch) -> None:
    """Set the options of every rule that holds, in order."""
    for rule in rules:
        when, switches = rule.get("when", {}), [str(key) for key in rule.get("any", ())]
        matches = [_match(pattern, _value(key, args, launch)) for key, pattern in when.items()]
        holds = all(matches)
        if holds and switches:
            holds = any(_match(True, _value(key, args, launch)) for key in switches)
            if not holds and any(_value(key, args, launch) is not None for key in switches):
                _set(rule.get("not", {}), args, launch)
        if not holds:
            _set(rule.get("else", {}), args, launch)
            continue
        first = next((key for key in (*when, *switches) if _value(key, args, launch) is not None), "")
        written = f"{args.written(*first.split('|')).replace('--$', '')} {one_line(readable(_word(_value(first, args, launch))))[:60]}".strip()
        args.pop(*(name for key in (*when, *switches) for name in key.split("|")))
        for option in str(rule.get("drop", "")).split():
            launch.options.pop(option, None)
        _set(rule.get("set", {}), args, launch, matches[0] if matches else None)
        _set(rule.get("shape", {}), args, launch, shape=True)
        launch.framework = rule.get("framework", launch.framework)
        said = {"note": rule.get("note"), "unread": rule.get("unread"), **rule.get("refuse", {})}
        for kind, text in ((kind, str(text)) for kind, text in said.items() if text):
            text = (matches[0].expand(text) if matches and "\\" in text else text).replace("{}", written)  # type: ignore[union-attr]
            lists = {"note": launch.notes, "unread": launch.unmodelled}
            lists[kind].append(text) if kind in lists else launch.refuse(kind, text)


def _set(
    options: Tree, args: LaunchArguments, launch: Launch, match: re.Match[str] | None = None, shape: bool = False
) -> None:
    for option, value in options.items():
        if isinstance(value, str) and value.startswith("="):
            try:
                value = _sum(value[1:], args, launch.options)
            except UsageError as error:
                if not str(error).endswith(_UNKNOWN):
                    raise
                launch.missing[option], value = str(error).removesuffix(_UNKNOWN) + " is known only where it runs", None
        elif isinstance(value, str) and value.startswith("\\") and match:
            value = match.expand(value)
            value = int(value) if value.isdigit() else value
        if value is not None:
            (launch.shape if shape else launch.options)[option] = value


def _value(key: str, args: LaunchArguments, launch: Launch) -> Any:
    """The value of the first of these keys that is given, unread; `@` are the words without a flag; None for none."""
    for name in key.split("|"):
        if name.startswith("$"):
            found: Any = launch.options.get(name[1:])
        elif name == "@":
            found = " ".join(map(str, args.positional)) or None
        elif "*" in name:
            found = True if any(fnmatchcase(one, name) for one in args.given) else None
        else:
            found = " ".join(map(str, args.values(name) or [True])) if name and args.has(name) else None
        if found is not None:
            return found
    return None


def _word(value: object) -> str:
    return "" if value is None else str(value)


def _match(pattern: str | bool, value: object) -> re.Match[str] | None:
    return re.fullmatch(_PATTERNS.get(pattern, str(pattern)), _word(value), re.IGNORECASE | re.DOTALL)


def _sum(text: str, args: LaunchArguments, options: Options) -> float | None:
    """A sum of products; None where a key without a default is absent."""
    whole = text.removeprefix("ceil ")
    factors = [one if one in "+*/" else _factor(one, args, options) for one in whole.split()]
    if None in factors or ("/", 0) in pairwise(factors):
        return None
    total: float = Scope({}, {}, None).value(" ".join(map(str, factors)))
    if whole != text:
        return max(math.ceil(total), 1)
    return int(total) if total == int(total) else total


def _factor(text: str, args: LaunchArguments, options: Options) -> Any:
    names, _, default = text.partition(":")
    if names.startswith("$"):
        return number(names, options.get(names[1:], default or None))
    if names.replace(".", "").isdigit():
        return number(names, names)
    key, *_ = named = names.split("|")
    return number(key, args.pop(*named, default=default or None))


def number(name: str, written: object) -> Any:
    """A value as a number; None where there is none. Raises UsageError for one that is not, or that is known only where it runs."""
    if written is None:
        return None
    if unknowns(str(written)):
        raise UsageError(f"{name}{_UNKNOWN}")
    try:
        value = float(str(written))
        return int(value) if value == int(value) else value
    except (ValueError, OverflowError):
        raise UsageError(f"{name}: expected a number; write it out") from None
