"""A shell script -> the commands it would run, variables filled in. It is read, never run: where a condition cannot be known,
all its branches are followed, and what only running would tell stays marked unknown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from rooflinecli.launch.conditions import decided
from rooflinecli.launch.expand import Expander, Value, unknown, unknowns
from rooflinecli.launch.words import Token, tokens

STEPS = 5000  # commands followed in one script; a loop or a function that calls itself ends there
_ASSIGN = re.compile(r"([A-Za-z_]\w*)(\+?)=(.*)", re.DOTALL)
_DECLARES = ("export", "declare", "local", "readonly", "typeset")
_ENDS = {"then", "elif", "else", "fi", "do", "done", "esac", "}", ")", ";;"}
_JOINS = ("&&", "||", "|", ";", "&", "\n")


@dataclass
class Command:
    """Words of a simple command as they expand, and the line it stands on."""

    words: list[str]
    line: int


@dataclass
class Script:
    """What reading a script found: its commands, the files it would write, and conditions nobody can decide from here."""

    commands: list[Command] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    undecided: list[str] = field(default_factory=list)


class Reader:
    """Follows the tokens of a script."""

    def __init__(self, values: dict[str, Value] | None = None):
        self.shell = Expander({"@": [], "*": [], "#": "0", **(values or {})})
        self.script = Script()
        self.functions: dict[str, list[Token]] = {}
        self.called: list[str] = []
        self.steps = 0

    def read(self, text: str) -> Script:
        self.follow(tokens(text))
        return self.script

    def follow(self, body: list[Token]) -> None:
        i = 0
        while i < len(body) and self.steps < STEPS:
            token = body[i]
            if token.kind == "op" or (token.kind == "word" and token.text in _ENDS):
                i += 1
            elif token.kind == "word" and token.text in _COMPOUND:
                end = _matching(body, i)
                getattr(self, _COMPOUND[token.text])(body[i:end])
                i = end
            elif (name := self._defines(body, i)) is not None:
                start = next((k for k in range(i + 1, len(body)) if body[k].text == "{"), len(body) - 1)
                end = _matching(body, start)
                self.functions[name] = body[start + 1 : end - 1]
                i = end
            else:
                end = next(
                    (k for k in range(i, len(body)) if body[k].kind == "op" and body[k].text in _JOINS), len(body)
                )
                self._command(body[i:end])
                i = max(end, i + 1)

    def _defines(self, body: list[Token], i: int) -> str | None:
        after = [t.text for t in body[i : i + 4]]
        if after[0] == "function":
            opens = next((t.text for t in body[i + 2 : i + 6] if t.text not in ("(", ")", "\n")), "")
            return after[1] if opens == "{" else None
        return after[0] if after[1:3] == ["(", ")"] and re.fullmatch(r"[\w.-]+", after[0]) else None

    def _command(self, written: list[Token]) -> None:
        self.steps += 1
        words = [t for t in written if t.kind == "word"]
        self._writes(written)
        while words and self._assigns(words[0].text):
            words.pop(0)
        if not words:
            return
        if words[0].text in _DECLARES:
            for word in words[1:]:
                self._assigns(word.text)
            return
        expanded = [w for t in words for w in self.shell.fields(t.text)]
        if not expanded:
            return
        if expanded[0] == "set" and "--" in expanded:
            self.shell.values["@"] = self.shell.values["*"] = expanded[expanded.index("--") + 1 :]
        elif expanded[0] in self.functions:
            self._call(expanded)
        elif expanded[0] == "eval":
            self.follow(tokens(" ".join(expanded[1:])))
        else:
            self._ran(Command(expanded, words[0].line))

    def _ran(self, command: Command) -> None:
        """A command, and that which it hands to another shell: `srun bash -c "..."`."""
        for before, after in pairwise(range(len(command.words))):
            word = command.words[before]
            if word in ("-c", "-lc", "-ec", "-euc") and command.words[before - 1].rpartition("/")[2] in (
                "bash",
                "sh",
                "zsh",
            ):
                nested = tokens(command.words[after])
                for token in nested:
                    token.line = command.line
                self.follow(nested)
                return
        self.script.commands.append(command)

    def _call(self, words: list[str]) -> None:
        if len(self.called) > 20 or self.called.count(words[0]) > 2:
            return
        outer = {k: self.shell.values.get(k) for k in ("@", "*", "1", "2", "3", "4", "5", "6", "7", "8", "9")}
        self.called.append(words[0])
        self.shell.values |= {"@": words[1:], "*": words[1:]} | {str(n): w for n, w in enumerate(words[1:10], 1)}
        self.follow(self.functions[words[0]])
        self.called.pop()
        for key, value in outer.items():
            self.shell.values.pop(key, None) if value is None else self.shell.values.update({key: value})

    def _assigns(self, raw: str) -> bool:
        match = _ASSIGN.fullmatch(raw)
        if match is None:
            return False
        name, adds, written = match.groups()
        value: Value
        if written.startswith("("):
            value = [
                w
                for t in tokens(written[1:].rstrip().removesuffix(")"))
                if t.kind == "word"
                for w in self.shell.fields(t.text)
            ]
        else:
            value = self.shell.text(written)
        before = self.shell.values.get(name)
        if adds and isinstance(value, list):
            value = [*(before if isinstance(before, list) else [before] if before else []), *value]
        elif adds and isinstance(before, str) and isinstance(value, str):
            value = before + value
        self.shell.values[name] = value
        return True

    def _writes(self, written: list[Token]) -> None:
        """`cat <<EOF > file`: what the script would put there."""
        document = next((t for t in written if t.kind == "redirect" and t.more[0].startswith("<<") and t.body), None)
        target = next((t for t in written if t.kind == "redirect" and t.more[0] in (">", ">|")), None)
        if document is not None and target is not None:
            literal = document.text[:1] in "'\"\\"
            text = document.body if literal else self.shell.text(document.body.replace('"', '\\"'))
            self.script.files[self.shell.text(target.text).rpartition("/")[2]] = text

    def _if(self, body: list[Token]) -> None:
        """Branches in order: the first whose condition holds; from one that cannot be decided on, all that may run."""
        for condition, branch in _branches(body):
            holds = True if condition is None else decided(condition, self.shell)
            if holds is None:
                self.script.undecided.append(" ".join(t.text for t in condition or [])[:80])
            if holds is not False:
                self.follow(branch)
            if holds:
                return

    def _for(self, body: list[Token]) -> None:
        start = next((k for k, t in enumerate(body) if t.text == "do"), len(body))
        if len(body) < 3 or body[2].text != "in":
            self.follow(body[start + 1 : -1])
            return
        name = body[1].text
        items = [w for t in body[3:start] if t.kind == "word" for w in self.shell.fields(t.text)]
        for item in items[:64]:
            self.shell.values[name] = unknown(f"${name}") if unknowns(item) else item
            self.follow(body[start + 1 : -1])

    def _while(self, body: list[Token]) -> None:
        start = next((k for k, t in enumerate(body) if t.text == "do"), len(body))
        self.follow(body[start + 1 : -1])

    def _case(self, body: list[Token]) -> None:
        subject = self.shell.text(body[1].text) if len(body) > 1 else ""
        arms = list(_arms(body))
        if not unknowns(subject):
            from fnmatch import fnmatchcase

            arms = [(p, b) for p, b in arms if any(fnmatchcase(subject, self.shell.text(one)) for one in p)][:1]
        elif arms:
            self.script.undecided.append(f"case {body[1].text}")
        for _, branch in arms:
            self.follow(branch)

    def _group(self, body: list[Token]) -> None:
        self.follow(body[1:-1])


_COMPOUND = {
    "if": "_if",
    "for": "_for",
    "select": "_for",
    "while": "_while",
    "until": "_while",
    "case": "_case",
    "{": "_group",
}
_OPENS = {
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
    return i == 0 or before in (*_JOINS, "(", ")", "{", ";;", "then", "else", "do", "elif", "if", "while", "!")


def _matching(body: list[Token], i: int) -> int:
    """Past the end of the compound command that begins at `i`."""
    want, k = [_OPENS[body[i].text]], i + 1
    while k < len(body) and want:
        token = body[k]
        plain = token.kind == "op" or (token.kind == "word" and _starts(body, k))
        if plain and token.text == want[-1]:
            want.pop()
        elif plain and token.text in _OPENS and not (token.text == "(" and want[-1] == "esac"):
            want.append(_OPENS[token.text])
        k += 1
    return k


def _branches(body: list[Token]) -> Iterator[tuple[list[Token] | None, list[Token]]]:
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


def _arms(body: list[Token]) -> Iterator[tuple[list[str], list[Token]]]:
    i = next((k for k, t in enumerate(body) if t.text == "in"), len(body)) + 1
    while i < len(body):
        close = next((k for k in range(i, len(body)) if body[k].text == ")"), None)
        if close is None:
            return
        patterns = [t.text for t in body[i:close] if t.kind == "word"]
        end = next((k for k in range(close, len(body)) if body[k].text == ";;"), len(body) - 1)
        yield patterns, body[close + 1 : end]
        i = end + 1
