"""Flags of collected runs are those that their public scripts set on the day of the run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lab import simulated_runs
from rooflinecli.specs.engine import load_engine
from rooflinecli.specs.layout import Layout
from rooflinecli.validate import inference
from rooflinecli.validate.inference import Run


def collected(engine, group, system, precision, day, concurrency=64, tp=4.0):
    row = {
        "silicon_data_source": f"db-dump/x; silicon_concurrency={concurrency}; measured={day}T00:00:00.000Z",
        "backend": engine,
        "backend_version": "1",
        "model_path": group,
        "system": system,
        "precision": precision,
        "isl": "1024",
        "osl": "1024",
        "tp_size": "4",
        "attention_dp_size": "1",
        "moe_tp_size": "4",
        "moe_ep_size": "1",
        "silicon_ttft_ms": "1000",
        "silicon_tpot_ms": "20",
    }
    options = {"hw": system.replace("_", "-"), "concurrency": concurrency}
    return Run(group.split("/")[-1], options, Layout(tp=tp, zero=0), {}, engine, row=row)


@pytest.mark.parametrize(
    ("day", "budget", "graph", "narrow"), [("2026-03-28", 8192, 512, False), ("2026-04-03", 2048, 2048, True)]
)
def test_minimax_was_tuned_in_april(day, budget, graph, narrow):
    """InferenceX bddbf403: --max-num-batched-tokens of two prompts, --max-cudagraph-capture-size 2048, --kv-cache-dtype fp8."""
    run = collected("vllm", "MiniMaxAI/MiniMax-M2.5", "b200_sxm", "fp8", day)
    setting = simulated_runs.configured(run, load_engine("vllm").scheduler)
    assert (setting.token_budget, setting.graph_tokens) == (budget, graph)
    assert (("kv_dtype", "fp8") in simulated_runs.options(run)) == narrow


@pytest.mark.parametrize(("day", "budget"), [("2025-11-02", 1152), ("2026-02-05", 8192)])
def test_tensorrt_llm_takes_8192_tokens_since_january(day, budget):
    """64af5a77: max_num_tokens is concurrency + prompt + 64 in whole 64s, and since then 8192 at least."""
    run = collected("trtllm", "deepseek-ai/DeepSeek-R1", "h200_sxm", "fp8", day)
    assert simulated_runs.configured(run, load_engine("trtllm").scheduler).token_budget == budget


def test_ranks_of_gpt_oss_wait_for_each_other_as_long_as_the_default_says():
    """gptoss_fp4_b200_trt_slurm.sh turns enable_balance on and leaves timeout_iters at 50 (llm_args.py)."""
    own = load_engine("trtllm").scheduler
    alone = simulated_runs.configured(collected("trtllm", "openai/gpt-oss-120b", "b200_sxm", "fp4", "2026-01-07"), own)
    run = collected("trtllm", "openai/gpt-oss-120b", "b200_sxm", "fp4", "2026-01-07")
    run.layout = Layout(tp=1.0, dp=4.0, ep=4.0, zero=0)
    ranks = simulated_runs.configured(run, own)
    assert (alone.hold_steps, ranks.hold_steps, ranks.hold_share) == (0, 50, 1.0)


def test_an_estimate_gets_the_flags_of_a_public_script():
    """Polls and messages of SGLang's script for DeepSeek on B200: 30 and 30 from 16 clients on, in an estimate of the same run too."""
    row = collected("sglang", "deepseek-ai/DeepSeek-R1", "b200_sxm", "fp8", "2025-12-31").row | {
        "tp_size": "8",
        "moe_tp_size": "8",
    }
    run = inference._collected(row)
    assert {"poll_steps=30", "stream_steps=30", "token_budget=32768"} <= set(run.options["scheduler"].split(","))
    assert "scheduler" not in dict(simulated_runs.options(run))  # simulated steps do not depend on it
    (unset,) = inference.without_flags([run])
    assert unset.options == run.without_flags and set(unset.measured) == {"ttft"}
    given, plain = (inference.predict(each)["ttft"][0] for each in (run, unset))
    assert given > 1.3 * plain
    assert inference.predict(run)["itl"] == inference.predict(replace(run, options=run.without_flags))["itl"]


def test_vendor_runs_get_no_flags():
    row = collected("trtllm", "Qwen/Qwen3-32B", "h100_sxm", "fp8", "").row | {
        "silicon_data_source": "x; silicon_concurrency=8"
    }
    run = inference._collected({**row, "silicon_ttft_ms": "1", "silicon_tpot_ms": "1"})
    assert run.without_flags is None and "scheduler" not in run.options and inference.without_flags([run]) == []


def test_runs_whose_clients_are_not_what_they_say_are_left_out():
    """Its script sent 512 at once to a server of 4 to 64 sequences: TPOT of four, first tokens of minutes."""
    for system, sent, reason in (("h100_sxm", 512, "known bad label"), ("h100_sxm", 64, ""), ("b200_sxm", 512, "")):
        row = collected("vllm", "openai/gpt-oss-120b", system, "fp4", "2025-12-08", sent).row
        assert inference._unusable(row) == reason


def test_runs_that_may_have_verified_drafts_are_scored_apart():
    """InferenceX ran DeepSeek-R1 with and without its multi-token prediction (dsr1_fp8_h200_trt.sh, dsr1_fp8_h200_trt_mtp.sh), and no row says which."""
    row = collected("trtllm", "deepseek-ai/DeepSeek-R1", "h200_sxm", "fp8", "2025-12-08").row
    day = {**row, "silicon_data_source": "source_file=2026-03-25.csv; silicon_concurrency=64"}
    assert inference._may_draft(day) and not inference._may_draft(row)
    assert not inference._may_draft({**day, "model_path": "deepseek-ai/DeepSeek-V3"})
    queue = {**row, "silicon_data_source": "source_file=/x/aic-auto-gap-analysis/data/gb200.csv; measured=2026-01-23"}
    assert inference._unusable(queue) == "known bad label" and inference._unusable({**queue, "backend": "vllm"}) == ""


@pytest.mark.parametrize(
    ("stated", "tp", "experts", "replicas"),
    [("", 1, (2, 1), 2), ("", 4, (1, 4), 1), ("", 8, (1, 4), 1), ("2", 2, (1, 4), 2)],
)
def test_experts_over_more_devices_than_a_tensor_group_has_mean_replicas_of_attention(stated, tp, experts, replicas):
    """A vendor's row of Qwen3-235B says tp 1, experts over 2, and no replicas: one H200 cannot hold 235 GB."""
    row = collected("vllm", "Qwen/Qwen3-235B-A22B-FP8", "h200_sxm", "fp8", "2025-12-08").row
    row |= {
        "attention_dp_size": stated,
        "tp_size": str(tp),
        "moe_tp_size": str(experts[0]),
        "moe_ep_size": str(experts[1]),
    }
    assert inference._replicas(row) == replicas
