"""Ctrl-C: what was done is printed, and a run that kept nothing says so; the exit code is 130."""

from __future__ import annotations

import pytest
from conftest import run_cli

from rooflinecli.core.extras import install
from rooflinecli.questions.plan.training import ChipPlan

PLAN = ("plan", "llama-3-8b", "--tokens", "100B", "--batch", "512", "--deadline", "9d", "-n", "64")


def test_a_plan_keeps_the_chips_that_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    answer, seen = ChipPlan.answer, []

    def interrupted(self: ChipPlan):
        if seen:
            raise KeyboardInterrupt
        seen.append(self.name)
        return answer(self)

    monkeypatch.setattr(ChipPlan, "answer", interrupted)
    ran = run_cli(*PLAN, "--hw", "h100,b200,mi300x")
    assert ran.code == 130 and "1 of 3 chips" in ran.err and "H100" in ran.out
    ran = run_cli(*PLAN, "--hw", "b200")
    assert ran.code == 130 and "nothing was kept" in ran.err and not ran.out


def test_validate_keeps_the_tables_before(monkeypatch: pytest.MonkeyPatch) -> None:
    from rooflinecli.validate import collectives, inference

    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr(inference, "tables", interrupted)
    alone = run_cli("validate", "inference")
    assert alone.code == 130 and "nothing was kept" in alone.err
    monkeypatch.setattr(collectives, "tables", interrupted)


def test_an_extra_is_installed_from_where_the_package_is() -> None:
    assert install("plot").startswith("pip install '/") and install("plot").endswith("[plot]'")
