"""Other versions of the same tools: fields that moved, spellings that changed, and what must not be taken for a benchmark."""

from __future__ import annotations

import json

import pytest
from calibrate.logs import AIPERF, GUIDELLM, SERVE, SGLANG, VLLM

from rooflinecli.calibrate.resolve_rows import _chip_named, resolve
from rooflinecli.core.errors import DataError
from rooflinecli.importers.logs import read_source
from rooflinecli.importers.source import MeasuredRow, Source

STAGE = {
    "load_summary": {"count": 100, "requested_rate": 4.0, "achieved_rate": 4.01},
    "successes": {
        "count": 100,
        "latency": {
            "request_latency": {"mean": 1.37},
            "time_per_output_token": {"mean": 0.004},  # pieces of a stream, two tokens each
            "time_to_first_token": {"mean": 0.1},
        },
        "throughput": {"output_tokens_per_sec": 512.0},
        "prompt_len": {"mean": 200.4},
        "output_len": {"mean": 128.0},
    },
    "failures": {"count": 3},
}
TRAINER = """***** train metrics *****
  epoch                    =        3.0
  train_loss               =     0.4321
  train_runtime            = 0:01:40.00
  train_samples_per_second =       16.0
  train_steps_per_second   =        2.0
"""


def rows(text):
    return [
        (r.quantity, pytest.approx(r.value), {**r.options, **r.probe}, r.notes)
        for r in read_source(Source("log", text))
    ]


def test_stages_of_inference_perf_take_tokens_from_whole_requests():
    (what, step, said, notes), (_, first, _, _) = rows(json.dumps(STAGE))
    assert (what, step, first) == ("itl", 1.27 / 127, 0.1)
    assert said == {"prompt": 200, "output": 128, "qps": 4.0}
    assert notes == ("3 requests failed",)


@pytest.mark.slow
def test_a_detailed_result_has_its_means_after_every_request():
    """--save-detailed writes the lists of all requests before the means."""
    detailed = {"model_id": VLLM["model_id"], "itls": [[0.01] * 30] * 2000, **VLLM}
    assert [r[0] for r in rows(json.dumps(detailed))] == ["itl", "ttft"]


def test_the_client_of_a_server_is_no_engine():
    run = {k: v for k, v in VLLM.items() if k != "backend"}
    assert rows(json.dumps({**run, "endpoint_type": "openai-chat"}))[0][2]["engine"] == "vllm"


def test_attention_replicas_of_sglang_share_its_devices():
    """--tp 8 --dp 4 --enable-dp-attention is eight devices: four replicas of two."""
    info = {"model_path": "m", "tp_size": 8, "dp_size": 4, "enable_dp_attention": True}
    said = rows(json.dumps({**SGLANG, "server_info": info}))[0][2]
    assert (said["tp"], said["dp"]) == (2, 4)


def test_a_command_line_tells_what_a_block_does_not():
    block = SERVE[SERVE.index("=====") :]
    lines = [text for text in block.split("\n") if "concurrency" not in text]
    typed = "$ vllm bench serve --model openai/gpt-oss-120b \\\n    --max-concurrency 4\n" + "\n".join(lines)
    said = rows(typed)[0][2]
    assert (said["model"], said["concurrency"]) == ("openai/gpt-oss-120b", 4)


def test_runs_that_did_not_finish_are_refused():
    """aiperf 0.13: is_complete is false when its watchdog stopped the run."""
    with pytest.raises(DataError, match=r"log:1: the run did not finish \(stalled\)"):
        rows(json.dumps({**AIPERF, "is_complete": False, "incomplete_reason": "stalled"}))


def test_phases_of_aiperf_are_a_list_of_which_the_last_counts():
    phases = [{"name": "warmup", "concurrency": 1}, {"name": "profiling", "type": "concurrency", "concurrency": 8}]
    config = {"models": {"items": [{"name": "Qwen/Qwen3-0.6B"}]}, "phases": phases}
    assert rows(json.dumps({**AIPERF, "input_config": config}))[0][2]["concurrency"] == 8


def test_a_capped_burst_of_guidellm_is_a_closed_loop():
    bench = json.loads(json.dumps(GUIDELLM["benchmarks"][0]))
    holder = bench.get("config") or bench["args"]
    holder["strategy"] = {"type_": "throughput", "max_concurrency": 32}
    assert rows(json.dumps({**GUIDELLM, "benchmarks": [bench]}))[0][2]["concurrency"] == 32


def test_the_table_that_a_trainer_prints():
    (what, step, said, _) = rows(TRAINER)[0]
    assert (what, step, said["batch"]) == ("train", 0.5, 8)


def test_lines_of_nemo_two_and_maxtext_state_their_sizes():
    line = "Training epoch 0, iteration {0}/9 | lr: 1e-05 | global_batch_size: 128 | global_step: {0} | train_step_timing in s: 5.5\n"
    assert rows("".join(line.format(i) for i in range(4)))[0][2]["batch"] == 128
    config = "I1122 08:00:00.000 1 pyconfig.py:250] Config param max_target_length: 8192\n"
    step = "completed step: {}, seconds: 5.5, TFLOP/s/device: 400.1, Tokens/s/device: 8000.0, loss: 1\n"
    assert rows(config + "".join(step.format(i) for i in range(6)))[0][2]["seq"] == 8192


@pytest.mark.parametrize(
    "text", ['{"schemaVersion": 1, "traceEvents": []}', "Time (%),Total Time (ns),Instances,Avg (ns)\n1,2,3,4\n"]
)
def test_traces_are_sent_to_profile(text):
    with pytest.raises(DataError, match=r"log:1: a trace of kernels.*roofline profile"):
        rows(text)


def test_a_chip_may_carry_the_name_of_its_cloud():
    assert _chip_named("h200-cw") == _chip_named("h200") == "h200-sxm"
    assert _chip_named("abacus") is None


def test_drafted_tokens_need_the_options_that_price_them():
    row = MeasuredRow("log:1", "vllm bench serve", "itl", 0.01, options={"concurrency": 4, "prompt": 512, "output": 128}, probe={"drafted": 2.5})  # fmt: skip
    given = {"hw": "h100", "model": "llama-3.1-8b", "n": 1}
    assert resolve([row], given).aside == [
        ("log:1", "speculative decoding, 2.5 tokens a step; --speculative-method and --acceptance-rate price it")
    ]
    assert len(resolve([row], {**given, "speculate": "eagle", "acceptance-rate": 0.5}).rows) == 1


@pytest.mark.slow
def test_a_batch_follows_from_the_tokens_of_a_step():
    row = MeasuredRow("log:1", "OLMo", "train", 40000.0, "tokens/s/device", probe={"tokens": 4194304.0})
    (found,) = resolve([row], {"hw": "h100", "model": "llama-3.1-8b", "n": 8, "seq": 4096}).rows
    assert found.options["batch"] == 1024
    assert found.measured == pytest.approx(4194304 / (40000 * 8))


def test_a_rate_far_above_what_is_served_reads_as_a_burst_and_says_so():
    """Gemma 4 31B, 1,000 requests of 8,000 tokens sent at 1 per second, which took 3,795 seconds."""
    given = {**VLLM, "request_rate": 1.0, "num_prompts": 1000, "completed": 1000, "duration": 3794.56}
    given |= {"total_input_tokens": 8000000, "total_output_tokens": 1000000, "max_concurrency": None}
    given |= {
        "output_throughput": 263.535,
        "mean_ttft_ms": 1385581.1,
        "mean_tpot_ms": 22.4,
        "request_throughput": 0.2635,
    }
    (row,) = read_source(Source("log", json.dumps(given)))
    assert (row.quantity, row.options["concurrency"]) == ("throughput", "max")
    assert "though sent at 1 per second" in row.notes[-1]
