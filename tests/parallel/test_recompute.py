"""What recomputation repeats and what it no longer keeps, counted by hand."""

from __future__ import annotations

import pytest

from rooflinecli import memory
from rooflinecli.core.errors import UsageError
from rooflinecli.core.record import plain
from rooflinecli.engine import build_request
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.training import train
from rooflinecli.formulas import roofline
from rooflinecli.phases import backward, recompute
from rooflinecli.phases.axis_sizes import layer_sizes, pass_axis_sizes
from rooflinecli.phases.forward import ForwardPass
from rooflinecli.questions.estimate.answer import estimate
from rooflinecli.render.numbers import layout
from rooflinecli.specs.hardware import load_hardware
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.model import load_model
from rooflinecli.specs.request import Request
from rooflinecli.validate import published_training

TOKENS = 4096.0


def ctx(model: str, chip: str = "h100-sxm", **asked) -> EstimateContext:
    return EstimateContext(Request(load_model(model), load_hardware(chip), batch=8.0, seq=TOKENS, **asked))


def layer(model: str, index: int = 0):
    s = ctx(model)
    group = s.ledger.layers[index]
    sizes = layer_sizes(group, pass_axis_sizes(1.0, TOKENS, TOKENS, 1.0, Layout()), Layout(), s.spec.document, s.lift)
    return s, group, sizes


def kept(model: str, index: int = 0, **plan) -> float:
    s, group, sizes = layer(model, index)
    return memory.layer_activations(group, Layout(**plan), sizes, s.formats, float(s.ledger.n_layers))


def repeated(model: str, plan: Layout, early_stop: bool = False, index: int = 0) -> float:
    s, group, sizes = layer(model, index)
    forward = ForwardPass(s.formats).ops(group.rows, sizes)
    return sum(op.flops * op.count for op in recompute.recomputed_ops(plan, forward, early_stop))


def test_an_early_stop_saves_the_down_projection():
    full = repeated("llama-3-8b", Layout(recompute="full"))
    stopped = repeated("llama-3-8b", Layout(recompute="full"), True)
    assert full - stopped == 2 * TOKENS * 14336 * 4096


def test_op_repeats_every_second_matmul_and_no_attention():
    """q, k, v, o, gate, up, down: k, o and up run again, which are half of all but down."""
    expected = 2 * TOKENS * 4096 * (1024 + 4096 + 14336)
    assert repeated("llama-3-8b", Layout(recompute="op")) == pytest.approx(expected)


def test_op_keeps_what_it_does_not_repeat():
    """The layer's input, attention's output, and half of q, k, v, o, gate and up."""
    values = TOKENS * (4096 + 4096 + (6144 + 4096 + 2 * 14336) / 2)
    assert kept("llama-3-8b", recompute="op") == pytest.approx(2 * values)


def test_a_norm_after_the_projection_needs_its_output():
    assert (
        recompute.uses_early_stop(1.0, 2)
        and not recompute.uses_early_stop(1.0, 4)
        and not recompute.uses_early_stop(0.0, 2)
    )


def test_latent_up_projections_are_the_bulk_of_what_deepseek_keeps():
    """q (128 heads of 192) and keys and values (128 heads of 128 + 128) of every token, in bf16."""
    plain = kept("deepseek-v3", 1, recompute="selective")
    fewer = kept("deepseek-v3", 1, recompute="selective", recompute_modules=("mla_up_proj",))
    assert plain - fewer == pytest.approx(2 * TOKENS * 128 * (192 + 256))
    flops = repeated("deepseek-v3", Layout(recompute="selective", recompute_modules=("mla_up_proj",)), index=1)
    assert flops == pytest.approx(2 * TOKENS * 128 * (1536 * 192 + 512 * 256))


def test_every_module_names_rows_that_exist():
    rows = {
        row.name: row
        for name in ("llama-3-8b", "deepseek-v3", "gpt3-175b")
        for group in layer(name)[0].ledger.layers
        for row in group.rows
    }
    for again, drops in (module.values() for module in recompute.modules().values()):
        assert set(again) <= set(rows)
        assert all(max(places) < len(rows[row].saves) for row, places in drops.items() if row in rows)
        assert set(drops) <= set(rows)


def test_part_of_the_layers_costs_part_of_the_time_and_keeps_part_of_the_rest():
    s = ctx("llama-3-8b")
    answers = [
        train(s, Layout(dp=8.0, zero=3, recompute=kind, recompute_layers=layers))
        for kind, layers in (("none", None), ("full", 8.0), ("full", 32.0), ("full", None))
    ]
    times = [a.time_s for a in answers]
    assert times[0] < times[1] < times[2] == times[3]
    kernels = [sum(a.breakdown_s[name] for name in ("matmul", "attention", "elementwise")) for a in answers]
    assert kernels[1] - kernels[0] == pytest.approx((kernels[3] - kernels[0]) / 4, rel=1e-6)
    flops = [a.hardware_flops - a.flops for a in answers]
    assert flops[0] == 0 and flops[1] == pytest.approx(flops[3] / 4) and flops[3] > 0
    activations = [a.memory.activations_bytes for a in answers]
    assert activations[0] > activations[1] > activations[2]


def test_adapters_on_fewer_targets_cost_less():
    s = ctx("llama-3-8b")
    found = {t: train(s, Layout(dp=8.0, recipe="lora", lora_targets=t)) for t in ("all", "attention", "qkv")}
    times = [found[t].time_s for t in ("all", "attention", "qkv")]
    assert times == sorted(times, reverse=True) and len(set(times)) == 3
    # rank 16 on q, k and v: (4096 + 4096 + 2 x (4096 + 1024)) x 16 x 32 layers, 12 bytes each of optimizer state over 8 replicas
    assert found["qkv"].memory.optimizer_bytes == pytest.approx((8192 + 2 * 5120) * 16 * 32 * 12 / 8)


def test_a_power_cap_costs_a_cube_root():
    assert roofline.power_capped_rate(1000.0, 350.0, 700.0) == pytest.approx(1000 * 0.5 ** (1 / 3))
    assert roofline.power_capped_rate(1000.0, 900.0, 700.0) == 1000.0


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"recompute-layers": 4}, "--recompute full"),
        ({"recompute": "full", "recompute-layers": 0}, "at least 1"),
        ({"recompute-modules": "mlp"}, "--recompute selective"),
        ({"recompute": "selective", "recompute-modules": "mpl"}, "did you mean mlp"),
        ({"recipe": "lora", "lora-targets": "none"}, "qkv"),
    ],
)
def test_options_that_do_not_go_together_are_refused(given, words):
    with pytest.raises(UsageError, match=words):
        estimate(build_request.request({"model": "llama-3-8b", "hw": "h100", "phase": "train", "n": 8, **given}))


@pytest.mark.slow
def test_a_partial_recomputation_is_named() -> None:
    asked = {"model": "llama-3-8b", "hw": "h100", "phase": "train", "n": 8}
    part = estimate(build_request.request({**asked, "recompute": "full", "recompute-layers": 20}))
    assert "recompute-full:20-layers" in layout(plain(part.phases["train"].layout_of_phase))
    modules = estimate(build_request.request({**asked, "recompute": "selective", "recompute-modules": "mlp,layernorm"}))
    assert "recompute-selective:mlp+layernorm" in layout(plain(modules.phases["train"].layout_of_phase))


def test_narrow_formats_quantize_inputs_forward_and_output_gradients_backward() -> None:
    """Each once: x has k columns, dy has n, and the weight gradient reads both as they are."""
    s, group, sizes = layer("llama-3-8b")
    up = next(op for op in ForwardPass(s.formats).ops(group.rows, sizes) if op.name == "feedforward.gate_up")
    (back,), (weight,) = backward.input_gradients([up]), backward.weight_gradients([up])
    assert up.quantized == TOKENS * 4096
    assert back.quantized == TOKENS * 2 * 14336
    assert weight.quantized == 0


def test_pytorch_holds_its_loss_in_fp32() -> None:
    """Softmax and gradient of every logit, four bytes each; within a fifth of what torchtitan printed."""
    s = ctx("llama-3-8b")
    plain, eager = (
        train(s, Layout(dp=8.0, zero=3, recompute="op", software=name)).memory
        for name in ("megatron-bridge", "torchtitan")
    )
    assert eager.activations_bytes - plain.activations_bytes == pytest.approx(8 * TOKENS * 128256)
    for row in published_training.rows():
        if row["source"] == "torchtitan_2024":
            held = published_training.compared(row).answer.memory.total_bytes
            assert 0.75 < held / row["peak_memory_bytes"] < 1
