"""Shell text -> tokens: where words, operators and here-documents begin and end. Nothing is expanded here, and nothing ever runs."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_OPERATORS = ("&&", "||", ";;", "&", "|", ";", "(", ")")
_REDIRECT = re.compile(r"(\d*)(&>>|&>|<<<|<<-?|>>|>&|<&|>\||>|<)")
_ASSIGNS_ARRAY = re.compile(r"[A-Za-z_]\w*\+?=$")


@dataclass
class Token:
    """A word as written, an operator, or the end of a line; `redirects` hang on the end of their command."""

    kind: str  # word, op, redirect
    text: str
    line: int
    body: str = ""  # of a here-document
    quoted: bool = False
    more: list[str] = field(default_factory=list)


def past(text: str, i: int) -> int:
    """The index after the quotation, substitution or expansion that starts at `i`; the end of the text where it never closes."""
    if text[i] == "'":
        end = text.find("'", i + 1)
        return len(text) if end < 0 else end + 1
    if text[i] == "`":
        return _until(text, i + 1, "`", nested=False)
    if text[i] == '"':
        return _until(text, i + 1, '"', nested=True, quotes=False)
    if text.startswith("$((", i):
        return _closing(text, i + 1, "(", ")")
    if text.startswith("$(", i):
        return _closing(text, i + 1, "(", ")")
    if text.startswith("${", i):
        return _closing(text, i + 1, "{", "}")
    return i + 1


def _until(text: str, i: int, end: str, nested: bool, quotes: bool = True) -> int:
    while i < len(text):
        if text[i] == "\\":
            i += 2
        elif text[i] == end:
            return i + 1
        elif nested and (text[i] == "`" or text[i : i + 2] in ("$(", "${")):
            i = past(text, i)
        else:
            i += 1
    return len(text)


def _closing(text: str, i: int, opening: str, closing: str) -> int:
    depth = 0
    while i < len(text):
        c = text[i]
        if c == "\\":
            i += 2
            continue
        if c in "'\"`" or (text[i : i + 2] in ("$(", "${") and depth):
            i = past(text, i)
            continue
        depth += (c == opening) - (c == closing)
        i += 1
        if depth == 0:
            return i
    return len(text)


def tokens(text: str) -> list[Token]:
    """The tokens of a script, line numbers from 1."""
    found: list[Token] = []
    waiting: list[Token] = []  # here-documents whose bodies follow the line
    i, line = 0, 1
    while i < len(text):
        c = text[i]
        if c == "\n":
            found.append(Token("op", "\n", line))
            i, line = i + 1, line + 1
            for document in waiting:
                document.body, i = _heredoc(text, i, document.text)
                line += document.body.count("\n") + 1
            waiting.clear()
        elif text.startswith("\\\n", i):
            i, line = i + 2, line + 1
        elif c in " \t\r":
            i += 1
        elif c == "#":
            end = text.find("\n", i)
            i = len(text) if end < 0 else end
        elif redirect := _REDIRECT.match(text, i):
            i, token = _redirected(text, redirect, line)
            found.append(token)
            if token.more and token.more[0].startswith("<<") and token.more[0] != "<<<":
                waiting.append(token)
        elif operator := next((o for o in _OPERATORS if text.startswith(o, i)), ""):
            found.append(Token("op", operator, line))
            i += len(operator)
        else:
            end = _word(text, i)
            found.append(Token("word", text[i:end], line))
            line += text.count("\n", i, end)
            i = end
    return found


def _word(text: str, i: int) -> int:
    start = i
    while i < len(text):
        c = text[i]
        if c == "\\":
            i += 2
        elif c in "'\"`" or text[i : i + 2] in ("$(", "${"):
            i = past(text, i)
        elif c == "\x01":  # a value already known to be unknown
            i = text.find("\x02", i) + 1 or len(text)
        elif c == "(" and _ASSIGNS_ARRAY.fullmatch(text[start:i]):
            i = _array(text, i)
        elif c in " \t\r\n;&|()<>":
            break
        else:
            i += 1
    inside = {"[[": "]]", "[": "]"}.get(text[start:i])
    if inside:  # a test is one word: its < and && belong to it
        end = text.find(f" {inside}", i)
        newline = text.find("\n", i)
        if end >= 0 and (newline < 0 or end < newline):
            return end + len(inside) + 1
    return min(max(i, start + 1), len(text))


def _array(text: str, i: int) -> int:
    """Past an array's closing parenthesis; comments inside may hold anything."""
    i += 1
    while i < len(text):
        c = text[i]
        if c == "#" and text[i - 1] in " \t\n(":
            end = text.find("\n", i)
            i = len(text) if end < 0 else end
        elif c == "\\":
            i += 2
        elif c in "'\"`" or text[i : i + 2] in ("$(", "${"):
            i = past(text, i)
        elif c == ")":
            return i + 1
        else:
            i += 1
    return len(text)


def _redirected(text: str, match: re.Match[str], line: int) -> tuple[int, Token]:
    i = match.end()
    while i < len(text) and text[i] in " \t":
        i += 1
    end = _word(text, i) if i < len(text) and text[i] not in "\n;|)" else i
    if match[2] in (">&", "<&") or text[i : i + 1] == "&":
        end = i + len(re.match(r"&?[\d-]*", text[i:])[0])  # type: ignore[index]
    return end, Token("redirect", text[i:end], line, more=[match[2]])


def _heredoc(text: str, i: int, mark: str) -> tuple[str, int]:
    """The body up to the line that is the mark, and the index after that line."""
    plain = mark.strip("'\"\\")
    lines: list[str] = []
    while i < len(text):
        end = text.find("\n", i)
        end = len(text) if end < 0 else end
        written, i = text[i:end], end + 1
        if written.strip() == plain:
            break
        lines.append(written)
    return "\n".join(lines), min(i, len(text))
