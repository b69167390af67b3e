"""A simulation as a requirement, as a function, and at the end of a search."""

from __future__ import annotations

import json

import pytest
from conftest import run_cli

from rooflinecli.interfaces.python import api

PLAN = """
defaults: {model: llama-3-8b, hw: h100, engine: vllm, tp: 1}
checks:
  loose:
    qps: 5
    prompt: 1k
    output: 100
    simulate: {requests: 200, slo: "ttft=2s@99"}
    require: {simulate.ttft_p99_s: "<= 2 s", simulate.slo_attainment: ">= 99 %", decode.time_s: "<= 1 s"}
  tight:
    qps: 5
    simulate: {requests: 200}
    require: {simulate.ttft_p99_s: "<= 1 ms"}
"""


@pytest.mark.slow
def test_a_plan_is_held_to_a_simulation(tmp_path):
    path = tmp_path / "plan.yaml"
    path.write_text(PLAN)
    ran = run_cli("check", str(path), "--format", "json")
    loose, tight = json.loads(ran.out)["checks"]
    assert ran.code == 1 and (loose["verdict"], tight["verdict"]) == ("pass", "fail")
    first = loose["requirements"][0]
    assert first["interval"][0] <= first["expected"] <= first["interval"][1]
    values = api.simulate("llama-3-8b", "h100", engine="vllm", n=1, tp=1, qps=5, prompt="1k", output=100, requests=200)
    assert first["expected"] == values["ttft_p99_s"]


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ("simulate: {request: 5}", "unknown entry of simulate 'request'"),
        ("simulate: {slo: soon}", "is no limit"),
        ("simulate: {replicas: '1,2'}", "one simulation"),
    ],
)
def test_a_mistake_in_a_plan_is_placed(tmp_path, entry, says):
    path = tmp_path / "plan.yaml"
    path.write_text(
        f"checks:\n  a:\n    model: llama-3-8b\n    hw: h100\n    qps: 1\n    {entry}\n    require:\n      simulate.ttft_p99_s: '<= 2 s'\n"
    )
    ran = run_cli("check", str(path))
    assert ran.code == 3 and says in ran.err and "plan.yaml:8" in ran.err and "Traceback" not in ran.err


@pytest.mark.slow
def test_an_unknown_quantity_is_named(tmp_path):
    path = tmp_path / "plan.yaml"
    path.write_text("checks:\n  a: {model: llama-3-8b, hw: h100, qps: 1, require: {simulate.ttft_p98_s: '<= 2 s'}}\n")
    ran = run_cli("check", str(path))
    assert ran.code == 3 and "did you mean ttft_p9" in ran.err


def test_a_request_beyond_the_cache_fails_its_check(tmp_path):
    path = tmp_path / "plan.yaml"
    path.write_text(
        "checks:\n  a: {model: llama-3-8b, hw: h100, n: 1, tp: 1, qps: 1, simulate: {prompt: 'exponential:100k'}, require: {simulate.ttft_p99_s: '<= 2 s'}}\n"
    )
    ran = run_cli("check", str(path))
    assert ran.code == 1 and "needs more cache" in ran.out + ran.err


@pytest.mark.slow
def test_the_function_searches_for_the_fewest_replicas_too():
    """The count found meets the SLO, and one replica fewer does not, as a run of each alone says."""
    asked = {
        "model": "llama-3-8b",
        "hw": "h100",
        "qps": 60,
        "num_requests": 300,
        "slo": "ttft=300ms@95",
        "interval": False,
    }
    found = api.simulate(**asked, replicas="min")
    count = found["replicas"]
    assert count > 1 and found["slo"]["met"]
    assert api.simulate(**asked, replicas=count)["ttft_p99_s"] == found["ttft_p99_s"]
    assert not api.simulate(**asked, replicas=count - 1)["slo"]["met"]


@pytest.mark.slow
def test_a_search_ends_with_simulations():
    args = (
        "search",
        "llama-3-8b",
        "--hw",
        "h100",
        "-n",
        "8",
        "--phase",
        "decode",
        "--qps",
        "20",
        "--itl",
        "30 ms",
        "--simulate",
        "2",
    )
    found = json.loads(run_cli(*args, "--format", "json").out)["results"]
    assert [("simulate" in row) for row in found[:3]] == [True, True, False][: len(found)]
    row = found[0]
    alone = api.simulate(
        "llama-3-8b", "h100", qps=20, slo="itl=30ms", replicas=int(row["serve"]["instances"]), n=row["layout"]["devices"],
        tp=row["layout"]["tp"], pp=row["layout"]["pp"], dp=row["layout"]["dp"], ep=row["layout"]["ep"],
    )  # fmt: skip
    assert row["simulate"]["ttft_p99_s"] == alone["ttft_p99_s"]
    assert "1 simulated: TTFT" in run_cli(*args).out


@pytest.mark.slow
def test_a_search_without_limits_is_simulated_too():
    args = ("search", "llama-3-8b", "--hw", "h100", "-n", "2", "--phase", "decode", "--qps", "5", "--simulate", "1")
    ran = run_cli(*args, "--format", "json")
    assert ran.code == 0 and json.loads(ran.out)["results"][0]["simulate"]["ttft_p99_s"] > 0


def test_limits_hold_at_the_bound_in_a_simulation_as_in_a_check(tmp_path, monkeypatch):
    """Requests that miss their SLO when steps are slow miss it by default, also in the search for the fewest replicas."""
    asked = "simulate llama-3-8b --hw h100 --engine vllm --tp 1 --qps 1 --num-requests 5 --prompt 64 --output 2 --slo e2e=9s@99".split()

    def slow(values, *rest):
        low = {1: 0.9, 2: 0.9883}.get(values["replicas"], 1.0)
        return {"slo_attainment": [low, 1.0], "slo_attainment_margin": [low - 0.99, 0.01]}

    monkeypatch.setattr("rooflinecli.questions.simulate.answer.intervals", slow)
    missed, few = run_cli(*asked, "--replicas", "2"), run_cli(*asked, "--replicas", "min")
    assert missed.code == 1 and "SLO missed at the pessimistic bound: attainment 100" in " ".join(missed.out.split())
    assert (
        few.code == 0
        and "3 replicas are the fewest that meet the SLO: with 2, attainment is 100.00% as expected and 98.83% at the pessimistic bound"
        in " ".join(few.out.split())
    )
    expected = run_cli(*asked, "--replicas", "min", "--bound", "expected")
    assert expected.code == 0 and "are the fewest" not in expected.out and "changes nothing" not in expected.err
    assert run_cli(*asked, "--replicas", "2,3").code == 1
    path = tmp_path / "plan.yaml"
    path.write_text(
        "checks:\n  a: {model: llama-3-8b, hw: h100, engine: vllm, tp: 1, qps: 1, prompt: 64, output: 2, "
        "simulate: {num_requests: 5, replicas: 2, slo: e2e=9s@99}, require: {simulate.slo_attainment: '>= 99%'}}\n"
    )
    ran = run_cli("check", str(path))
    assert ran.code == 1 and "98.83%" in ran.out
