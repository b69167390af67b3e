"""Which runs a calibration suggests next: the menu by its rules, and how much each would tell, against Gaussian conditioning written out."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rooflinecli.calibrate import answer
from rooflinecli.core.errors import UsageError


def base(measured: float = 2.0, **request: Any) -> Any:
    return SimpleNamespace(
        measured=measured, quantity="itl", options={"model": "m", "batch": 3.0}, layout=SimpleNamespace(devices=8),
        ctx=SimpleNamespace(train_batch=100, seq=2048, request=SimpleNamespace(concurrency=request.get("concurrency"))),
    )  # fmt: skip


def test_changes_of_a_training_run() -> None:
    """A quarter to four times the devices with their part of the batch, and sequences four times as long."""
    found = list(answer._changes("train", base()))
    assert found == [
        {"n": 8 * more, "batch": max(round(100 * more / longer), 1), "seq": 2048 * longer} for more in (0.25, 0.5, 1, 2, 4) for longer in (1, 4)
    ]  # fmt: skip
    few = base()
    few.layout.devices = 2
    assert [change["n"] for change in answer._changes("train", few)] == [1, 1, 2, 2, 4, 4, 8, 8]  # no half of a device
    few.ctx.train_batch = 1
    assert {change["batch"] for change in answer._changes("train", few)} == {1, 2, 4}


def test_changes_of_a_serving_run() -> None:
    loads = [(sequences, prompt) for sequences in (1, 4, 16, 64, 256) for prompt in (256, 2048, 16384)]
    assert list(answer._changes("decode", base())) == [{"batch": n, "prompt": prompt} for n, prompt in loads]
    assert list(answer._changes("decode", base(concurrency=4))) == [
        {"concurrency": n, "prompt": prompt} for n, prompt in loads
    ]
    assert list(answer._changes("prefill", base())) == [{"prompt": prompt} for _, prompt in loads]


def test_a_menu_is_of_the_slowest_row_and_names_each_run_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Any, str]] = []

    def unmeasured(options: Any, quantity: str) -> Any:
        asked.append((options, quantity))
        if options["prompt"] == 16384:
            raise UsageError("too long")
        return options["prompt"]

    monkeypatch.setattr(answer, "_unmeasured", unmeasured)
    monkeypatch.setattr(answer, "own_rows", lambda rows: rows)
    slow = base(3.0)
    slow.options = {"model": "slow"}
    fit: Any = SimpleNamespace(rows=[base(2.0), slow, base(1.0)], phase="prefill")
    assert list(answer._menu(fit)) == [("--prompt 256", 256), ("--prompt 2048", 2048)]
    assert asked[0] == ({"model": "slow", "prompt": 256}, "itl")
    assert list(answer._menu(SimpleNamespace(rows=[], phase="prefill"))) == []  # type: ignore[arg-type]


def test_what_a_run_would_tell_is_that_of_a_conditioned_normal() -> None:
    """Three unknowns, two goals, two candidates: the covariance after seeing a candidate with noise, by the textbook's update."""
    rng = np.random.default_rng(7)
    root = rng.normal(size=(3, 3))
    covariance, goals, candidates = root @ root.T, rng.normal(size=(2, 3)), rng.normal(size=(2, 3))
    posterior: Any = SimpleNamespace(covariance=covariance, setting=SimpleNamespace(spread=0.3))
    before, after = answer.reduced_variance(posterior, candidates, goals)

    def deviation(s: Any) -> float:
        return float(np.sqrt(np.mean([goal @ s @ goal for goal in goals])))

    assert before == pytest.approx(deviation(covariance))
    for candidate, found in zip(candidates, after, strict=True):
        gain = covariance @ candidate
        assert found == pytest.approx(deviation(covariance - np.outer(gain, gain) / (candidate @ gain + 0.09)))
