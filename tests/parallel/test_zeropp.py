"""ZeRO++ (Wang et al. 2023, table 1): weights travel in half of the bytes, gradients in a quarter, backward inside a host."""

from __future__ import annotations

from itertools import permutations

import pytest

from rooflinecli.engine import build_request
from rooflinecli.questions.estimate.answer import estimate

BASE = {
    "model": "llama-3-8b",
    "hw": "a100",
    "n": 64,
    "dp": 64,
    "zero": 3,
    "shard": 64,
    "phase": "train",
    "seq": 4096,
    "batch": 64,
}
PARAMETERS = 8_030_261_248  # Llama 3 8B
FAR, NEAR = 63 / 64, 7 / 8  # of a tensor, what a device takes from all 64 and from the eight of its host


def train(software: str, **options):
    return estimate(build_request.request({**BASE, "recompute": "full", "software": software, **options})).phases[
        "train"
    ]


def test_no_shard_group_is_chosen_for_deepspeed():
    """MiCS is a context of a script, none of DeepSpeed's configuration: groups of eight would be faster here."""
    asked = {name: value for name, value in BASE.items() if name != "shard"}
    for software in ("deepspeed", "deepspeed+hpz+qwz"):
        request = build_request.request({**asked, "recompute": "full", "software": software})
        chosen = estimate(request).phases["train"]
        assert "shard" not in chosen.layout.to_dict() and chosen.time_s > train(software, shard=8).time_s


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ("", (2 + 1) * FAR),
        ("+qwz", (2 / 2 + 1) * FAR),
        ("+qgz", (2 + 1 / 4) * FAR),
        ("+hpz", (1 + 1) * FAR + NEAR),
        *(("+" + "+".join(both), (2 / 2 + 1 / 4) * FAR) for both in permutations(("qwz", "qgz"))),
        *(("+" + "+".join(both), (1 / 2 + 1) * FAR + NEAR / 2) for both in permutations(("qwz", "hpz"))),
        *(("+" + "+".join(both), (1 + 1 / 4) * FAR + NEAR) for both in permutations(("qgz", "hpz"))),
        *(("+" + "+".join(all_), (1 / 2 + 1 / 4) * FAR + NEAR / 2) for all_ in permutations(("qwz", "qgz", "hpz"))),
    ],
)
def test_volume_of_two_gathers_and_a_scatter(options, parts):
    assert train(f"deepspeed{options}").communication_bytes["dp"] == pytest.approx(parts * 2 * PARAMETERS)


def test_a_host_holds_the_weights_a_second_time():
    """16-bit weights over all 64, and over the eight of a host (section 3.2); nothing else changes."""
    plain, copied = (train(name).memory for name in ("deepspeed", "deepspeed+hpz"))
    assert plain.weights_bytes == pytest.approx(2 * PARAMETERS / 64)
    assert copied.weights_bytes == pytest.approx(2 * PARAMETERS / 64 + 2 * PARAMETERS / 8)
    assert copied.total_bytes - plain.total_bytes == pytest.approx(2 * PARAMETERS / 8)


def test_the_copy_is_split_over_the_replicas_of_a_host():
    """Under tp 2 a host has four ranks of every shard group, each with half of the weights."""
    held = train("deepspeed+hpz", tp=2, dp=32, shard=32).memory.weights_bytes
    plain = train("deepspeed", tp=2, dp=32, shard=32).memory.weights_bytes
    assert held / plain == pytest.approx(1 + 32 / 4)


@pytest.mark.parametrize("options", [{"n": 8, "dp": 8, "shard": 8, "batch": 8}, {"shard": 8}])
def test_a_shard_group_inside_a_host_needs_no_copy(options):
    plain, copied = (train(name, **options) for name in ("deepspeed", "deepspeed+hpz"))
    assert copied.memory.weights_bytes == plain.memory.weights_bytes
    assert copied.time_s == pytest.approx(plain.time_s)


def test_the_backward_gather_leaves_the_fabric():
    """What is on the wires falls by nearly the whole of a gather over one port of eight."""
    plain, copied = (train(name) for name in ("deepspeed", "deepspeed+hpz"))
    on_wires = [sum(answer.communication_s.values()) + sum(answer.hidden_s.values()) for answer in (plain, copied)]
    assert 0.6 < on_wires[1] / on_wires[0] < 0.75
    assert copied.time_s < plain.time_s


def test_experts_are_copied_over_their_own_ranks():
    """Mixtral 8x7B over 64, ep 8: a host has one rank of each expert's group, so it keeps its experts whole."""
    options = {"model": "mixtral-8x7b", "ep": 8}
    plain, copied = (train(name, **options).memory.weights_bytes for name in ("deepspeed", "deepspeed+hpz"))
    experts = 32 * 8 * 3 * 4096 * 14336
    others = plain / 2 * 64 - experts * 64 / 8 / 8
    assert others == pytest.approx(46_702_792_704 - experts, rel=1e-6)
    assert copied - plain == pytest.approx(2 * (others / 8 + experts / 8))
