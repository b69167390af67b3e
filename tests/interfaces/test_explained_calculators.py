"""`--explain` of every calculator: the answer with traced inputs has the numbers of the plain one, and each number has a derivation or is given."""

from __future__ import annotations

import warnings

import pytest

from rooflinecli.core import num
from rooflinecli.core.derivation_text import derivation, explain
from rooflinecli.core.errors import UsageError
from rooflinecli.core.lift import TracedLift
from rooflinecli.core.record import leaves
from rooflinecli.interfaces import verbs
from rooflinecli.interfaces.cli.answers import VERBS
from rooflinecli.interfaces.cli.from_question import Explained
from rooflinecli.interfaces.web.form import example

QUESTIONS = {
    question.verb: question
    for verb, row in VERBS.items()
    if issubclass(row.delivery, Explained) and verb != "profile"  # whose numbers a trace states
    for question in (verbs.several(verb) if row.help else (verbs.question(verb),))
}


@pytest.mark.sampled(30)
@pytest.mark.parametrize("verb", sorted(QUESTIONS))
def test_a_traced_answer_has_the_plain_numbers(verb):
    asked = QUESTIONS[verb].read(example(QUESTIONS[verb]))
    lift = TracedLift()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain = dict(leaves(asked.answer()))
        try:
            traced = asked.lifted(lift).answer(lift)
        except UsageError as error:
            assert "--explain" in str(error)  # a verb that says why it explains nothing
            return
    found = dict(leaves(traced))
    assert found.keys() == plain.keys()
    derived = [path for path, value in found.items() if value is not num.value(value)]
    assert derived or verb == "fit"
    for path, value in plain.items():
        if isinstance(value, (int, float)):
            assert num.value(found[path]) == pytest.approx(value, nan_ok=True), path
    for path in derived[:3]:
        assert explain(derivation(traced, path), 2)


@pytest.mark.parametrize(
    "matmul", ["X[I, J] W[J, K]", "X[I_x, J] W[J_y, K]", "X[I, J_x] W[J_x, K]", "X[I_x, J] W[J, K_x]"]
)
def test_all_four_cases_of_a_sharded_matmul_are_explained(matmul):
    from rooflinecli.questions.shard.question import Shard

    asked = Shard(matmul=matmul, mesh="x=4,y=2", sizes="I=1k,J=4k,K=8k", hw="h100")
    lift = TracedLift()
    traced = asked.lifted(lift).answer(lift)
    assert num.value(traced["time_s"]) == asked.answer()["time_s"] and "µs" in explain(derivation(traced, "time_s"), 2)
