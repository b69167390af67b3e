"""`benchmarks/against.py --numbers`: what differs between two checkouts is counted by class, and needs a reason."""

from __future__ import annotations

from itertools import islice

from benchmarks import figures

QUESTION = {
    "model": "llama-3-8b",
    "hw": "h100-sxm",
    "phase": "train",
    "n": 8,
    "recompute": "none",
    "dtype": "bf16",
    "pp": 1,
}


def test_questions_are_the_same_each_time_and_can_be_answered():
    first, second = (list(islice(figures.questions(["llama-3-8b"], ["h100-sxm"]), 12)) for _ in range(2))
    assert first == second
    assert sum("refused" not in figures.answer(question) for question in first) >= 6


def test_equal_answers_differ_in_nothing():
    found = figures.answer(QUESTION)
    lines, explained = figures.compare([(QUESTION, found, found)])
    assert explained
    assert all(" 0 differ" in line for line in lines if "differ" in line)


def test_a_count_that_changed_for_no_known_reason_is_listed():
    now = figures.answer(QUESTION)
    before = {**now, "phases.train.flops": now["phases.train.flops"] * 1.001}
    lines, explained = figures.compare([(QUESTION, before, now)])
    assert not explained
    assert any(line.strip().startswith("phases.train.flops:") for line in lines)


def test_a_known_reason_holds_only_where_it_can():
    """Weights in 8 bits are kept in 16 while training: of a step in bf16 nothing of it is true."""
    path = "phases.train.memory.weights_bytes"
    narrow = figures.answer({**QUESTION, "dtype": "fp8"})
    assert "8 bits" in figures.cause(path, narrow)
    assert not figures.cause(path, figures.answer(QUESTION))
    assert not figures.cause("phases.train.flops", narrow)


def test_an_expected_time_may_follow_a_fit():
    now = figures.answer(QUESTION)
    lines, explained = figures.compare(
        [(QUESTION, {**now, "phases.train.time_s": now["phases.train.time_s"] * 2}, now)]
    )
    assert explained
    assert any(line.strip().endswith("expected, 1 differ") for line in lines)


def test_the_order_of_a_sum_is_no_difference():
    assert not figures.differs(1e9, 1e9 * (1 + 1e-15))
    assert figures.differs(1e9, 1e9 * (1 + 1e-9))
    assert figures.differs(True, False)


def test_another_layout_is_not_compared():
    now = figures.answer(QUESTION)
    before = {**now, "phases.train.plan.tp": 2, "phases.train.flops": 1.0}
    lines, explained = figures.compare([(QUESTION, before, now)])
    assert explained
    assert "another layout is chosen" in lines[0]
