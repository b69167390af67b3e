"""What would explain a gap between a row and its estimate, and where a calibration's answers follow its rows, against curves written down by hand."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rooflinecli.calibrate import answer
from rooflinecli.calibrate.posterior import ConstantGroup

# seconds (logarithm) of one row by the logarithm of a group's factor
CURVES = {
    "steep": lambda x: 0.8 * x,
    "late": lambda x: np.maximum(x, 0.0),  # below its floor nothing changes
    "slight": lambda x: 0.1 * x,  # reaches e^0.2 at most
    "flat": lambda x: 0 * x + math.log(1.5),  # what was measured, whatever the group does
}


def explained(monkeypatch: pytest.MonkeyPatch, curves: dict[str, Any], errors: dict[str, float]) -> list[tuple[str, float]]:  # fmt: skip
    """Explanations of a row of 3 s whose estimate is 2 s."""
    groups = tuple(ConstantGroup(name, errors.get(name, 0.25), ("engine.per_step",)) for name in curves)

    def log_seconds(x: Any) -> Any:
        """Of the one row, at every combination of factors: each column moves one group."""
        return math.log(2.0) + sum(curve(x[i]) for i, curve in enumerate(curves.values()))[None]

    monkeypatch.setattr(answer, "BLOCKS", {"decode": groups})
    monkeypatch.setattr(answer, "RowPredictor", lambda rows: SimpleNamespace(log_seconds=log_seconds))
    row: Any = SimpleNamespace(measured=3.0, phase="decode")
    return [(found.what, found.asks) for found in answer.explanations(row)]


def test_a_gap_is_explained_by_what_reaches_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half as long again: a factor of 1.5^(1/0.8) = 1.66 of the steep one, 1.5 of the one that bounds late."""
    found = dict(explained(monkeypatch, {k: v for k, v in CURVES.items() if k != "flat"}, {}))
    assert found == {
        "steep +66%": pytest.approx(math.log(1.5) / 0.8 / math.log(1.25)),
        "late +50%": pytest.approx(math.log(1.5) / math.log(1.25), rel=1e-3),
    }


def test_a_group_that_changes_nothing_explains_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert explained(monkeypatch, {"flat": lambda x: 0 * x + math.log(1.5)}, {}) == []


def test_the_four_likeliest_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    errors = {"a": 0.1, "b": 0.6, "c": 0.2, "d": 0.5, "e": 0.3}  # the larger an error, the fewer of it are asked
    found = explained(monkeypatch, dict.fromkeys(errors, lambda x: x / len(errors) * 5), errors)
    assert [what for what, _ in found] == [f"{name} +50%" for name in "bdec"]
    assert [asks for _, asks in found] == pytest.approx([math.log(1.5) / math.log1p(errors[n]) for n in "bdec"])


def near(places: list[list[float]], moves: list[float], names: tuple[str, ...] = ("prompt", "batch")) -> Any:
    fit: Any = SimpleNamespace(
        range=dict.fromkeys(names, (1.0, 2.0)), local=SimpleNamespace(places=np.log(places), moves=np.array(moves))
    )
    return answer._near(fit)


def test_places_of_local_residuals() -> None:
    """By the names of the range in alphabetical order; moves below a two-thousandth are left out."""
    assert near([[4, 1024], [8, 2048.00049], [1, 1]], [0.03, -0.012346, 0.0004]) == [
        {"at": {"batch": 4.0, "prompt": 1024.0}, "move": 0.03},
        {"at": {"batch": 8.0, "prompt": 2048.0}, "move": -0.0123},
    ]
    with pytest.raises(ValueError, match="shorter"):  # a place that lacks a size is no place
        near([[4.0]], [0.03])
