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
    "restricted": 6,
}
# seeds of the quick suite, those whose searches are short
QUICK = {
    "one_estimate": (5,),
    "loads_agree": (1, 9),
    "searched": (0, 5),
    "sized": (),  # tests/plan and test_verbs_agree ask the same of one service each
    "fits": (0,),
    "billed": (5,),
    "trained": (0,),
    "checked": (0, 5),
    "restricted": (),
}


@pytest.mark.sampled(10)
@pytest.mark.parametrize(
    ("kind", "seed"),
    [
        pytest.param(kind, seed, marks=[] if seed in QUICK[kind] else [pytest.mark.slow])
        for kind, most in SEEDS.items()
        for seed in range(most)
    ],
)
def test_verbs_agree(kind: str, seed: int) -> None:
    assert not agreement.violations(kind, seed)


def test_questions_have_answers() -> None:
    assert set(SEEDS) == set(agreement.KINDS)
    assert agreement.REFUSED.total() <= 8, agreement.REFUSED
