"""roofline shard, goodput and layouts as commands, and training recipes through estimate."""

from __future__ import annotations

import json
import math
import random

import pytest
from typer.main import get_command

from rooflinecli.core.errors import UsageError
from rooflinecli.core.record import plain
from rooflinecli.engine import build_request
from rooflinecli.engine.phase_answer import PhaseAnswer
from rooflinecli.formulas import collectives, fine_tuning
from rooflinecli.formulas import training_goodput as g
from rooflinecli.interfaces.cli import answers
from rooflinecli.questions.estimate.answer import estimate
from rooflinecli.questions.goodput.question import TrainingGoodput
from rooflinecli.questions.shard import answer as notation
from rooflinecli.questions.shard.answer import layouts
from rooflinecli.specs.hardware import load_hardware
from rooflinecli.specs.model import load_model


def run(capsys, verb: str, *args: str) -> str:
    get_command(answers.app(verb))(list(args), standalone_mode=False)
    return capsys.readouterr().out


def test_shard_names_case_collective_and_ranking(capsys):
    out = run(
        capsys, "shard", "X[I_x, J] W[J_y, K]", "--mesh", "x=4,y=2", "--sizes", "I=1k,J=4k,K=16k", "--hw", "tpu-v5e"
    )
    assert "case 2" in out and "all-gather of W over y" in out
    answer = json.loads(
        run(
            capsys,
            "shard",
            "X[I, J_x] W[J_x, K]",
            "--mesh",
            "x=8",
            "--sizes",
            "I=1k,J=4k,K=4k",
            "--hw",
            "h100",
            "--format",
            "json",
        )
    )
    assert answer["case"] == 3
    assert [r["sharding"] for r in answer["ranking"]] == ["column", "row", "contracting"]
    assert answer["floor_s"] <= answer["expected_s"]


@pytest.mark.parametrize(
    ("matmul", "mesh", "sizes", "words"),
    [
        ("X[I, J]", "x=2", "I=2,J=2", "not a matmul"),
        ("X[I_z, J] W[J, K]", "x=2", "I=2,J=2,K=2", "no axis 'z'"),
        ("X[I_x, J_x] W[J, K]", "x=2", "I=2,J=2,K=2", "one dimension only"),
        ("X[I_x, J] W[J, K]", "x=3", "I=4,J=2,K=2", "does not split"),
        ("X[I, J] W[J, K]", "x=2", "I=2,J=2", "names no K"),
        ("X[I, J] W[J, K]", "x=0", "I=2,J=2,K=2", "at least 1"),
        ("X[I, J] W[J, K]", "x", "I=2,J=2,K=2", "name=number"),
        ("X[I, J] W[M, K]", "x=2", "I=2,J=2,K=2", "share one"),
    ],
)
def test_shard_refuses_with_a_remedy(capsys, matmul, mesh, sizes, words):
    with pytest.raises(UsageError, match=words):
        run(capsys, "shard", matmul, "--mesh", mesh, "--sizes", sizes, "--hw", "tpu-v5e")


def test_mesh_axes_may_be_written_in_braces():
    axes = notation.mesh("x=2,y=4")
    assert (
        notation.arrays("X[I_{x,y}, J] W[J, K]", axes)[0].over["I"]
        == notation.arrays("X[I_xy, J] W[J, K]", axes)[0].over["I"]
        == ("x", "y")
    )


def simulated_goodput(tau: float, delta: float, restart: float, mtbf: float, segments: int) -> float:
    """Draw failures and replay work, checkpoints and restarts."""
    draw = random.Random(1)
    clock, done = 0.0, 0
    failure = draw.expovariate(1 / mtbf)
    while done < segments:
        end = clock + tau + delta
        if failure >= end:
            clock, done = end, done + 1
            continue
        clock = failure
        failure = clock + draw.expovariate(1 / mtbf)
        while failure < clock + restart:  # another failure while coming back
            clock = failure
            failure = clock + draw.expovariate(1 / mtbf)
        clock += restart
    return segments * tau / clock


@pytest.mark.parametrize(
    ("tau", "delta", "restart", "mtbf"), [(800, 30, 600, 11124), (3600, 300, 600, 40000), (600, 60, 60, 3000)]
)
def test_goodput_against_a_simulation(tau, delta, restart, mtbf):
    slow = g.slowdown(tau, delta, restart, mtbf)
    assert 1 / slow == pytest.approx(simulated_goodput(tau, delta, restart, mtbf, 20000), rel=0.01)


@pytest.mark.parametrize(("delta", "mtbf"), [(30.0, 11124.0), (300.0, 40000.0), (60.0, 3000.0)])
def test_dalys_interval_is_best(delta, mtbf):
    best = g.daly_interval(delta, mtbf)
    least = min((g.slowdown(best * x / 100, delta, 600.0, mtbf), x) for x in range(50, 200))[1]
    assert abs(least - 100) <= 3
    assert g.young_interval(delta, mtbf) == pytest.approx(math.sqrt(2 * delta * mtbf))


def test_goodput_of_llama_3s_fleet(capsys):
    """16,384 H100 failed every 3.1 hours (419 interruptions in 54 days); more than 90 % effective time was reported."""
    own = 16384 * 54 * 86400 / 419
    answer = TrainingGoodput(n=16384.0, checkpoint=10.0, restart=300.0, mtbf=own, run=54 * 86400.0).answer()
    assert answer["mtbf_s"] == pytest.approx(3.1 * 3600, rel=0.02)
    assert 0.90 < answer["goodput"] < 0.98
    assert answer["failures"] == pytest.approx(419 / answer["goodput"], rel=1e-6)
    assert "goodput" in run(capsys, "goodput", "-n", "1024", "--params", "70B", "--bandwidth", "100 GB/s")
    with pytest.raises(UsageError, match="--checkpoint"):
        run(capsys, "goodput", "-n", "1024")
    with pytest.raises(UsageError, match="above zero"):
        run(capsys, "goodput", "-n", "1024", "--checkpoint", "0 s")


def test_layouts_follow_pope():
    """Weights stay in decode and travel at large batches; multiquery attention is split by sequence in decode."""
    model, hw = load_model("palm-540b"), load_hardware("tpu-v4")
    decode = layouts(model, hw, 64, 256.0)
    assert (
        "weight-stationary" in decode["feedforward"][0]["layout"]
        and decode["attention"][0]["attention"] == "by sequence"
    )
    prefill = layouts(model, hw, 64, 512.0, 2048.0)
    assert "weight-gathered" in prefill["feedforward"][0]["layout"]
    for row in (*decode["feedforward"], *decode["attention"]):
        assert row["floor_s"] <= row["time_s"]


@pytest.mark.parametrize("n", [4.0, 16.0, 64.0, 256.0])
def test_two_dimensional_layout_falls_with_the_root_of_n(n):
    d, f = 8192.0, 32768.0
    x = math.sqrt(n * d / f)  # the best split: half the root of n
    large = 2 * (d / x + f * x / n)
    assert large == pytest.approx(8 * d / math.sqrt(n))


@pytest.mark.parametrize("name", ["1D weight-stationary", "2D weight-stationary 2 x 4", "weight-gathered over 4"])
def test_layout_formulas_count_what_the_collectives_send(name):
    from rooflinecli.questions.shard import answer as module

    sent = {
        "1D weight-stationary": module._weight_stationary_1d(64.0, 512.0, 8, 2.0),
        "2D weight-stationary 2 x 4": module._weight_stationary_2d(64.0, 512.0, 2048.0, 2048.0, 2, 4, 2.0),
        "weight-gathered over 4": module._weight_gathered(64.0, 512.0, 3e6, 4, 8, 2.0),
    }[name]
    assert sum(collectives.gather_volume(size, members) for _, size, members, _ in sent[0]) == pytest.approx(sent[1])


def recipe(name: str, **more) -> PhaseAnswer:
    options = {
        "model": "llama-3-8b",
        "hw": "h100",
        "n": 8,
        "tp": 1,
        "pp": 1,
        "dp": 8,
        "zero": 1,
        "recompute": "full",
        "phase": "train",
        "batch": 64,
        "micro-batch": 1,
        "recipe": name,
    }
    return estimate(build_request.request(options | more)).phases["train"]


def test_lora_trains_adapters_only():
    full, lora = recipe("full"), recipe("lora", **{"lora-rank": 16})
    spec = load_model("llama-3-8b")
    d, kv, f = 4096, 1024, 14336
    adapters = 32 * 16 * (2 * (d + d) + 2 * (d + kv) + 2 * (d + f) + (f + d))
    assert lora.memory.gradients_bytes == pytest.approx(4 * adapters)
    assert lora.memory.optimizer_bytes == pytest.approx(12 * adapters / 8)
    assert lora.memory.weights_bytes == pytest.approx(full.memory.weights_bytes + 2 * adapters)
    assert lora.flops == pytest.approx(full.flops * 2 / 3)
    assert lora.floor_s < lora.time_s < full.time_s
    assert spec.n_layers == 32


def test_qlora_stores_four_bits_and_pays_to_widen_them():
    lora, qlora = recipe("lora"), recipe("qlora")
    assert fine_tuning.nf4_bytes(64, 256) * 8 == pytest.approx(4.127, abs=1e-3)
    assert qlora.memory.weights_bytes < 0.45 * lora.memory.weights_bytes
    assert qlora.time_s > lora.time_s


def test_dpo_holds_two_models_and_adds_a_forward_pass():
    full, dpo = recipe("full"), recipe("dpo")
    assert dpo.memory.weights_bytes == pytest.approx(2 * full.memory.weights_bytes)
    assert dpo.flops == pytest.approx(full.flops * 4 / 3)
    assert dpo.time_s > full.time_s


def test_offload_frees_the_device_and_costs_time():
    here, there = recipe("full"), recipe("full", offload="optimizer")
    assert there.memory.optimizer_bytes == 0 < here.memory.optimizer_bytes
    assert there.time_s > here.time_s


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"software": "nope"}, "unknown framework"),
        ({"stages": "1,2"}, "adds up to"),
        ({"schedule": "dualpipe", "dp": 4, "pp": 2, "virtual-stages": 2}, "no --virtual-stages 2"),
        ({"stages": "loss", "pp": 8}, "counts 33 layers"),
        ({"stages": "embedding+loss"}, "give a --pp"),
        ({"offload": "optimizer:2"}, "activations:LAYERS"),
        ({"offload": "activations:some"}, "activations:LAYERS"),
        ({"tp": 8, "expert-tp": 3}, "--expert-tp 3 does not divide --tp 8"),
        ({"shard": 3}, "--dp-shard 3"),
        ({"virtual-stages": 2}, "interleaves"),
        ({"imbalance": 0.5}, "at least 1"),
        ({"ep": 2}, "no experts"),
    ],
)
def test_plans_are_refused_with_a_remedy(more, words):
    with pytest.raises(UsageError, match=words):
        recipe("full", **more)


@pytest.mark.slow
def test_schedules_and_uneven_stages_through_estimate():
    base = {
        "model": "llama-3-70b",
        "hw": "h100",
        "n": 64,
        "tp": 8,
        "pp": 4,
        "dp": 2,
        "zero": 1,
        "phase": "train",
        "batch": 32,
        "recompute": "none",
    }

    def seconds(**more) -> float:
        return estimate(build_request.request(base | more)).phases["train"].time_s

    assert seconds(schedule="zero-bubble") < seconds() == seconds(schedule="gpipe")
    ends = {"pp": 2, "dp": 4}
    assert seconds(stages="embedding+loss", **ends) == seconds(stages="40,40", **ends)
    assert seconds(stages="20,20,20,20") == pytest.approx(seconds(), rel=1e-3)
    assert seconds(stages="21,20,20,19") < seconds(stages="17,20,20,23")  # the head makes the last stage long
    held = [
        estimate(build_request.request(base | {"schedule": s})).phases["train"].memory.activations_bytes
        for s in ("1f1b", "gpipe")
    ]
    assert held[0] < held[1]


def test_json_shows_what_is_unusual_about_a_plan():
    base = {"model": "llama-3-8b", "hw": "h100", "n": 8, "tp": 1, "pp": 1, "phase": "train", "batch": 64}
    assert "recipe" not in plain(estimate(build_request.request(base)).layout)
    plan = plain(estimate(build_request.request(base | {"recipe": "lora", "software": "torchtitan"})).layout)
    assert (plan["recipe"], plan["software"]) == ("lora", "torchtitan")
