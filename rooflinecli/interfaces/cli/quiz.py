"""`roofline quiz`: exercises asked one by one, or graded at once, and the score of all sittings in a file."""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime
from pathlib import Path

from rooflinecli.core.text import plural
from rooflinecli.interfaces.cli.from_question import Delivery, command, show
from rooflinecli.interfaces.cli.output import columns, write
from rooflinecli.questions.quiz.question import AskedExercise, Quiz, QuizAnswer, graded, read
from rooflinecli.specs.options import OptText, field


class QuizDelivery(Delivery):
    """Exercises asked on standard input unless --answer is given, and the file of scores."""

    # fmt: off
    score: OptText = field("file", "The file that keeps the score of each sitting; omitted: quiz.jsonl in $XDG_STATE_HOME/rooflinecli.", default=None)
    # fmt: on


def run(question: Quiz, how: QuizDelivery) -> int:
    """Ask and grade, or print the exercises where another format than a table is asked for; the exit code is 0 whatever the score."""
    if question.answers or how.format != "table" or how.out is not None:
        answer = question.answer()
        show(answer, "calculators.quiz", how, table="exercises")
    else:
        answer = _ask(question)
    if answer.answered:
        state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
        write(_kept(answer, question.chapter, Path(how.score or Path(state) / "rooflinecli" / "quiz.jsonl")))
    return 0


def _ask(question: Quiz) -> QuizAnswer:
    """Ask one exercise after another until standard input ends."""
    from rooflinecli.render.blocks import Prose, page
    from rooflinecli.render.formats.terminal import draw
    from rooflinecli.render.views.calculators import remarks

    seed, done, width = question.answer().seed, list[AskedExercise](), columns()
    for number, exercise in enumerate(question.drawn(seed), 1):
        write(draw(page([Prose(f"{number}/{question.count}  {exercise.question}", 5)]), width))
        written = _line(exercise.unit)
        if written is None or written in ("q", "quit"):
            break
        if written:
            done.append(exercise.graded(written))
            write(draw(page(remarks(done[-1])), width) + "\n")
    return graded(seed, done)


def _line(unit: str) -> str | None:
    """What was typed; None where standard input has ended. A terminal is asked again for what is not a number with its unit."""
    while True:
        sys.stdout.write(
            f"     in {unit}, empty to skip, q to end: " if unit != "1" else "     empty to skip, q to end: "
        )
        sys.stdout.flush()
        typed = sys.stdin.readline()
        written = typed.strip() if typed else None
        if not sys.stdin.isatty():
            write(written or "")
            return written
        try:
            if written and written not in ("q", "quit"):
                read(written, unit)
            return written
        except ValueError as error:
            write(f"     {error}")


def _kept(answer: QuizAnswer, chapter: str | None, path: Path) -> str:
    """The score, and that of all sittings in the file, this one added."""
    score = f"{answer.right} of {answer.answered} right (--seed {answer.seed} asks the same)"
    row = {"date": datetime.now(UTC).isoformat(timespec="seconds"), "seed": answer.seed, "chapter": chapter}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a+", encoding="utf-8") as file:
            file.write(json.dumps(row | {"right": answer.right, "answered": answer.answered}) + "\n")
            file.seek(0)
            rows = [json.loads(line) for line in file if line.strip()]
    except (OSError, ValueError) as error:
        return f"{score}; {path} keeps no score ({getattr(error, 'strerror', None) or 'it is not a file of scores'})"
    right, answered = sum(row["right"] for row in rows), sum(row["answered"] for row in rows)
    return f"{score}; {right} of {answered} in {plural(len(rows), 'sitting')}\nkept in {path}"


app = command(Quiz, run, QuizDelivery)
