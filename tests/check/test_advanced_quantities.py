"""Requirements on energy, regret and measured files; percentiles are tests/simulate/test_checks.py's."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from check.plans import check, plan
from conftest import ROOT, run_cli

sys.path.insert(0, str(ROOT / "tests" / "calibrate"))
import logs

TRAIN = "model: llama-3-8b, hw: h100, devices: 16, batch: 64, tokens: 10B"
CHAT = "model: llama-3.1-8b, hw: h100, devices: 1, engine: vllm, concurrency: 16, prompt: 1k, output: 128"


def held(folder: Path, options: str, require: str, code: int, measured: Any = None) -> Any:
    """The requirements of a one-check plan, by quantity; or what stands on standard error."""
    if measured is not None:
        (folder / "bench.json").write_text("\n".join(json.dumps(one) for one in measured))
        options += ", measured: bench.json"
    path = folder / "plan.yaml"
    path.write_text(f"checks:\n  a: {{{options}, require: {{{require}}}}}\n")
    ran = run_cli("check", str(path), "--format", "json", "--suggest", "0")
    assert ran.code == code, ran.err
    return {r["quantity"]: r for r in ran.json["checks"][0]["requirements"]} if code < 2 else ran.err


@pytest.mark.slow
def test_energy_is_power_times_devices_times_time(tmp_path: Path) -> None:
    rows = held(
        tmp_path,
        TRAIN,
        "train.energy_j: '<= 1 GWh', train.run_energy_j: '<= 1 GWh', train.joules_per_token: '<= 1 kJ'",
        0,
    )
    found = run_cli(
        "estimate",
        "llama-3-8b",
        "--hw",
        "h100",
        "-n",
        "16",
        "--batch",
        "64",
        "--tokens",
        "10B",
        "--phase",
        "train",
        "--format",
        "json",
    ).json
    train = found["phases"]["train"]
    assert (
        rows["train.energy_j"]["expected"]
        == train["energy_j"]
        == pytest.approx(16 * train["power_w"] * train["time_s"])
    )
    assert rows["train.run_energy_j"]["expected"] == pytest.approx(16 * train["power_w"] * train["run_s"])
    assert train["energy_j"] / train["joules_per_token"] == pytest.approx(train["time_s"] * train["tokens_per_s"])
    low, high = rows["train.energy_j"]["interval"]
    assert [low, high] == pytest.approx(train["energy_j_interval"])
    time = train["interval_s"][1] / train["time_s"] - 1
    assert high / train["energy_j"] - 1 == pytest.approx((time**2 + train["power_error"] ** 2) ** 0.5)
    held(tmp_path, TRAIN, "train.run_energy_j: '<= 1 kWh'", 1)


@pytest.mark.slow
def test_a_chip_without_power_has_no_energy(tmp_path: Path) -> None:
    assert "energy_j" in held(tmp_path, TRAIN.replace("h100", "tpu-v6e"), "train.energy_j: '<= 1 GWh'", 3)


@pytest.mark.slow
def test_the_regret_of_training_is_against_the_winner_of_search(tmp_path: Path) -> None:
    best = run_cli(
        "search",
        "llama-3-8b",
        "--hw",
        "h100",
        "-n",
        "16",
        "--batch",
        "64",
        "--objective",
        "train.interval_s.1",
        "--format",
        "json",
    ).json["results"][0]
    sizes = {**best["layout"], "devices": 16}
    plan = f"{TRAIN}, tp: {sizes['tp']}, pp: {sizes['pp']}, dp: {sizes['dp']}, cp: {sizes['cp']}, zero: {sizes['zero']}, micro-batch: {sizes['micro_batch']}, virtual-stages: {sizes['virtual_stages']}, recompute: {sizes['recompute']}, sequence-parallel: {str(sizes['sequence_parallel']).lower()}"
    row = held(tmp_path, plan, "layout.within_of_best: '<= 0.01 %'", 0)["layout.within_of_best"]
    assert row["expected"] == pytest.approx(0, abs=1e-12)
    worse = f"{TRAIN}, tp: 8, pp: 1, dp: 2, zero: 1, micro-batch: 1, virtual-stages: 1, recompute: full, sequence-parallel: false"
    row = held(tmp_path, worse, "layout.within_of_best: '<= 1 %'", 1)["layout.within_of_best"]
    found = run_cli(
        "estimate",
        *"llama-3-8b --hw h100 -n 16 --batch 64 --phase train --tp 8 --pp 1 --dp 2 --zero 1 --micro-batch-size 1 --recompute full --no-sequence-parallel --format json".split(),
    ).json
    assert row["expected"] == pytest.approx(
        found["phases"]["train"]["interval_s"][1] / best["interval_s"][1] - 1, rel=1e-9
    )
    assert row["explanation"].startswith("best found: -n 16") and best["command"] in row["explanation"]


def test_the_regret_of_serving_is_against_every_split(tmp_path: Path) -> None:
    options = "model: llama-3-8b, hw: h100, devices: 4, prompt: 1k, output: 128"
    times = {}
    for tp, dp in ((1, 4), (2, 2), (4, 1)):
        args = f"llama-3-8b --hw h100 -n 4 --tp {tp} --pp 1 --dp {dp} --batch {32 // dp} --prompt 1k --output 128 --format json".split()
        times[tp] = run_cli("estimate", *args, "--phase", "prefill", "--phase", "decode").json["phases"]["decode"][
            "interval_s"
        ][1]
    best = min(times.values())
    for tp, dp in ((1, 4), (4, 1)):
        row = held(
            tmp_path, f"{options}, tp: {tp}, pp: 1, dp: {dp}, batch: {32 // dp}", "layout.within_of_best: '<= 99 %'", 0
        )["layout.within_of_best"]
        assert row["expected"] == pytest.approx(times[tp] / best - 1, abs=1e-12)
    missed = plan(tp=1, dp=8, require={"layout.regret_fraction": "<= -50 %"})
    assert "no fixes are searched for a check that limits layout.regret_fraction" in check(tmp_path, missed).out


@pytest.mark.slow
def test_measured_rows_are_held_beside_their_estimates(tmp_path: Path) -> None:
    require = "measured.decode.time_s: '<= 12 ms', measured.prefill.time_s: '<= 1 s', measured.gap: '<= 99 %', measured.inside_share: '>= 0 %'"
    rows = held(tmp_path, CHAT, require, 0, [logs.VLLM])
    (tmp_path / "one.json").write_text(json.dumps(logs.VLLM))
    compared = run_cli(
        "compare",
        "llama-3.1-8b",
        "--hw",
        "h100",
        "-n",
        "1",
        "--measured",
        str(tmp_path / "one.json"),
        "--format",
        "json",
    ).json["rows"]
    assert rows["measured.decode.time_s"]["expected"] == 0.0095 and rows["measured.prefill.time_s"]["expected"] == 0.12
    assert rows["measured.gap"]["expected"] == max(abs(row["gap"]) for row in compared)
    inside = [row["verdict"] == "inside the interval" for row in compared]
    assert rows["measured.inside_share"]["expected"] == sum(inside) / len(inside)
    slow = held(
        tmp_path,
        CHAT,
        "measured.decode.time_s: '<= 12 ms', measured.gap: '<= 20 %'",
        1,
        [{**logs.VLLM, "mean_itl_ms": 18.0, "mean_tpot_ms": 18.0, "median_itl_ms": 18.0, "median_tpot_ms": 18.0}],
    )
    assert slow["measured.gap"]["verdict"] == "fail" and "would explain it" in slow["measured.gap"]["explanation"]


def test_rows_of_another_load_are_no_evidence(tmp_path: Path) -> None:
    both = [
        logs.VLLM,
        {**logs.VLLM, "max_concurrency": 64, "mean_itl_ms": 500.0, "mean_tpot_ms": 500.0, "median_itl_ms": 500.0},
    ]
    assert (
        held(tmp_path, CHAT, "measured.decode.time_s: '<= 12 ms'", 0, both)["measured.decode.time_s"]["expected"]
        == 0.0095
    )
    said = held(tmp_path, CHAT.replace("concurrency: 16", "concurrency: 4"), "measured.gap: '<= 50 %'", 3, both)
    assert "no row matches this plan" in said and "concurrency 16 or 64" in said


@pytest.mark.parametrize(
    ("options", "require", "says"),
    [
        (f"{CHAT}, measured: nowhere.json", "measured.gap: '<= 5 %'", "no such file"),
        (f"{CHAT}, measured: plan.yaml", "decode.time_s: '<= 1 s'", "has no requirement"),
        (f"{CHAT}, measured: plan.yaml", "measured.gap: '<= 5 %'", "unknown measurement format"),
        (CHAT, "measured.gap: '<= 5 %'", "no measured file"),
        (CHAT, "layout.nonsense: '<= 5'", "unknown quantity of a layout"),
        (CHAT.replace("concurrency: 16", "qps: 2"), "layout.within_of_best: '<= 5 %'", "give batch or concurrency"),
    ],
)
def test_what_cannot_be_held_is_placed(tmp_path: Path, options: str, require: str, says: str) -> None:
    said = held(tmp_path, options, require, 3)
    assert says in said and "plan.yaml:" in said and said.count("\n") == 1
