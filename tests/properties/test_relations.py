"""Physical relations that hold for every question: order of floors, resources and ideal, monotony, sums of parts, Little's law."""

from __future__ import annotations

import itertools
import math
import os
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from rooflinecli.core.errors import Infeasible, UsageError
from rooflinecli.engine import legality
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.evaluate import answer
from rooflinecli.engine.phase_answer import PhaseAnswer
from rooflinecli.engine.serving_load import waits_for_cache
from rooflinecli.formulas.grouped_gemm import CROWDED_FROM
from rooflinecli.specs.hardware import load_hardware
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.model import load_model
from rooflinecli.specs.request import Request

MODELS = (
    "gpt2",
    "llama-3-8b",
    "falcon-40b",
    "mixtral-8x7b",
    "deepseek-v3",
    "gemma-2-9b",
    "gpt3-175b",
    "phi-2",
    "vit-l-16",
)
CHIPS = ("h100", "a100", "b200", "tpu-v5e", "tpu-v5p", "mi300x", "epyc-9654", "trainium2", "l40s")
SLACK = 1e-9
relations = settings(
    max_examples=40 if os.environ.get("CI") else 8,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


@st.composite
def questions(draw: Any, phase: str) -> tuple[Request, Layout, str]:
    """A legal question: a model, a chip, a plan and a workload."""
    pick = lambda *values: draw(st.sampled_from(values))  # noqa: E731
    request = Request(
        load_model(pick(*MODELS)),
        load_hardware(pick(*CHIPS)),
        phases=(phase,),
        batch=float(pick(1, 3, 8, 32, 64, 256)) if phase != "train" else float(pick(8, 64, 256)),
        prompt=float(pick(16, 100, 512)),
        output=float(pick(1, 16, 100)),
        seq=float(pick(128, 192)),
    )
    tp, pp, dp = pick(1, 2, 4, 8), pick(1, 1, 2, 4), pick(1, 2, 8)
    more: dict[str, Any] = {"zero": 0}
    if phase == "train":
        more = {
            "zero": pick(0, 1, 2, 3),
            "micro_batch": float(pick(1, 2)),
            "recompute": pick("none", "selective", "full"),
            "sequence_parallel": pick(True, False),
            "schedule": pick("1f1b", "gpipe", "zero-bubble"),
            "cp": float(pick(1, 1, 2)),
            "software": pick("any", "any", "megatron-2022"),
        }
    plan = Layout(tp=float(tp), pp=float(pp), dp=float(dp), ep=float(pick(1, dp)), **more)
    try:
        ctx = EstimateContext(request)
        assume(ctx.is_autoregressive or phase != "decode")
        assume(legality.first_violation(ctx, plan, phase) is None)
    except UsageError:
        assume(False)
    return request, plan, phase


any_phase = st.one_of(questions("prefill"), questions("decode"), questions("train"))
serving = st.one_of(questions("prefill"), questions("decode"))
Question = tuple[Request, Layout, str]


def ask(
    question: Question, override: dict[str, Any] | None = None, plan: Layout | None = None, **changes: Any
) -> PhaseAnswer:
    request, given_plan, phase = question
    try:
        return answer(EstimateContext(replace(request, **changes), override=override), plan or given_plan, phase)
    except Infeasible:
        assume(False)
        raise


def no_slower(faster: PhaseAnswer, slower: PhaseAnswer) -> None:
    assert faster.time_s <= slower.time_s * (1 + SLACK)
    assert faster.floor_s <= slower.floor_s * (1 + SLACK)


@given(any_phase)
@relations
def test_floor_resources_expected_and_interval_stand_in_order(q: Question) -> None:
    found = ask(q)
    low, high = found.interval_s
    for _, seconds in found.resources_s.entries():
        assert seconds <= found.floor_s * (1 + SLACK)
    assert found.floor_s <= found.time_s * (1 + SLACK)
    assert (
        found.floor_s <= low * (1 + SLACK) and low <= found.time_s * (1 + SLACK) and found.time_s <= high * (1 + SLACK)
    )


@pytest.mark.slow
@given(any_phase, st.sampled_from(["peak", "memory", "network"]), st.sampled_from([1.1, 2.0, 10.0]))
@relations
def test_a_faster_part_never_slows_anything(q: Question, part: str, factor: float) -> None:
    chip = q[0].hardware
    rates = {
        "peak": {f"peak.{d}": r.si for d, r in chip.peak.items()},
        "memory": {"memory.bandwidth": chip.memory.bandwidth.si},
        "network": {f"network.{i}.bandwidth": level.bandwidth.si for i, level in enumerate(chip.network)},
    }[part]
    no_slower(ask(q, {path: rate * factor for path, rate in rates.items()}), ask(q))


@pytest.mark.slow
@given(any_phase)
@relations
def test_ideal_is_no_slower_and_leaves_the_floor_alone(q: Question) -> None:
    ideal, expected = ask(q, efficiency="ideal"), ask(q)
    assert ideal.time_s <= expected.time_s * (1 + SLACK)
    assert ideal.floor_s == pytest.approx(expected.floor_s, rel=SLACK)


@given(questions("decode"), st.sampled_from([2.0, 3.0, 8.0]))
@relations
def test_a_larger_batch_takes_longer_and_yields_more(q: Question, factor: float) -> None:
    small, large = ask(q), ask(q, batch=q[0].batch * factor)
    no_slower(small, large)
    # runs with CROWDED_FROM sequences and more use experts less well (formulas/grouped_gemm.crowded): a batch past that line may yield less
    if not (q[0].model.layers[-1].feedforward.n_experts and q[0].batch < CROWDED_FROM <= q[0].batch * factor):
        assert small.tokens_per_s <= large.tokens_per_s * (1 + SLACK)
    assert small.memory.total_bytes <= large.memory.total_bytes


@given(serving, st.sampled_from(["prompt", "output"]), st.sampled_from([1.5, 2.0, 4.0]))
@relations
def test_longer_contexts_take_longer_and_hold_more(q: Question, which: str, factor: float) -> None:
    before, after = ask(q), ask(q, **{which: math.ceil(getattr(q[0], which) * factor) * 1.0})
    no_slower(before, after)
    assert before.memory.total_bytes <= after.memory.total_bytes


@pytest.mark.slow
@given(questions("train"), st.sampled_from([2.0, 4.0]))
@relations
def test_a_larger_global_batch_takes_longer_and_yields_more(q: Question, factor: float) -> None:
    small, large = ask(q), ask(q, batch=q[0].batch * factor)
    no_slower(small, large)
    assert small.tokens_per_s <= large.tokens_per_s * (1 + 1e-6)
    assert large.flops == pytest.approx(factor * small.flops)


@given(any_phase)
@relations
def test_parts_add_up(q: Question) -> None:
    found = ask(q)
    held = found.memory
    assert sum(found.breakdown_s.values()) == pytest.approx(found.time_s, rel=1e-9)
    assert all(seconds >= 0 for seconds in found.breakdown_s.values())
    assert sum(found.communication_s.values()) <= found.breakdown_s.get("communication", 0.0) * (1 + SLACK) + 1e-15
    parts = (
        held.weights_bytes + held.gradients_bytes + held.optimizer_bytes + held.activations_bytes + held.kv_cache_bytes
    ) + (held.reserved_bytes or 0.0)
    assert parts == pytest.approx(held.total_bytes)
    assert held.headroom_fraction == pytest.approx(1 - held.total_bytes / held.capacity_bytes)
    assert bool(held.fits) == (held.headroom_fraction >= 0)


@given(any_phase)
@relations
def test_utilizations_are_what_their_names_say(q: Question) -> None:
    request, plan, phase = q
    found, ctx = ask(q), EstimateContext(request)
    if phase != "prefill" or not (
        request.concurrency or request.qps
    ):  # under load a first token waits, and its time is no pass
        assert found.mfu == pytest.approx(
            found.flops / (found.time_s * plan.devices * ctx.chip.peak(ctx.formats.compute))
        )
    assert 0 <= found.mfu <= 1
    if phase == "train":
        assert found.hfu >= found.mfu * (1 - SLACK)
        assert found.tokens_per_s * found.time_s == pytest.approx(ctx.train_batch * ctx.seq)
    if phase == "decode":
        assert 0 < found.mbu <= 1 + SLACK


@pytest.mark.slow
@given(serving, st.sampled_from([2.0, 4.0]))
@relations
def test_replicas_multiply_the_rate_and_leave_the_time(q: Question, factor: float) -> None:
    plan = q[1]
    assume(plan.ep == 1)
    assume(all(level.kind != "torus" for level in q[0].hardware.network))  # a larger slice closes more rings
    one, many = ask(q), ask(q, plan=replace(plan, dp=plan.dp * factor))
    assert many.time_s == one.time_s
    assert many.tokens_per_s == pytest.approx(factor * one.tokens_per_s)


@pytest.mark.slow
@given(questions("train"))
@relations
def test_recomputation_and_sharding_trade_time_for_memory(q: Question) -> None:
    plan = replace(q[1], recompute="none", software="megatron-bridge")  # an unnamed stack differs between ZeRO stages
    none, full = ask(q, plan=plan), ask(q, plan=replace(plan, recompute="full"))
    assert none.time_s <= full.time_s * (1 + 1e-6)  # what is hidden is joined to the work by a norm
    held = [ask(q, plan=replace(plan, zero=stage)).memory.total_bytes for stage in (0, 1, 2, 3)]
    assert all(later <= earlier * (1 + SLACK) for earlier, later in itertools.pairwise(held))


@pytest.mark.slow
@given(questions("decode"), st.sampled_from([1, 2, 5, 16, 100]))
@relations
def test_a_closed_loop_keeps_to_littles_law(q: Question, concurrency: int) -> None:
    request, plan, _ = q
    loop = replace(request, batch=None, concurrency=float(concurrency), phases=("prefill", "decode"))
    ctx = EstimateContext(loop)
    first, later = answer(ctx, plan, "prefill"), answer(ctx, plan, "decode")
    whole = first.time_s + (loop.output - 1) * later.time_s
    in_flight = later.tokens_per_s / loop.output / plan.dp * whole
    assert in_flight <= concurrency * (1 + SLACK)
    prompts = plan.pp * plan.dp / scene_prompt_cost(ctx, plan)
    assert later.tokens_per_s / loop.output <= prompts * (1 + SLACK)
    if not waits_for_cache(ctx, plan):  # of a queue the clients in front wait less than those at its end
        assert in_flight == pytest.approx(concurrency) or later.tokens_per_s / loop.output == pytest.approx(prompts)


def scene_prompt_cost(ctx: EstimateContext, plan: Layout) -> float:
    from rooflinecli.engine.serving_load import prefill_interference_s

    return float(prefill_interference_s(ctx, plan))


@pytest.mark.slow
@given(questions("decode"), st.sampled_from([1, 2, 4, 9, 30]))
@relations
def test_more_requests_in_flight_never_lower_the_rate(q: Question, concurrency: int) -> None:
    rates = [ask(q, batch=None, concurrency=float(c)).tokens_per_s for c in (concurrency, concurrency + 1)]
    assert rates[0] <= rates[1] * (1 + 1e-6)


@pytest.mark.slow
@given(questions("decode"), st.sampled_from([0.01, 0.1, 1.0]))
@relations
def test_an_open_loop_carries_the_rate_asked_for(q: Question, qps: float) -> None:
    found = ask(q, batch=None, qps=qps)
    assume(
        bool(found.memory.fits)
    )  # sequences that memory cannot hold carry nothing, and the answer says they do not fit
    assert found.tokens_per_s == pytest.approx(qps * q[0].output, rel=2e-3)


@pytest.mark.slow
@given(serving)
@relations
def test_narrower_weights_never_hold_more(q: Question) -> None:
    request, plan, phase = q
    assume(request.model.quantization is None)  # a checkpoint in eight bits is no wider than int8
    wide = ask(q)
    narrow = answer(EstimateContext(replace(request, weight_dtype="int8")), plan, phase)
    assert narrow.memory.weights_bytes <= wide.memory.weights_bytes
    assert narrow.floor_s <= wide.floor_s * (1 + SLACK)
