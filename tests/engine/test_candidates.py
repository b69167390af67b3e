"""The layouts that the chooser looks at, against all of them written out by the rules of its description."""

from __future__ import annotations

from itertools import product

import pytest
from conftest import run_cli

from rooflinecli.engine import build_request
from rooflinecli.engine.choose import Candidate, candidates, choose, reach, scale_up_domain
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.residency import resident_memory

LLAMA, MIXTRAL = "llama-3-8b", "mixtral-8x7b"  # 32 heads; 32 heads and eight experts


def ctx(model: str, hw: str = "h100", **more) -> EstimateContext:
    return EstimateContext(build_request.request({"model": model, "hw": hw, **more}))


def splits(devices: int, most: int, heads: int = 32) -> set[tuple[int, int, int]]:
    """tp within the fast domain and dividing the heads, any pp, the rest replicas."""
    return {
        (tp, pp, devices // tp // pp)
        for tp, pp in product(range(1, most + 1), range(1, devices + 1))
        if heads % tp == 0 and devices % (tp * pp) == 0
    }


def found(ctx: EstimateContext, phase: str, devices: int) -> list[tuple[float, ...]]:
    return [(p.tp, p.pp, p.dp) for p in candidates(ctx, phase, devices)]


@pytest.mark.parametrize("devices", [1, 8, 12, 24])
def test_training_looks_at_every_split_and_variant(devices):
    """ZeRO 1 or 3 where there are replicas, none or all computed again, microbatches of 1, 2 and 4 that, times the
    replicas, divide the batch."""
    expected = {
        (*split, zero, recompute, micro)
        for split in splits(devices, 8)
        for zero, recompute, micro in product((1, 3) if split[2] > 1 else (0,), ("none", "full"), (1, 2, 4))
        if 16 % (split[2] * micro) == 0 and split[1] <= 32
    }
    plans = list(candidates(ctx(LLAMA, n=devices, phase="train", batch=16), "train", devices))
    assert {(p.tp, p.pp, p.dp, p.zero, p.recompute, p.micro_batch) for p in plans} == expected
    assert len(plans) == len(expected)
    assert all(p.sequence_parallel == (p.tp > 1) for p in plans)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("devices", [12, 24])  # priced one by one, and as arrays
def test_a_chosen_layout_takes_a_batch_that_is_given_in_whole_micro_batches(devices):
    """Megatron asserts it; 32 has no factor of 3, so stages take it. A split that is given, and a batch by default, are rounded up."""
    found = choose(ctx(LLAMA, n=devices, phase="train", batch=32), ("train",)).layout
    assert 32 % (found.dp * found.micro_batch) == 0 and found.pp % 3 == 0
    assert choose(ctx(LLAMA, n=devices, phase="train", batch=32, dp=devices), ("train",)).layout.dp == devices
    assert choose(ctx(LLAMA, n=devices, phase="train"), ("train",)).layout.dp % 3 == 0


def test_sizes_given_are_kept_and_nothing_else_is_tried():
    given = {"zero": 2, "recompute": "selective", "micro_batch": 2, "cp": 2, "sequence_parallel": True}
    plans = list(candidates(ctx(LLAMA, n=8, phase="train", batch=16, **given), "train", 8))
    assert {(p.tp, p.pp, p.dp) for p in plans} == splits(4, 8)
    assert len(plans) == len(splits(4, 8))
    assert all(getattr(p, name) == value for p in plans for name, value in given.items())


def test_an_open_count_is_tried_with_one_sequence():
    plans = list(candidates(ctx(LLAMA, phase="train", batch=16), "train", 4))
    assert {p.micro_batch for p in plans} == {1}


def test_a_torus_is_tried_up_to_sixteen():
    assert {tp for tp, *_ in found(ctx(LLAMA, "tpu-v5p", n=64, phase="train", batch=64), "train", 64)} == {
        1,
        2,
        4,
        8,
        16,
    }
    assert {tp for tp, *_ in found(ctx(LLAMA, n=64, phase="train", batch=64), "train", 64)} == {1, 2, 4, 8}


SERVED = {"phase": "decode", "prompt": 100, "output": 100, "batch": 8}


@pytest.mark.parametrize(
    ("devices", "given", "expected"),
    [
        (12, {"n": 12}, {(1, 1, 12), (2, 1, 6), (4, 1, 3)}),  # 8 does not divide 12, stages only with 8
        (16, {"n": 16}, {(1, 1, 16), (2, 1, 8), (4, 1, 4), (8, 1, 2), (8, 2, 1)}),
        (16, {"n": 16, "tp": 4}, {(4, 1, 4), (4, 2, 2), (4, 4, 1)}),
        (16, {"n": 16, "pp": 2}, {(1, 2, 8), (2, 2, 4), (4, 2, 2), (8, 2, 1)}),
        (16, {"n": 16, "dp": 2}, {(8, 1, 2)}),
        (2, {"n": 2}, {(1, 1, 2), (2, 1, 1)}),  # two devices are as wide as a group gets
        (16, {}, {(8, 2, 1)}),  # one replica where the count is open
        (4, {}, {(4, 1, 1)}),
        (4, {"dp": 2}, {(2, 1, 2)}),
        (4, {"n": 4, "engine": "llamacpp"}, {(1, 4, 1)}),  # shares out layers, one replica
        (4, {"n": 4, "engine": "llamacpp", "dp": 2}, {(1, 2, 2)}),
        (8, {"n": 8, "attention_dp": True}, {(1, 1, 8), (1, 2, 4), (1, 4, 2), (1, 8, 1)}),
    ],
    ids=lambda value: "" if isinstance(value, set) else str(value),
)
def test_serving_looks_at(devices, given, expected):
    model = MIXTRAL if "attention_dp" in given else LLAMA
    assert set(found(ctx(model, **SERVED, **given), "decode", devices)) == expected


def test_attention_for_itself_spreads_experts_over_all_its_ranks():
    plans = list(candidates(ctx(MIXTRAL, n=8, attention_dp=True, **SERVED), "decode", 8))
    assert all(p.ep == p.dp for p in plans) and {p.ep for p in plans} == {1, 2, 4, 8}


@pytest.mark.parametrize(
    ("tp", "dp", "groups"),
    [
        (1, 16, {1, 8}),  # eight inside a host, and eight at most
        (2, 8, {1, 4, 8}),  # four with two tensor ranks in a host
        (4, 4, {1, 2, 4}),
        (8, 2, {1, 2}),  # none inside: a host is full
        (1, 12, {1, 4}),
        (1, 1, {1}),
    ],
)
def test_expert_groups_of_training(tp, dp, groups):
    asked = {"n": tp * dp, "tp": tp, "pp": 1, "phase": "train", "batch": 64}
    assert {p.ep for p in candidates(ctx(MIXTRAL, **asked), "train", tp * dp)} == groups
    assert {p.ep for p in candidates(ctx(MIXTRAL, ep=2, **asked), "train", tp * dp)} <= {2}


def test_what_is_refused_is_collected():
    refused = []
    assert not list(candidates(ctx(LLAMA, n=8, dp=8, phase="train", batch=4), "train", 8, refused))
    assert {rule.name for rule in refused} == {"every replica has a microbatch"}


def test_stages_written_out_set_their_number():
    plans = list(candidates(ctx(LLAMA, n=8, stages="10,11,11", phase="train", batch=16), "train", 6))
    assert {(p.tp, p.pp, p.dp) for p in plans} == {(1, 3, 2), (2, 3, 1)}


def test_a_framework_without_sharded_gradients_is_given_none():
    """Megatron-LM of 2022 shards optimizer state alone."""
    asked = {"n": 8, "phase": "train", "batch": 64, "framework": "megatron-2022"}
    assert {layout.zero for layout in candidates(ctx(LLAMA, **asked), "train", 8)} <= {0, 1}
    assert (
        run_cli(
            "estimate", LLAMA, "--hw", "h100", *"-n 8 --phase train --framework megatron-2022 --zero 3".split()
        ).code
        == 2
    )
    found = run_cli(
        "search",
        LLAMA,
        "--hw",
        "h100",
        *"-n 8 --phase train --batch 64 --framework megatron-2022 --format json".split(),
    )
    assert {row["layout"]["zero"] for row in found.json["results"]} <= {0, 1}


@pytest.mark.parametrize(
    "options",
    [
        "gemma-2-27b --hw v100 -n 32 --batch 64 --seq-len 32768 --framework deepspeed --recompute full --cp-algorithm ulysses",  # on TP 16 alone
        "addition-10m --hw t4 -n 1",  # a batch of 5 x 5 x 11 x 31 x 41: no power of two divides it
        "bert-large --hw mi300x -n 16 --batch 332",  # replicas take a fourth of the devices
        "addition-10m --hw b200 -n 16 --batch 4641",  # no replica count divides it, and context ranks of 3 tokens are none
        # 222 and 277 tokens a device, where latencies decide
        pytest.param("vit-l --hw a100 -n 1024 --batch 1155", marks=pytest.mark.slow),
        pytest.param("qwen2.5-32b --hw tpu-v5p -n 1024 --batch 554 --seq-len 512", marks=pytest.mark.slow),
        pytest.param(
            "mixtral-8x7b --hw mi300x -n 16 --batch 2680 --seq-len 100", marks=pytest.mark.slow
        ),  # 670 in a micro-batch
        pytest.param(
            "qwen2.5-32b --hw tpu-v6e -n 384 --batch 6144 --seq-len 512", marks=pytest.mark.slow
        ),  # half of the replicas sharded
    ],
)
def test_the_choice_of_a_training_layout_is_that_of_the_search(options):
    args = options.split()
    chosen = run_cli("estimate", *args, "--phase", "train", "--format", "json").json
    best = run_cli("search", *args, "--phase", "train", "--top", "1", "--format", "json").json["results"][0]
    assert chosen["feasible"]
    assert chosen["phases"]["train"]["interval_s"][1] <= 1.05 * best["interval_s"][1]


def test_a_chip_without_a_network_is_alone():
    alone, server = ctx(LLAMA, "core-i9-13900k"), ctx(LLAMA, "h100")
    assert (scale_up_domain(alone), reach(alone)) == (1, 1)
    assert scale_up_domain(server) == 8 and reach(server) > 8


def test_experts_are_parted_where_whole_ones_do_not_fit_or_are_slower():
    """DeepSeek-V3 is 671 GB in fp8: 16 H100 hold it in stages of half the users, or with experts over two replicas, without stages; 16 H200
    hold it twice, but read each expert once for both replicas where they share them. Mixtral on one host gains nothing."""
    chosen = {
        (model, hw, n): choose(
            ctx(model, hw, n=n, phase="decode", prompt=2048, output=256, batch=32), ("decode",)
        ).layout
        for model, hw, n in (("deepseek-v3", "h100", 16), ("deepseek-v3", "h200", 16), (MIXTRAL, "h100", 8))
    }
    assert [(p.tp, p.pp, p.dp, p.ep) for p in chosen.values()] == [(8, 1, 2, 2), (8, 1, 2, 2), (8, 1, 1, 1)]


def test_a_network_that_does_not_reach_is_named():
    """Not a size that nobody gave."""
    ran = run_cli("estimate", "addition-10m", "--hw", "t4", *"-n 256 --batch 1155 --phase train".split())
    assert ran.code == 2 and "describes a network of 8" in ran.err


def test_a_candidate_needs_what_its_fullest_phase_does():
    """Many long answers hold more than one short prompt."""
    context = ctx("llama-3.1-8b", n=1, prompt=16, output=4096, batch=64)
    layout = next(iter(candidates(context, "decode", 1)))
    prefill, decode = (float(resident_memory(context, layout, phase).total_bytes) for phase in ("prefill", "decode"))
    assert prefill < decode == Candidate(layout, True).needs(context, ("prefill", "decode"))
