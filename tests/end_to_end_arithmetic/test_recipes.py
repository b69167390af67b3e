"""Training less, or against a reference: adapters of frozen weights, four-bit bases, preference pairs."""

from __future__ import annotations

import pytest
from end_to_end_arithmetic.families import ADAPTERS, DENSE, LAYER, PARAMETERS, step
from end_to_end_arithmetic.hand import Kernel, W, all_reduce, elementwise, norm, total, wire
from end_to_end_arithmetic.training import COUNT, Around, S, adam, block, check, exchange_shown, flat, head, stem

LINEAR = [(256, 256), (128, 256), (256, 1024), (512, 256)]  # q, k and v, output, gate and up, down: k x n
APART = [
    (3 * 256, 256),
    (128, 256),
    (2 * 256, 1024),
    (512, 256),
]  # adapters: q, k, v, gate and up have a down projection each
FROZEN = flat(DENSE, "forward inputs")


def adapter(k: int, n: int, again: float | None = None) -> Kernel:
    """Down to rank 16 and up, next to a k x n matrix: the input read, the output read and written."""
    flops, traffic = 2 * S * 16 * (k + n), S * (k + 2 * n) * 2
    once_more = (S * k if again is None else again) * 3 / 0.4e12
    seconds = norm(2, flops * (1 + 32 / k) / 50e12, traffic / 0.8e12) + 3e-6 + 0.5e-9 * k + once_more
    return Kernel("matmul", "matmul", seconds, 0.1, flops, traffic)


def adapters(layers: list[tuple[int, int]] = APART) -> list[Kernel]:
    """Forward, and both halves of backward; what carries the gradient back passes over flops / 2k elements once more."""
    result = []
    for k, n in layers:
        result += [adapter(k, n), adapter(k, n, again=S * 16 * (k + n) / k), adapter(k, n, again=0)]
    return result


@pytest.mark.parametrize(("targets", "count"), [("all", 4), ("attention", 2), ("qkv", 1)])
def test_frozen_weights_have_no_gradients(ask, targets, count):
    """Two passes of the base where three were, and the adapters' own three."""
    answer = step(ask, recipe="lora", lora_targets=targets)
    kernels = FROZEN + 6 * adapters(APART[:count])
    check(answer, kernels, Around(adam(6 * ADAPTERS[targets])))
    assert answer["flops"] == pytest.approx(2 * COUNT * sum(k.flops for k in flat(DENSE, "forward")))


def test_rank(ask):
    assert step(ask, recipe="lora", lora_rank=32)["memory"]["gradients_bytes"] == pytest.approx(
        4 * 6 * 2 * ADAPTERS["all"]
    )


def widened() -> float:
    """Seconds of reading the four-bit weights of a layer and writing them in 16 bits."""
    weights = sum(k * n for k, n in LINEAR)
    return elementwise(0, moved=weights * ((4 + 8 / 64 + 32 / (64 * 256)) / 8 + 2)).seconds


def test_four_bit_weights_are_widened_before_each_use(ask):
    """Forward and backward; under recomputation once more, as are the adapters."""
    lora, qlora = (step(ask, recipe=recipe)["time_s"] for recipe in ("lora", "qlora"))
    assert qlora - lora == pytest.approx(COUNT * 6 * 2 * widened())
    lora_full, qlora_full = (step(ask, recipe=recipe, recompute="full")["time_s"] for recipe in ("lora", "qlora"))
    assert qlora_full - lora_full == pytest.approx(COUNT * 6 * 3 * widened())
    again = flat(6 * block(), "forward") + [adapter(k, n) for k, n in 6 * APART]
    assert lora_full - lora == pytest.approx(COUNT * total(again))


def test_widening_follows_the_layers_that_recompute(ask):
    some, none = (
        step(ask, recipe="qlora", recompute="full", recompute_layers=4)["time_s"],
        step(ask, recipe="qlora")["time_s"],
    )
    again = flat(4 * block(), "forward") + [adapter(k, n) for k, n in 4 * APART]
    assert some - none == pytest.approx(COUNT * (total(again) + 4 * widened()))


def test_a_reference_model_runs_forward_beside_the_policy(ask):
    """Rafailov et al. 2023: three passes of the policy and one of the reference; the loss once."""
    reference = flat(6 * block() + stem() + head()[:2], "forward")
    answer = step(ask, recipe="dpo")
    check(answer, flat(DENSE) + reference, Around(adam(PARAMETERS)))
    assert answer["flops"] == pytest.approx(4 * COUNT * sum(k.flops for k in flat(DENSE, "forward")))


def test_only_what_learns_is_summed_between_replicas(ask):
    """Adapters' gradients, and no more, travel; ZeRO-3 gathers frozen weights twice and scatters nothing."""
    learned = 6 * ADAPTERS["all"]
    zero_0, zero_3 = (step(ask, recipe="lora", n=2, dp=2, zero=z, batch=2 * COUNT) for z in (0, 3))
    assert zero_0["communication_bytes"]["dp"] == pytest.approx(learned * 4)
    bucket = learned * 4 / 6
    between = min(
        wire(bucket / 4, 2, outside=True), wire(2 * bucket / 4, 2, outside=True)
    )  # a ring of hosts, or a tree
    hosts = step(ask, recipe="lora", n=8, dp=8, zero=0, batch=8 * COUNT)
    around = Around(0.0, exchange=6 * (all_reduce(bucket, 4) + between))
    assert hosts["communication_s"]["dp"] == pytest.approx(exchange_shown(FROZEN + 6 * adapters(), around))
    assert zero_3["communication_bytes"]["dp"] == pytest.approx(COUNT * 2 * PARAMETERS * 2 / 2)


def test_only_what_learns_is_accumulated(ask):
    """software `eager`: 7 bytes for each parameter that has a gradient, in layers and outside them, every microbatch."""
    whole, learned = (
        step(ask, software="eager", **recipe)["breakdown_s"]["optimizer"] for recipe in ({}, {"recipe": "lora"})
    )
    assert whole == pytest.approx(COUNT * PARAMETERS * 7 / (0.6 * W) + adam(PARAMETERS, 35))
    assert learned == pytest.approx(COUNT * 6 * ADAPTERS["all"] * 7 / (0.6 * W) + adam(6 * ADAPTERS["all"], 35))


@pytest.mark.parametrize("targets", ["all", "attention", "qkv"])
def test_adapters_alone_have_gradients_and_state(ask, targets):
    held = step(ask, recipe="lora", lora_targets=targets)["memory"]
    learned = 6 * ADAPTERS[targets]
    assert held["weights_bytes"] == pytest.approx(2 * PARAMETERS + 2 * learned)
    assert held["gradients_bytes"] == pytest.approx(4 * learned)
    assert held["optimizer_bytes"] == pytest.approx(12 * learned)


def test_a_frozen_base_in_four_bits(ask):
    """QLoRA (Dettmers et al. 2023, section 3): 4 bits, 8 more for each 64 weights, 32 for each 64 x 256; table and head in 16."""
    bits = 4 + 8 / 64 + 32 / (64 * 256)
    held = step(ask, recipe="qlora")["memory"]
    outer = PARAMETERS - 6 * LAYER
    assert held["weights_bytes"] == pytest.approx(6 * LAYER * bits / 8 + 2 * outer + 2 * 6 * ADAPTERS["all"])


def test_a_reference_model_is_a_second_set_of_weights(ask):
    held = step(ask, recipe="dpo")["memory"]
    assert held["weights_bytes"] == 2 * 2 * PARAMETERS
    assert held["gradients_bytes"] == 4 * PARAMETERS


def test_stages_and_shards_hold_their_adapters(ask):
    held = step(ask, recipe="lora", n=2, pp=2)["memory"]
    assert held["gradients_bytes"] == pytest.approx(4 * 3 * ADAPTERS["all"])
    split = step(ask, recipe="lora", n=2, tp=2)["memory"]
    halved = 16 * (3 * 256 + 128 + 64 + 256 + 2 * 256 + 512 + 256 + 256)
    assert split["gradients_bytes"] == pytest.approx(4 * 6 * halved)
