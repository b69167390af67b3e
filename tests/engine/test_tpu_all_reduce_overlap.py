"""On TPUs XLA hides a tensor group's sums overlapping the matmuls of a prompt; those of a token stay exposed. Worked out by hand from the parts."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rooflinecli.engine import build_request, inference
from rooflinecli.engine.context import EstimateContext
from rooflinecli.specs.layout import Layout

ASKED = {"model": "llama-3-70b", "hw": "tpu-v6e", "engine": "vllm", "dtype": "bf16", "prompt": 1000, "output": 1000}
PLAN = Layout(tp=8.0, zero=0)
FULL, HALF = {"efficiency.tp_collective.overlap": 0.0}, {"efficiency.tp_collective.overlap": 0.5}


def parts(override=None, phase="prefill", **changes):
    ctx = EstimateContext(build_request.request({**ASKED, **changes, "batch": 1}), override=override)
    return getattr(inference, phase)(ctx, PLAN).breakdown_s


@pytest.mark.parametrize(("override", "hidden"), [(None, 0.95), (HALF, 0.5)])
def test_what_hides_meets_the_work_in_a_norm(override, hidden):
    sent = parts(FULL)["communication"]
    starts = ("communication", "overhead", "engine")  # charged behind the layers
    worked = sum(seconds for name, seconds in parts(FULL).items() if name not in starts)
    joined = (worked**3.66 + (hidden * sent) ** 3.66) ** (1 / 3.66)
    expected = (1 - hidden) * sent + joined - worked
    assert parts(override)["communication"] == pytest.approx(expected, rel=1e-9)


def test_sums_of_a_token_are_latency_and_stay():
    assert parts(phase="decode") == parts(FULL, phase="decode")


def test_gpus_hide_nothing_here():
    ctx = EstimateContext(build_request.request({**ASKED, "hw": "h100-sxm", "batch": 1}))
    assert ctx.chip.constants("serving", "tp_collective").overlap == 0


@settings(deadline=None)
@given(st.sampled_from(["tpu-v4", "tpu-v5e", "tpu-v5p", "tpu-v6e"]), st.integers(16, 7000))
def test_a_prompt_never_beats_its_floor_and_hiding_never_slows_it(chip, prompt):
    scenes = [
        EstimateContext(build_request.request({**ASKED, "hw": chip, "prompt": prompt, "batch": 1}), override=o)
        for o in (None, FULL)
    ]
    hidden, exposed = (inference.prefill(ctx, PLAN) for ctx in scenes)
    assert hidden.floor_s == exposed.floor_s <= hidden.time_s <= exposed.time_s * (1 + 1e-12)
