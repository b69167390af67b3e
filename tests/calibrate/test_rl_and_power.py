"""Logs of RL post-training and of power: lines in the formats that their tools write, one record for all of each kind."""

from __future__ import annotations

import json

import pytest
from calibrate.logs import VLLM
from conftest import run_cli

from rooflinecli.core.errors import DataError
from rooflinecli.importers.logs import power, read_source, rl
from rooflinecli.importers.source import Source

VERL = "".join(
    f"(TaskRunner pid=1) step:{step} - actor/grad_norm:0.069 - perf/mfu/actor:0.42 - response_length/mean:324.958 - prompt_length/mean:102.534 - "
    f"timing_s/agent_loop/slowest/generate_sequences:70.1 - timing_s/gen:np.float64({gen}) - timing_s/old_log_prob:3.5 - timing_s/ref:3.4 - "
    f"timing_s/adv:1.25 - timing_s/update_actor:14.5 - timing_s/step:{gen + 22.65} - timing_per_token_ms/gen:0.1 - perf/total_num_tokens:4377524 - "
    f"perf/throughput:{10000 / gen:.3f}\n"
    for step, gen in ((1, 200.0), (2, 74.0), (3, 76.0), (4, 75.0))
)
NEMO = "".join(
    f"""========================= Step {step}/10 =========================
\U0001f4ca Training Results:
  • Loss: 0.0000
  • Mean Generation Length: 201.5
⏱️  Timing:
  • Total step time: {total}s
  • policy_training: 10.97s (30.7%)
  • checkpointing: 6.49s (18.2%)
  • generation: 4.95s (13.9%)
  • policy_and_reference_logprobs: 3.14s (8.8%)
  • prepare_for_generation/transfer_and_update_weights: 0.60s (1.7%)
\U0001f50d Performance Metrics:
    - E2E (Tokens/sec/gpu): 1073.59
"""
    for step, total in ((1, 135.7), (2, 35.7))
)
OPENRLHF = (
    "(PPOTrainer pid=7) 2026-05-01 10:00:00 INFO ✨ Global step 5: {'reward': 0.4, 'response_length': 512.0, 'timing/make_experience': 12.5, "
    "'timing/ppo_train': 29.9, 'timing/broadcast': 1.98, 'timing/generation': 41.2, 'timing/step_total': 85.6}\n"
)
SLIME = (
    "(RolloutManager pid=1) perf 0: {'perf/rollout_time': 120.0, 'perf/tokens_per_gpu_per_sec': 50.0}\n"
    "(RolloutManager pid=1) rollout 0: {'rollout/response_lengths': 900.0, 'rollout/total_lengths': 1000.0}\n"
    "(MegatronTrainRayActor pid=2) perf 0: {'perf/step_time': 131.0, 'perf/train_time': 11.0, 'perf/actor_train_time': 8.0, "
    "'perf/log_probs_time': 2.0, 'perf/train_wait_time': 120.0, 'perf/update_weights_time': 0.5, 'perf/save_model_time': 2.0}\n"
)
AREAL = "".join(
    f"""20260708 [StatsLogger] INFO: Epoch 1/10 Step {step}/60 Train step {step}/600 done.
\x1b[37m20260708 [StatsLogger] INFO: Stats (1/1):
│ timeperf/rollout        │ {rollout:.4e} │ ppo_actor/update/lr │ 5.0000e-06 │
│ timeperf/recompute_logp │ 6.1000e+00 │ timeperf/train_step       │ 3.1464e+01 │
│ timeperf/update_weights │ 1.0329e+01 │ ppo_actor/prompt_len/avg  │ 1.0000e+02 │
│ timeperf/save           │ 2.0000e+00 │ ppo_actor/seq_len/avg     │ 9.0000e+02 │
"""
    for step, rollout in ((1, 400.0), (2, 88.992))
)
# DeepSpeedExamples, actor_opt-1.3b_critic_opt-350m_globalBatchSize64.log (Apache-2.0)
CHAT = (
    "|E2E latency=7.99s |Gather latency=0.00s (0.00%) |Generate time=5.26s (65.81%) |Training time=2.52s (31.46%) |Others=0.22 (2.73%)|CurSamplesPerSec=8.01 |AvgSamplesPerSec=8.01\n"
    "[2023-04-18 08:48:13,004] [INFO] [timer.py:199:stop] epoch=0/micro_step=10/global_step=10, RunningAvgSamplesPerSec=87.1, CurrSamplesPerSec=86.5, MemAllocated=3.9GB\n"
    "|E2E latency=3.87s |Gather latency=0.00s (0.00%) |Generate time=2.52s (65.07%) |Training time=1.12s (28.87%) |Others=0.23 (6.06%)|CurSamplesPerSec=16.55 |AvgSamplesPerSec=13.13\n"
)
RL = {
    "verl": (VERL, 4, {"step_s": 97.65, "generation_s": 75.0, "log_probs_s": 3.5, "reference_s": 3.4, "actor_s": 14.5, "tokens": 4377524, "output": 324.958}),
    "NeMo RL": (NEMO, 2, {"step_s": 35.7, "generation_s": 4.95, "log_probs_s": 3.14, "actor_s": 10.97, "weights_s": 0.6, "tokens_per_s_per_device": 1073.59}),
    "OpenRLHF": (OPENRLHF, 1, {"step_s": 85.6, "generation_s": 41.2, "log_probs_s": 12.5, "actor_s": 29.9, "weights_s": 1.98, "output": 512.0}),
    "slime": (SLIME, 1, {"step_s": 131.0, "generation_s": 120.0, "log_probs_s": 2.0, "actor_s": 8.0, "weights_s": 0.5, "output": 900.0}),
    "AReaL": (AREAL, 2, {"step_s": 138.885, "generation_s": 88.992, "log_probs_s": 6.1, "actor_s": 31.464, "weights_s": 10.329, "prompt": 100.0, "output": 800.0}),
    "DeepSpeed-Chat": (CHAT, 2, {"step_s": 3.87, "generation_s": 2.52}),
}  # fmt: skip


@pytest.mark.parametrize("tool", RL)
def test_a_step_of_reinforcement_learning_is_one_record_whatever_wrote_it(tool):
    text, count, wanted = RL[tool]
    found = rl.steps(Source("log", text))
    assert {step.tool for step in found} == {tool} and len(found) == count
    middle = rl.median_step(found)
    assert {name: getattr(middle, name) for name in wanted} == pytest.approx(wanted)


def test_stages_without_a_field_keep_the_log_s_own_names():
    assert rl.steps(Source("log", VERL))[0].other_s == {"timing_s/adv": 1.25}
    assert rl.steps(Source("log", NEMO))[0].other_s == {"checkpointing": 6.49}
    assert "perf/save_model_time" in rl.steps(Source("log", SLIME))[0].other_s


def test_lines_of_one_step_are_one_and_equal_numbers_of_two_runs_are_two():
    assert len(rl.steps(Source("log", VERL + VERL))) == 4
    other = VERL.replace("timing_s/update_actor:14.5", "timing_s/update_actor:13.5")
    assert len(rl.steps(Source("log", VERL + other))) == 8


def test_a_json_history_is_read_as_the_console_is():
    lines = [json.dumps({"step": n, "data": {"timing_s/step": 90.0 + n, "timing_s/gen": 70.0}}) for n in (1, 2)]
    found = rl.steps(Source("log", "\n".join(lines)))
    assert [(step.number, step.step_s, step.generation_s) for step in found] == [(1, 91.0, 70.0), (2, 92.0, 70.0)]


@pytest.mark.parametrize("tool", RL)
def test_calibrate_refuses_them_with_what_they_say(tool):
    with pytest.raises(DataError, match=rf"^log:\d+: {tool}, \d+ steps of reinforcement learning, .*generation"):
        read_source(Source("log", RL[tool][0]))


SMI = "timestamp, index, name, power.draw [W], utilization.gpu [%]\n" + "".join(
    f"2026/05/01 12:00:0{second}.123, {gpu}, NVIDIA H100 80GB HBM3, {watts:.2f} W, 98 %\n"
    for second, watts in enumerate((70, 70, 600, 620, 610, 75))
    for gpu in (0, 1)
)
POWER = {
    "nvidia-smi": (SMI, 610.0, 2),
    "nvidia-smi dmon": ("# gpu    pwr  gtemp  sm\n# Idx      W      C   %\n    0     70  30   0\n    0    600  60  99\n    1    620  60  98\n", 610.0, 2),
    "DCGM": ("#Entity   POWER    TOTEC\nID         W        mJ\nGPU 0     600.5    1234567\nGPU 1     619.5    1234567\n", 610.0, 2),
    "DCGM exporter": ('DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-1"} 610.0\nDCGM_FI_DEV_POWER_USAGE{gpu="1",UUID="GPU-2"} 610.0\n', 610.0, 2),
    "Zeus": ("Measurement(time=10.0, gpu_energy={0: 6000.0, 1: 6200.0}, cpu_energy=None)\n", 610.0, 2),
    "MLPerf power": (
        "Time,01-22-2026 15:05:14.313,Watts,5600.0,Volts,227.37,Amps,0.2,PF,0.49,Mark,run\nTime,01-22-2026 15:05:15.322,Watts,5800.0,Volts,227.3,Amps,0.2,PF,0.5,Mark,run\n",
        5700.0, 1,
    ),
}  # fmt: skip


@pytest.mark.parametrize("tool", POWER)
def test_power_is_the_mean_of_devices_at_work(tool):
    text, watts, devices = POWER[tool]
    found = power.measured(Source("log", text))
    assert found is not None
    assert (found.tool, found.watts, found.devices) == (tool, pytest.approx(watts), devices)
    assert ("whole system" in str(found)) is (tool == "MLPerf power")
    with pytest.raises(DataError, match=rf"^log:\d+: {tool}: .*give it next to the log of the run"):
        read_source(Source("log", text))


@pytest.mark.slow
def test_power_next_to_a_run_is_noted_against_the_rating(tmp_path):
    run, smi = tmp_path / "run.json", tmp_path / "power.csv"
    run.write_text(json.dumps(VLLM))
    smi.write_text(SMI)
    ran = run_cli("calibrate", str(run), str(smi), "--hw", "h100", "-n", "1", "--format", "json")
    assert ran.code == 0, ran.err
    assert (
        f"{smi}:1: nvidia-smi: 610 W of each of 2 devices at work, over 6 samples; H100 SXM5 80GB is rated at 700 W"
        in ran.json["notes"]
    )


@pytest.mark.parametrize(
    ("tool", "devices", "whose"),
    [("nvidia-smi", 1, "the device"), ("nvidia-smi", 2, "each of 2 devices"), ("MLPerf power", 8, "the whole system")],
)
def test_whose_watts_a_power_log_has(tool, devices, whose):
    assert str(power.PowerLog("log:1", tool, 612.4, devices, 1234)) == f"{tool}: 612 W of {whose} at work, over 1,234 samples"  # fmt: skip
