"""Every pair of verbs on a few random questions of each kind; `agreement.py` puts as many as one has time for."""

from __future__ import annotations

import pytest
from properties import agreement

SEEDS = {
    "one_estimate": 6,
    "loads_agree": 30,
    "searched": 8,
    "sized": 6,
    "fits": 12,
    "billed": 12,
    "trained": 6,
    "checked": 6,
}
SLOW = {"restricted": 6}


@pytest.mark.parametrize(
    ("kind", "seed"),
    [
        pytest.param(kind, seed, marks=[pytest.mark.slow] if kind in SLOW else [])
        for kind, most in (SEEDS | SLOW).items()
        for seed in range(most)
    ],
)
def test_verbs_agree(kind: str, seed: int) -> None:
    assert not agreement.violations(kind, seed)


def test_questions_have_answers() -> None:
    assert set(SEEDS | SLOW) == set(agreement.KINDS)
    assert agreement.REFUSED.total() <= 8, agreement.REFUSED
