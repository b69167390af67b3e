"""Verdicts against arithmetic done here: which end is held, what is unsure, what never passes."""

from __future__ import annotations

import math

import pytest
from check.plans import plan, report, requiring, row
from conftest import run_cli

BASE = (
    "estimate",
    "llama-3.3-70b",
    "--hw",
    "h100",
    "-n",
    "8",
    "--tp",
    "8",
    "--batch",
    "32",
    "--prompt",
    "2048",
    "--output",
    "512",
)


@pytest.fixture(scope="module")
def decode():
    return run_cli(*BASE, "--format", "json").json


def between(low: float, high: float) -> str:
    return f"{math.sqrt(low * high) * 1e3!r} ms"


def test_pass_fail_and_unsure_around_the_interval(tmp_path, decode):
    low, high = decode["phases"]["decode"]["interval_s"]
    expected, floor = decode["phases"]["decode"]["time_s"], decode["phases"]["decode"]["floor_s"]
    assert floor <= low < expected < high
    cases = {
        f"<= {high * 1.01 * 1e3} ms": ("pass", "pass"),
        f"<= {low * 0.99 * 1e3} ms": ("fail", "fail"),
        f"<= {between(expected, high)}": ("inconclusive", "pass"),
        f"<= {between(low, expected)}": ("inconclusive", "inconclusive"),
        f">= {low * 0.99 * 1e3} ms": ("pass", "pass"),
        f">= {high * 1.01 * 1e3} ms": ("fail", "fail"),
        f">= {between(low, expected)}": ("inconclusive", "pass"),
    }
    for limit, verdicts in cases.items():
        found = row(tmp_path, requiring("decode.time_s", limit))
        assert (found["verdict"], found["verdict_at_expected"]) == verdicts, limit


def test_which_end_is_held_is_a_setting(tmp_path, decode):
    phase = decode["phases"]["decode"]
    high = phase["interval_s"][1]
    limit = f"<= {between(phase['time_s'], high)}"
    assert row(tmp_path, requiring("decode.time_s", limit, bound="expected"))["verdict"] == "pass"
    assert row(tmp_path, requiring("decode.time_s", limit, hold="floor"))["value"] == pytest.approx(phase["floor_s"])
    assert row(tmp_path, requiring("decode.time_s", limit), "--hold", "expected")["value"] == pytest.approx(
        phase["time_s"]
    )
    assert row(tmp_path, requiring("decode.time_s", limit))["value"] == pytest.approx(high)
    below = f"<= {phase['floor_s'] * 0.999 * 1e3} ms"
    assert row(tmp_path, requiring("decode.time_s", below, hold="floor"))["verdict"] == "fail"
    above = f">= {phase['time_s'] * 1e3} ms"
    assert row(tmp_path, requiring("decode.time_s", above, bound="floor"))["verdict"] == "fail"
    assert row(tmp_path, requiring("decode.time_s", above))["verdict"] == "inconclusive"


def test_the_pessimistic_end_of_a_throughput_is_its_low_one_and_of_a_cost_its_high_one(tmp_path, decode):
    """From the definitions: tokens = rate x time, dollars = price x devices x time, so each end follows from the time's."""
    phase, price = decode["phases"]["decode"], decode["cost"]["usd_per_device_hour"]
    low, high = phase["interval_s"]
    rate = row(tmp_path, requiring("decode.tokens_per_s", ">= 1 tokens/s"))
    assert rate["value"] == pytest.approx(32 / high) and rate["interval"] == pytest.approx([32 / high, 32 / low])
    cost = row(tmp_path, requiring("cost.usd_per_million_output_tokens", "<= 2"))
    assert cost["value"] == pytest.approx(price * 8 * high / 3600 / 32 * 1e6)
    assert cost["floor"] == pytest.approx(price * 8 * phase["floor_s"] / 3600 / 32 * 1e6)


@pytest.mark.slow
def test_training_runs_in_days_and_dollars(tmp_path):
    made = {
        "checks": {
            "run": {
                "model": "llama-3-70b",
                "hw": "h100",
                "devices": 512,
                "tokens": "1T",
                "require": {"train.run_s": "<= 1000 days", "cost.training_usd": "<= 900 M USD", "train.mfu": ">= 1 %"},
            }
        }
    }
    run, cost, mfu = report(tmp_path, made)["checks"][0]["requirements"]
    answer = run_cli(
        "estimate", "llama-3-70b", "--hw", "h100", "-n", "512", "--tokens", "1T", "--phase", "train", "--format", "json"
    ).json
    train = answer["phases"]["train"]
    high = train["interval_s"][1]
    steps = 1e12 / (answer["workload"]["train_batch"] * answer["workload"]["seq"])
    assert run["value"] == pytest.approx(steps * high, rel=1e-4)
    assert cost["value"] == pytest.approx(run["value"] / 3600 * 512 * answer["cost"]["usd_per_device_hour"])
    assert mfu["value"] == pytest.approx(train["flops"] / (high * 512 * answer["hardware"]["peak_flops_per_s"]))


def test_margin_is_a_share_of_the_limit(tmp_path):
    found = row(tmp_path, requiring("decode.memory.total_bytes", "<= 40 GB"))
    assert found["margin"] == pytest.approx((40e9 - found["value"]) / 40e9) and found["interval"] is None
    found = row(tmp_path, requiring("memory.headroom_fraction", ">= 50 %", prompt=1024))
    assert found["margin"] == pytest.approx((found["value"] - 0.5) / 0.5)


def test_memory_without_a_phase_is_that_of_the_tightest(tmp_path):
    phases = ("--phase", "prefill", "--phase", "decode", "--phase", "train")
    answer = run_cli(*BASE[:3], "b200", *BASE[4:], *phases, "--format", "json").json["phases"]
    found = row(
        tmp_path, requiring("memory.headroom_fraction", ">= 1 %", hw="b200", phase=["prefill", "decode", "train"])
    )
    assert found["value"] == pytest.approx(min(p["memory"]["headroom_fraction"] for p in answer.values()))
    found = row(tmp_path, requiring("memory.total_bytes", "<= 1 TB", hw="b200", phase="prefill,decode"))
    assert found["value"] == pytest.approx(max(answer[p]["memory"]["total_bytes"] for p in ("prefill", "decode")))


def test_what_does_not_fit_never_passes(tmp_path):
    """Neither by a generous limit on a time that nothing can take, nor by saying nothing about memory."""
    made = requiring("decode.time_s", "<= 1 h", devices=1, tp=1)
    found = report(tmp_path, made)["checks"][0]
    assert found["verdict"] == "fail" and [r["verdict"] for r in found["requirements"]] == ["fail", "fail"]
    assert found["requirements"][0]["implied"] and "needs" in found["requirements"][0]["reason"]
    assert report(tmp_path, requiring("plan.devices", "<= 4", devices=1, tp=1))["checks"][0]["verdict"] == "fail"
    assert report(tmp_path, requiring("feasible", False, devices=1, tp=1))["checks"][0]["verdict"] == "pass"
    assert report(tmp_path, requiring("feasible", False))["checks"][0]["verdict"] == "fail"


def test_a_layout_that_no_count_holds_fails(tmp_path):
    found = report(tmp_path, requiring("decode.time_s", "<= 1 h", devices=None, tp=1) | {})["checks"][0]
    assert found["verdict"] in ("pass", "fail")
    made = requiring("decode.time_s", "<= 1 h", devices=None, tp=1, pp=1, dp=1)
    assert report(tmp_path, made)["checks"][0]["verdict"] == "fail"


def test_unsure_fails_unless_told_to_warn(tmp_path, decode):
    phase = decode["phases"]["decode"]
    made = requiring("decode.time_s", f"<= {between(phase['time_s'], phase['interval_s'][1])}")
    assert report(tmp_path, made)["passed"] is False
    assert report(tmp_path, made, "--unsure", "warn")["passed"] is True
    assert report(tmp_path, made | {"on_inconclusive": "warn"})["passed"] is True
    assert report(tmp_path, made | {"unsure": "warn"})["passed"] is True
    assert report(tmp_path, made | {"unsure": "warn"}, "--unsure", "fail")["passed"] is False


def test_matrix_is_every_combination_and_each_equals_its_own_check(tmp_path):
    made = plan(devices=None, batch=None, matrix={"hw": ["h100", "h200"], "devices": [4, 8], "batch": [1, 16]}, tp=4)
    found = {c["name"]: c for c in report(tmp_path, made)["checks"]}
    assert len(found) == 8
    alone = report(tmp_path, plan(hw="h200", devices=8, batch=16, tp=4))["checks"][0]
    assert found["chat[hw=h200, n=8, batch=16]"]["requirements"][1]["value"] == alone["requirements"][1]["value"]


@pytest.mark.slow
def test_a_chip_beside_the_plan_is_found_and_its_price_binds(tmp_path, monkeypatch):
    monkeypatch.chdir("/")
    (tmp_path / "ours.yaml").write_text(
        "extends: h100-sxm\nname: ours\nprice: {value: 300 USD/h, provider: us, date: 2026-11, source: contract}\n"
    )
    dear = report(tmp_path, requiring("cost.usd_per_million_output_tokens", "<= 2.5", hw="ours.yaml"))
    assert dear["checks"][0]["verdict"] == "fail" and dear["checks"][0]["hardware"] == "ours"


@pytest.mark.slow
def test_the_binding_requirement_is_the_one_missed_by_most(tmp_path):
    made = plan(require={"decode.time_s": "<= 2 ms", "prefill.time_s": "<= 2 ms", "feasible": True})
    assert report(tmp_path, made)["checks"][0]["binding"] == "prefill.time_s"
    made = plan(require={"decode.time_s": "<= 40 ms", "prefill.time_s": "<= 2 h", "feasible": True})
    assert report(tmp_path, made)["checks"][0]["binding"] == "decode.time_s"
