"""Novelty of a layout against limits in round figures: how far each size goes beyond, what it adds, what it says."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from rooflinecli.engine import extrapolation
from rooflinecli.engine.context import EstimateContext
from rooflinecli.specs import training_envelope
from rooflinecli.specs.hardware import load_hardware
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.model import load_model
from rooflinecli.specs.request import Request

HAND = str(
    Path(__file__).parents[1] / "end_to_end_arithmetic" / "hand.yaml"
)  # four devices inside; its file says its own error
MIXED = str(Path(__file__).parent / "mixed_experts.yaml")  # layers of 8 experts next to layers of 32
LIMITS = training_envelope.TrainingEnvelope(
    together=(("cp", "cp"), ("tp", "ep"), ("pp", "ZeRO-2"), ("pp", "ZeRO-3"), ("virtual stages", "ep")),
    tensor=2.0,
    stages=4.0,
    context=1000.0,
    experts=2.0,
    sharding=3.0,
    hidden=(0.2, 0.25),
    memory=(0.8, 1.0),
    fitted=True,
    measured={"typical bf16 llama": 0.1, "megatron-bridge bf16 llama": 0.1},
    others=0.12,
    mixers=frozenset({"gqa"}),
)
FULL = SimpleNamespace(total_bytes=40.0, capacity_bytes=50.0)  # all that published ones fill
KINDS = {"combination", "tensor", "stages", "context", "hidden", "memory"}


@pytest.fixture(autouse=True)
def limits(monkeypatch):
    monkeypatch.setattr(extrapolation, "known", lambda ctx, plan: LIMITS)


def ctx(model="llama-3-8b", chip=HAND, **asked) -> EstimateContext:
    return EstimateContext(
        Request(
            load_model(MIXED if model == "mixed" else model),
            load_hardware(chip),
            **{"seq": 4000.0, "phases": ("train",), **asked},
        )
    )


def beyond(plan: Layout, model="llama-3-8b", hidden=0.0, memory=FULL, **asked) -> dict[str, float]:
    """What goes beyond at all, by kind."""
    found = extrapolation.extrapolation_terms(ctx(model, **asked), plan, hidden, memory)
    return {claim.kind: claim.beyond for claim in found if np.any(claim.beyond)}


def test_what_published_runs_did_adds_nothing():
    plan = Layout(tp=8.0, pp=2.0, virtual_stages=4.0, dp=2.0, zero=1)
    found = extrapolation.extrapolation_terms(ctx(), plan, 0.2, FULL)
    assert {claim.kind for claim in found} == KINDS
    assert all(claim.beyond == 0 for claim in found) and extrapolation.error(ctx(), found) == 0


@pytest.mark.parametrize(
    ("plan", "model", "kind", "far"),
    [
        ({"tp": 9.0}, "llama-3-8b", "tensor", 0.5),  # 2.25 of four, half of a quarter above 2
        ({"tp": 16.0}, "llama-3-8b", "tensor", 1.0),
        ({"pp": 2.0, "virtual_stages": 4.5}, "llama-3-8b", "stages", 0.5),
        ({"ep": 4.0, "dp": 4.0}, "mixtral-8x7b", "experts", 0.0),  # two experts each of eight
        ({"ep": 1.0, "dp": 4.0}, "mixtral-8x7b", "experts", 1.0),
        ({"ep": 4.0, "dp": 4.0}, "mixed", "experts", 1.0),  # eight of its wider layers' experts each, two of the others
        ({"ep": 1.0}, "mixtral-8x7b", "experts", 0.0),  # one device has nothing to share them with
        ({"dp": 12.0, "zero": 3}, "llama-3-8b", "sharding", 0.0),  # three domains of four
        ({"dp": 16.0, "zero": 3}, "llama-3-8b", "sharding", 1.0),
        ({"dp": 13.5, "zero": 3}, "llama-3-8b", "sharding", 0.5),
        ({"dp": 16.0, "zero": 2}, "llama-3-8b", "sharding", 0.0),
        ({"tp": 4.0, "dp": 4.0, "zero": 3}, "llama-3-8b", "sharding", 1.0),  # each replica in a domain of its own
        ({"dp": 64.0, "shard": 8.0, "zero": 3}, "llama-3-8b", "sharding", 0.0),  # two domains, whatever dp is
    ],
)
def test_a_size_goes_so_far_beyond(plan, model, kind, far):
    assert beyond(Layout(**plan), model).get(kind, 0.0) == pytest.approx(far)


@pytest.mark.parametrize(("seq", "far"), [(4000.0, 0.0), (3555.5555555555557, 0.5), (2000.0, 1.0)])
def test_few_tokens_on_a_context_rank(seq, far):
    """1000 and more are known; 889 is half of the way to 800."""
    assert beyond(Layout(cp=4.0), seq=seq).get("context", 0.0) == pytest.approx(far)
    assert "context" not in beyond(Layout(), seq=100.0)  # a short sequence that no run splits


def test_hidden_seconds_and_full_memory():
    assert beyond(Layout(), hidden=0.225) == {"hidden": pytest.approx(0.5)}
    assert beyond(Layout(), memory=SimpleNamespace(total_bytes=45.0, capacity_bytes=50.0)) == {
        "memory": pytest.approx(0.5)
    }


@pytest.mark.parametrize(
    ("plan", "new"),
    [
        ({"cp": 2.0}, True),  # a technique with itself: none used it
        ({"tp": 2.0, "dp": 2.0, "ep": 2.0}, True),
        ({"tp": 2.0, "pp": 2.0}, False),
        ({"dp": 2.0, "ep": 2.0}, False),
        ({"pp": 2.0, "zero": 2}, True),
        ({"pp": 2.0, "zero": 3}, True),
        ({"pp": 2.0, "zero": 1}, False),
        ({"zero": 2, "dp": 2.0}, False),
        ({"pp": 2.0, "virtual_stages": 2.0, "dp": 2.0, "ep": 2.0}, True),
        ({"pp": 2.0, "virtual_stages": 2.0}, False),
    ],
)
def test_techniques_that_nobody_joins(plan, new):
    held = {"context": 0.0, "experts": 0.0, "sharding": 0.0}
    assert (beyond(Layout(**plan), "mixtral-8x7b") | held)["experts"] == 0
    assert beyond(Layout(**plan), "mixtral-8x7b").get("combination", 0.0) == (1.0 if new else 0.0)


def test_arrays_are_judged_point_by_point():
    tp, ep = np.array([1.0, 2.0, 9.0]), np.array([2.0, 2.0, 1.0])
    found = beyond(Layout(tp=tp, ep=ep, dp=4.0), "mixtral-8x7b")
    assert list(found["combination"]) == [0.0, 1.0, 0.0]
    assert list(found["tensor"]) == pytest.approx([0.0, 0.0, 0.5])
    assert list(found["experts"]) == [1.0, 1.0, 1.0]


def test_kinds_add_in_quadrature():
    errors = training_envelope.widening(mixture=False)
    found = extrapolation.extrapolation_terms(ctx(), Layout(tp=9.0, cp=2.0), 0.0, FULL)
    assert extrapolation.error(ctx(), found) == pytest.approx(math.hypot(0.5 * errors["tensor"], errors["combination"]))
    wider = training_envelope.widening(mixture=True)
    assert wider["tensor"] > errors["tensor"] and wider["combination"] > errors["combination"]
    own = extrapolation.error(ctx("mixtral-8x7b"), found)
    assert own == pytest.approx(math.hypot(0.5 * wider["tensor"], wider["combination"]))


def test_a_chip_that_no_run_was_fitted_to(monkeypatch):
    """Unless its file says itself how well a step is known; and it is no fault of a layout."""
    bare = training_envelope.TrainingEnvelope(**{**vars(LIMITS), "fitted": False, "measured": {}})
    monkeypatch.setattr(extrapolation, "known", lambda ctx, plan: bare)
    assert "chip" not in beyond(Layout())
    found = extrapolation.extrapolation_terms(ctx(chip="rtx-4090"), Layout(), 0.0, FULL)
    chip = next(claim for claim in found if claim.kind == "chip")
    assert chip.beyond == 1 and "RTX 4090" in chip.say()
    assert {claim.kind for claim in extrapolation.own(found)} == KINDS


def test_an_ideal_chip_claims_nothing():
    assert extrapolation.extrapolation_terms(ctx(efficiency="ideal"), Layout(tp=64.0), 1.0, FULL) == []


def answer(hidden: dict[str, float], total=40.0) -> SimpleNamespace:
    memory = SimpleNamespace(total_bytes=total, capacity_bytes=50.0)
    return SimpleNamespace(hidden_s=hidden, time_s=10.0, memory=memory)


def test_only_what_goes_beyond_is_said():
    """Two seconds of ten hidden are known, 2.5 are the whole way beyond; 2.02 are a hair of it."""
    assert extrapolation.extrapolation_notes(ctx(), Layout(), answer({"dp": 1.5, "tp": 0.5})) == []
    assert extrapolation.extrapolation_notes(ctx(), Layout(), answer({"dp": 1.5, "tp": 0.52})) == []
    (said,) = extrapolation.extrapolation_notes(ctx(), Layout(), answer({"dp": 1.5, "tp": 1.0}))
    assert said.startswith("hides 2.50 s of communication, 25% of the step; nine of ten")
    (said,) = extrapolation.extrapolation_notes(ctx(), Layout(cp=2.0), answer({}))
    assert said == "uses cp, which no two published runs here do"
    (said,) = extrapolation.extrapolation_notes(ctx(), Layout(pp=2.0, zero=2), answer({}))
    assert said == "uses pp with ZeRO-2, which no two published runs here do"


def test_practised_is_where_nothing_goes_beyond():
    assert bool(extrapolation.has_precedent(ctx(), Layout(tp=8.0), answer({"dp": 2.0})))
    assert not bool(extrapolation.has_precedent(ctx(), Layout(tp=8.0), answer({"dp": 2.5})))
    assert not bool(extrapolation.has_precedent(ctx(), Layout(tp=9.0), answer({"dp": 2.0})))
    sizes = extrapolation.has_precedent(ctx(), Layout(dp=np.array([16384.0, 16385.0])), answer({}))
    assert list(sizes) == [True, False]
    assert list(extrapolation.has_precedent(ctx(), Layout(tp=np.array([8.0, 9.0])), answer({}))) == [True, False]


def test_a_torus_counts_single_ranks():
    """It has no edge within reach; a switch of four is counted in fours, a chip without a network in ones."""
    assert extrapolation.scale_up_domain_sizes(ctx().chip) == (4.0, 4.0)
    size, ranks = extrapolation.scale_up_domain_sizes(ctx(chip="tpu-v5p").chip)
    assert size > 1 and ranks == 1.0
    assert extrapolation.scale_up_domain_sizes(SimpleNamespace(levels=[])) == (1.0, 1.0)


@pytest.mark.parametrize(("chip", "most"), [("h100-sxm", 16384), ("tpu-v5e", 8192)])
def test_no_published_run_has_more_devices(chip, most):
    """Llama 3's 16,384 H100 and MaxText's 8,192 chips of TPU v5e (32 slices of 256) are the largest timed runs of the rows."""
    kind = load_hardware(chip).kind
    assert extrapolation.size_notes(kind, most) == []
    assert extrapolation.size_notes(kind, most + 1) == [
        f"{most + 1:,} devices; published training runs have up to {most:,}"
    ]
