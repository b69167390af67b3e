"""What must hold for every model, plan and chip."""

from __future__ import annotations

from dataclasses import replace

import pytest
from conftest import examples
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from rooflinecli.core.derivation import Traced
from rooflinecli.core.derivation_text import quantities
from rooflinecli.core.lift import PLAIN
from rooflinecli.core.lift import TracedLift as TracedInputs
from rooflinecli.engine import evaluate as engine
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.phase_answer import PhaseAnswer
from rooflinecli.questions.estimate.answer import estimate
from rooflinecli.specs.hardware import load_hardware
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.model import load_model
from rooflinecli.specs.request import Request

MODELS = ("gpt2", "llama-3-8b", "llama-3-70b", "falcon-40b", "mixtral-8x7b", "deepseek-v3", "gemma-2-9b")
CHIPS = ("h100", "a100", "h200", "tpu-v5e")

cases = st.fixed_dictionaries(
    {
        "model": st.sampled_from(MODELS),
        "chip": st.sampled_from(CHIPS),
        "phase": st.sampled_from(sorted(engine.PHASES)),
        "batch": st.sampled_from([8, 16, 64]),
        "length": st.sampled_from([128, 512, 1024]),
        "tp": st.sampled_from([1, 2, 4]),
        "pp": st.sampled_from([1, 2]),
        "dp": st.sampled_from([1, 2, 4]),
        "zero": st.sampled_from([0, 1, 2, 3]),
        "recompute": st.sampled_from(["none", "selective", "full"]),
        "sequence_parallel": st.booleans(),
    }
)
thorough = settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])


def heads_divide(case: dict) -> bool:
    return all(g.attention.n_heads % case["tp"] == 0 for g in load_model(case["model"]).layers)


def answer(case: dict, chip_override: dict | None = None, lift=PLAIN) -> PhaseAnswer:
    request = Request(
        load_model(case["model"]),
        load_hardware(case["chip"]),
        batch=case["batch"],
        prompt=case["length"],
        output=64,
        seq=case["length"],
    )
    ctx = EstimateContext(request, lift, chip_override)
    plan = Layout(
        tp=float(case["tp"]),
        pp=float(case["pp"]),
        dp=float(case["dp"]),
        zero=case["zero"],
        recompute=case["recompute"],
        sequence_parallel=case["sequence_parallel"],
    )
    return engine.answer(ctx, ctx.lifted(plan), case["phase"])


@thorough
@given(cases.filter(heads_divide))
def test_floor_expected_upper(case):
    a = answer(case)
    low, high = a.interval_s
    assert 0 < a.floor_s <= a.time_s * (1 + 1e-12)
    assert a.floor_s <= low * (1 + 1e-12) and low <= a.time_s * (1 + 1e-12) and a.time_s <= high * (1 + 1e-12)
    assert 0 < a.mfu <= 1 + 1e-12


@thorough
@example(  # the links' floor exceeds everything else, and all of it was taken as hidden
    {
        "model": "gpt2",
        "chip": "tpu-v5e",
        "phase": "train",
        "batch": 8,
        "length": 512,
        "tp": 4,
        "pp": 1,
        "dp": 2,
        "zero": 3,
        "recompute": "none",
        "sequence_parallel": False,
    }
)
@given(cases.filter(heads_divide))
def test_breakdown_adds_up(case):
    a = answer(case)
    assert sum(a.breakdown_s.values()) == pytest.approx(a.time_s, rel=1e-9)
    assert all(t >= 0 for t in a.breakdown_s.values())


@thorough
@given(
    cases.filter(heads_divide),
    st.sampled_from(["memory.bandwidth", "peak.bf16", "network.0.bandwidth"]),
    st.floats(1.01, 4.0),
)
def test_faster_hardware_never_slows_a_plan(case, figure, factor):
    spec = load_hardware(case["chip"])
    base = {
        "memory.bandwidth": spec.memory.bandwidth.si,
        "peak.bf16": spec.peak["bf16"].si,
        "network.0.bandwidth": spec.network[0].bandwidth.si,
    }
    assert answer(case, {figure: base[figure] * factor}).time_s <= answer(case).time_s * (1 + 1e-12)


@thorough
@given(cases.filter(heads_divide))
def test_a_traced_estimate_equals_the_plain_one_bit_for_bit(case):
    plain, traced = quantities(answer(case)), quantities(answer(case, lift=TracedInputs()))
    for name, value in plain.items():
        other = traced[name]
        assert (other.value if isinstance(other, Traced) else other) == value, name


@thorough
@given(cases)
def test_an_axis_of_size_one_adds_no_communication(case):
    a = answer({**case, "tp": 1, "pp": 1, "dp": 1})
    assert a.breakdown_s.get("communication", 0.0) == 0.0 and a.resources_s.communication == 0.0


@settings(max_examples=examples(30), deadline=None)
@given(st.sampled_from(MODELS), st.sampled_from([1, 2, 5, 16]), st.sampled_from([64, 512]))
def test_doubling_the_batch_doubles_model_flops(model, batch, seq):
    request = Request(
        load_model(model), load_hardware("h100"), batch=batch, seq=seq, phases=("train",), devices=1, tp=1, pp=1, dp=1
    )
    one = estimate(request).phases["train"].flops
    assert estimate(replace(request, batch=2 * batch)).phases["train"].flops == pytest.approx(2 * one, rel=1e-12)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("model", MODELS)
def test_training_flops_are_close_to_6n_where_attention_is_small(model):
    """Independent of the ledger: 6 N_active tokens without the embedding table, within 8 % at short sequences."""
    from rooflinecli.layers.parameter_counts import parameters

    spec = load_model(model)
    request = Request(spec, load_hardware("h100"), batch=8, seq=128, phases=("train",), devices=1, tp=1, pp=1, dp=1)
    got = estimate(request).phases["train"].flops
    assert got == pytest.approx(6 * parameters(spec).active_without_embedding * 8 * 128, rel=0.08)
