"""Exercises of a quiz, graded or still to be answered."""

from __future__ import annotations

from rooflinecli.core.text import plural
from rooflinecli.questions.quiz.question import AskedExercise, QuizAnswer
from rooflinecli.render.blocks import Block, Command, Drawing, Headline, Note, Page, Prose, page


def view(answer: QuizAnswer) -> Page:
    """Each exercise with what is said of its answer; how to answer where none was given."""
    groups = [[Prose(f"{i}. {one.question}", 3), *remarks(one)] for i, one in enumerate(answer.exercises, 1)]
    if answer.answered:
        return page([Headline(f"{answer.right} of {answer.answered} right")], *groups)
    again = f"roofline quiz --seed {answer.seed} --count {len(answer.exercises)} --answer '...'"
    return page([Headline(plural(len(answer.exercises), "exercise"))], *groups, [Note("answer with"), Command(again)])


def remarks(one: AskedExercise) -> list[Block]:
    """The verdict on an answer, the slip, and the derivation where it was not right."""
    if one.verdict is None:
        return []
    slip = f": {one.remark}" if one.remark else ""
    said: list[Block] = [Prose(f"   {one.given} is {one.verdict}{slip}. The answer is {one.answer_text}.", 3)]
    lines = [f"   {line}" for line in str(one.derivation).splitlines()]
    return said if one.verdict == "right" else [*said, Drawing(lines)]
