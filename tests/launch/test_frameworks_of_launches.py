"""A framework that a launch names is known on every chip that has the framework itself."""

import pytest
from conftest import run_cli


@pytest.mark.parametrize("hw", ["h100", "b200", "a100", "mi300x"])
def test_gradients_reduced_in_the_backward_pass_are_a_framework_everywhere(hw):
    launch = "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 32 --hidden-size 4096 --num-attention-heads 32 --seq-length 2048 --micro-batch-size 1 --global-batch-size 64 --bf16 --use-distributed-optimizer --overlap-grad-reduce"
    done = run_cli("estimate", "llama-2-7b", "--from", launch, "--hw", hw)
    assert done.code == 0 and "megatron+overlap" in done.err, done.err


@pytest.mark.slow
def test_options_of_serving_are_idle_in_training():
    done = run_cli(*"estimate llama-3-8b --hw h100 -n 8 --phase train --qps 5 --engine vllm".split())
    assert done.code == 0 and "--qps, --engine belong to serving" in done.err
