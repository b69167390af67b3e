"""`roofline rl --log` and `--calibrate`: a logged step next to the expected one, and other sizes by what it fixes."""

from __future__ import annotations

import json

import pytest
from calibrate.test_rl_and_power import AREAL, NEMO, OPENRLHF, SLIME, VERL
from conftest import run_cli

from rooflinecli.core.errors import DataError, UsageError
from rooflinecli.questions.rl.answer import PUBLISHED, compose, constants_of
from rooflinecli.questions.rl.question import Rl, step_of

LOGS = {"verl": VERL, "NeMo RL": NEMO, "OpenRLHF": OPENRLHF, "slime": SLIME, "AReaL": AREAL}
BASE = {"model": "llama-3-8b", "hw": "h100", "n": 8, "prompts": 64, "samples": 8, "rollout_tp": 1}


@pytest.fixture
def logs(tmp_path):
    paths = {}
    for tool, text in LOGS.items():
        paths[tool] = tmp_path / f"{tool}.log"
        paths[tool].write_text(text)
    return paths


@pytest.mark.slow
@pytest.mark.parametrize("tool", LOGS)
def test_parts_of_a_log_stand_next_to_the_expected_ones(tool, logs):
    a = Rl(**BASE, log=str(logs[tool])).answer()
    step = step_of(str(logs[tool]))
    measured = {p.part: p.measured_s for p in a.parts if p.measured_s is not None}
    assert a.step.measured_s == step.step_s
    assert measured["rollout"] == step.generation_s and measured["update"] == step.actor_s
    assert sum(measured.values()) == pytest.approx(step.step_s)


def test_a_log_of_verl_is_named_to_nine_tenths_and_gives_its_lengths(logs):
    a = Rl(**BASE, log=str(logs["verl"])).answer()
    assert a.step.named_fraction >= 0.9
    assert a.load["output_tokens"] == pytest.approx(324.958, rel=0.1) and a.load["prompt_tokens"] == 103
    assert any("timing_s/adv 1.25 s" in note for note in a.notes)
    assert any("a step of the log has 4.38M tokens" in note for note in a.notes)


def test_a_real_step_of_verl_is_named_to_nine_tenths(tmp_path):
    """GRPO of 4.39M tokens at 2,932 per device (16 devices), as a published log states it."""
    path = tmp_path / "verl.log"
    path.write_text(
        "step:10 - response_length/mean:1000.0 - timing_s/start_profile:0.000278 - timing_s/agent_loop/slowest/generate_sequences:20.618 - "
        "timing_s/gen:24.533394969068468 - timing_s/reward:3.863e-05 - timing_s/old_log_prob:13.635552056133747 - timing_s/ref:12.547897297888994 - "
        "timing_s/adv:0.17872913694009185 - timing_s/update_actor:35.83383133285679 - timing_s/update_weights:5.458046867046505 - "
        "timing_s/step:93.52434759191237 - perf/total_num_tokens:4388173 - perf/throughput:2932.5070910595373\n"
    )
    a = Rl(**BASE, log=str(path)).answer()
    assert 0.98 < a.step.named_fraction < 0.99
    assert {p.part for p in a.parts if p.measured_s} >= {
        "rollout",
        "log-probabilities",
        "reference",
        "update",
        "weight sync",
    }


@pytest.mark.slow
def test_forward_passes_that_a_log_joins_are_divided_as_expected(logs):
    a = Rl(**BASE, log=str(logs["NeMo RL"])).answer()
    found = {p.part: p.measured_s for p in a.parts}
    assert found["log-probabilities"] == found["reference"] == pytest.approx(3.14 / 2)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("tool", LOGS)
def test_a_step_calibrated_by_its_own_log_is_the_logged_step(tool, logs):
    q = Rl(**BASE, calibrate=str(logs[tool]), prompt="103", output="325")
    parts, step = compose(q).step(constants_of(q))
    log = step_of(str(logs[tool]))
    assert step.time_s == pytest.approx(log.step_s, rel=0.02)
    assert next(p.time_s for p in parts if p.name == "rollout") == pytest.approx(log.generation_s)


@pytest.mark.slow
def test_a_log_fixes_other_sizes(logs):
    here = Rl(**BASE, calibrate=str(logs["verl"]), prompt="103", output="325")
    there = here.replace(n=16, calibrate_question="-n 8")
    constants = constants_of(there)
    assert constants == constants_of(here) and constants.rollout > PUBLISHED.rollout
    parts = {p.name: p.time_s for p in compose(there).step(constants)[0]}
    assert 0.5 * 75.0 < parts["rollout"] < 75.0 and parts["update"] == pytest.approx(14.5 / 2, rel=0.15)
    assert constants.spread[1] < PUBLISHED.spread[1]


def test_the_run_of_a_log_may_lack_an_option(logs):
    here = Rl(**BASE, calibrate=str(logs["verl"]), prompt="103", output="325")
    split = here.replace(rollout_devices=4, staleness=1, calibrate_question="--rollout-devices none --staleness 0")
    assert constants_of(split) == constants_of(here)


@pytest.mark.slow
def test_a_part_below_its_floor_is_a_log_of_another_load(logs):
    a = Rl(**BASE | {"prompts": 8192}, log=str(logs["verl"])).answer()
    assert any(note.startswith("update of the log took 14.5 s, less than the floor") for note in a.notes)


@pytest.mark.slow
def test_a_log_of_the_whole_alone_scales_the_work(tmp_path):
    path = tmp_path / "whole.log"
    path.write_text("step:1 - timing_s/step:500.0 - training/global_step:1\n")
    q = Rl(**BASE, calibrate=str(path))
    assert compose(q).step(constants_of(q))[1].time_s == pytest.approx(500.0)


@pytest.mark.slow
def test_changes_are_options_that_can_be_given(logs):
    q = Rl(**BASE, log=str(logs["verl"]), changes=True)
    a = q.answer()
    assert a.changes and all(0 < c["saved_fraction"] < 1 for c in a.changes)
    assert [c["time_s"] for c in a.changes] == sorted(c["time_s"] for c in a.changes)
    flags = next(c for c in a.changes if "--rollout-dtype" in c["options"])["options"].split()
    ran = run_cli(
        "rl",
        "llama-3-8b",
        "--hw",
        "h100",
        "-n",
        "8",
        "--prompts",
        "64",
        "--samples",
        "8",
        "--rollout-tp",
        "1",
        "--log",
        str(logs["verl"]),
        *flags,
        "-f",
        "json",
    )
    assert ran.json["step"]["time_s"] == pytest.approx(
        next(c["time_s"] for c in a.changes if "--rollout-dtype" in c["options"])
    )


def test_a_file_without_steps_is_refused(tmp_path):
    path = tmp_path / "nothing.log"
    path.write_text(json.dumps({"loss": 1}))
    with pytest.raises(DataError, match="no step of RL post-training"):
        Rl(**BASE, log=str(path)).answer()


def test_a_flag_of_the_calibrated_run_without_a_value_is_refused(logs):
    with pytest.raises(UsageError, match="--prompts has no value"):
        Rl(**BASE, calibrate=str(logs["verl"]), calibrate_question="-n 4 --prompts").answer()


def test_what_a_log_leaves_out_of_a_step_is_none():
    from dataclasses import asdict

    from rooflinecli.importers.logs import rl
    from rooflinecli.importers.source import Source

    (step,) = rl.steps(Source("log", "step:3 - timing_s/step: 61.5 - timing_s/gen:20.25"))
    stated = {name: value for name, value in asdict(step).items() if value not in (None, {})}
    assert stated == {"where": "log:1", "tool": "verl", "number": 3, "step_s": 61.5, "generation_s": 20.25}
