"""A shell script -> the commands it would run, variables filled in. It is read, never run: where a condition cannot be known,
all its branches are followed, and what only running would tell stays marked unknown."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import pairwise

from rooflinecli.importers.launch import slurm
from rooflinecli.importers.launch.shell_blocks import JOINS, arms, branches, matching
from rooflinecli.importers.launch.shell_conditions import decided
from rooflinecli.importers.launch.shell_expansion import ShellExpander, Value, alternatives, merged, unknown, unknowns
from rooflinecli.importers.launch.shell_lexer import Token, tokens

STEPS = 5000  # commands followed in one script; a loop or a function that calls itself ends there
_ASSIGN = re.compile(r"([A-Za-z_]\w*)(\+?)=(.*)", re.DOTALL)
_NAMED = re.compile(r"\$\{?([A-Za-z_]\w*)")
_DECLARES = ("export", "declare", "local", "readonly", "typeset")
_ENDS = {"then", "elif", "else", "fi", "do", "done", "esac", "}", ")", ";;"}


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
    devices: int | None = None  # of the job, where its header says them


class ShellEvaluator:
    """Follows the tokens of a script; `beside` opens a file that it sources."""

    def __init__(self, values: dict[str, Value] | None = None, beside: Callable[[str], str | None] | None = None):
        self.shell = ShellExpander({"@": [], "*": [], "#": "0", **(values or {})})
        self.beside = beside or (lambda written: None)
        self.ended = False  # the branch that is followed has left the script
        self.script = Script()
        self.functions: dict[str, list[Token]] = {}
        self.called: list[str] = []
        self.steps = 0

    def read(self, text: str) -> Script:
        job = slurm.header(text)
        self.shell.values = {**slurm.variables(job), **self.shell.values}
        self.script.devices = slurm.devices(job)
        self.follow(tokens(text))
        return self.script

    def follow(self, body: list[Token]) -> None:
        """The tokens in order. What stands after && or || may not run, so an `exit` there ends nothing."""
        i = 0
        while i < len(body) and self.steps < STEPS and not self.ended:
            maybe = i > 0 and body[i - 1].text in ("&&", "||")
            i = self._next(body, i)
            self.ended = self.ended and not maybe

    def _next(self, body: list[Token], i: int) -> int:
        """Follows what stands at `i`; the index after it."""
        token = body[i]
        if token.kind == "op" or (token.kind == "word" and token.text in _ENDS):
            return i + 1
        if token.kind == "word" and token.text in _COMPOUND:
            end = matching(body, i)
            getattr(self, _COMPOUND[token.text])(body[i:end])
            return end
        name = self._defines(body, i)
        if name is not None:
            start = next((k for k in range(i + 1, len(body)) if _opens(body, k)), len(body))
            end = matching(body, start) if start < len(body) else start
            self.functions[name] = body[start + 1 : end - 1]
            return end
        end = next((k for k in range(i, len(body)) if body[k].kind == "op" and body[k].text in JOINS), len(body))
        self._command(body[i:end])
        return max(end, i + 1)

    def _defines(self, body: list[Token], i: int) -> str | None:
        after = [t.text for t in body[i : i + 4]]
        if after[0] == "function":
            opens = next((t.text for t in body[i + 2 : i + 6] if t.text not in ("(", ")", "\n")), "")
            return after[1] if opens == "{" and len(after) > 2 else None
        return after[0] if after[1:3] == ["(", ")"] and re.fullmatch(r"[\w.-]+", after[0]) else None

    def _command(self, written: list[Token]) -> None:
        self.steps += 1
        if self._either(written):
            return
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
        elif expanded[0] in ("exit", "exec") and len(expanded) < 3 and not self.called:
            self.ended = True
        elif expanded[0] in ("source", ".") and len(expanded) > 1 and len(self.called) < 8:
            self._source(expanded[1])
        else:
            self._ran(Command(expanded, words[0].line))

    def _either(self, written: list[Token]) -> bool:
        """A command with a variable of which branches left several texts: once with each of them."""
        names = dict.fromkeys(name for token in written for name in _NAMED.findall(token.text))
        name = next((one for one in names if alternatives(self.shell.values.get(one))), None)
        if name is None or self.steps > STEPS:
            return False
        before, left = dict(self.shell.values), []
        for way in alternatives(before[name]):
            self.shell.values = {**before, name: way}
            self._command(written)
            kept = self.shell.values.get(name) is way  # the command did not set it
            left.append(self.shell.values | ({name: before[name]} if kept else {}))
        self.shell.values = merged(left)
        return True

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

    def _source(self, written: str) -> None:
        """A file that sets variables for what follows, where it lies beside; else they stay unknown."""
        text = self.beside(written)
        if text is not None and written not in self.called:
            self.called.append(written)
            self.follow(tokens(text))
            self.called.pop()

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
        maybe: list[list[Token]] = []
        for condition, branch in branches(body):
            holds = True if condition is None else decided(condition, self.shell)
            if holds is None:
                self.script.undecided.append(" ".join(t.text for t in condition or [])[:80])
            if holds is not False:
                maybe.append(branch)
            if holds:
                break
        else:
            maybe.append([])  # none of them may hold
        self._any(maybe)

    def _any(self, ways: list[list[Token]]) -> None:
        """One of these runs, and nobody can tell which: each from the same start, and afterwards what they leave in common."""
        if len(ways) == 1:
            self.follow(ways[0])
            return
        before, left = dict(self.shell.values), []
        for branch in ways:
            self.shell.values = dict(before)
            self.follow(branch)
            if not self.ended:  # what a branch sets before it leaves the script, nothing sees
                left.append(self.shell.values)
            self.ended = False
        self.shell.values = merged(left) if left else before

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
        condition = [t for t in body[1:start] if t.text not in (";", "\n")]
        holds = decided(condition, self.shell)
        if holds is None or holds is (body[0].text == "while"):
            self.follow(body[start + 1 : -1])

    def _case(self, body: list[Token]) -> None:
        subject = self.shell.text(body[1].text) if len(body) > 1 else ""
        found_arms = list(arms(body))
        if not unknowns(subject):
            found = [b for p, b in found_arms if any(fnmatchcase(subject, self.shell.text(one)) for one in p)]
            self._any(found[:1] or [[]])
            return
        self.script.undecided.append(f"case {body[1].text}")
        otherwise: list[list[Token]] = [] if any("*" in patterns for patterns, _ in found_arms) else [[]]
        self._any([b for _, b in found_arms] + otherwise or [[]])

    def _group(self, body: list[Token]) -> None:
        self.follow(body[1:-1])


def _opens(body: list[Token], k: int) -> bool:
    """Whether a function's body begins here; `()` after its name is no body."""
    return body[k].text == "{" or (body[k].text == "(" and body[k + 1 : k + 2] != [] and body[k + 1].text != ")")


_COMPOUND = {
    "if": "_if",
    "for": "_for",
    "select": "_for",
    "while": "_while",
    "until": "_while",
    "case": "_case",
    "{": "_group",
}
