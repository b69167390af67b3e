"""`roofline quiz`: exercises of the workbook, the Scaling Book and the notes with fresh numbers, graded by the derivation."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterator
from dataclasses import field as key
from pathlib import Path
from typing import TypedDict

from rooflinecli.core import num, units
from rooflinecli.core.derivation import Traced
from rooflinecli.core.derivation_text import explain
from rooflinecli.core.record import OPTIONAL, Record
from rooflinecli.formulas import all_formulas
from rooflinecli.questions.formula.question import evaluate, parameters
from rooflinecli.questions.question import Question
from rooflinecli.specs.hardware import load_hardware
from rooflinecli.specs.options import OptText, OptWhole, Texts, Whole, field

TOLERANCE = 0.03  # of the answer: the book rounds to about 5%, a hand calculation to less
CHAPTERS = ("rooflines", "tpus", "sharding", "transformers", "training", "inference", "gpus")
# unit -> factor -> the slip behind it
SLIPS: dict[str, dict[float, str]] = {
    "B": {8.0: "that is bits; a byte has eight", 0.5: "two bytes a value, or both directions of a link, counted once", 2.0: "a factor of two too many: bytes a value, or directions of a link", 1 / 8: "divided by eight: the amounts given are bytes already"},
    "s": {8.0: "that takes the rate as bits a second", 2.0: "the rate is that of both directions together", 0.5: "the rate is that of one direction, or a multiply-add is two FLOPs"},
    "FLOP": {0.5: "a multiply-add is two FLOPs", 2.0: "a factor of two too many", 1 / 3: "the backward pass costs twice the forward", 3.0: "that counts a backward pass as well"},
    "": {2.0: "a factor of two too many: both directions, both matrices, or FLOPs of a multiply-add", 0.5: "a factor of two is missing: both directions, both matrices, or FLOPs of a multiply-add"},
}  # fmt: skip
PREFIXES = {1e3**k: f"off by 10^{3 * k}: check the prefix" for k in (-4, -3, -2, -1, 1, 2, 3, 4)}
BINARY = {
    2.0**30 / 1e9: "GB and GiB are mixed up",
    2.0**40 / 1e12: "TB and TiB are mixed up",
    2.0**20 / 1e6: "MB and MiB are mixed up",
}


class Exercise(TypedDict, total=False):
    """A row of exercises.yaml."""

    chapter: str
    row: str
    question: str
    formula: str
    draw: dict[str, list[object]]
    arguments: dict[str, str]
    factors: dict[float, str]
    unit: str
    whole: str


class AskedExercise(Record):
    """An exercise as asked. Its verdict (right, nearly, wrong), the answer and its derivation are there once it was answered."""

    chapter: str
    question: str
    unit: str
    source: str
    given: str | None = key(default=None, metadata=OPTIONAL)
    verdict: str | None = key(default=None, metadata=OPTIONAL)
    remark: str | None = key(default=None, metadata=OPTIONAL)
    answer: float | None = key(default=None, metadata=OPTIONAL)
    answer_text: str | None = key(default=None, metadata=OPTIONAL)
    derivation: str | None = key(default=None, metadata=OPTIONAL)


class QuizAnswer(Record):
    """The exercises of a seed, in order, and how many were answered right."""

    schema: str = "roofline/quiz/1"
    seed: int
    exercises: list[AskedExercise]
    right: int
    answered: int


class DrawnExercise:
    """An exercise at numbers that were drawn: its text, its traced value, and the slips it knows."""

    def __init__(self, exercise: Exercise, draw: random.Random):
        drawn = {name: str(draw.choice(values)) for name, values in exercise["draw"].items()}
        shown = dict(drawn)
        if "chip" in drawn:
            chip = load_hardware(drawn["chip"])
            drawn |= {"peak": f"{chip.peak['bf16'].si!r}FLOP/s", "bandwidth": f"{chip.memory.bandwidth.si!r}B/s"}
            shown |= {
                "chip": chip.name,
                "peak": units.si(chip.peak["bf16"].si, "FLOP/s", 4),
                "bandwidth": units.si(chip.memory.bandwidth.si, "B/s"),
            }
        formula = all_formulas()[exercise["formula"]]
        given = {name: text.format(**drawn) for name, text in exercise.get("arguments", {}).items()}
        written = [f"{name}={given.get(name, drawn.get(name, ''))}" for name in parameters(formula)]
        self.value: Traced = evaluate(formula, written)[0]
        self.chapter, self.question = exercise["chapter"], exercise["question"].format(**shown)
        self.unit = exercise.get("unit", formula.unit)
        self.source = formula.source
        self.whole: float | None = None  # the answer in whole things, where that is another right one
        if "whole" in exercise:
            self.whole = float({"up": math.ceil, "down": math.floor}[exercise["whole"]](self.answer))
        self.slips = {float(factor): slip for factor, slip in exercise.get("factors", {}).items()}

    @property
    def answer(self) -> float:
        """The answer in SI."""
        return float(num.value(self.value))

    def asked(self) -> AskedExercise:
        """The exercise without its answer."""
        return AskedExercise(chapter=self.chapter, question=self.question, unit=self.unit, source=self.source)

    def graded(self, written: str) -> AskedExercise:
        """The exercise with an answer and what is said of it."""
        found = self.asked()
        found.given, found.answer = written, self.answer
        plain, known = self.unit in ("1", "tokens", "params"), self.unit in units.UNITS
        written_out = units.count(self.answer, 4) if plain else units.si(self.answer, self.unit, 4) if known else ""
        found.answer_text = written_out or f"{self.answer:,.5g} {self.unit}"
        found.derivation = explain(self.value, 3)
        if self.whole is not None and self.whole != self.answer:
            found.answer_text += f", {self.whole:,.0f} whole"
        try:
            given = read(written, self.unit)
        except ValueError as error:
            found.verdict, found.remark = "wrong", str(error).partition(": ")[2] or str(error)
            return found
        slip = self._slip(given)
        right = given == self.whole or math.isclose(given, self.answer, rel_tol=TOLERANCE)
        found.verdict = "right" if right else "wrong" if slip is None else "nearly"
        found.remark = None if right else slip
        return found

    def _slip(self, given: float) -> str | None:
        """The slip whose factor lies between the answer given and the right one; the exercise's own first."""
        if given <= 0 or self.answer <= 0:
            return None
        ratio = given / self.answer
        binary = (
            {factor: slip for size, slip in BINARY.items() for factor in (size, 1 / size)} if self.unit == "B" else {}
        )
        for slips in (self.slips, SLIPS.get(self.unit, {}), SLIPS[""], binary, PREFIXES):
            for factor, slip in slips.items():
                if math.isclose(ratio, factor, rel_tol=TOLERANCE / 3):
                    return slip
        return None


def read(written: str, unit: str) -> float:
    """An answer in SI. Raises ValueError for one without a number, or without the unit that was asked for."""
    if unit in units.UNITS and unit not in ("1", "tokens"):
        return units.parse(written, unit)
    match = re.fullmatch(r"\s*([-+]?[\d.][\d_.eE+-]*)\s*([kKMGBTPE%]?)(?:\s*[A-Za-z/ ]*)", written)
    if match is None:
        raise ValueError(f"'{written}': expected a number{f' of {unit}' if unit != '1' else ''}")
    word = match[0].strip().removeprefix(match[1]).strip()
    measured = next((of for of in ("B", "B/s", "s", "FLOP", "FLOP/s") if word in units.UNITS[of]), None)
    if measured is not None and word not in units.UNITS["1"]:
        raise ValueError(
            f"'{written}': {word} measures {measured}; a count is asked{f', of {unit}' if unit != '1' else ''}"
        )
    return units.value(match[1]) * units.UNITS["1"].get(match[2], 1.0)


def exercises() -> list[Exercise]:
    """The rows of exercises.yaml."""
    import yaml

    rows: list[Exercise] = yaml.safe_load(Path(__file__).with_name("exercises.yaml").read_text(encoding="utf-8"))
    return rows


class Quiz(Question[QuizAnswer]):
    """Exercises with fresh numbers: answer with a number and its unit, and see the derivation.

    An answer is right within 3%; one that is off by a known factor (bits for bytes, one direction of a link, no backward pass) is
    nearly right, the factor is named, and it does not score. With --answer the answers are graded without asking.
    """

    verb = "quiz"
    examples = (
        "roofline quiz",
        "roofline quiz --chapter inference --count 3",
        "roofline quiz --seed 7 --count 2 --answer '18.6 us' --answer '42 ms'",
    )
    # fmt: off
    chapter: OptText = field("choice", "Exercises of one chapter", default=None, choices=CHAPTERS)
    count: Whole = field("whole", "How many exercises.", default=10, short="-n", also=("n",))
    seed: OptWhole = field("whole", "Draw the same exercises again; omitted: new ones.", default=None, least=0)
    answers: Texts = field("free", "An answer, in the order of the exercises, - for none; repeat.", default=None, several=True, metavar="ANSWER", also=("answer",))
    # fmt: on

    def drawn(self, seed: int) -> Iterator[DrawnExercise]:
        """The exercises of a seed: no row twice before each was asked."""
        draw = random.Random(seed)
        rows = [row for row in exercises() if self.chapter in (None, row["chapter"])]
        left: list[Exercise] = []
        for _ in range(self.count):
            left = left or draw.sample(rows, len(rows))
            yield DrawnExercise(left.pop(), draw)

    def answer(self) -> QuizAnswer:
        seed = random.randrange(10**6) if self.seed is None else self.seed
        written = [*self.answers, *[None] * (self.count - len(self.answers))]
        return graded(
            seed,
            [
                e.asked() if text in (None, "-") else e.graded(text)
                for e, text in zip(self.drawn(seed), written, strict=True)
            ],
        )


def graded(seed: int, asked: list[AskedExercise]) -> QuizAnswer:
    """The exercises of a seed with their score."""
    return QuizAnswer(
        seed=seed,
        exercises=asked,
        right=sum(one.verdict == "right" for one in asked),
        answered=sum(one.verdict is not None for one in asked),
    )
