"""Kernels that carry gradients: attention's take longer per FLOP where a file says so, and nothing else does."""

from __future__ import annotations

import pytest

from rooflinecli.engine.context import EstimateContext
from rooflinecli.ledger.ops import Gradient, Op
from rooflinecli.phases.backward import input_gradients, weight_gradients
from rooflinecli.price.chip import Chip
from rooflinecli.price.kernels import price
from rooflinecli.specs.hardware import load_hardware
from rooflinecli.specs.model import load_model
from rooflinecli.specs.request import Request

FLOPS = 1e15  # long enough that traffic and launches are negligible
ATTENTION = Op("scores", "prefill_attention", "bf16", FLOPS, 1.0, n=128, length=8192, gradient=Gradient(2.5, 1.0))


def test_the_gradient_of_attention_takes_its_own_time_per_flop() -> None:
    chip = Chip(load_hardware("a100"))
    triton = ATTENTION._replace(variant="llm-foundry")
    forward, backward = (price(op, chip, "training") for op in (triton, *input_gradients([triton])))
    constants = chip.constants("training", "prefill_attention", "bf16", "llm-foundry")
    assert constants.gradient > 0.5  # the Triton kernel's backward pass is known to be slow
    assert backward.expected / forward.expected == pytest.approx(2.5 * (1 + constants.gradient), rel=1e-3)
    assert backward.t_compute == pytest.approx(2.5 * forward.t_compute)  # the floor is the FLOPs alone


def test_other_attention_runs_both_ways_at_one_rate() -> None:
    chip = Chip(load_hardware("h100"))
    forward, backward = (price(op, chip, "training") for op in (ATTENTION, *input_gradients([ATTENTION])))
    assert backward.expected / forward.expected == pytest.approx(2.5, rel=1e-3)


def test_the_rate_of_gradients_can_be_set() -> None:
    slow = Chip(load_hardware("h100"), override={"efficiency.prefill_attention.gradient": 1.0})
    plain = Chip(load_hardware("h100"))
    (gradient,) = input_gradients([ATTENTION])
    ratio = price(gradient, slow, "training").expected / price(gradient, plain, "training").expected
    assert ratio == pytest.approx(2.0, rel=1e-3)
    assert price(ATTENTION, slow, "training").expected == price(ATTENTION, plain, "training").expected


def test_older_megatron_spends_more_host_time_on_experts() -> None:
    for name in ("b200", "gb200"):
        chip = Chip(load_hardware(name))
        older = chip.constants("training", "step", "megatron-2025").per_moe_layer
        usual = chip.constants("training", "step").per_moe_layer
        newer = chip.constants("training", "step", "megatron-2026").per_moe_layer
        assert older >= usual >= newer > 0


def test_only_a_graph_of_the_whole_iteration_removes_the_host_time_of_x86() -> None:
    """Recipes of June 2026 capture partial graphs on B300 for DeepSeek-V3 and gpt-oss, whole iterations on GB300."""
    b300, gb300 = Chip(load_hardware("b300-sxm")), Chip(load_hardware("gb300"))
    for kind, name in (("step", "per_moe_layer"), ("ep_collective", "overlap")):
        partial, usual, whole = (
            getattr(b300.constants("training", kind, stack), name)
            for stack in ("megatron-2026", "megatron-bridge", "megatron-2026+full-graph")
        )
        assert partial == usual != whole == getattr(gb300.constants("training", kind, "megatron-2026"), name)


def test_weight_gradients_of_experts_add_to_main_gradients_too() -> None:
    """64 tokens to 8 experts that all have work: 8 weights of 256 x 512 gain 4 bytes each, as one dense weight does."""
    grouped = Op(
        name="up",
        kind="grouped_matmul",
        dtype="bf16",
        flops=2.0 * 64 * 256 * 512,
        bytes=0.0,
        k=256.0,
        n=512.0,
        ramp=8 / 64,
    )
    dense = grouped._replace(kind="matmul", ramp=1 / 256)
    assert weight_gradients([grouped], 4.0)[0].bytes == 8 * 256 * 512 * 4
    assert weight_gradients([dense], 4.0)[0].bytes == 256 * 512 * 4


def test_gradients_are_kept_as_the_recipes_of_a_framework_reduce_them() -> None:
    """Megatron-Bridge's set grad_reduce_in_fp32 = False; Megatron-LM and a stack that is not named keep 4 bytes, NeMo of 2024 2 and 10
    of states: 16-bit remainders of the weights with two moments. On a TPU weights in fp32 are the masters, 2 of their 4 bytes counted apart."""
    given = [("megatron-2026", None), ("megatron-bridge", 4.0), ("megatron", None), (None, None), ("nemo-2024", None)]
    model, chip = load_model("llama-3-8b"), load_hardware("h100")
    kept = [EstimateContext(Request(model, chip, software=name, gradient_bytes=said)) for name, said in given]
    kept.append(EstimateContext(Request(model, load_hardware("v5p"))))
    kept.append(EstimateContext(Request(model, chip, software="nemo-2024", optimizer_bytes=12.0)))
    assert [ctx.gradient_bytes for ctx in kept] == [2.0, 4.0, 4.0, 4.0, 2.0, 4.0, 2.0]
    assert [ctx.optimizer_bytes for ctx in kept] == [12.0, 12.0, 12.0, 12.0, 10.0, 10.0, 12.0]
