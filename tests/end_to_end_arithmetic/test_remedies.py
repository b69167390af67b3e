"""What an estimate proposes where a plan does not fit, and what it says of the plan it chose."""

from __future__ import annotations

import re

import pytest

from rooflinecli.core.errors import Infeasible
from rooflinecli.engine import build_request
from rooflinecli.engine import choose as engine_choose
from rooflinecli.engine.choose import candidates, choose, evaluate_candidates, nearest_feasible
from rooflinecli.engine.context import EstimateContext
from rooflinecli.questions.estimate.answer import estimate

LATENT = {"model": "deepseek-v3", "hw": "h200", "tp": 16, "phase": "decode", "prompt": 8000, "output": 1000}
TRAINED = {"model": "mixtral-8x22b", "hw": "h100", "phase": "train", "batch": 64}


def ctx(options):
    return EstimateContext(build_request.request(options))


@pytest.mark.parametrize("given", [{}, {"dp": 1}])
def test_sequences_are_spread_over_replicas(given):
    """A latent cache is whole on every tensor rank: 1792 sequences fit as 16 replicas of 112, experts over all of them."""
    found = nearest_feasible(ctx({**LATENT, "n": 16, "batch": 1792, **given}), ("decode",))
    assert found.batch == 112
    assert (found.layout.tp, found.layout.dp, found.layout.ep) == (1, 16, 16)
    assert "1792 sequences as 16 replicas of 112" in found.reason


def test_replicas_keep_the_attention_kernel_that_was_asked_for():
    for flash in (True, False):
        found = nearest_feasible(ctx({**LATENT, "n": 16, "batch": 1792, "flash": flash}), ("decode",))
        assert (found.layout.dp, found.layout.flash) == (16, flash)


@pytest.mark.parametrize(
    "load",
    [
        {"n": 16, "concurrency": 1792},  # of one replica: spreading it would answer another question
        {"n": 16, "qps": 40},  # over all replicas already
        {"n": 32, "dp": 2, "batch": 1792},  # replicas were asked for
        {"batch": 1792},  # no count to keep to
    ],
    ids=str,
)
def test_other_loads_are_not_spread(load):
    found = nearest_feasible(ctx({**LATENT, **load}), ("decode",))
    assert found is None or found.batch is None


@pytest.mark.sampled(1)
@pytest.mark.parametrize("given", [{"ep": 4}, {"tp": 2}, {"pp": 4}, {"cp": 4}, {"dp": 4}], ids=str)
def test_more_devices_take_more_replicas_of_the_sizes_given(given):
    """What no layout of four devices holds: as many devices as were nothing given, and what was given stays, replicas apart."""
    remedy = nearest_feasible(ctx({**TRAINED, "n": 4, **given}), ("train",)).layout
    free = choose(ctx(TRAINED), ("train",)).layout
    ((name, value),) = given.items()
    assert remedy.devices == free.devices > 4
    assert (getattr(remedy, name) == value) == (name != "dp")


def test_a_size_that_asks_for_more_devices_goes():
    """Without ZeRO context-parallel ranks repeat the state: 32 devices hold it without them, 128 with."""
    assert nearest_feasible(ctx({**TRAINED, "n": 4, "cp": 4, "zero": 0}), ("train",)).layout.devices == 32


REASONS = {
    "the layout given": {"model": "llama-3.1-8b", "n": 2, "tp": 2, "pp": 1, "dp": 1, "batch": 8},
    "the only layout of the sizes left open": {"model": "llama-3.1-8b", "n": 2, "tp": 2, "batch": 8},
    "the only one of 2 layouts tried that fits": {"model": "llama-3.3-70b", "n": 2, "batch": 2},
    "the fastest with the fewest stages by the pessimistic bound of": {
        "model": "llama-3.1-8b",
        "n": 8,
        "batch": 8,
    },
    "the fastest with stages in place of tensor ranks by the pessimistic bound of": {
        "model": "gpt-oss-120b",
        "hw": "l40s",
        "n": 8,
        "concurrency": 64,
        "output": 16,
    },
}


@pytest.mark.parametrize("said", REASONS)
def test_a_plan_says_how_it_was_chosen(said):
    options = {"hw": "h100", "phase": "prefill,decode", **REASONS[said]}
    assert estimate(build_request.request(options)).layout.reason.startswith(said)
    one = ctx(options)
    tried = evaluate_candidates(one, one.request.phases, int(options["n"]), [])
    assert (len(tried) == 1) == (said in list(REASONS)[:2])
    assert (sum(each.fits for each in tried) == 1) == (said not in list(REASONS)[3:])


def test_without_nvlink_a_load_of_prompts_runs_in_stages():
    """Eight L40S behind PCIe under 64 clients: of the splits of eight ranks none decodes faster than the one chosen, nor serves more tokens."""
    options = {
        "hw": "l40s",
        "phase": "prefill,decode",
        "model": "gpt-oss-120b",
        "n": 8,
        "concurrency": 64,
        "output": 16,
    }
    decode = estimate(build_request.request(options)).phases["decode"]
    splits = [
        estimate(build_request.request({**options, "tp": tp, "pp": 8 // tp, "dp": 1})).phases["decode"]
        for tp in (1, 2, 4, 8)
    ]
    assert decode.layout_of_phase.pp == 8
    assert decode.interval_s[1] == min(one.interval_s[1] for one in splits)
    assert decode.tokens_per_s > 2 * splits[-1].tokens_per_s


@pytest.mark.parametrize("engine", [None, "vllm"])
def test_where_all_that_memory_holds_is_asked_for_no_split_holds_more(engine):
    """Eight H100 hold a 70B model once, and not four times: about (8 x 85.9 - 141) GB of cache at 0.8 GB a request."""
    options = {"model": "llama-3-70b", "hw": "h100", "n": 8, "concurrency": "max", "output": 512, "phase": "decode"}
    options |= {} if engine is None else {"engine": engine}
    chosen = estimate(build_request.request(options))
    splits = [estimate(build_request.request({**options, "tp": tp, "pp": 1})) for tp in (2, 4, 8)]
    held = [float(one.workload.batch) * one.layout.dp for one in (chosen, *splits)]
    assert held[0] == max(held) > 2 * min(held) and "holds most sequences" in chosen.layout.reason


def test_a_training_plan_is_the_fastest_tried():
    reason = estimate(
        build_request.request({"model": "llama-3.1-8b", "hw": "h100", "n": 8, "phase": "train", "batch": 64})
    ).layout.reason
    assert reason.startswith("the fastest by the pessimistic bound of ")


def test_where_nothing_fits_no_layout_is_the_only_one():
    """Of several that do not fit none is reported as the one that does."""
    options = {"model": "llama-3.1-405b", "hw": "h100", "n": 2, "phase": "prefill,decode", "batch": 8}
    assert "that fits" not in estimate(build_request.request(options)).layout.reason


@pytest.mark.parametrize("given", [{}, {"tp": 4}, {"pp": 2}, {"dp": 2}, {"tp": 2, "dp": 3}, {"cp": 2}], ids=str)
@pytest.mark.parametrize("devices", [8, 12])
def test_candidates_use_every_device_and_keep_what_was_given(given, devices):
    options = {"model": "llama-3.1-8b", "hw": "h100", "phase": "train", "batch": 48, **given}
    plans = list(candidates(ctx({**options, "n": devices}), "train", devices))
    assert plans or given == {"tp": 2, "dp": 3}
    for plan in plans:
        assert plan.tp * plan.pp * plan.dp * plan.cp == devices
        assert all(getattr(plan, name) == size for name, size in given.items())


@pytest.mark.parametrize(
    "sizes, says, not_said",
    [
        ((), "use chips with more memory", "--tp"),
        (("--tp", "2", "--phase", "decode"), "or free --tp 2", "more"),
        (("--phase", "train"), "Training of BLOOM 176B does not fit", "--weight-dtype"),
    ],
)
def test_what_no_count_holds_says_how_much_is_missing_and_names_only_sizes_that_were_given(cli, sizes, says, not_said):
    ran = cli("estimate", "bloom-176b", "--hw", "rtx-4090", *sizes)
    assert ran.code == 1 and "does not fit on" in ran.err and says in ran.err and not_said not in ran.err
    each = re.search(r"([\d.]+) GB of 25.8 GB on each at the least", ran.err)
    assert each is not None and float(each[1]) > 25.8


@pytest.mark.parametrize(
    ("asked", "said", "unsaid"),
    [
        ({"model": "llama-3-405b", "hw": "rtx-4090", "n": 1, "phase": "decode"}, "weights alone (812 GB)", "--batch"),
        ({"model": "llama-3-70b", "hw": "rtx-4090", "n": 8, "phase": "train"}, "optimizer alone", "--batch"),
        ({"model": "llama-3-8b", "hw": "rtx-4090", "n": 8, "phase": "decode", "batch": 100000}, "lower --batch", "alone"),
    ],
)  # fmt: skip
def test_less_work_is_no_remedy_for_weights_that_exceed_the_memory(asked, said, unsaid):
    (violation,) = estimate(build_request.request(asked)).violations
    remedy = violation.message.partition("no layout holds it; ")[2]
    assert said in remedy and unsaid not in remedy


ALONE = """
name: My Chip 64GB
vendor: acme
kind: accelerator
sources: {sheet: a datasheet}
peak: {bf16: {value: 400 TFLOP/s, basis: dense, source: sheet}}
memory: {capacity: {value: 64 GiB, basis: allocatable, source: sheet}, bandwidth: {value: 2.0 TB/s, basis: peak, source: sheet}}
"""


@pytest.mark.parametrize("count", [(), ("-n", "1")])
def test_a_chip_without_a_network_says_what_alone_exceeds_its_memory_and_what_helps(cli, tmp_path, count):
    """8.03e9 parameters at 18 bytes are 145 GB, of 68.7 GB, whatever the batch; adapters train on 16 GB of weights."""
    (tmp_path / "alone.yaml").write_text(ALONE)
    asked = ("llama-3-8b", "--hw", str(tmp_path / "alone.yaml"), *count, "--phase", "train", "--batch", "1")
    ran = cli("estimate", *asked)
    said = " ".join((ran.out + ran.err).split())
    assert ran.code == 1 and "optimizer alone (145 GB) exceed the 68.7 GB of 1 device" in said and "--batch" not in said
    assert "train adapters (--recipe lora), add `network:` to the chip's file, or use chips with more memory" in said
    assert cli("estimate", *asked, "--recipe", "lora").code == 0


def test_the_state_of_adapters_is_theirs(cli):
    """70B frozen weights of 141 GB are within the 206 GB of eight cards; activations are not."""
    asked = "llama-3-70b --hw rtx-4090 --recipe lora --phase train --batch 64 --seq-len 128k --recompute none"
    ran = cli("estimate", *asked.split())
    assert ran.code == 1 and "lower --batch or the lengths" in ran.err and "alone" not in ran.err


@pytest.mark.parametrize(
    ("given", "freed"),
    [
        ({"tp": 2}, ["tp", "tp"]),
        ({"micro_batch": 64}, ["micro_batch"]),
        ({"tp": 2, "zero": 1}, ["tp", "tp zero"]),
        ({}, []),
    ],
)
def test_a_split_goes_first_then_what_a_device_holds_with_it(monkeypatch, given, freed):
    """Of four devices that hold no layout as given; a group of sizes of which none was given frees nothing."""
    tried = []

    def nothing_fits(free, phases):
        tried.append(" ".join(name for name in given if getattr(free.request, name) is None))
        assert free.request.devices == 4
        raise Infeasible("no layout")

    monkeypatch.setattr(engine_choose, "choose", nothing_fits)
    assert engine_choose._other_split(ctx({**TRAINED, "n": 4, **given}), ("train",)) is None
    assert tried == freed
