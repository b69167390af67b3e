"""Small models as files; estimates of them on the hand chip as the JSON's dictionary."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from end_to_end_arithmetic.models import MODELS

from rooflinecli.engine import counted_loop
from rooflinecli.interfaces.python import api

HAND = str(Path(__file__).with_name("hand.yaml"))


@pytest.fixture
def means(monkeypatch: pytest.MonkeyPatch) -> None:
    """Formulas of means also for answers so short that their closed loop would be counted (engine/test_counted_loop.py)."""
    monkeypatch.setattr(counted_loop, "counted", lambda *_: None)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("end_to_end_arithmetic")
    for name, text in MODELS.items():
        (path / f"{name}.yaml").write_text(f"name: {name}\nsource: by hand\n{text}", encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def ask(folder: Path) -> Callable[..., dict[str, Any]]:
    """ask(model, phase, **options): the phase's part of the estimate on the hand chip, `whole` for all of it."""

    def estimate(model: str, phase: str, whole: bool = False, chip: str = HAND, **options: Any) -> dict[str, Any]:
        name = str(folder / f"{model}.yaml") if model in MODELS else model
        answer = api.estimate(name, chip, phase=phase, **{"n": 1, **options})
        return answer if whole else answer["phases"][phase]

    return estimate
