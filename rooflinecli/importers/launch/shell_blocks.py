"""Where compound commands of a shell begin and end: branches of `if`, arms of `case`, bodies of loops and functions."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from rooflinecli.importers.launch.shell_lexer import Token

JOINS = ("&&", "||", "|", ";", "&", "\n")
OPENS = {
    "if": "fi",
    "for": "done",
    "select": "done",
    "while": "done",
    "until": "done",
    "case": "esac",
    "{": "}",
    "(": ")",
}


def _starts(body: list[Token], i: int) -> bool:
    """Whether a word stands where a command may begin; `echo if` is no condition."""
    before = body[i - 1].text if i else "\n"
    return i == 0 or before in (*JOINS, "(", ")", "{", ";;", "then", "else", "do", "elif", "if", "while", "!")


def matching(body: list[Token], i: int) -> int:
    """Past the end of the compound command that begins at `i`."""
    want, k = [OPENS[body[i].text]], i + 1
    while k < len(body) and want:
        token = body[k]
        plain = token.kind == "op" or (token.kind == "word" and _starts(body, k))
        if plain and token.text == want[-1]:
            want.pop()
        elif plain and token.text in OPENS and not (token.text == "(" and want[-1] == "esac"):
            want.append(OPENS[token.text])
        k += 1
    return k


def branches(body: list[Token]) -> Iterator[tuple[list[Token] | None, list[Token]]]:
    """(condition, branch) of an `if`; the condition of `else` is None."""
    marks, depth = [], 0
    for k, token in enumerate(body):
        if token.kind == "word" and (_starts(body, k) or token.text == "if"):
            depth += token.text in ("if", "for", "while", "until", "case") and (k == 0 or _starts(body, k))
            depth -= token.text in ("fi", "done", "esac")
            if (depth == 1 and token.text in ("if", "then", "elif", "else")) or (depth == 0 and token.text == "fi"):
                marks.append((token.text, k))
    condition: list[Token] | None = None
    for (word, k), (_, end) in pairwise(marks):
        if word in ("if", "elif"):
            condition = [t for t in body[k + 1 : end] if t.text not in (";", "\n")]
        else:
            yield (condition if word == "then" else None), body[k + 1 : end]


def arms(body: list[Token]) -> Iterator[tuple[list[str], list[Token]]]:
    i = next((k for k, t in enumerate(body) if t.text == "in"), len(body)) + 1
    while i < len(body):
        close = next((k for k in range(i, len(body)) if body[k].text == ")"), None)
        if close is None:
            return
        patterns = [t.text for t in body[i:close] if t.kind == "word"]
        end = next((k for k in range(close, len(body)) if body[k].text == ";;"), len(body) - 1)
        yield patterns, body[close + 1 : end]
        i = end + 1
