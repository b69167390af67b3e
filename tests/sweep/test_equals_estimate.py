"""Every swept point is `estimate`'s answer at that point: bit for bit, powers and logarithms within 2 ulp."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import pytest
from conftest import examples
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from rooflinecli.core.derivation_text import quantities
from rooflinecli.core.errors import Infeasible, UsageError
from rooflinecli.engine import build_request
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.evaluate import PHASES
from rooflinecli.price import overrides
from rooflinecli.questions.estimate.answer import estimate
from rooflinecli.questions.sweep import axes, run
from rooflinecli.specs.hardware import load_hardware
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.model import load_model

MODELS = ("gpt2", "llama-3-8b", "llama-3-70b", "falcon-40b", "mixtral-8x7b", "deepseek-v3", "gemma-2-9b", "gpt3-175b")
CHIPS = ("h100", "a100", "h200", "b200", "tpu-v5e", "tpu-v5p", "mi300x", "epyc-9654", "trainium2", "l4")
# Sums of terms that went through a power differ by its ulps; everything else must agree to the bit.
TOLERANCE = 16 * 2.0**-52


def subset(*items: Any) -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from(items), min_size=1, max_size=3, unique=True).map(lambda v: ",".join(map(str, v)))


LOADS = {"concurrency": "1,7,100", "qps": "0.1,2,50"}


def _one_load(options: dict[str, Any]) -> dict[str, Any]:
    """Batch, requests in flight or a rate: one of them says how many sequences there are."""
    load = options.pop("load", "batch")
    if load != "batch":
        options.pop("batch", None)
        options[load] = LOADS[load]
    return options


serving = st.fixed_dictionaries(
    {
        "model": st.sampled_from(MODELS),
        "hw": subset(*CHIPS),
        "phase": st.sampled_from(["decode", "prefill", "prefill,decode"]),
        "batch": subset(1, 3, 8, 64, 500),
        "prompt": subset(1, 100, 512, 900),
        "output": subset(1, 16, 100),
        "tp": subset(1, 2, 4, 8),
    },
    optional={
        "pp": subset(1, 2, 4),
        "dp": subset(1, 2, 16),
        "ep": subset(1, 2, 8),
        "dtype": subset("bf16", "fp8", "fp4"),
        "kv_dtype": subset("bf16", "fp8"),
        "efficiency": subset("ideal", "expected"),
        "attention_flops": subset("full", "causal"),
        "price": subset(1, 2.5),
        "utilisation": subset(0.5, 1),
        "load": st.sampled_from(["batch", "concurrency", "qps"]),
    },
).map(lambda options: _one_load(dict(options)))
training = st.fixed_dictionaries(
    {
        "model": st.sampled_from(MODELS),
        "hw": subset(*CHIPS),
        "phase": st.just("train"),
        "batch": subset(8, 64, 1000),
        "seq": subset(128, 1000),
        "tp": subset(1, 2, 4, 8),
        "pp": subset(1, 2, 4),
    },
    optional={
        "dp": subset(1, 2, 16),
        "cp": subset(1, 2, 4),
        "zero": subset(0, 1, 2, 3),
        "recompute": subset("none", "selective", "full"),
        "sequence_parallel": subset("yes", "no"),
        "flash": subset("yes", "no"),
        "micro_batch": subset(1, 2, 4),
        "tokens": subset("1B", "2T"),
        "dtype": subset("bf16", "fp8"),
        "virtual_stages": subset(1, 2, 5),
        "schedule": subset("1f1b", "gpipe", "zero-bubble", "zb-v"),
        "lengths": subset("64", "32,128"),
        "optimizer": subset("adamw-8bit", "lion"),
        "ring": subset("zigzag", "naive", "ulysses"),
        "shard": subset(1, 2),
        "imbalance": subset(1, 1.5),
        "dropout": subset("yes", "no"),
        "offload": subset("none", "optimizer"),
        "ep": subset(1, 2, 8),
    },
)
thorough = settings(
    max_examples=examples(60) // (1 if os.environ.get("CI") else 2),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def point(space: axes.Space, index: int) -> dict[str, Any]:
    """The options of one point, by its number."""
    options: dict[str, Any] = {"phase": space.phases}
    for axis in reversed((*space.structure, *space.sizes)):
        index, i = divmod(index, len(axis.values))
        options[axis.name] = axis.values[i]
    options["n"] = math.prod(options.setdefault(k, 1.0) for k in ("tp", "pp", "dp", "cp"))
    return {"ep": 1.0, **options}  # which an estimate would choose


GIVEN = {"serve": {"tp": 1, "pp": 1, "dp": 1}, "train": {"zero": 1, "recompute": "none", "micro_batch": 1}}


def whole(options: dict[str, Any]) -> dict[str, Any]:
    """The options with every size of a layout, so that none is chosen."""
    return GIVEN["serve"] | (GIVEN["train"] if options["phase"] == "train" else {}) | options


def compare(options: dict[str, Any], index: int) -> None:
    space = axes.space(whole(options))
    index %= space.points
    single = point(space, index)
    try:
        expected = estimate(build_request.request(single))
    except (UsageError, Infeasible) as error:
        expected = str(error)
    choice, answer = next(run.answers(space, index - index % 7, min(index + 50, space.points), chunk=64))
    offset = index % 7
    if choice != {a.name: single[a.name] for a in space.structure} or offset >= answer.points:
        choice, answer = next(run.answers(space, index, index + 1))
        offset = 0
    check(expected, answer, offset, tolerance(options))


def tolerance(options: dict[str, Any]) -> float:
    """Where a power's ulps come out enlarged: 1 - (1 - k/E)^t of experts by up to E/k, the batch of an open loop by its iteration."""
    if "qps" in options:
        return 1e-12
    return TOLERANCE * 8 if any(g.feedforward.kind == "moe" for g in load_model(options["model"]).layers) else TOLERANCE


def check(expected: Any, answer: Any, offset: int, allowed: float = TOLERANCE) -> None:
    """Every number of the estimate, against the point of the box."""
    table = run.flat(answer, [], [])
    if isinstance(expected, str):
        assert not table["feasible"][offset], f"estimate says: {expected}"
        return
    assert table["feasible"][offset] == expected.feasible, table["violation"][offset]
    wanted = {k: v for k, v in quantities({**expected.phases, "cost": expected.cost}).items() if ".layout." not in k}
    found = {name: answer.flat(run.pick(answer, name))[offset] for name in wanted if not name.endswith("bound_ratio")}
    for name, value in found.items():
        # what shows of communication is the difference of two nearly equal times: its last digits are theirs
        shown = "communication" in name or "hidden" in name
        time = f"{name.partition('.')[0]}.time_s"  # a request of one token has no decode step, and nothing that shows of it
        room = TOLERANCE * wanted[time] if shown and time in wanted else 0
        assert math.isclose(value, wanted[name], rel_tol=allowed, abs_tol=room) or (value == wanted[name]), (
            name,
            value,
            wanted[name],
        )
    for phase, result in expected.phases.items():
        assert answer.flat(run.pick(answer, f"{phase}.bottleneck"))[offset] == result.bottleneck


SATURATED = {
    "model": "llama-3-8b",
    "hw": "epyc-9654",
    "phase": "prefill",
    "prompt": "100",
    "output": "1",
    "tp": "1",
    "qps": "0.1,2,50",
}


@given(serving, st.integers(0, 10**6))
@example(SATURATED, 8)  # prompts alone take more than all the time, and no decode says so
@thorough
def test_serving_points(options: dict[str, Any], index: int) -> None:
    compare(options, index)


@pytest.mark.slow
@given(training, st.integers(0, 10**6))
@example(
    {
        "model": "mixtral-8x7b",
        "hw": "h100",
        "phase": "train",
        "batch": "8",
        "seq": "128",
        "tp": "1",
        "pp": "1",
        "dp": "2",
    },
    0,
)
@thorough
def test_training_points(options: dict[str, Any], index: int) -> None:
    compare(options, index)


@pytest.mark.slow
@pytest.mark.parametrize("model", sorted(path.stem for path in (Path(__file__).parents[2] / "models").glob("*.yaml")))
def test_every_model(model: str) -> None:
    serve = {"phase": "prefill,decode", "prompt": "64,100", "output": "1,16", "ep": "1,2", "dp": "1,2"}
    trained = {
        "phase": "train",
        "seq": "64,128",
        "pp": "1,2",
        "micro_batch": "1,2",
        "recompute": "none,full",
        "ep": "1,2",
        "dp": "1,2",
    }
    for options in (serve, trained):
        for index in (0, 5, 13, 31, 63):
            compare({"model": model, "hw": "h100", "batch": "8,16", "tp": "1,2", **options}, index)


@given(
    st.sampled_from(
        [
            "peak.bf16",
            "memory.bandwidth",
            "network.0.bandwidth",
            "network.0.latency",
            "efficiency.matmul.compute",
            "efficiency.matmul.tau",
            "efficiency.collective.gamma",
            "efficiency.elementwise.overlap",
            "efficiency.step.per_layer",
        ]
    ),
    st.sampled_from(["prefill", "decode", "train"]),
    st.integers(0, 2),
)
@thorough
def test_hardware_figures(path: str, phase: str, index: int) -> None:
    """A swept figure is the same as a chip with that figure."""
    values = {"tau": (0.0, 1e-9, 3e-9), "gamma": (0.0, 1e-6, 5e-6), "per_layer": (0.0, 1e-5, 1e-4)}.get(
        path.rpartition(".")[2], (0.5, 0.7, 0.9)
    )
    relative = not path.startswith("efficiency")
    space = axes.space(
        whole({"model": "llama-3-8b", "hw": "h100", "phase": phase, "tp": 2, "batch": "8,64"}),
        [f"{path}=" + ",".join((f"x{v}" if relative else f"{v} s" if v < 0.1 else str(v)) for v in values[1:])],
    )
    index %= 2
    _, answer = next(run.answers(space, 0, space.points))
    value = values[1 + index] * (overrides.figure(load_hardware("h100"), path).si if relative else 1.0)
    request = build_request.request({"model": "llama-3-8b", "hw": "h100", "phase": phase, "batch": 64})
    plan = Layout(tp=2.0, zero=1 if phase == "train" else 0, sequence_parallel=phase == "train")
    wanted = PHASES[phase](EstimateContext(request, override={path: value}), plan).time_s
    found = answer.flat(answer.phases[phase].time_s).reshape(2, 2)[1, index]
    assert math.isclose(found, wanted, rel_tol=TOLERANCE)


@pytest.mark.slow
def test_sums_without_powers_agree_to_the_bit() -> None:
    options = {
        "model": "llama-3-70b",
        "hw": "h100",
        "phase": "train",
        "batch": "256..4096x2",
        "tp": "1,2,4,8",
        "pp": "1..16x2",
        "dp": "1,2",
        "zero": 3,
    }
    space = axes.space(whole(options))
    _, answer = next(run.answers(space, 0, space.points))
    times = answer.flat(answer.phases["train"].memory.total_bytes)
    for index in range(0, space.points, 7):
        assert estimate(build_request.request(point(space, index))).phases["train"].memory.total_bytes == times[index]


@pytest.mark.parametrize(
    "options",
    [
        {"model": "llama-3.3-70b", "hw": "h100", "phase": "prefill,decode", "batch": "8,512"},
        {"model": "mixtral-8x7b", "hw": "h100,b200", "phase": "decode", "n": "4,8", "concurrency": "4"},
        {"model": "llama-3-8b", "hw": "h100", "phase": "train", "n": "8", "batch": "64", "micro_batch": "1,2"},
        pytest.param({"model": "mixtral-8x7b", "hw": "a100", "phase": "train", "n": "32,64"}, marks=pytest.mark.slow),
    ],
    ids=lambda options: f"{options['model']} {options['phase']}",
)
def test_sizes_left_out_are_those_that_an_estimate_chooses(options: dict[str, Any]) -> None:
    space = axes.space(options)
    assert space.chooses and not axes.space(whole(options)).chooses
    found = list(run.answers(space, 0, space.points))
    assert len(found) == space.points
    for choice, answer in found:
        assert answer.points == 1  # a point at a time
        values = {axis.name: answer.axes[axis.name] for axis in space.sizes}
        expected = estimate(build_request.request({**choice, **values, "phase": space.phases}))
        check(expected, answer, 0)
        shown = expected.phases[space.phases[0]].layout_of_phase
        assert {name: answer.layout[name] for name in ("devices", "tp", "pp", "dp", "ep", "micro_batch")} == {
            name: getattr(shown, name) for name in ("devices", "tp", "pp", "dp", "ep", "micro_batch")
        }


def test_a_large_sweep_takes_sizes_left_out_as_one() -> None:
    space = axes.space({"model": "llama-3-8b", "hw": "h100", "phase": "decode", "batch": "1..501"})
    assert space.points > axes.MOST_CHOSEN and not space.chooses
    _, answer = next(run.answers(space, 0, space.points))
    assert answer.points == space.points and answer.layout["devices"] == 1


def test_the_comparison_can_fail() -> None:
    space = axes.space({**whole({"phase": "decode"}), "model": "llama-3-8b", "hw": "h100", "batch": "1,2"})
    _, answer = next(run.answers(space, 0, 2))
    expected = estimate(build_request.request(point(space, 0)))
    check(expected, answer, 0)
    with pytest.raises(AssertionError):
        check(expected, answer, 1)
    expected.phases["decode"].time_s *= 1 + 48 * 2.0**-52
    with pytest.raises(AssertionError):
        check(expected, answer, 0)


def test_a_group_of_one_size_in_slices_of_several():
    """An all-to-all over the context ranks of a torus, whose slice grows with the replicas."""
    asked = {"model": "gpt2", "hw": "tpu-v5e", "phase": "train", "batch": 8, "seq": 128, "ring": "ulysses"}
    compare(asked | {"tp": 1, "pp": 1, "cp": 2, "dp": "1,2", "sequence_parallel": "yes"}, 0)
