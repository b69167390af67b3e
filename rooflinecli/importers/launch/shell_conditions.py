"""Conditions of a shell, as far as they can be decided without running: yes, no, or None."""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase

from rooflinecli.importers.launch.shell_expansion import ShellExpander, unknowns
from rooflinecli.importers.launch.shell_lexer import Token, tokens

_NUMBERS: dict[str, Callable[[int, int], bool]] = {
    "-eq": lambda a, b: a == b, "-ne": lambda a, b: a != b, "-gt": lambda a, b: a > b,
    "-ge": lambda a, b: a >= b, "-lt": lambda a, b: a < b, "-le": lambda a, b: a <= b,
}  # fmt: skip


def decided(condition: list[Token], shell: ShellExpander) -> bool | None:
    """A list of tests joined by && and ||, from left to right."""
    answer: bool | None = None
    join, i = "", 0
    while i < len(condition):
        end = next((k for k in range(i, len(condition)) if condition[k].text in ("&&", "||")), len(condition))
        found = _one([t.text for t in condition[i:end] if t.kind == "word"], shell)
        answer = found if not join else _joined(answer, found, join)
        join = condition[end].text if end < len(condition) else ""
        i = end + 1
    return answer


def _joined(left: bool | None, right: bool | None, join: str) -> bool | None:
    settles = join == "||"  # the value that decides alone
    if settles in (left, right):
        return settles
    return None if None in (left, right) else not settles


def _one(words: list[str], shell: ShellExpander) -> bool | None:
    if words and words[0] == "!":
        found = _one(words[1:], shell)
        return None if found is None else not found
    if words in (["true"], ["false"]):
        return words == ["true"]
    if words and words[0] == "test":
        return _compared(words[1:], shell)
    if len(words) != 1 or not words[0].startswith("["):
        return None
    inner = words[0].strip("[] \t\n")
    if "&&" in inner or "||" in inner:
        return decided(_tests(inner), shell)
    return _compared([t.text for t in tokens(inner)], shell)


def _tests(inner: str) -> list[Token]:
    """`a == b && c` inside double brackets, as tests of their own."""
    import re

    parts = re.split(r"(&&|\|\|)", inner)
    return [Token("op" if i % 2 else "word", p if i % 2 else f"[[ {p.strip()} ]]", 0) for i, p in enumerate(parts)]


def _compared(words: list[str], shell: ShellExpander) -> bool | None:
    if words and words[0] == "!":
        found = _compared(words[1:], shell)
        return None if found is None else not found
    values = [shell.text(word) for word in words]
    if any(unknowns(value) for value in values):
        return None
    if len(values) == 2 and values[0] in ("-n", "-z"):
        return bool(values[1]) == (values[0] == "-n")
    if len(values) == 1:
        return bool(values[0])
    if len(values) != 3:
        return None
    left, sign, right = values
    if sign in _NUMBERS:
        return (
            _NUMBERS[sign](int(left), int(right))
            if left.lstrip("-").isdigit() and right.lstrip("-").isdigit()
            else None
        )
    if sign in ("=", "==", "!="):
        return fnmatchcase(left, right.replace("[", "[[]")) == (sign != "!=")
    return None
