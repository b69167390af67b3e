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


def noted(**changed: Any) -> list[str]:
    """What is said of a fit of two constants, one moved by e^0.9 where a shipped error is 0.2."""
    posterior = SimpleNamespace(
        supported=True, evidence=2.0, x=np.array([0.9, -0.1]), blocks=(SimpleNamespace(name="a"), SimpleNamespace(name="b")),
        prior=np.array([0.4, 0.4]), setting=SimpleNamespace(width=2.0),
    )  # fmt: skip
    posterior.__dict__.update(changed.pop("posterior", {}))
    held = SimpleNamespace(on="held out", error_before=0.1, error_after=0.2)
    rows = [SimpleNamespace(where=where) for where in changed.pop("where", ("x:1", "y:2"))]
    fit = {
        "posterior": posterior,
        "moved": True,
        "rows": rows,
        "scores": [held],
        "refused": False,
        "phase": "decode",
        "software": "vllm",
    }
    return answer._notes(SimpleNamespace(**{**fit, **changed}))  # type: ignore[arg-type]


def test_what_is_said_of_a_fit() -> None:
    far = f"decode (vllm): a moved by +146%, more than {answer.FAR:g} shipped errors: check the chip file, the layout and the formats first"
    assert noted() == [far] and answer.FAR * 0.2 < 0.9
    assert noted(posterior={"x": np.array([answer.FAR * 0.2, -answer.FAR * 0.2])}) == []
    alone = noted(where=("x:1", "x:1"))
    assert alone == [
        "decode (vllm): one row alone moved a by +146%, and would as far if it were wrong; add a second, measured elsewhere",
        far,
    ]
    assert noted(scores=[])[0].endswith(
        "too few rows to hold some out; the error on the fitted rows is no proof"
    ) and noted(scores=[], moved=False) == [far]
    assert noted(refused=True)[0] == "decode (vllm): worse on the held-out rows (10.0% before, 20.0% after)"
    stays = noted(posterior={"supported": False, "evidence": -1.0}, moved=False)
    assert stays == [
        "decode (vllm): the rows do not favor moved constants over the shipped ones (odds 0.37 to 1), which stay"
    ]
    near = noted(posterior={"supported": False, "evidence": -1.0})
    assert near[0].endswith("which stay, but near these rows answers follow them")
