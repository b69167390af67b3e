"""What runs again before a backward pass: kernels, executed FLOPs, and nothing else of the step."""

from __future__ import annotations

import pytest
from end_to_end_arithmetic.families import (
    DENSE,
    EXPERT,
    HALVED,
    LATENT,
    LATENT_LAYER,
    LAYER,
    MOE_OTHERS,
    PARAMETERS,
    STREAM,
    halves,
    sparse,
    step,
    unfused,
)
from end_to_end_arithmetic.hand import INSIDE, PEAK, Kernel, all_reduce, touched, wire
from end_to_end_arithmetic.training import COUNT, Around, S, Work, adam, block, check, flat, head, stem

OUTER = stem() + head()


def executed(answer: dict, model: list[Work], again: list[Kernel], devices: int = 1) -> None:
    """Model FLOPs count forward three times; executed FLOPs add what runs again."""
    flops = COUNT * 3 * sum(k.flops for k in flat(model, "forward"))
    more = COUNT * sum(k.flops for k in again)
    assert answer["flops"] == pytest.approx(flops)
    assert answer["hardware_flops"] == pytest.approx(flops + more)
    assert answer["hfu"] == pytest.approx((flops + more) / answer["time_s"] / devices / PEAK)


def test_full_repeats_every_layer_but_not_the_ends(ask):
    again = flat(6 * block(), "forward")
    answer = step(ask, recompute="full")
    check(answer, flat(DENSE) + again, Around(adam(PARAMETERS)))
    executed(answer, DENSE, again)


def test_four_of_six_layers(ask):
    again = flat(4 * block(), "forward")
    answer = step(ask, recompute="full", recompute_layers=4)
    check(answer, flat(DENSE) + again, Around(adam(PARAMETERS)))
    executed(answer, DENSE, again)
    assert step(ask, recompute="full", recompute_layers=6)["time_s"] == step(ask, recompute="full")["time_s"]


def test_a_framework_that_stops_early_leaves_out_the_last_projection(ask):
    """software `eager`: no gradient reads the down projection's output, nor the residual addition's."""
    layer, work = block(times=1.5), 6 * block(times=1.5) + stem() + head(times=1.5)
    again = flat(6 * (layer[:8]), "forward")
    accumulate = Kernel("optimizer", "optimizer", PARAMETERS * 7 / 0.6e12, 0.09)
    answer = step(ask, recompute="full", software="eager")
    check(answer, [*flat(work), accumulate, *again], Around(adam(PARAMETERS, 35)))
    executed(answer, work, again)


def test_stopping_early_leaves_out_a_shared_experts_last_projection_too(ask):
    layer = sparse(2 * S, touched(8, 2, S))
    needed = [w for i, w in enumerate(layer) if i not in (13, 14)]
    again = flat(2 * block()[:8] + 4 * needed, "forward")
    answer = step(ask, "moe", recompute="full", software="eager")
    executed(answer, 2 * block() + 4 * layer + OUTER, again)


def test_tensor_shards_sum_again_in_plain_sight(ask):
    """Two more all-reduces a layer, hidden behind nothing."""
    one, least = all_reduce(STREAM, 2), STREAM / INSIDE
    wires = {"tp": (6 * 6 * one, 6 * 6 * least, 6 * one * (4 * 0.25 + 2))}
    again = flat(6 * block(tp=2), "forward")
    answer = step(ask, n=2, tp=2, sequence_parallel=False, recompute="full")
    check(answer, flat(halves()) + again, Around(adam(HALVED), wires))


def test_selective_repeats_materialised_scores(ask):
    work = 6 * block(attend=unfused(False)) + OUTER
    again = flat(6 * [unfused(False)], "forward")
    answer = step(ask, flash=False, recompute="selective")
    check(answer, flat(work) + again, Around(adam(PARAMETERS)))


def test_selective_repeats_nothing_of_fused_attention(ask):
    answer = step(ask, recompute="selective")
    check(answer, flat(DENSE), Around(adam(PARAMETERS)))
    executed(answer, DENSE, [])


@pytest.mark.parametrize(
    ("modules", "rows"), [("layernorm", (0, 1)), ("mlp", (6, 7, 8)), ("layernorm,mlp", (0, 1, 6, 7, 8))]
)
def test_selective_repeats_the_modules_named(ask, modules, rows):
    again = flat(6 * [block()[i] for i in rows], "forward")
    answer = step(ask, recompute="selective", recompute_modules=modules)
    check(answer, flat(DENSE) + again, Around(adam(PARAMETERS)))
    executed(answer, DENSE, again)


@pytest.mark.parametrize(
    ("modules", "rows"),
    [("moe_act", (8,)), ("moe", (7, 8, 9, 10)), ("shared_experts", (11, 12, 13)), ("core_attn", ())],
)
def test_selective_repeats_parts_of_experts(ask, modules, rows):
    layer = sparse(2 * S, touched(8, 2, S))
    again = flat(4 * [layer[i] for i in rows], "forward")
    work = 2 * block() + 4 * layer + OUTER
    answer = step(ask, "moe", recompute="selective", recompute_modules=modules)
    check(answer, flat(work) + again, Around(adam(MOE_OTHERS + 4 * 8 * EXPERT), overhead=4 * 13e-6, experts=True))


def test_selective_repeats_the_latents_way_up(ask):
    again = flat(6 * [LATENT[4], LATENT[7]], "forward")
    answer = step(ask, "mla", recompute="selective", recompute_modules="mla_up_proj")
    parameters = PARAMETERS + 6 * (LATENT_LAYER - LAYER)
    check(answer, flat(6 * LATENT + OUTER) + again, Around(adam(parameters)))


def test_op_repeats_half_of_each_matmul_and_all_else_but_attention(ask):
    """torchtitan's selective checkpointing per operation; the last projection and the residual addition stay out."""
    layer = block()
    halved = [kernel * 0.5 for i in (2, 5, 6) for kernel in layer[i].forward]
    again = 6 * (halved + flat([layer[i] for i in (0, 1, 3, 7)], "forward"))
    answer = step(ask, recompute="op")
    check(answer, flat(DENSE) + again, Around(adam(PARAMETERS)))
    executed(answer, DENSE, again)


def test_op_leaves_materialised_scores_and_their_softmax(ask):
    layer = block(attend=unfused(False))
    halved = [kernel * 0.5 for i in (2, 5, 6) for kernel in layer[i].forward]
    again = 6 * (halved + flat([layer[i] for i in (0, 1, 3, 7)], "forward"))
    answer = step(ask, flash=False, recompute="op")
    check(answer, flat(6 * layer + OUTER) + again, Around(adam(PARAMETERS)))


def test_experts_exchange_no_tokens_again(ask):
    """Recomputing the layer repeats its kernels; tokens that arrived are kept."""
    volume = S * 2 * 256 * 2 / 2
    answer = step(ask, "moe", n=2, dp=2, ep=2, batch=2 * COUNT, recompute="full")
    spent = answer["communication_s"]["ep"] + answer["hidden_s"]["ep"]
    assert spent == pytest.approx(COUNT * 16 * wire(volume, 1))
