"""`--mfu` and `--measured` on a training step: which single assumption would bring the estimate there."""

from __future__ import annotations

import pytest

ASK = ("estimate", "llama-3-70b", "--hw", "h100", "-n", "256", "--phase", "train")


@pytest.fixture(scope="module")
def low():
    from conftest import run_cli

    return run_cli(*ASK, "--mfu", "0.32", "--format", "json").json


@pytest.mark.slow
def test_every_assumption_moves_towards_what_was_measured(low):
    train = low["phases"]["train"]
    before = abs(train["time_s"] / train["measured_time_s"] - 1)
    assert len(low["gap_explanations"]) >= 6
    for row in low["gap_explanations"]:
        assert abs(row["gap"]) < before
        assert row["gap"] == pytest.approx(row["time_s"] / train["measured_time_s"] - 1)
        assert row["mfu"] == pytest.approx(train["mfu"] * train["time_s"] / row["time_s"])


@pytest.mark.slow
def test_those_that_close_the_gap_come_first_and_the_milder_before_the_larger(low):
    closed = [abs(row["gap"]) <= 0.05 for row in low["gap_explanations"]]
    assert closed == sorted(closed, reverse=True)
    changes = [row["change"] for row, shut in zip(low["gap_explanations"], closed, strict=True) if shut]
    assert changes == sorted(changes)


@pytest.mark.slow
def test_the_slower_link_it_names_gives_the_measured_step(low):
    row = next(r for r in low["gap_explanations"] if r["assumption"].startswith("InfiniBand"))
    rate = row["assumption"].split(": ")[1].partition(" per device")[0]
    plan = low["phases"]["train"]["layout"]
    from rooflinecli.core.units import parse
    from rooflinecli.engine import build_request
    from rooflinecli.engine.context import EstimateContext
    from rooflinecli.engine.training import train
    from rooflinecli.specs.layout import SIZES, Layout

    request = build_request.request({"model": "llama-3-70b", "hw": "h100", "n": 256, "phase": "train"})
    sizes = {k: float(plan[k]) for k in SIZES}
    again = Layout(**sizes, zero=plan["zero"], recompute=plan["recompute"], sequence_parallel=plan["sequence_parallel"])
    slow = train(EstimateContext(request, override={"network.1.bandwidth": parse(rate, "B/s")}), again)
    assert slow.time_s == pytest.approx(low["phases"]["train"]["measured_time_s"], rel=0.01)


@pytest.mark.slow
def test_a_faster_step_is_never_explained_by_a_loss(cli):
    fast = cli(*ASK, "--mfu", "0.55", "--format", "json").json
    assert all(row["time_s"] < fast["phases"]["train"]["time_s"] for row in fast["gap_explanations"])
    assert not any("padding" in row["assumption"] for row in fast["gap_explanations"])


@pytest.mark.slow
def test_assumptions_of_a_slow_decode_step_and_a_slow_prefill(cli):
    """More sequences, longer prompts, slower memory and a waiting host; the amounts named give the measured time."""
    ask = ("estimate", "llama-3-8b", "--hw", "h100", "--phase")
    decode = cli(*ask, "decode", "--measured", "16 ms", "--format", "json").json["gap_explanations"]
    batch = next(row for row in decode if "sequences per replica instead of 32" in row["assumption"])
    again = cli(*ask, "decode", "--batch", batch["assumption"].split()[0], "--format", "json").json
    assert again["phases"]["decode"]["time_s"] == pytest.approx(0.016, rel=0.01)
    words = " ".join(row["assumption"] for row in decode)
    assert "memory: " in words and "prompts of " in words and "waits for the host" in words
    prefill = cli(*ask, "prefill", "--measured", "600 ms", "--format", "json").json["gap_explanations"]
    assert "waits in a queue" in " ".join(row["assumption"] for row in prefill)
    fast = cli(*ask, "decode", "--measured", "8 ms").out
    assert "what alone would bring ITL" in fast and "sequences per replica" in fast


@pytest.mark.slow
def test_the_table_shows_them(cli):
    text = cli(*ASK, "--measured", "22 s").out
    assert "what alone would bring the step" in text
    assert "- padding" in text
