"""What training a hybrid (Mamba and attention, experts on a latent width) adds to a step, by hand."""

from __future__ import annotations

import pytest

from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.training import train
from rooflinecli.parallel import expert
from rooflinecli.specs.hardware import load_hardware
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.model import load_model
from rooflinecli.specs.request import Request

SUPER = "nemotron-3-super-120b-a12b"
STACK = "megatron-2026"


def ctx(model: str = SUPER, override: dict[str, float] | None = None, **options) -> EstimateContext:
    return EstimateContext(
        Request(load_model(model), load_hardware("gb300"), **{"batch": 512.0, "seq": 8192.0, "dtype": "fp8"} | options),
        override=override,
    )


def test_tokens_travel_to_latent_experts_in_their_latent_width() -> None:
    """40 MoE layers and MTP blocks send 22 copies of 8,192 tokens, 1,024 values of two bytes, four times a step and microbatch."""
    plan = Layout(dp=64.0, ep=64.0, software=STACK, ep_overlap=False)
    answer = train(ctx(), plan)
    assert expert.token_width({"D": 4096.0, "De": 1024.0}) == 1024.0 and expert.token_width({"D": 4096.0}) == 4096.0
    one_way = 8192 * 22 * 1024 * 2 * 63 / 64
    sent = one_way * 4 * 40 * 512 / 64
    # two modules that predict tokens: two of 88 layers each, on average 40/88 of them with experts
    assert sent < answer.communication_bytes["ep"] < 1.25 * sent


def test_hybrids_expose_the_exchange_that_other_mixtures_hide() -> None:
    plan = Layout(dp=64.0, ep=64.0, software=STACK)
    exposed, hidden = (train(ctx(), plan.with_changes(ep_overlap=overlap)) for overlap in (False, True))
    assert train(ctx(), plan).time_s == exposed.time_s > hidden.time_s
    deepseek = Layout(dp=64.0, ep=64.0, software=STACK)
    other = ctx("deepseek-v3")
    assert train(other, deepseek).time_s == train(other, deepseek.with_changes(ep_overlap=True)).time_s


def test_hybrid_mixtures_expose_tensor_parallelism_unless_asked_to_overlap_it() -> None:
    """Recipes of Nemotron 3 leave tp_comm_overlap off; a twentieth stays exposed where it is on, all of it where it is said to be off."""
    plan = Layout(tp=2.0, dp=32.0, ep=64.0, sequence_parallel=True, software=STACK)
    unsaid, on, off = (train(ctx(), plan.with_changes(tp_overlap=flag)) for flag in (None, True, False))
    assert unsaid.time_s == off.time_s > on.time_s
    assert on.communication_s["tp"] == pytest.approx(0.05 * off.communication_s["tp"], rel=0.01)
    dense = {"dtype": "bf16", "seq": 4096.0}
    unsaid, on, off = (
        train(ctx("llama-3-70b", **dense), plan.with_changes(ep=1.0, tp_overlap=flag)) for flag in (None, True, False)
    )
    assert unsaid.time_s == on.time_s < off.time_s


def test_a_prediction_module_of_a_hybrid_is_attention_and_experts() -> None:
    block = ctx().ledger.mtp_block
    assert [group.mixer is not None for group in block] == [True, False] and block[1].moe
    assert block[0].axes["N"] == 32  # the attention layers' heads, not Mamba's 128
    assert len(ctx("deepseek-v3").ledger.mtp_block) == 1


def test_experts_of_a_hybrid_wait_for_the_host() -> None:
    """4.75 ms for each of 42 layers of experts, two prediction modules included, in each of 8 micro-batches, and stragglers; other
    mixtures do not."""
    plan = Layout(dp=64.0, ep=64.0, software=STACK)
    none = train(ctx(override={"efficiency.experts.per_moe_layer": 0.0}), plan)
    assert train(ctx(), plan).breakdown_s["overhead"] - none.breakdown_s["overhead"] == pytest.approx(
        8 * 42 * 4.75e-3, rel=0.06
    )
    kept = train(ctx("deepseek-v3", override={"efficiency.experts.per_moe_layer": 0.0}), plan)
    assert kept.time_s == train(ctx("deepseek-v3"), plan).time_s
