"""Parts of a phase by themselves: a layer's adapters as they are charged, logits held, matrices orthogonalized on a share of devices."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from rooflinecli import memory
from rooflinecli.engine import build_request, evaluate, inputs, lora_serving, training
from rooflinecli.engine.context import EstimateContext
from rooflinecli.phases.axis_sizes import layer_sizes, pass_axis_sizes
from rooflinecli.specs.layout import Layout

HAND = str(Path(__file__).parents[1] / "end_to_end_arithmetic" / "hand.yaml")


def ctx(model="llama-3-8b", hw=HAND, **more) -> EstimateContext:
    return EstimateContext(build_request.request({"model": model, "hw": hw, **more}))


def test_a_layer_s_adapters_as_charged():
    """Rank 8, 3 tokens, llama's rows of 4096 in and out; four adapters, each layer seven times."""
    one = ctx(hw="a100", engine="vllm", adapters=4, lora_rank=8, phase="decode", batch=3)
    (group, *_) = one.ledger.layers
    plan = Layout()
    sizes = layer_sizes(group, pass_axis_sizes(3.0, 1.0, 100.0, 1.0, plan), plan, one.ledger.document, one.lift)
    added, spent = [], []
    costs = SimpleNamespace(
        add=lambda ops, times: added.append((*ops, times)), add_time=lambda _, seconds, *__: spent.append(seconds)
    )
    lora_serving.add_priced(one, costs, group.rows, sizes, 7.0)
    assert len(added) == len(spent) == 4 and {times for _, times in added} == {7.0}
    at = next(i for i, (op, _) in enumerate(added) if op.name == "attention.out.adapter")
    op = added[at][0]
    assert (op.k, op.n, op.quantized, op.ramp) == (4096, 4096, 3 * 4096, 1 / 4096)
    assert op.flops == 2 * 3 * 8 * (4096 + 4096)
    pair = 8 * (4096 + 4096)  # parameters
    assert op.bytes == 3 * (4096 + 2 * 4096) * 2 + pair * 2
    constants = one.chip.constants("serving", "matmul", one.formats.outer_compute)
    met = 4 * (1 - 0.75**3)  # of four, by three sequences
    further = (met - 1) * pair * 2 / (one.chip.bandwidth * constants.memory)
    starts = 2 * one.chip.constants("serving", "adapters").overhead
    assert spent[at] == pytest.approx(7 * (further + starts))
    lora_serving.add_priced(ctx(hw="a100"), None, group.rows, sizes, 7.0)  # none asked for, nothing to charge


@pytest.mark.parametrize(("phase", "seconds"), [("prefill", 0.25), ("decode", 0.0)])
def test_seconds_of_a_prompt_are_of_prefill_alone(phase, seconds):
    asked = ctx(prompt=100, output=16).request
    times = [
        evaluate.answer(EstimateContext(asked, override=override), Layout(), phase).time_s
        for override in ({}, {"efficiency.step.per_prompt": 0.25})
    ]
    assert times[1] - times[0] == pytest.approx(seconds, abs=1e-9)


def test_encoders_are_bound_to_what_they_read():
    """T5 reads the whole prompt; LLaVA two images of 24 x 24 patches and a class token, whose patches join the prompt."""
    text, images = ctx(model="t5-base", prompt=300), ctx(model="llava-1.5-7b", prompt=300, images=2)
    (source,) = inputs.bind_inputs(text, text.ledger, 300.0).ledger.towers
    assert (source.length, source.count) == (300, 1)
    bound = inputs.bind_inputs(images, images.ledger, 300.0)
    (vision,) = bound.ledger.towers
    assert (vision.length, vision.count, bound.prompt) == (577, 2, 300 + 2 * 576)


def test_every_scored_position_holds_its_logits():
    """Vocabulary of 128256 in bf16, two sequences, four positions more."""
    one = ctx()
    last, five = (
        memory.inference_activations(one.ledger, Layout(), one.formats, 2.0, 64.0, one.lift, scored=n)
        for n in (1.0, 5.0)
    )
    assert five - last == 2 * 4 * 128256 * 2


@pytest.mark.parametrize("shared", [{"tp": 2.0}, {"pp": 2.0}, {"dp": 2.0, "zero": 1}])
def test_matrices_are_shared_out_to_be_orthogonalized(shared):
    """Seconds over the start of a kernel are halved by two devices, however they share."""
    one = ctx(phase="train", optimizer="muon", seq=128, batch=8)
    alone, two = (training._orthogonalization_time(one, Layout(**plan)) for plan in ({"zero": 0}, shared))
    flops = memory.orthogonalization_flops(one.ledger, one.optimizer.steps, one.lift)
    assert alone > 0 and flops > 0
    start = one.chip.constants("training", "matmul", "bf16").overhead
    assert two - start == pytest.approx((alone - start) / 2, rel=1e-3)
    assert training._orthogonalization_time(ctx(phase="train"), Layout()) == 0.0
