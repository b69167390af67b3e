"""Messages name what was typed, and each verb says what another verb says of the same question."""

from __future__ import annotations

import json

import pytest
from conftest import run_cli

from rooflinecli.questions.rl.question import Rl
from rooflinecli.questions.rl.variants import _tried


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("estimate gpt2 --hw h100 --phase train --doc-lengths 100k", "--doc-lengths 100k: a document of 102400 tokens does not fit into --seq-len"),
        ("estimate gpt2 --hw h100 -n 8 --phase train --dp 8 --zero 3 --dp-shard 3", "--dp-shard 3 does not divide"),
        ("estimate gpt2 --hw tpu-v5p --phase train --framework megatron-2022", "no run of it on TPU v5p is known, only on GPUs"),
        ("estimate gpt2 --hw tpu-v5p --phase train --framework maxtext", "maxtext has no constants on TPU v5p; priced as any framework of that chip"),
        ("estimate llama-3-8b --hw h100 -n 64 --phase train --mfu 80%", "nothing alone would bring the step from"),
        ("serving quantize -p 70B --to q4_k_m", "q4 k m 0.612 B 42.8 GB"),
        ("serving quantize -p 70B --to q4_k_z", "unknown dtype 'q4_k_z'"),
        ("scaling run -p 70B --tokens 15T --hw h100 --mfu 0.4 --usd-per-hour 2", "here it is --price"),
        ("scaling run -p 70B --tokens 15T --hw h100 --mfu 0.4", "at 40% MFU of 6 N D"),
        ("estimate flux --hw rtx-4090 -n 1 --phase prefill", "-n 2 --tp 2 --pp 1 --dp 1; or --dtype fp8 on the same devices, check accuracy"),
        ("rl llama-3.3-70b --hw h100 -n 4 --search", "the update alone needs 329 GB per device of 86 GB; take a larger -n"),
        ("rl gpt2 --hw m3-max -n 1 --prompts 2 --samples 2 --prompt 64 --output 64 --engine vllm", "nothing shows that it runs on Apple M3 Max"),
        ("compare gpt2 --hw h100,l40s --phase decode", "vs best at bound"),
        ("estimate gpt2 --hw h100 --framework zorble", "unknown framework 'zorble'"),
        ("estimate gpt2 --hw １h100", "unknown chip"),
        ("estimate llämä --hw h100", "did you mean"),
        ("estimate zorble --hw h100", "qwen"),
        ("estimate llama-3-8b --hw h100 --phase decode --num-loras 100000", "lower --num-loras"),
        ("estimate llama-3-8b --hw m3-max --phase decode --engine vllm", "no run of vLLM is known here but on nvidia gpu"),
        ("compare llama-3-8b --hw h100,mi300x --phase decode --engine trtllm", "nothing shows that it runs on Instinct MI300X"),
        ("simulate llama-3-8b --hw m3-max --engine vllm --qps 1 --num-requests 2 --prompt 64 --output 2", "nothing shows that it runs on"),
        ("estimate llama-3-8b --hw h100 -n 4 --phase decode --speculative-method llama-3-70b --acceptance-rate 0.8", "the draft is no smaller than"),
        ("goodput --checkpoint 30 GB", "in quotes where it has a space"),
        ("simulate llama-3-8b --hw h100 --qps 30 --num-requests 800 --prompt 2k --output 2 --no-interval --autoscale 1:4@4 --startup-time 5s", "a MIN above 1"),
        ("estimate gpt2 --hw h100 --phase decode --no-flash-attention", "--no-flash-attention changes nothing"),
    ],
)  # fmt: skip
def test_it_is_said(asked, said):
    ran = run_cli(*asked.split())
    assert said in " ".join((ran.out + ran.err).split())


def test_a_power_cap_explains_a_time_only_where_an_estimate_under_it_takes_as_long():
    asked = "estimate llama-3-8b --hw h100 --phase prefill --prompt 8k --format json".split()
    base = run_cli(*asked).json["phases"]["prefill"]["time_s"]
    clocks = {}
    for slower in (1.25, 4):
        said = run_cli(*asked, "--measured", f"{base * slower} s").json["gap_explanations"]
        clocks[slower] = next(row["assumption"] for row in said if row["assumption"].startswith("clocks"))
    cap = clocks[1.25].split("cap of ")[1].removesuffix(" W)")
    assert run_cli(*asked, "--power-cap", f"{cap}W").json["phases"]["prefill"]["time_s"] == pytest.approx(
        base * 1.25, rel=0.05
    )
    assert "power cap" not in clocks[4]  # below what an idle device draws, which --power-cap refuses


def test_eagle3_is_an_eagle_head():
    asked = (
        "estimate llama-3-8b --hw h100 --phase decode --acceptance-rate 0.7 --format json --speculative-method".split()
    )
    assert run_cli(*asked, "eagle3").json["phases"]["decode"] == run_cli(*asked, "eagle").json["phases"]["decode"]


def test_changes_of_an_rl_step_wait_for_the_longest_sample_too():
    asked = Rl("gpt2", hw="h100", n=4, prompts=4, samples=2, prompt=64, output=64)
    tried = [options for options, _ in _tried(asked)]
    split = "--rollout-devices 2 --staleness 1"
    assert split in tried and f"{split} --partial-rollout" in tried


def test_a_rate_that_fills_the_cache_is_what_a_full_replica_answers():
    """An engine queues what its cache does not hold: 302 requests of 4 H100, which end 5.1 a second (simulated: 5.0 to 5.2)."""
    asked = "estimate llama-3.3-70b --hw h100 -n 4 --tp 4 --dtype fp8 --engine vllm --prompt 2k --output 512".split()
    phases = ["--phase", "prefill", "--phase", "decode"]
    more = run_cli(*asked, *phases, "--qps", "9", "--format", "json")
    said = more.json["violations"][0]["message"]
    assert (
        more.code == 1
        and "a replica whose cache holds 302 requests and evicts some answers 5.13 requests/s; use -n 8 --dp 2" in said
    )
    assert more.json["phases"]["decode"]["batch"] == 302 and not more.json["feasible"]
    enough = ["estimate", *asked[1:4], "-n", "8", *asked[6:], "--dp", "2", "--qps", "9"]
    assert run_cli(*enough, *phases).code == 0
    below = run_cli(*asked, *phases, "--qps", "5.05", "--format", "json").json
    assert below["feasible"] and below["phases"]["decode"]["batch"] < 302
    waits = run_cli(*asked, *phases, "--qps", "5.12", "--format", "json").json["phases"]["prefill"]["time_s"]
    assert waits > 1.5 * below["phases"]["prefill"]["time_s"]  # the last slots are taken at times


def test_slower_steps_of_an_open_loop_have_more_in_flight():
    """Steps k times as long at a rate are those of k times the rate on a clock k times as slow; simulated, the ITL at the bound is 37.5 ms."""
    asked = "estimate qwen3-32b --hw h100 -n 8 --tp 4 --dp 2 --prompt 1500 --output 300 --engine vllm --phase decode --format json --qps".split()
    found = run_cli(*asked, "15").json
    decode = found["phases"]["decode"]
    factor = decode["interval_s"][1] / decode["time_s"]
    slow = factor * run_cli(*asked, str(15 * factor)).json["phases"]["decode"]["time_s"]
    assert slow > 1.15 * decode["interval_s"][1]
    assert f"times as long, more requests are in flight and the ITL is {1e3 * slow:.1f} ms" in " ".join(found["notes"])
    assert "times as long" not in " ".join(run_cli(*asked, "8").json.get("notes") or [])


def test_a_sweep_of_rates_says_which_a_replica_keeps_up_with():
    """Whether layouts are given, and points are arrays, or chosen, and points are estimates."""
    asked = "sweep llama-3.3-70b --hw h100 -n 4 --tp 4 --dtype fp8 --engine vllm --prompt 2k --output 512 --phase decode --format csv".split()
    for given in ([], ["--pp", "1", "--dp", "1"]):
        rows = run_cli(*asked, *given, "--qps", "5.05,9", "--columns", "decode.time_s").out.splitlines()
        assert (
            ",true," in rows[1] and ",false," in rows[2] and ("keep up" in rows[2] or "cannot be sustained" in rows[2])
        )


def test_no_cached_prompt_is_a_rate_of_hits_too():
    """0 is the default, and a point of a sweep from it."""
    asked = "sweep llama-3-8b --hw h100 --phase prefill --prompt 2k --format csv --prefix-hit-rate".split()
    rows = run_cli(*asked, "0,50%").out.split()
    assert len(rows) == 3
    assert "expected a share from 0 up to 1" in run_cli(*asked, "1.5").err


def test_windows_that_no_layer_has_are_no_defaults(tmp_path):
    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 128,
             "max_position_embeddings": 512, "intermediate_size": 64, "moe_intermediate_size": 32, "num_experts": 4, "num_experts_per_tok": 2}  # fmt: skip
    path = tmp_path / "moe.json"
    for more, said in (({}, False), ({"use_sliding_window": True}, True)):
        path.write_text(json.dumps({"model_type": "qwen3_moe", **sizes, **more}))
        assert ("sliding_window 4096" in run_cli("models", str(path)).out) == said


def test_shared_options_of_serving_are_no_news_in_a_check_of_training(tmp_path):
    path = tmp_path / "plan.yaml"
    head = "defaults: {model: gpt2, hw: h100, engine: vllm}\nchecks:\n  a: {n: 1, batch: 8, "
    path.write_text(head + "require: {train.time_s: '<= 9 s'}}\n")
    assert "belongs to serving" not in run_cli("check", str(path)).err
    path.write_text(head + "kv_dtype: fp8, require: {train.time_s: '<= 9 s'}}\n")
    assert "--kv-dtype belongs to serving" in run_cli("check", str(path)).err


@pytest.mark.parametrize(
    ("words", "said", "unsaid"),
    [
        ("plan llama-3-70b --hw h100", "or --qps for a service", None),
        ("estimate llama-3-70b --hw h100 -n 256 --phase train --batch 8 --dp 32 --tp 8", "lower --dp or -n", "lower --micro"),
        ("estimate llama-3-70b --hw h100 -n 256 --phase train --batch 8 --dp 4 --tp 8 --micro-batch-size 4", "lower --micro-batch-size, --dp", None),
        ("sweep qwen3-32b --hw h100 --tp 4 --batch 1..100000000", "100,000,000 values; give a step", None),
        ("sweep qwen3-32b --hw h100 --tp 4 --batch 1..10000 --prompt 1..1000", "10,000,000 points are more than a table holds", None),
    ],
)  # fmt: skip
def test_a_question_that_is_refused_says_what_would_answer_it(cli, words, said, unsaid):
    ran = cli(*words.split())
    assert ran.code == 2 and said in ran.err and (unsaid is None or unsaid not in ran.err)


def test_what_was_given_of_a_layout_is_let_go_where_nothing_else_fits(cli):
    """126 layers with their ends on 16 stages under ZeRO-1 take 114% of the memory; 'no layout holds it' was false."""
    asked = "llama-3.1-405b --hw h100 -n 8192 --batch 2048 --seq-len 8192 --tp 8 --pp 16 --dp 64 --framework megatron --phase train --recompute none"
    ran = cli(
        "estimate", *asked.split(), *"--layers-per-stage embedding+loss --zero 1 --virtual-stages 8 --wide".split()
    )
    nearest = ran.out.partition("nearest that works: ")[2].partition("without")[0].split()
    assert ran.code == 1 and nearest
    assert cli("estimate", *asked.split()[:3], *"--batch 2048 --seq-len 8192 --framework megatron --phase train".split(), *nearest).code == 0  # fmt: skip


def test_layers_on_a_device_are_lowered_to_those_that_fit(cli):
    asked = "estimate llama-3.3-70b --weight-dtype q4_k_m --hw rtx-3090 --engine llamacpp --batch 1 -n 1 --phase decode --wide"
    most = int(
        cli(*asked.split(), "--gpu-layers", "99").out.partition("nearest that works: --gpu-layers ")[2].split()[0]
    )
    assert [cli(*asked.split(), "--gpu-layers", str(n)).code for n in (most, most + 1)] == [0, 1]
