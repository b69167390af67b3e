"""Published steps of RL post-training: bars that the model is held to, and rows that are what they claim."""

from __future__ import annotations

import pytest

from lab import left_out
from rooflinecli.questions.rl.answer import PUBLISHED, RECURRENT, scaled_by
from rooflinecli.specs.snapshots import published
from rooflinecli.validate import rl
from rooflinecli.validate.stats import joined, summary


@pytest.mark.slow
def test_families_left_out_of_the_fit_are_within_the_bars():
    points = rl.left_out()
    found = summary(joined("all", points))
    assert found["rows"] == 24 and not found["suspect"] and not found["below_floor"]
    assert found["mean"] <= 0.35 and found["median"] <= 0.30
    assert 0.75 <= found["coverage"] <= 0.88
    assert {p.group for p in points} == {"deepseek-v3", "qwen3-30b-a3b", "qwen3-32b"}


@pytest.mark.slow
def test_the_published_constants_are_those_of_the_fit_to_all_families():
    best = left_out.step_constants(rl.rows("fit"))
    assert (best.rollout, best.trainer, best.fixed_s) == (PUBLISHED.rollout, PUBLISHED.trainer, PUBLISHED.fixed_s)


@pytest.mark.slow
def test_other_sizes_after_one_logged_step_are_within_the_bars():
    found = summary(joined("all", rl.after_one_step()))
    assert found["rows"] == 6 and found["mean"] <= 0.15 and found["median"] <= 0.12 and found["coverage"] >= 0.75


@pytest.mark.slow
def test_a_step_calibrated_on_itself_is_that_step():
    for row in rl.rows("size"):
        assert rl.composed(row).step(rl.calibrated(row))[1].time_s == pytest.approx(row["step_s"])


def test_a_whole_shorter_than_its_fixed_seconds_still_leaves_work():
    parts, step = rl.composed(rl.rows("fit")[0]).step(PUBLISHED)
    assert scaled_by(PUBLISHED, parts, step, 5.0).rollout > 0


@pytest.mark.slow
def test_verl_s_modes_are_in_the_measured_order_and_each_is_near_by_constants_that_never_saw_it():
    steps = {row["id"]: (row["step_s"], rl.mode_left_out(row)) for row in rl.rows("modes")}
    for seconds, step in steps.values():
        assert step.time_s == pytest.approx(seconds, rel=0.15) and step.interval_s[0] <= seconds <= step.interval_s[1]
    three = [name for name in steps if not name.endswith("no-switch")]  # on 32 devices
    assert len(three) == 3
    assert sorted(three, key=lambda name: steps[name][0]) == sorted(three, key=lambda name: steps[name][1].time_s)


@pytest.mark.slow
def test_constants_of_recurrent_models_are_those_of_the_fit_to_its_modes():
    best = left_out.step_constants(rl.rows("modes"), left_out.RECURRENT_GRID)
    assert (best.rollout, best.trainer, best.fixed_s) == (RECURRENT.rollout, RECURRENT.trainer, RECURRENT.fixed_s)


@pytest.mark.slow
def test_mlperf_s_grpo_reference_is_inside():
    row = next(row for row in rl.rows("run") if row["id"] == "mlperf-grpo-gbs256")
    _, low, high = rl.run_minutes(row)
    assert low <= row["run_minutes"][0] and row["run_minutes"][1] <= high


def test_every_row_cites_a_source_and_no_row_is_both_used_and_excluded():
    data = published("rl")
    used = {row["id"] for row in data["rows"]}
    assert len(used) == len(data["rows"]) and {row["source"] for row in data["rows"]} <= set(data["sources"])
    assert not used & {name for entry in data["excluded"] for name in entry["ids"]}


@pytest.mark.slow
def test_constants_that_never_saw_what_they_predict_are_those_of_the_fit():
    shipped, fitted = published("left_out"), left_out.document()
    for name, constants in fitted["rl"].items():
        assert shipped["rl"][name] == constants, "run `python -m lab.left_out`"
    for chip, models in fitted["power"].items():
        for model, constants in models.items():
            assert shipped["power"][chip][model] == pytest.approx(constants, abs=0.005), "run `python -m lab.left_out`"
    assert {key: set(shipped[key]) for key in shipped} == {key: set(fitted[key]) for key in fitted}
