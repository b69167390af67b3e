"""Formulas that are rows of a table: a type checker sees neither their names nor their arguments, so every use in the package is checked here."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

import pytest

import rooflinecli
from rooflinecli.core.derivation import FORMULAS
from rooflinecli.formulas import all_formulas

PACKAGE = Path(rooflinecli.__file__).parent


def misused(source: str) -> list[str]:
    """Names that a table of formulas does not have, and calls with another number of arguments than the row has."""
    tree = ast.parse(source)
    modules: dict[str, str] = {}
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "rooflinecli.formulas":
            modules |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("rooflinecli.formulas."):
            names |= {alias.asname or alias.name: alias.name for alias in node.names if alias.name in FORMULAS}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            if not hasattr(import_module(modules[node.value.id]), node.attr):
                found.append(f"{node.lineno}: {node.value.id}.{node.attr}")
        elif isinstance(node, ast.Call):
            at, called = node.func, ""
            if isinstance(at, ast.Name):
                called = names.get(at.id, "")
            elif isinstance(at, ast.Attribute) and isinstance(at.value, ast.Name) and at.value.id in modules:
                called = at.attr
            row = FORMULAS.get(called)
            spread = any(isinstance(argument, ast.Starred) for argument in node.args)
            given = len(node.args) + len(node.keywords)
            arguments = 0 if row is None else row.function.__code__.co_argcount
            optional = () if row is None else row.function.__defaults__ or ()
            if row and row.written and not spread and not arguments - len(optional) <= given <= arguments:
                found.append(f"{node.lineno}: {called} with {given} arguments")
    return found


def test_rows_are_called_by_their_names_and_with_their_arguments():
    all_formulas()
    texts = {path: path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
    wrong = {path.name: misused(text) for path, text in texts.items() if "rooflinecli.formulas" in text}
    assert {name: lines for name, lines in wrong.items() if lines} == {}


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("from rooflinecli.formulas import energy as e\ne.tokens_per_jule(3)", ["2: e.tokens_per_jule"]),
        ("from rooflinecli.formulas import energy\nenergy.power_draw(1, 2)", ["2: power_draw with 2 arguments"]),
        ("from rooflinecli.formulas.offload import on_device as on\non(1)", ["2: on_device with 1 arguments"]),
        ("from rooflinecli.formulas import energy\nenergy.power_draw(1, 2, limit=3)\nenergy.power_draw(*it)", []),
    ],
)
def test_a_wrong_use_is_found(source, found):
    all_formulas()
    assert misused(source) == found
