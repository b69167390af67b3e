"""Textbook exercises as commands: the value of every row, current pages, and proof that both checks can fail."""

from __future__ import annotations

import dataclasses
import importlib.util
import sys
from types import ModuleType

import pytest
from conftest import ROOT

EXERCISES, STATEMENTS, PROBLEMS = 60, 41, 94


def load(name: str) -> ModuleType:
    """A module of docs/exercises, which is no package."""
    sys.path.insert(0, str(ROOT / "docs" / "exercises"))
    try:
        spec = importlib.util.spec_from_file_location(
            f"docs_exercises_{name}", ROOT / "docs" / "exercises" / f"{name}.py"
        )
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
    finally:
        sys.path.pop(0)
    return module


generate = load("generate")
exercises = generate.exercises
ANSWERS = exercises.all_answers()


@pytest.mark.sampled(10)
@pytest.mark.parametrize("answer", ANSWERS, ids=[answer.name for answer in ANSWERS])
def test_the_command_gives_the_answer(answer):
    assert answer.holds(), f"{answer.ran()} gives {answer.got()!r}, expected {answer.expected()!r}"


@pytest.mark.slow
@pytest.mark.parametrize("name", exercises.PAGES)
def test_the_page_is_current(name):
    assert (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8") == generate.text(name), (
        "run python docs/exercises/generate.py"
    )


@pytest.mark.parametrize(
    ("name", "count"), [("workbook", EXERCISES), ("notes", STATEMENTS), ("scaling-book", PROBLEMS)]
)
def test_no_row_is_missing(name, count):
    ids = [str(row["id"]) for row in exercises.rows(exercises.page(name))]
    assert len(ids) == len(set(ids)) == count


def test_no_answer_is_a_constant():
    """Every answer runs a command, and an expression mentions what the commands gave."""
    for answer in ANSWERS:
        assert answer.steps and all(command.strip() for command, _ in answer.steps.values())
        if "expression" in answer.ask:
            assert any(name in answer.ask["expression"] for name in answer.steps), answer.name


def test_every_erratum_of_a_row_is_listed():
    listed = (ROOT / "docs" / "errata.md").read_text(encoding="utf-8")
    wrong = {
        name: [str(row["id"]) for row in exercises.rows(exercises.page(name)) if "erratum" in row]
        for name in exercises.PAGES
    }
    for row in wrong["workbook"]:
        assert f"| workbook {row[1:]} |" in listed
    for row in wrong["notes"]:
        assert f"| notes {row.partition('-')[0]}" in listed
    assert listed.count("| Scaling Book, ") >= len(wrong["scaling-book"])


def changed(answer, **to):
    return dataclasses.replace(answer, ask={**answer.ask, **to})


def test_a_wrong_value_is_caught():
    """Two per mille off, or the value a source prints in error, does not pass."""
    numbers = [
        a
        for a in ANSWERS
        if isinstance(a.ask.get("value"), (int, float)) and not isinstance(a.ask["value"], bool) and "says" not in a.ask
    ]
    assert len(numbers) > 150
    for answer in numbers[::5]:
        off = answer.ask["value"] * (1 + 3 * max(answer.ask.get("tolerance", 0), 1e-3)) + (answer.ask["value"] == 0)
        assert not changed(answer, value=off).holds(), answer.name
    tokens = next(a for a in ANSWERS if a.row == "W10.5")
    assert not changed(tokens, value=32).holds()


@pytest.mark.slow
def test_a_stale_page_a_wrong_row_and_a_strange_key_are_caught(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(sys, "argv", ["generate.py", "--check"])
    assert generate.main() == 0
    monkeypatch.setattr(generate, "text", lambda name: "something else")
    assert generate.main() == 1 and "stale: docs/workbook.md" in capsys.readouterr().out
    monkeypatch.undo()
    monkeypatch.setattr(sys, "argv", ["generate.py", "--check"])
    monkeypatch.setattr(exercises, "all_answers", lambda: [changed(ANSWERS[0], value=1.0)])
    assert generate.main() == 1 and "wrong: W0.1" in capsys.readouterr().out
    (tmp_path / "docs" / "exercises").mkdir(parents=True)
    (tmp_path / "docs" / "exercises" / "workbook.yaml").write_text("chapters: [{rows: [{id: X, quetsion: typo}]}]\n")
    monkeypatch.setattr(exercises, "ROOT", tmp_path)
    with pytest.raises(ValueError, match="quetsion"):
        exercises.page("workbook")


@pytest.mark.parametrize("text", ["__import__('os')", "a.b", "[1]", "open('x')", "'text'"])
def test_an_expression_is_arithmetic_only(text):
    with pytest.raises((ValueError, KeyError)):
        exercises.evaluate(text, {"a": 1})
