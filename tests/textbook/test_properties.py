"""What must hold for every input."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rooflinecli.core.errors import Infeasible, UsageError
from rooflinecli.formulas import speculation as spec
from rooflinecli.questions.occupancy.question import MultiprocessorOccupancy, SystolicOccupancy, multiprocessor
from rooflinecli.questions.scaling.question import FITS, TABLE, Chinchilla, InferenceAware, TrainingRun
from rooflinecli.questions.serving.question import TABLE as SERVING
from rooflinecli.questions.serving.question import Speculate, best_length

share = st.floats(0.0, 1.0)
cost = st.floats(0.001, 0.9)
size = st.floats(1e6, 1e13)


@given(share, st.integers(0, 60))
def test_a_step_yields_between_one_token_and_all(acceptance, length):
    tokens = spec.speculative_tokens(acceptance, length)
    assert 1 - 1e-9 <= tokens <= length + 1 + 1e-9


@given(share, st.integers(1, 40))
def test_expected_tokens_are_the_sum_of_the_run(acceptance, length):
    assert spec.speculative_tokens(acceptance, length) == pytest.approx(
        sum(acceptance**i for i in range(length + 1)), rel=1e-6
    )


@given(st.floats(0.01, 0.99), cost, st.integers(1, 200))
def test_no_draft_length_beats_the_best(acceptance, draft_cost, other):
    best = Speculate(acceptance_rate=acceptance, draft_cost=draft_cost).answer().speedup
    assert spec.speculative_tokens(acceptance, other) / (other * draft_cost + 1) <= best + 1e-12
    assert best >= 1


@given(st.floats(0.0, 0.99), st.floats(0.0, 0.9))
def test_speculation_pays_exactly_when_acceptance_exceeds_the_draft_cost(acceptance, draft_cost):
    """Leviathan et al. 2023, corollary 3.9."""
    if abs(acceptance - draft_cost) > 1e-6:
        assert (best_length(acceptance, lambda length: (draft_cost, 1.0, None)) > 0) == (acceptance > draft_cost)


@given(st.integers(1, 30), st.floats(0.0, 0.3).map(lambda cost: round(cost, 9)), st.floats(1.0, 3.0))
def test_break_even_acceptance_gives_back_the_speedup(length, draft_cost, wanted):
    try:
        acceptance = (
            Speculate(num_speculative_tokens=length, draft_cost=draft_cost, speedup=wanted)
            .answer()
            .break_even_acceptance
        )
    except UsageError:
        assert (length + 1) / (length * draft_cost + 1) < wanted
        return
    got = spec.speculative_tokens(acceptance, length) / (length * draft_cost + 1)
    assert got == pytest.approx(wanted, rel=1e-6) or (acceptance == 0 and got >= wanted)


@given(st.floats(1e15, 1e28), st.sampled_from(sorted(FITS)))
def test_an_optimum_spends_the_budget_and_no_other_split_is_better(flops, fit):
    answer = Chinchilla(flops=flops, fit=fit).answer()
    assert answer["training_flops"] == pytest.approx(flops)
    best, one = answer["fits"][fit], FITS[fit]
    assert best["training_flops"] == pytest.approx(flops)
    for factor in (0.5, 0.99, 1.01, 2.0):
        params = best["params"] * factor
        assert one.e + one.a / params**one.alpha + one.b / (flops / 6 / params) ** one.beta >= best["loss"] * (
            1 - 1e-12
        )


@given(st.floats(1e8, 1e12), st.floats(0, 1e16).map(round), st.floats(1.1, 100))
def test_more_served_tokens_never_ask_for_a_larger_model(params, served, more):
    first = InferenceAware(tokens_served=served, params=params).answer().options["inference_aware"]
    second = InferenceAware(tokens_served=served * more, params=params).answer().options["inference_aware"]
    assert second["params"] <= first["params"] * (1 + 1e-9)
    assert second["tokens"] >= first["tokens"] * (1 - 1e-9)


@given(size, size, st.integers(1, 100000), st.floats(0.01, 1))
@example(1e6, 722032708355.0, 1, 1.0)  # the MFU that comes back is one and two units in the last place
def test_a_run_takes_its_flops(params, tokens, devices, mfu):
    given = {"params": params, "tokens": tokens, "devices": devices, "peak": 1e15}
    answer = TrainingRun(**given, mfu=mfu, price=2.0).answer()
    assert answer["time_s"] * devices * 1e15 * mfu == pytest.approx(6 * params * tokens)
    assert answer["training_usd"] == pytest.approx(answer["device_hours"] * 2)
    back = TrainingRun(**given, time=answer.time_s).answer()
    assert back["mfu"] == pytest.approx(mfu)


@given(st.floats(1e5, 1e12), st.integers(1, 200), st.sampled_from([1, 8, 64, 128]))
def test_a_width_is_a_multiple_and_as_near_as_one_can_be(params, layers, multiple):
    answer = TABLE["Width"](params=params, layers=layers, expansion=4.0, multiple=multiple).answer()
    assert answer["d_model"] % multiple == 0 and answer["d_model"] >= multiple
    assert abs(answer["d_model"] - answer["d_exact"]) <= multiple / 2 + 1e-6 or answer["d_model"] == multiple


@given(
    st.sampled_from(["7.0", "8.0", "8.6", "9.0", "12.0"]),
    st.integers(1, 1024),
    st.integers(0, 96 * 1024),
    st.integers(0, 255),
)
def test_occupancy_is_a_share_and_more_of_anything_never_raises_the_blocks(capability, threads, shared, registers):
    sm = multiprocessor(capability)
    try:
        answer = MultiprocessorOccupancy(
            threads=threads, smem=shared, registers=registers, capability=capability
        ).answer()
    except Infeasible:
        return
    assert 0 < answer["occupancy"] <= 1
    assert answer["blocks"] == min(answer["limits_blocks"].values())
    assert answer["blocks"] * answer["warps_per_block"] <= sm.max_warps
    leaner = MultiprocessorOccupancy(
        threads=max(1, threads // 2), smem=shared // 2, registers=registers // 2, capability=capability
    ).answer()
    assert leaner["blocks"] >= answer["blocks"]


@given(*[st.integers(1, 5000)] * 3, st.sampled_from([8, 128, 256]))
def test_systolic_shares_are_shares(m, k, n, side):
    answer = SystolicOccupancy(m, k, n, rows=side, cols=side).answer()
    for name in ("output_tile_utilization", "column_utilization", "weight_tile_utilization", "cycle_utilization"):
        assert 0 < answer[name] <= 1
    assert answer["cycle_utilization"] <= answer["weight_tile_utilization"]


@given(st.integers(1, 1000), st.integers(1, 10000), st.data())
def test_a_cached_prefix_is_computed_once(requests, prompt, data):
    """Counted request by request: the first computes all of its prompt, the others only what follows the prefix."""
    shared = data.draw(st.integers(0, prompt))
    answer = SERVING["PrefixCaching"](requests=requests, prompt=prompt, shared=shared).answer()
    assert answer["prefilled_tokens"] == prompt + sum(prompt - shared for _ in range(requests - 1))
    assert answer["prompt_tokens"] == requests * prompt
    assert 0 <= answer["saving"] < 1


@given(st.integers(1, 64), st.integers(1, 16), st.integers(0, 5000), st.integers(1, 5000))
def test_beams_are_counted_one_by_one(batch, beams, prompt, output):
    """Each beam has its own output; the prompt is held once a sequence when shared, else once a beam."""
    caches = SERVING["BeamSearch"](batch=batch, beams=beams, prompt=prompt, output=output).answer().caches
    own = sum(output for _ in range(batch * beams))
    assert caches["beams_sharing_the_prompt"]["kv_cache_tokens"] == own + batch * prompt
    assert caches["beams"]["kv_cache_tokens"] == own + batch * beams * prompt
