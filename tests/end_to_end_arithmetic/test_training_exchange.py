"""A training step that exchanges tokens: context-parallel rings and Ulysses, experts over replicas."""

from __future__ import annotations

import pytest
from end_to_end_arithmetic.families import EXPERT, HALVED, MOE_OTHERS, PARAMETERS, STREAM, sparse, step
from end_to_end_arithmetic.hand import INSIDE, all_reduce, gathering, touched, wire
from end_to_end_arithmetic.training import (
    COUNT,
    Around,
    S,
    Work,
    adam,
    block,
    check,
    core,
    ew,
    flat,
    grouped,
    head,
    mm,
    shown,
    stage_parts,
    stage_seconds,
    stem,
)


def ring_block(share: float = 1) -> list[Work]:
    """A layer over half of the tokens, which attend to all keys; `share`: work of the busiest rank over an even one."""
    s = S // 2
    attend = core(1, s, 4, 2, 32, 32, S * S / 4, keys=S, busiest=share)
    return block(z=s, s=s, attend=attend)


def ring_step(share: float = 1) -> list[Work]:
    return 6 * ring_block(share) + stem(S / 2) + head(S / 2, s=S / 2)


def ring_tail() -> dict[str, float]:
    """Both ranks of the ring hold the same weights, so they sum gradients as replicas do."""
    bucket = PARAMETERS * 4 / 6
    return {"exchange": 6 * all_reduce(bucket, 2), "tail": 6 * bucket / INSIDE}


@pytest.mark.parametrize("ring", ["zigzag", "striped", "naive"])
def test_two_context_shards_pass_keys_and_values_round(ask, ring):
    """Keys and values gathered twice, their gradients scattered once: 0.7 of it shows. The busiest rank of a split."""
    c = S // 2
    even = S * (S + 1) / 2 / 2
    busiest = {"zigzag": even, "striped": 2 * c * (c + 1) / 2, "naive": c * (c + 1) / 2 + c * c}[ring]
    work = flat(ring_step(busiest / even))
    whole = S * 2 * 2 * 32 * 2  # bytes of all keys and values
    wires = {"cp": shown(6 * 3, gathering(whole, 2), whole / 2 / INSIDE, 0.7)}
    around = Around(adam(PARAMETERS), wires, **ring_tail(), unlike=("context",))
    check(step(ask, n=2, cp=2, ring=ring), work, around)


def test_ulysses_exchanges_heads_for_tokens(ask):
    """q, k, v in and the output back, forward and backward: an all-to-all, half of which leaves."""
    buffer = S // 2 * (2 * 4 * 32 + 2 * 2 * 32) * 2
    wires = {"cp": shown(6 * 2, wire(buffer / 2, 1), buffer / 2 / INSIDE, 0.7)}
    work = flat(ring_step())
    around = Around(adam(PARAMETERS), wires, **ring_tail(), unlike=("context",))
    check(step(ask, n=2, cp=2, ring="ulysses"), work, around)


def test_experts_over_two_replicas(ask):
    """Tokens go out and back, forward and backward, 0.8 of it shown; experts have one copy, all else two."""
    work = flat(2 * block() + 4 * sparse(2 * S, touched(8, 2, 2 * S) / 2) + stem() + head())
    volume = S * 2 * 256 * 2 / 2
    wires = {"ep": shown(4 * 4, wire(volume, 1), volume / INSIDE, 0.8)}
    around = Around(adam(MOE_OTHERS + 4 * 4 * EXPERT), wires, overhead=4 * 13e-6, experts=True)
    bucket = MOE_OTHERS * 4 / 6
    around.exchange, around.tail = 6 * all_reduce(bucket, 2), 6 * bucket / INSIDE
    answer = step(ask, "moe", n=2, dp=2, ep=2, batch=2 * COUNT)
    check(answer, work, around)
    late = stage_seconds(work, around) - stage_parts(work, around)[0]
    assert answer["communication_s"]["ep"] == pytest.approx(COUNT * (wires["ep"][2] + late))


def test_zero_3_with_experts_gathers_each_over_its_own_copies(ask):
    """Four replicas, experts over two: everything else is gathered over four, the experts over the two that hold the same."""
    work = flat(2 * block() + 4 * sparse(2 * S, touched(8, 2, 2 * S) / 2) + stem() + head())
    volume = S * 2 * 256 * 2 / 2
    wires = {"ep": shown(4 * 4, wire(volume, 1), volume / INSIDE, 0.8)}
    around = Around(0.0, wires, overhead=4 * 13e-6, experts=True, unlike=("combination",))
    others, expert = MOE_OTHERS * 2 / 6, 4 * 4 * EXPERT * 2 / 6
    spent = 6 * 3 * (gathering(others, 4) + gathering(expert, 2))
    least = 6 * 3 * (others * 3 / 4 + expert / 2) / INSIDE
    wires["dp"] = (spent, least, 0.9 * spent)
    around.optimizer = adam(MOE_OTHERS / 4 + 4 * 4 * EXPERT / 2)
    check(step(ask, "moe", n=4, dp=4, ep=2, zero=3, batch=4 * COUNT), work, around)


def test_experts_over_tensor_ranks_and_replicas(ask):
    """Two tensor ranks of two replicas hold two whole experts each, as Megatron-LM lays them: ep 4 where dp is 2.

    A rank sends its half of the tokens, and its experts have no other copy; attention and the shared expert stay split in two.
    """
    half, seen = block(tp=2), touched(8, 2, 2 * S) / 4
    layer = [
        *half[:6],
        mm(S, 256, 8),
        grouped(S, 256, 320, seen),
        ew(S * 320, S * 160),
        grouped(S, 160, 256, seen),
        ew(2 * S * 256, S * 256 + S * 256, linear=True),
        mm(S, 256, 192),
        ew(S * 192, S * 96),
        mm(S, 96, 256),
        half[9],
    ]
    work = flat(2 * half + 4 * layer + stem() + head(tp=2))
    leaves = S * 2 * 256 * 2 / 2 * 3 / 4
    wires = {
        "tp": shown(6 * 4, all_reduce(STREAM, 2), STREAM / INSIDE, 0.25),
        "ep": shown(4 * 4, wire(leaves, 3), leaves / INSIDE, 0.8),
    }
    others = HALVED - 4 * 3 * 256 * 256 + 4 * (256 * 8 + 3 * 256 * 96)
    around = Around(adam(others + 4 * 2 * EXPERT), wires, overhead=4 * 13e-6, experts=True)
    around.exchange, around.tail = 6 * all_reduce(others * 4 / 6, 2), 6 * others * 4 / 6 / INSIDE
    answer = step(ask, "moe", n=4, tp=2, dp=2, ep=4, sequence_parallel=False, batch=2 * COUNT)
    check(answer, work, around)
    assert answer["memory"]["weights_bytes"] == pytest.approx(2 * (others + 4 * 2 * EXPERT))


def test_whole_experts_on_every_tensor_rank_when_asked(ask):
    """--expert-tp 1 where ep fits into the replicas: each device holds half as many experts of twice the width, and two copies."""
    split, whole = (
        step(ask, "moe", n=4, tp=2, dp=2, ep=2, zero=1, sequence_parallel=True, batch=2 * COUNT, **how)["memory"]
        for how in ({}, {"expert_tp": 1})
    )
    assert whole["weights_bytes"] - split["weights_bytes"] == pytest.approx(2 * 4 * 4 * EXPERT / 2)
    assert whole["optimizer_bytes"] == pytest.approx(split["optimizer_bytes"])
