"""The hand chip and small models as files; estimates of them as the JSON's dictionary."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from assembly.hand import CHIP
from assembly.models import MODELS

from rooflinecli import api


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("assembly")
    (path / "hand.yaml").write_text(CHIP, encoding="utf-8")
    for name, text in MODELS.items():
        (path / f"{name}.yaml").write_text(f"name: {name}\nsource: by hand\n{text}", encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def ask(folder: Path) -> Callable[..., dict[str, Any]]:
    """ask(model, phase, **options): the phase's part of the estimate on the hand chip, `whole` for all of it."""

    def estimate(model: str, phase: str, whole: bool = False, **options: Any) -> dict[str, Any]:
        chip = options.pop("chip", "hand")
        name = str(folder / f"{model}.yaml") if model in MODELS else model
        hw = str(folder / f"{chip}.yaml") if (folder / f"{chip}.yaml").exists() else chip
        answer = api.estimate(name, hw, phase=phase, **{"n": 1, **options})
        return answer if whole else answer["phases"][phase]

    return estimate
