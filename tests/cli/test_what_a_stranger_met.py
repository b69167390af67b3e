"""Messages name what was typed, and each verb says what another verb says of the same question."""

from __future__ import annotations

import json

import pytest
from conftest import run_cli


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("estimate gpt2 --hw h100 --phase train --doc-lengths 100k", "--doc-lengths 100k: a document of 102400 tokens does not fit into --seq-len"),
        ("estimate gpt2 --hw h100 -n 8 --phase train --dp 8 --zero 3 --dp-shard 3", "--dp-shard 3 does not divide"),
        ("estimate gpt2 --hw tpu-v5p --phase train --framework megatron-2022", "no run of it on TPU v5p is known"),
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
