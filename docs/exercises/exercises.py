"""Textbook exercises of docs/exercises/*.yaml, answered by running their commands in this process.

A row has a question and one answer, or several under `answers`. An answer is either

    command, path                 one `roofline` command and the quantity in its JSON ("value" for `formula`)
    steps, expression             name -> "command -> path"; a later step may use {name}; the expression combines them
    command, exit, says           a refusal: the exit code, and words of the message

and its expected `value` (a number within the relative `tolerance`, a word, "> 1" for a condition, or "= B*D" in the
symbols of `let`). `let` also fills {B} in the commands. `printed` and `erratum` note where the source differs.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import io
import json
import math
import operator
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))
PAGES = ("workbook", "notes", "scaling-book")
SHARED = ("command", "steps", "path", "expression", "value", "tolerance", "unit", "let", "exit", "says", "label")
KNOWN = {*SHARED, "id", "question", "answers", "printed", "erratum", "note"}
_OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
}
_FUNCTIONS = {"ceil": math.ceil, "floor": math.floor, "sqrt": math.sqrt, "min": min, "max": max}


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str


@functools.cache
def run(command: str) -> Ran:
    """`roofline COMMAND` in this process, from the repository root."""
    from rooflinecli.interfaces.cli.main import main

    out, err, code, argv = io.StringIO(), io.StringIO(), 0, sys.argv
    sys.argv = ["roofline", *shlex.split(command)]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), contextlib.chdir(ROOT):
            main()
    except SystemExit as stop:
        code = int(stop.code or 0)
    finally:
        sys.argv = argv
    return Ran(code, out.getvalue(), err.getvalue())


def evaluate(text: str, names: dict[str, Any]) -> Any:
    """Arithmetic and comparisons over names; nothing else."""

    def visit(node: ast.AST) -> Any:
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
            return node.value
        if isinstance(node, ast.Name):
            return names[node.id]
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -visit(node.operand)
        if isinstance(node, ast.BinOp):
            return _OPERATORS[type(node.op)](visit(node.left), visit(node.right))
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            return _OPERATORS[type(node.ops[0])](visit(node.left), visit(node.comparators[0]))
        if isinstance(node, ast.BoolOp):
            return all(map(visit, node.values)) if isinstance(node.op, ast.And) else any(map(visit, node.values))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            return _FUNCTIONS[node.func.id](*map(visit, node.args))
        raise ValueError(f"{text}: {ast.dump(node)} is not arithmetic")

    return visit(ast.parse(text, mode="eval").body)


@dataclass(frozen=True)
class Answer:
    """One quantity of a row: its commands and its expected value."""

    row: str
    ask: dict[str, Any]

    @property
    def name(self) -> str:
        return f"{self.row} {self.ask['label']}" if "label" in self.ask else self.row

    @property
    def steps(self) -> dict[str, tuple[str, str]]:
        """name -> (command, path); {names} of earlier steps are still to be filled."""
        if "steps" in self.ask:
            return {name: tuple(text.split(" -> ")) for name, text in self.ask["steps"].items()}  # type: ignore[misc]
        return {"it": (self.ask["command"], self.ask.get("path", "value"))}

    def ran(self) -> list[tuple[str, str]]:
        """(command, path) of every step as run, without the output format."""
        return self._run()[0]

    def _run(self) -> tuple[list[tuple[str, str]], dict[str, Any]]:
        values: dict[str, Any] = dict(self.ask.get("let", {}))
        ran = []
        for name, (command, path) in self.steps.items():
            command = command.format(**values)
            ran.append((command, path))
            if "says" not in self.ask:
                values[name] = quantity(command, path, self.ask.get("exit", 0))
        return ran, values

    def got(self) -> Any:
        """The computed answer."""
        if "says" in self.ask:
            ran = run(self.ran()[0][0])
            return (
                ran.err.strip().removeprefix("roofline: ")
                if ran.code == self.ask["exit"]
                else f"exit {ran.code}: {ran.err}"
            )
        _, values = self._run()
        return evaluate(self.ask["expression"], values) if "expression" in self.ask else values[list(self.steps)[-1]]

    def expected(self) -> Any:
        value = self.ask.get("value")
        return (
            evaluate(value[1:].strip(), self.ask.get("let", {}))
            if isinstance(value, str) and value.startswith("=")
            else value
        )

    def holds(self) -> bool:
        got, want = self.got(), self.expected()
        if "says" in self.ask:
            return str(self.ask["says"]) in got
        if isinstance(want, str) and want[:1] in "<>":
            return bool(evaluate(f"it {want}", {"it": got}))
        if isinstance(want, (str, bool)):
            return bool(got == want)
        return got == want or abs(got - want) <= self.ask.get("tolerance", 0) * abs(want)


@functools.cache
def quantity(command: str, path: str, code: int) -> Any:
    """One quantity of a command's JSON. Raises ValueError when the command fails or has no such quantity."""
    ran = run(f"{command} --format json")
    if ran.code != code:
        raise ValueError(f"roofline {command}: exit {ran.code}, expected {code}: {ran.err.strip()}")
    node = json.loads(ran.out)
    for part in path.split("."):
        try:
            node = node[int(part)] if isinstance(node, list) else node[part]
        except (KeyError, IndexError, TypeError):
            raise ValueError(f"roofline {command}: no '{path}' in its answer") from None
    return node


def answers(row: dict[str, Any]) -> list[Answer]:
    """The answers of a row; keys on the row apply to all of them."""
    shared = {key: row[key] for key in SHARED if key in row}
    return [Answer(str(row["id"]), {**shared, **one}) for one in row.get("answers", [{}])]


def page(name: str) -> dict[str, Any]:
    """One YAML file: title, intro and chapters of rows. Raises ValueError for an unknown key."""
    data = yaml.load((ROOT / "docs" / "exercises" / f"{name}.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader)
    for row in rows(data):
        unknown = {*row, *(key for one in row.get("answers", []) for key in one)} - KNOWN
        if unknown:
            raise ValueError(f"{name}.yaml, {row.get('id')}: unknown {', '.join(sorted(unknown))}")
    return data


def rows(data: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for chapter in data["chapters"]:
        yield from chapter["rows"]


def all_answers() -> list[Answer]:
    return [
        answer
        for name in PAGES
        if (ROOT / "docs" / "exercises" / f"{name}.yaml").is_file()
        for row in rows(page(name))
        for answer in answers(row)
    ]
