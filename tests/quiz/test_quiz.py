"""`roofline quiz`: graded by the derivation; a slip is named and does not score; every exercise is one of the textbooks'."""

from __future__ import annotations

import io
import json
import random
import re

import pytest
import yaml
from conftest import ROOT, run_cli

from rooflinecli.core.errors import UsageError
from rooflinecli.interfaces.mcp import tools
from rooflinecli.questions.quiz.question import CHAPTERS, DrawnExercise, Quiz, exercises, graded

UNITLESS = ("1", "params", "tokens", "sequences", "devices", "microbatches", "nodes")


def written(value: float, unit: str) -> str:
    """An answer as a person types it, without a prefix."""
    return f"{value!r} {unit}" if unit not in UNITLESS else repr(value)


@pytest.fixture(autouse=True)
def _state(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


@pytest.mark.slow
def test_two_hundred_answers_by_the_derivation_score_two_hundred_and_by_a_wrong_factor_none():
    asked = list(Quiz(count=200).drawn(11))
    assert {one.chapter for one in asked} == set(CHAPTERS)
    right = [one.graded(written(one.answer, one.unit)) for one in asked]
    assert graded(11, right).right == 200, [one for one in right if one.verdict != "right"]
    factors = random.Random(5)
    wrong = [
        one.graded(written(one.answer * factors.choice((0.1, 0.5, 0.7, 1.1, 2, 3, 8, 1e3)), one.unit)) for one in asked
    ]
    assert graded(11, wrong).right == 0 and all(one.derivation for one in wrong)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("exercise", exercises(), ids=lambda row: f"{row['chapter']}-{row['formula']}")
def test_an_exercise_is_one_of_the_textbooks(exercise):
    """The row that it names asks for the same formula; the published answer of that row is tested in tests/textbook."""
    pages = [
        yaml.load((ROOT / "docs" / "exercises" / f"{name}.yaml").read_text(), yaml.CSafeLoader)
        for name in ("workbook", "notes", "scaling-book")
    ]
    rows = {str(row["id"]): row for page in pages for chapter in page["chapters"] for row in chapter["rows"]}
    assert f"formula {exercise['formula']} " in yaml.safe_dump(rows[exercise["row"]], width=10_000)
    assert exercise["chapter"] in CHAPTERS
    for seed in range(30):
        drawn = DrawnExercise(exercise, random.Random(seed))
        assert drawn.answer > 0 and "{" not in drawn.question
        assert drawn.graded(written(drawn.answer * 1.01, drawn.unit)).verdict == "right"
        for factor, slip in drawn.slips.items():
            found = drawn.graded(written(drawn.answer * factor, drawn.unit))
            assert (found.verdict, found.remark) == ("nearly", slip)


@pytest.mark.parametrize(
    ("formula", "typed", "verdict", "remark"),
    [
        ("all_reduce_volume", "{:.6g} b", "wrong", "the unit is missing|unknown unit"),
        ("all_reduce_volume", "8e0 B", "wrong", None),
        ("training_flops_rule", "12", "wrong", "the unit is missing"),
        ("memory_time", "twelve", "wrong", "not a number"),
    ],
)
def test_what_cannot_be_read_says_why(formula, typed, verdict, remark):
    drawn = DrawnExercise(next(row for row in exercises() if row["formula"] == formula), random.Random(0))
    found = drawn.graded(typed.format(drawn.answer))
    assert found.verdict == verdict and (remark is None or re.search(remark, found.remark))


@pytest.mark.parametrize(
    ("factor", "slip"), [(8.0, "bits"), (2.0**30 / 1e9, "GiB"), (1e9 / 2.0**30, "GiB"), (1e3, "prefix")]
)
def test_a_slip_of_units_is_named(factor, slip):
    drawn = DrawnExercise(next(row for row in exercises() if row["formula"] == "kv_cache_rule"), random.Random(1))
    found = drawn.graded(f"{drawn.answer * factor!r} B")
    assert found.verdict == "nearly" and slip in found.remark


@pytest.mark.slow
def test_no_exercise_comes_twice_before_all_were_asked():
    chapter = [row for row in exercises() if row["chapter"] == "gpus"] + [
        row for row in exercises() if row["chapter"] == "tpus"
    ]
    formulas = [one.question.split()[:4] for one in Quiz(chapter="tpus", count=4).drawn(3)]
    assert len({tuple(words) for words in formulas}) == 4 and chapter


@pytest.mark.slow
def test_on_standard_input_and_the_score_of_two_sittings(monkeypatch, tmp_path):
    asked = list(Quiz(count=3).drawn(5))
    answers = [written(asked[0].answer, asked[0].unit), "", written(asked[2].answer * 2, asked[2].unit)]
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(answers) + "\n"))
    ran = run_cli("quiz", "--seed", "5", "--count", "3")
    assert ran.code == 0 and asked[1].question.split("{")[0][:30] in ran.out
    assert "1 of 2 right" in ran.out and "is nearly" in ran.out
    again = run_cli("quiz", "--seed", "5", "--count", "3", "--answer", answers[0])
    assert "1 of 1 right" in again.out and "2 of 3 in 2 sittings" in again.out
    rows = [json.loads(line) for line in (tmp_path / "rooflinecli" / "quiz.jsonl").read_text().splitlines()]
    assert [(row["right"], row["answered"], row["seed"]) for row in rows] == [(1, 2, 5), (1, 1, 5)]
    (tmp_path / "other").write_text("no scores\n")
    assert (
        "keeps no score"
        in run_cli("quiz", "--seed", "5", "--answer", answers[0], "--score", str(tmp_path / "other")).out
    )


def test_questions_carry_no_answer_until_they_are_answered():
    found, _ = tools.call("quiz", {"seed": 4, "count": 2})
    assert all("answer" not in one and "derivation" not in one for one in found["answer"]["exercises"])
    assert run_cli("quiz", "--seed", "4", "--count", "2", "--format", "json").json == found["answer"]


def test_answers_need_the_seed_and_no_more_than_were_asked():
    with pytest.raises(UsageError, match="requires --seed"):
        Quiz(answers=["1"])
    with pytest.raises(UsageError, match="2 answers to 1"):
        Quiz(answers=["1", "2"], seed=1, count=1)


def test_whole_things_are_right_where_things_are_counted_and_a_unit_is_named():
    row = next(row for row in exercises() if row["formula"] == "devices_for_bytes")
    asked = DrawnExercise(row | {"draw": {"capacity": ["96 GB"], "size": ["700 GB"]}}, random.Random(0))
    verdicts = {text: asked.graded(text).verdict for text in ("8", "8 devices", "7.29", "7", "9")}
    assert verdicts == {"8": "right", "8 devices": "right", "7.29": "right", "7": "wrong", "9": "wrong"}
    assert "8 whole" in str(asked.graded("9").answer_text)
    assert asked.graded("8 GB").remark == "GB measures B; a count is asked, of devices"
    rows = next(row for row in exercises() if row["formula"] == "matmul_critical_rows")
    assert (
        "both inputs and the output, all int8, are read or written once"
        in DrawnExercise(rows, random.Random(0)).question
    )


def test_q_ends_a_sitting(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr("sys.stdin", io.StringIO("q\n1\n"))
    ran = run_cli("quiz", "--seed", "3", "-n", "2")
    assert ran.code == 0 and "1/2" in ran.out and "2/2" not in ran.out


def test_a_terminal_is_asked_again_for_a_unit(monkeypatch):
    from rooflinecli.interfaces.cli.quiz import _line

    typed = io.StringIO("12\n12 B\n")
    typed.isatty = lambda: True
    monkeypatch.setattr("sys.stdin", typed)
    assert _line("B") == "12 B"


def test_microbatches_that_are_asked_for_keep_the_bubble_below_the_share():
    """12 microbatches of 4 stages have a bubble of 20%, which is not below it: 13 are the answer."""
    text = (ROOT / "rooflinecli/questions/quiz/exercises.yaml").read_text(encoding="utf-8")
    assert re.search(r"question: (.*)\n +formula: microbatches_for_bubble", text)[1].count("below {fraction}") == 1
    assert (
        run_cli("formula", "microbatches_for_bubble", "pp=4", "fraction=20%", "virtual_stages=1").out.count("13") == 1
    )
