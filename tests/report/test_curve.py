"""The curve over the batch: each point is what `estimate` says of that batch under the same plan."""

from __future__ import annotations

import pytest

from tests.report.conftest import embedded


def flags(plan: dict) -> list[str]:
    """The options that ask for this plan."""
    words = [
        "-n",
        str(plan["devices"]),
        "--zero",
        str(plan["zero"]),
        "--recompute",
        plan["recompute"],
        "--micro-batch-size",
        str(plan["micro_batch"]),
        "--virtual-stages",
        str(plan["virtual_stages"]),
    ]
    for axis in ("tp", "pp", "dp", "cp", "ep"):
        words += [f"--{axis}", str(plan[axis])]
    return [*words, "--sequence-parallel" if plan["sequence_parallel"] else "--no-sequence-parallel"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "model", "hw", "phase"),
    [
        ("llama", "llama70b", "h100", "decode"),
        ("llama", "llama70b", "h100", "train"),
        ("training", "llama-3-8b", "h100", "train"),
    ],
)
def test_points_are_estimates(cli, page_of, name, model, hw, phase):
    data = embedded(page_of(name).read_text())
    points = data["curves"][phase]
    assert len(points) >= 5
    for point in (points[0], points[len(points) // 2], points[-1]):
        ran = cli(
            "estimate",
            model,
            "--hw",
            hw,
            "--phase",
            phase,
            "--batch",
            f"{point['batch']:g}",
            *flags(data["estimate"]["phases"][phase]["layout"]),
            "--format",
            "json",
        )
        estimated = ran.json["phases"][phase]
        assert {key: estimated[key] for key in ("time_s", "floor_s", "interval_s", "tokens_per_s")} == {
            key: point[key] for key in ("time_s", "floor_s", "interval_s", "tokens_per_s")
        }
        assert estimated["memory"]["total_bytes"] == point["memory_bytes"]
        assert point["feasible"] == ran.json["feasible"]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["llama", "moe", "tpu", "training", "toolarge"])
def test_the_shape_of_a_curve(page_of, name):
    data = embedded(page_of(name).read_text())
    for phase, points in data["curves"].items():
        batches = [p["batch"] for p in points]
        assert batches == sorted(set(batches))
        assert all(p["floor_s"] <= p["interval_s"][0] <= p["time_s"] <= p["interval_s"][1] for p in points)
        times = [p["time_s"] for p in points]
        assert times == sorted(times), "a larger batch is never quicker"
        answer = data["estimate"]["phases"][phase]
        asked = next(
            p for p in points if p["batch"] == answer.get("batch", data["estimate"]["workload"].get("train_batch"))
        )
        assert asked["time_s"] == answer["time_s"], "the batch asked for is on the curve, with the answer's time"
        assert asked["feasible"] == (name != "toolarge")


def test_a_prompt_has_no_batch_to_vary(cli):
    page = cli("report", "gpt2", "--hw", "h100", "--phase", "prefill", "--out", "-").out
    assert embedded(page)["curves"] == {}
    assert "Latency against throughput" not in page


@pytest.mark.slow
@pytest.mark.parametrize("load", [("--concurrency", "16"), ("--qps", "0.5")])
def test_under_load(cli, load):
    """A closed loop stays one along its curve; an open loop is shown as steady batches, and its answer need not lie on them."""
    page = cli("report", "llama70b", "--hw", "h100", "-n", "4", "--phase", "decode", *load, "--out", "-").out
    data = embedded(page)
    points, answer = data["curves"]["decode"], data["estimate"]["phases"]["decode"]
    assert len(points) > 5
    if load[0] == "--concurrency":
        assert next(p for p in points if p["batch"] == 16)["time_s"] == answer["time_s"]


def test_a_curve_of_serving_ends_with_the_largest_batch_that_fits():
    from rooflinecli.engine import build_request
    from rooflinecli.engine.context import EstimateContext
    from rooflinecli.engine.evaluate import answer as answered
    from rooflinecli.questions.report.answer import curve
    from rooflinecli.specs.layout import Layout

    request = build_request.request({"model": "llama-3-8b", "hw": "h100", "phase": "decode", "batch": 3})
    answer = answered(EstimateContext(request), Layout(zero=0), "decode")
    batches = [point.batch for point in curve(request, "decode", Layout(zero=0), answer)]
    assert batches == sorted({3.0, *(2.0**i for i in range(17) if 2**i <= answer.max_batch), answer.max_batch})
