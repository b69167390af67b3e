"""A shell script -> the commands it would run, variables filled in. It is read, never run: where a condition cannot be known,
all its branches are followed, and values known only at run time are marked unknown. The grammar is tree-sitter-bash."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

from rooflinecli.core.errors import DataError
from rooflinecli.importers.launch.shell_expansion import (
    UNKNOWN,
    ShellExpander,
    Value,
    alternatives,
    echoed,
    merged,
    readable,
    unknown,
    unknowns,
)

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

STEPS = 5000  # commands followed in one script; a loop or a function that calls itself ends there
DEPTH = 150  # compound commands inside each other
_ASSIGN = re.compile(r"([A-Za-z_]\w*)(\+?)=(.*)", re.DOTALL)
_NAMED = re.compile(r"\$\{?([A-Za-z_]\w*)")
_DANGLING = re.compile(r"\\\s*\Z")  # a last line that goes on
_PROMPT = re.compile(r"^\$ +", re.MULTILINE)  # of a terminal, as documents show commands
# <path to the data>, {{ model }}: to be filled in
_PLACEHOLDER = re.compile(r"(?<=[\s=/\"'])<[A-Za-z][^<>\n|&;$]*>(?!>)|\{\{ ?[\w.]+ ?\}\}")
_SIMPLE = ("command", "variable_assignment", "variable_assignments", "declaration_command")
_REDIRECTS = ("file_redirect", "heredoc_redirect", "herestring_redirect")
_NO_WORDS = (*_REDIRECTS, "variable_assignment", "comment", "heredoc_body", "heredoc_end")
_PRIVATE = 0xF0000  # where characters of unknown values go while a text with them is parsed: none of them is syntax
_NUMBERS: dict[str, Callable[[int, int], bool]] = {
    "-eq": lambda a, b: a == b, "-ne": lambda a, b: a != b, "-gt": lambda a, b: a > b,
    "-ge": lambda a, b: a >= b, "-lt": lambda a, b: a < b, "-le": lambda a, b: a <= b,
}  # fmt: skip


@cache
def _parser() -> Parser:
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


def _parsed(text: str) -> Node:
    text = _PLACEHOLDER.sub(lambda m: unknown(m[0]), _PROMPT.sub("", _DANGLING.sub("", text.replace("\r\n", "\n"))))
    text = UNKNOWN.sub(lambda match: "".join(chr(_PRIVATE + ord(c)) for c in match[0]), text)
    return _parser().parse(f"{text}\n".encode()).root_node


def _raw(node: Node) -> str:
    """The text of a node as written, unknown values put back."""
    text = (node.text or b"").decode(errors="replace")
    return text if text.isascii() else "".join(chr(ord(c) - _PRIVATE) if ord(c) >= _PRIVATE else c for c in text)


@dataclass
class Command:
    """Expanded words of a simple command, and its line."""

    words: list[str]
    line: int
    arguments: bool = False  # it passes on the script's own, of which there are none here
    environment: dict[str, str] = field(default_factory=dict)  # what the script exports to it


@dataclass
class Script:
    """A script's commands, the files it would write, and conditions that cannot be decided without running it."""

    commands: list[Command] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    undecided: list[str] = field(default_factory=list)
    devices: int | None = None  # of the job, from its header
    chip: str = ""  # that its header names


class ShellEvaluator:
    """Evaluator of a script's syntax tree; `open_file` returns the text of a sourced file."""

    def __init__(self, values: dict[str, Value] | None = None, open_file: Callable[[str], str | None] | None = None):
        self.shell = ShellExpander({"@": [], "*": [], "#": "0", **(values or {})}, self._substituted)
        self.open_file = open_file or (lambda written: None)
        self.ended = False  # the branch that is followed has left the script
        self.script = Script()
        self.functions: dict[str, Node] = {}
        self.called: list[str] = []
        self.exported: set[str] = set()
        self.steps = 0
        self.depth = 0
        self.line: int | None = None  # of the command whose text is parsed, used for all its commands

    def read(self, text: str) -> Script:
        """The commands of a script. Raises DataError for one nested too deeply."""
        job = batch_header(text)
        self.shell.values = {**_batch_variables(job), **self.shell.values}
        self.script.devices, self.script.chip = batch_devices(job), batch_chip(job)
        try:
            self.follow([_parsed(text)])
        except RecursionError:
            raise DataError("the script nests too deeply to be read; give the launch alone") from None
        return self.script

    def follow(self, nodes: Iterable[Node]) -> None:
        """The statements in order."""
        if self.depth > DEPTH:
            return
        self.depth += 1
        for node in nodes:
            if self.steps >= STEPS or self.ended:
                break
            self._statement(node)
        self.depth -= 1

    def _statement(self, node: Node) -> None:
        kind = node.type
        if kind == "list":  # commands after && or || may not run, so an `exit` there ends nothing
            for i, part in enumerate(_flat(node)):
                self.follow([part])
                self.ended = self.ended and not i
        elif kind in ("redirected_statement", *_SIMPLE):
            self._command(node)
        elif kind == "ERROR":
            self._broken(node)
        elif kind == "function_definition":
            name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
            if name is not None and body is not None:
                self.functions[_raw(name)] = body
        elif kind == "if_statement":
            self._if(node)
        elif kind in ("for_statement", "c_style_for_statement"):
            self._for(node)
        elif kind == "while_statement":
            self._while(node)
        elif kind == "case_statement":
            self._case(node)
        elif kind in _GROUPS and not (node.children and node.children[0].type == "(("):
            self.follow(node.named_children)

    def _broken(self, node: Node) -> None:
        """Recover from a syntax error: consecutive words are a command, the rest is followed."""
        words: list[Node] = []
        for child in node.children:
            if child.type in _WORDS and (not words or child.start_point.row == words[-1].end_point.row):
                words.append(child)
                continue
            self._simple([], words, [])
            words = [child] if child.type in _WORDS else []
            if not words:
                self.follow([child])
        self._simple([], words, [])

    def _command(self, node: Node) -> None:
        """A simple command with its redirections, or a compound one that is redirected."""
        redirects: list[Node] = []
        after: list[Node] = []
        body: Node | None = node
        while body is not None and body.type == "redirected_statement":
            redirects += [c for c in body.children if c.type in _REDIRECTS]
            body = body.child_by_field_name("body")
        if body is not None and body.type not in _SIMPLE:
            self.follow([body])
            return
        parts = [] if body is None else [body] if body.type == "variable_assignment" else body.children
        assigned = [part for part in parts if part.type == "variable_assignment"]
        if parts and _raw(parts[0]) == "export":
            self.exported |= {_raw(part).partition("=")[0] for part in parts[1:]}
        words: list[Node] = []
        if body is not None and body.type == "command":
            redirects = [part for part in parts if part.type in _REDIRECTS] + redirects
            words = [part for part in parts if part.type not in _NO_WORDS]
        for redirect in list(redirects):
            for child in redirect.children:
                if child.type == "file_redirect":
                    redirects.append(child)
                elif redirect.type == "heredoc_redirect" and child.type in ("command", "pipeline", "list"):
                    after.append(child)
        for redirect in redirects:  # words after the target of a redirection belong to the command
            words += redirect.children_by_field_name("destination")[1:]
            if redirect.type == "heredoc_redirect":
                words += redirect.children_by_field_name("argument")
        self._simple(assigned, words, redirects)
        self.follow(after)

    def _simple(self, assigned: list[Node], written: list[Node], redirects: list[Node]) -> None:
        if not (assigned or written or redirects):
            return
        self.steps += 1
        if self._either(assigned, written, redirects):
            return
        for node in assigned:
            self._assigns(node)
        expanded = [w for node in written for w in self.shell.fields(_raw(node))]
        self._writes(redirects, expanded)
        if not expanded:
            return
        if expanded[0] == "read" and (text := self._document(redirects)) is not None:  # read -r -d '' NAME <<EOF
            apart = next((_raw(node).partition("=")[2].strip("'\"$") for node in assigned), "").replace(r"\n", "\n")
            listed = re.search(r"\s-\w*a\b", " ".join(expanded))  # read -ra NAME <<< "$FLAGS"
            self.shell.values[expanded[-1]] = text.split(apart or None) if listed else text
        if expanded[0].endswith("run_train.sh"):
            expanded = [*(w for word in _TORCHTITAN.split() for w in self.shell.fields(word)), *expanded[1:]]
        if expanded[0] in ("swift", "megatron"):  # one process where it shows itself one device
            one = str(self.shell.values.get("CUDA_VISIBLE_DEVICES", "")).isdigit()
            ranks = self.shell.text("${NPROC_PER_NODE:-1}" if one else "${NPROC_PER_NODE:-}")
            expanded[1:1] = [f"--nproc-per-node={ranks}"] if ranks else []
        if expanded[0] == "set" and "--" in expanded:
            self._arguments(expanded[expanded.index("--") + 1 :])
        elif expanded[0] == "shift":
            before, count = self.shell.values["@"], int(expanded[1]) if expanded[1:] and expanded[1].isdigit() else 1
            self._arguments(list(before)[count:], "" if before else None)
        elif expanded[0] in self.functions:
            self._call(expanded)
        elif expanded[0] == "eval":
            self._handed(" ".join(expanded[1:]), self.line or written[0].start_point.row + 1)
        elif (
            (expanded[0] == "exit" or (expanded == ["exec"] and not redirects))
            and len(expanded) < 3
            and not self.called
        ):
            self.ended = True
        elif expanded[0] in ("source", ".") and len(expanded) > 1 and len(self.called) < 8:
            text = self.open_file(expanded[1])
            if text is not None and expanded[1] not in self.called:  # else its variables stay unknown
                self.called.append(expanded[1])
                self.follow([_parsed(text)])
                self.called.pop()
        else:
            own = not self.shell.values["@"] and any(_raw(node).strip('"') in ("$@", "${@}", "$*") for node in written)
            names = self.exported | {_raw(node).partition("=")[0] for node in assigned}
            seen = {name: value for name in names if isinstance(value := self.shell.values.get(name), str)}
            self._ran(Command(expanded, self.line or written[0].start_point.row + 1, own, seen))

    def _other(self, command: Command) -> bool:
        """Follow a script that is here and that a command starts; it sees what is exported to it, and the job around it."""
        words = command.words
        at = next((i for i, word in enumerate(words) if SCRIPT.search(word)), -1)
        starts = at == 0 or (at > 0 and {words[0].rpartition("/")[2], words[at - 1]} & {*_STARTERS})
        if not starts or len(self.called) > 3 or words[at] in self.called:
            return False
        text = self.script.files.get(words[at].rpartition("/")[2]) or self.open_file(words[at])
        if text is None:
            return False
        outer, functions, job = self.shell.values, self.functions, batch_header(text)
        seen = {k: v for k, v in outer.items() if k.startswith("SLURM_")} | command.environment
        seen |= dict(word.split("=", 1) for word in words[1:at] if _ASSIGN.fullmatch(word))
        self.shell.values, self.functions = {**_batch_variables(job), **seen}, {}
        self.script.devices = self.script.devices or batch_devices(job)
        self.script.chip = self.script.chip or batch_chip(job)
        self.called.append(words[at])
        self._arguments(words[at + 1 :], "")
        self._handed(text, command.line)
        self.called.pop()
        self.shell.values, self.functions, self.ended = outer, functions, False
        return True

    def _either(self, assigned: list[Node], written: list[Node], redirects: list[Node]) -> bool:
        """A command with a variable of which branches left several texts: once with each of them."""
        texts = [_raw(node) for node in (*assigned, *written, *(n for r in redirects for n in _target(r)))]
        names = dict.fromkeys(name for text in texts for name in _NAMED.findall(text))
        name = next((one for one in names if alternatives(self.shell.values.get(one))), None)
        if name is None or self.steps > STEPS:
            return False
        before, left = dict(self.shell.values), []
        for way in alternatives(before[name]):
            self.shell.values = {**before, name: way}
            self._simple(assigned, written, redirects)
            kept = self.shell.values.get(name) is way  # the command did not set it
            left.append(self.shell.values | ({name: before[name]} if kept else {}))
        self.shell.values = merged(left)
        return True

    def _ran(self, command: Command) -> None:
        """A command, and that which it hands to another shell: `srun bash -c "..."`."""
        for before, after in pairwise(range(len(command.words))):
            shell = command.words[before - 1].rpartition("/")[2]
            if command.words[before] in ("-c", "-lc", "-ec", "-euc") and shell in ("bash", "sh", "zsh"):
                self._handed(command.words[after], command.line)
                return
        base = command.words[-1].rpartition("/")[2]
        if command.words[0] == "sed" and base in self.script.files:  # fills in a file that the script wrote
            for match in re.finditer(r"(?:^|\0|;)s([/|#@])(.+?)\1(.*?)\1", "\0".join(command.words[1:-1])):
                self.script.files[base] = self.script.files[base].replace(match[2], match[3])
        if not self._other(command):
            self.script.commands.append(command)

    def _substituted(self, text: str) -> None:
        """`PID=$(start_server ...)`: a function of the script runs, or a launch, and what it prints stays unknown."""
        name = text.split(maxsplit=1)[0] if text.split() else ""
        if (name in self.functions and name not in self.called) or (_LAUNCHED.search(text) and self.depth < DEPTH // 2):
            undecided, before = list(self.script.undecided), dict(self.shell.values)
            self._handed(text, self.line or 0)
            self.script.undecided, self.shell.values = undecided, before

    def _handed(self, text: str, line: int) -> None:
        """The commands of a text that a command on this line runs."""
        outer, self.line = self.line, line
        self.follow([_parsed(text)])
        self.line = outer

    def _call(self, words: list[str]) -> None:
        if len(self.called) > 20 or self.called.count(words[0]) > 2:
            return
        outer = {k: self.shell.values.get(k) for k in "@*#123456789"}
        self.called.append(words[0])
        self._arguments(words[1:], "")
        self.follow([self.functions[words[0]]])
        self.called.pop()
        self._put(outer)

    def _arguments(self, words: list[str], missing: str | None = None) -> None:
        """What $@, $# and $1 to $9 are from here on."""
        own: dict[str, Value | None] = {str(n): words[n - 1] if n <= len(words) else missing for n in range(1, 10)}
        self._put({"@": words, "*": words, "#": str(len(words)), **own})

    def _put(self, values: Mapping[str, Value | None]) -> None:
        self.shell.values = {k: v for k, v in {**self.shell.values, **values}.items() if v is not None}

    def _assigns(self, node: Node) -> None:
        match = _ASSIGN.fullmatch(_raw(node))
        if match is None:
            return
        name, adds, written = match.groups()
        array = node.child_by_field_name("value")
        value: Value
        if array is not None and array.type == "array":
            items = [c for c in array.named_children if c.type != "comment"]
            value = [w for item in items for w in self.shell.fields(_raw(item))]
        else:
            value = self.shell.text(written)
        before = self.shell.values.get(name)
        if adds and isinstance(value, list):
            value = [*(before if isinstance(before, list) else [before] if before else []), *value]
        elif adds and isinstance(before, str) and isinstance(value, str):
            value = before + value
        self.shell.values[name] = value

    def _writes(self, redirects: list[Node], words: list[str]) -> None:
        """`cat <<EOF > file` or `echo ... >> file`: what the script would put there."""
        files = [r for r in redirects if r.type == "file_redirect" and r.children[0].type in (">", ">|", ">>")]
        target = next((node for redirect in files for node in _target(redirect)), None)
        text = self._document(redirects) if target is not None else None
        text = echoed(words) if text is None and words[:1] == ["echo"] else text
        if target is not None and text is not None:
            name = self.shell.text(_raw(target)).rpartition("/")[2]
            before = self.script.files.get(name, "") if any(r.children[0].type == ">>" for r in files) else ""
            self.script.files[name] = before + text.removesuffix("\n") + "\n"

    def _document(self, redirects: list[Node]) -> str | None:
        """The text of a here-document or a here-string; None where there is none."""
        if line := next((r for r in redirects if r.type == "herestring_redirect"), None):
            return self.shell.text(_raw(line.named_children[-1])) if line.named_children else ""
        document = next((r for r in redirects if r.type == "heredoc_redirect"), None)
        if document is None:
            return None
        body = next((c for c in document.children if c.type == "heredoc_body"), None)
        mark = next((_raw(c) for c in document.children if c.type == "heredoc_start"), "")
        text = _raw(body).rstrip("\t").removesuffix("\n") if body is not None else ""
        if document.children[0].type == "<<-":
            text = re.sub(r"^\t+", "", text, flags=re.MULTILINE)
        if mark[:1] not in tuple("'\"\\"):
            text = self.shell.document(text)
        return text

    def _if(self, node: Node) -> None:
        """Branches in order: the first whose condition holds; from one that cannot be decided on, all that may run."""
        maybe: list[list[Node]] = []
        skipped: list[Node] = []
        for condition, branch in _branches(node):
            holds = True if condition is None else self._decided(condition)
            # `if trtllm-bench --model ...; then`
            self.follow(
                [
                    one
                    for one in condition or []
                    if " --" in _raw(one) or _raw(one).lstrip("! ").split(maxsplit=1)[0] in self.functions
                ]
            )
            if holds is None:
                self.script.undecided.append(" ".join(" ".join(map(_raw, condition or [])).split())[:80])
            if holds is not False:
                maybe.append(branch)
            else:
                skipped += branch
            if holds:
                break
        else:
            maybe.append([])  # none of them may hold
        self._any(maybe)
        conditions = " ".join(_raw(one) for condition, _ in _branches(node) for one in condition or [])
        if self.ended and _ARGUMENTS.search(conditions):  # a script that checks its arguments is given them
            self.ended = False
            self.follow(skipped)

    def _any(self, ways: list[list[Node]]) -> None:
        """Follow alternative branches, each from the same start, and merge the variables they leave."""
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

    def _for(self, node: Node) -> None:
        body = node.child_by_field_name("body")
        if body is None:
            return
        if not any(c.type == "in" for c in node.children):
            self.follow([body])
            return
        name = _raw(node.child_by_field_name("variable") or body)
        items = [w for value in node.children_by_field_name("value") for w in self.shell.fields(_raw(value))]
        before = dict(self.shell.values)
        for item in items[:64]:
            self.shell.values[name] = unknown(f"${name}") if unknowns(item) else item
            self.follow([body])
            self.ended = False  # a `break` may have come first
        if any(_raw(value) == '"$@"' for value in node.children_by_field_name("value")):
            self._keep(before)

    def _while(self, node: Node) -> None:
        body = node.child_by_field_name("body")
        holds = self._decided([c for c in node.children_by_field_name("condition") if c.is_named])
        runs = holds is None or holds is (node.children[0].type == "while")
        if body is not None and _OPTIONS.search(_raw(body)):
            before, given = dict(self.shell.values), None
            known = before["@"] and not any(map(unknowns, before["@"]))
            while known and self.shell.values["@"] not in ([], given):
                given = self.shell.values["@"]
                self.follow([body])  # until nothing is shifted
            if not known:
                self.follow([body])
                self._keep(before)
        elif body is not None and runs:
            self.follow([body])

    def _keep(self, before: dict[str, Value]) -> None:
        """After a loop over the script's own options: without them, what had a value before keeps it."""
        if all(unknowns(word) for word in before["@"] or ()):
            had: dict[str, Value] = {k: v for k, v in before.items() if isinstance(v, str) and v and not unknowns(v)}
            left = self.shell.values
            new = [k for k, v in left.items() if not before.get(k) and isinstance(v, str) and unknowns(v)]
            self.shell.values = {k: v for k, v in left.items() if k not in new} | had

    def _case(self, node: Node) -> None:
        written = node.child_by_field_name("value")
        subject = self.shell.text(_raw(written)) if written is not None else ""
        items = [item for item in node.children if item.type == "case_item"]
        arms = [([_raw(p) for p in item.children_by_field_name("value")], _after(item, ")")) for item in items]
        asked = not (subject or self.called or self.shell.values["@"])  # an argument of the script
        if not unknowns(subject) and not asked:
            found = [b for p, b in arms if any(fnmatchcase(subject, self.shell.text(one)) for one in p)]
            self._any(found[:1] or [[]])
            return
        self.script.undecided.append(f"case {_raw(written) if written is not None else ''}")
        otherwise: list[list[Node]] = [] if any("*" in patterns for patterns, _ in arms) else [[]]
        self._any([b for _, b in arms] + otherwise or [[]])

    def _decided(self, condition: list[Node]) -> bool | None:
        """Whether a condition holds, as far as that can be known without running."""
        return self._holds(condition[0]) if len(condition) == 1 else None

    def _holds(self, node: Node) -> bool | None:
        children = [c for c in node.children if c.type not in ("[", "]", "[[", "]]", "(", ")")]
        if node.type in ("list", "binary_expression") and len(children) == 3:
            sign = _raw(children[1])
            if sign in ("&&", "||"):
                left, right, settles = self._holds(children[0]), self._holds(children[2]), sign == "||"
                return settles if settles in (left, right) else None if None in (left, right) else not settles
            sides = children[0].children if _raw(children[0])[0] == "!" else children[:1]  # ! binds to the left one
            return self._compared([_raw(part) for part in (*sides, *children[1:])])
        if node.type in ("negated_command", "unary_expression") and len(children) == 2:
            if children[0].type == "!":
                holds = self._holds(children[1])
                return None if holds is None else not holds
            return self._compared([_raw(child) for child in children])
        if node.type in ("test_command", "parenthesized_expression"):
            return self._holds(children[0]) if len(children) == 1 else None
        if node.type == "command":
            words = [_raw(child) for child in children]
            if words in (["true"], ["false"]):
                return words == ["true"]
            return self._compared(words[1:]) if words[0] == "test" else None
        return self._compared([_raw(node)]) if node.type in _WORDS else None

    def _compared(self, words: list[str]) -> bool | None:
        if words[0] == "!" and words[1:]:
            holds = self._compared(words[1:])
            return None if holds is None else not holds
        values = [self.shell.text(word) for word in words]
        if words[0] in ("-n", "-z") or len(words) == 1 or "" in values[::2]:
            # a script that asks whether it has an argument, or a variable that it takes from one: it has none
            values = ["" if _GIVEN.fullmatch(readable(value)) and unknowns(value) else value for value in values]
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
            whole = left.lstrip("-").isdigit() and right.lstrip("-").isdigit()
            return _NUMBERS[sign](int(left), int(right)) if whole else None
        if sign in ("=", "==", "!="):
            return fnmatchcase(left, right.replace("[", "[[]")) == (sign != "!=")
        return None


_ARGUMENTS = re.compile(r"\$\{?[#1-9@*]|-z +\"?\$|\$\w+\"? ==? *(\"\"|'')")  # or variables that the caller sets
_GIVEN = re.compile(r"\$\{?[1-9](:?-)?\}?")
SCRIPT = re.compile(r"\.(?:ba)?sh$|\.s(?:lurm|batch)$")
_STARTERS = "bash sh exec nohup setsid env sbatch srun timeout time sudo numactl".split()
_LAUNCHED = re.compile(r"(?s)\b(vllm serve|launch_server|torchrun|deepspeed|accelerate launch|trtllm-serve)\b.* -")
_OPTIONS = re.compile(r"\bshift\b|\$\{?OPTARG\b")  # what a loop over options has
_WORDS = ("word", "number", "string", "raw_string", "ansi_c_string", "translated_string", "concatenation", "command_name",
          "simple_expansion", "expansion", "command_substitution", "arithmetic_expansion")  # fmt: skip
# what run_train.sh of torchtitan starts, as its environment names it
_TORCHTITAN = "torchrun --nproc-per-node=${NGPU:-8} -m torchtitan.train --module=${MODULE-} --config=${CONFIG-} --job.config_file=${CONFIG_FILE-}"
_GROUPS = ("program", "pipeline", "negated_command", "compound_statement", "subshell", "do_group", "ERROR")


def _flat(node: Node) -> list[Node]:
    """The commands of a list joined by && and ||, from left to right."""
    found: list[Node] = []
    while node.type == "list" and node.named_child_count > 1:
        found.append(node.named_children[-1])
        node = node.named_children[0]
    return [node, *reversed(found)]


def _after(node: Node, mark: str) -> list[Node]:
    """Statements that follow a keyword or sign."""
    start = next((i for i, c in enumerate(node.children) if c.type == mark), len(node.children))
    return [c for c in node.children[start + 1 :] if c.is_named and c.type not in ("elif_clause", "else_clause")]


def _target(redirect: Node) -> list[Node]:
    return redirect.children_by_field_name("destination")[:1]


def _branches(node: Node) -> Iterator[tuple[list[Node] | None, list[Node]]]:
    """(condition, branch) of an `if`; the condition of `else` is None."""
    for clause in (node, *(c for c in node.children if c.type in ("elif_clause", "else_clause"))):
        if clause.type == "else_clause":
            yield None, _after(clause, "else")
        else:
            then = next((i for i, c in enumerate(clause.children) if c.type == "then"), len(clause.children))
            yield [c for c in clause.children[1:then] if c.is_named], _after(clause, "then")


# the header of a batch job: #SBATCH lines
_BATCH_LINE = re.compile(r"^#SBATCH[ \t]+(-.+)$", re.MULTILINE)
_BATCH_SHORT = {"N": "nodes", "n": "ntasks", "G": "gpus", "c": "cpus-per-task"}
_BATCH_COUNT = re.compile(r"(?:.*:)?(\d+)(?:\(.*)?$")


def batch_header(text: str) -> dict[str, str]:
    """Options of the #SBATCH lines by their long names, as in Slurm 24.05 (slurm.schedmd.com/sbatch.html); ##SBATCH is a comment."""
    found: dict[str, str] = {}
    for match in _BATCH_LINE.finditer(text):
        try:
            words = shlex.split(match[1], comments=True)
        except ValueError:
            continue
        for word, after in pairwise([*words, ""]):
            if word.startswith("--"):
                name, equals, value = word[2:].partition("=")
                found[name] = value if equals else after
            elif word.startswith("-") and word[1:2] in _BATCH_SHORT:
                found[_BATCH_SHORT[word[1]]] = word[2:].lstrip("=") or after
    return found


def _count(written: str | None) -> int | None:
    """The number in `4`, `a100:4` or `gpu:h100:8`; None for a range, a list or nothing."""
    match = _BATCH_COUNT.match(written or "")
    return int(match[1]) if match else None


def _per_node(job: dict[str, str]) -> int | None:
    gres = job.get("gres", "")
    return _count(job.get("gpus-per-node")) or (_count(gres) if gres.startswith("gpu") else None)


def batch_devices(job: dict[str, str]) -> int | None:
    """Accelerators of the job: its total, or nodes times those of a node; None where neither is given."""
    nodes, each = _count(job.get("nodes")), _per_node(job)
    tasks, of_task = _count(job.get("ntasks")), _count(job.get("gpus-per-task"))
    by_task = tasks * of_task if tasks and of_task else None
    return _count(job.get("gpus")) or (nodes * each if nodes and each else None) or by_task


def batch_chip(job: dict[str, str]) -> str:
    """The accelerator that a job asks for by name, as in --gres=gpu:h100:8; empty for none."""
    asked = [job.get(name, "") for name in ("gres", "gpus-per-node", "gpus", "gpus-per-task")]
    found = (re.fullmatch(r"(?:gpu:)?(?!gpu:)([A-Za-z][-\w]*):\d+", one) for one in asked)
    return next((match[1] for match in found if match), "")


def _batch_variables(job: dict[str, str]) -> dict[str, str | list[str]]:
    """Variables that Slurm sets for the script."""
    nodes, each = _count(job.get("nodes")), _per_node(job)
    of_node = _count(job.get("ntasks-per-node"))
    tasks = _count(job.get("ntasks")) or (nodes * of_node if nodes and of_node else None)
    found = {
        "SLURM_NNODES": nodes, "SLURM_JOB_NUM_NODES": nodes, "SLURM_NTASKS": tasks, "SLURM_NPROCS": tasks,
        "SLURM_NTASKS_PER_NODE": of_node, "SLURM_GPUS_PER_NODE": each, "SLURM_GPUS_ON_NODE": each,
        "SLURM_GPUS": batch_devices(job),
    }  # fmt: skip
    return {name: str(count) for name, count in found.items() if count}
