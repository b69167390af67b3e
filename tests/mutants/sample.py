"""Mutants: the places of a source file that can be broken, and a seeded sample of them."""

from __future__ import annotations

import difflib
import random
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from operators import families
from parso.tree import search_ancestor

ROOT = Path(__file__).resolve().parents[2]
TARGETS = (
    "formulas",
    "price",
    "parallel",
    "phases",
    "memory.py",
    "engine",
    "specs",
    "simulate",
    "importers",
    "calibrate",
)
SKIPPED = ("fstring", "tfpdef", "raise_stmt", "assert_stmt", "decorator", "import_from")
COMPOUND = ("if_stmt", "while_stmt", "for_stmt", "with_stmt", "try_stmt")
Site = tuple[Any, int, Any]  # operator, occurrence, node


@dataclass(frozen=True)
class Mutant:
    """One change: its file and new text, the function it is in, the lines that a test must run to meet it, and the diff."""

    path: str
    function: str
    lines: tuple[int, int]
    text: str
    diff: str

    @property
    def line(self) -> int:
        """Where the change begins."""
        return int(self.diff.splitlines()[2].split()[1].lstrip("-").partition(",")[0])

    @property
    def key(self) -> tuple[str, ...]:
        """What equivalent.yaml knows it by: its function, and the lines taken out and put in."""
        changed = [line for line in self.diff.splitlines()[2:] if line[0] in "-+"]
        return (f"{self.path}::{self.function}", *(f"{line[0]} {line[1:].strip()}" for line in changed))


def source_files() -> list[Path]:
    """Files under test: the floors that compute an answer, and what reads a question for them."""
    places = [ROOT / "rooflinecli" / target for target in TARGETS]
    return sorted(f for p in places for f in ([p] if p.suffix else p.rglob("*.py")))


def sites(path: Path, family: str) -> list[Site]:
    """Every change of a family that a file allows."""
    nodes, result = _nodes(path), []
    for operator in families()[family]:
        count = 0
        for node in nodes:
            for _ in operator.mutation_positions(node):
                if _counts(node):
                    result.append((operator, count, node))
                count += 1
    return result


@cache
def _nodes(path: Path) -> list[Any]:
    """All nodes of a file's syntax tree, in the order in which Cosmic Ray counts occurrences."""
    return list(ast_nodes(get_ast(path.read_text(encoding="utf-8"))))


def _counts(node: Any) -> bool:
    """Arithmetic and decisions count; annotations, messages and decorators do not."""
    below, above = node, node.parent
    while above is not None:
        if above.type in SKIPPED or (above.type == "annassign" and below is above.children[1]):
            return False
        if above.type == "funcdef" and below not in (above.children[2], above.children[-1]):
            return False
        below, above = above, above.parent
    return True


def mutant(path: Path, site: Site) -> Mutant | None:
    """The change made at a site; None where it leaves no program, or the same one."""
    operator, occurrence, node = site
    before = path.read_text(encoding="utf-8")
    after = mutate_code(before, operator, occurrence)
    try:
        compile(after, str(path), "exec")
    except SyntaxError:
        return None
    name, function = str(path.relative_to(ROOT)), search_ancestor(node, "funcdef")
    diff = "\n".join(difflib.unified_diff(before.splitlines(), after.splitlines(), name, name, lineterm="", n=0))
    lines = _lines(node, function) if function else (1, 10**6)
    return Mutant(name, function.name.value if function else "module", lines, after, diff) if diff else None


def _lines(node: Any, function: Any) -> tuple[int, int]:
    """First and last line of the statement, or of the head of a compound one, that a node of a function is in."""
    body = function.children[-1]
    if node.type in COMPOUND:
        return node.start_pos[0], node.children[-1].start_pos[0]
    while node.parent is not function and node.parent.type not in (*COMPOUND, "suite"):
        node = node.parent
    if node.parent is function and node is not body:  # a default of a parameter: whatever calls the function
        return body.get_first_leaf().end_pos[0], function.end_pos[0]
    return node.start_pos[0], node.end_pos[0] - (not node.end_pos[1])  # a statement ends where the next line begins


def equivalent() -> set[tuple[str, ...]]:
    """Mutants that change nothing one could observe, listed with the reason."""
    listed = yaml.safe_load(Path(__file__).with_name("equivalent.yaml").read_text(encoding="utf-8"))
    return {(entry["function"], *entry["change"]) for entry in listed or ()}


def sample(n: int, seed: int) -> list[Mutant]:
    """`n` different mutants: a family of operators, then a site, drawn evenly; equivalent ones are passed over."""
    draw, found, skipped = random.Random(seed), dict[tuple[str, ...], Mutant](), equivalent()
    drawn = {f: [(path, site) for path in source_files() for site in sites(path, f)] for f in sorted(families())}
    while len(found) < n:
        path, site = draw.choice(drawn[draw.choice(sorted(drawn))])
        made = mutant(path, site)
        if made is not None and made.key not in skipped:
            found.setdefault(made.key, made)
    return list(found.values())
