"""Three runs of vLLM on one H100, each a third slower in its decode steps than the shipped constants say: what `calibrate` makes of them."""

from __future__ import annotations

import json

import pytest
import yaml
from calibrate.logs import VLLM
from calibrate.test_command import estimate
from conftest import run_cli

LOADS = ((1, 512), (8, 2048), (16, 1024))


@pytest.fixture(scope="module")
def runs():
    shipped = [estimate("h100-sxm", batch, prompt)["phases"]["decode"]["time_s"] for batch, prompt in LOADS]
    measured = zip(LOADS, shipped, strict=True)
    return [
        {**VLLM, "max_concurrency": batch, "total_input_tokens": 100 * prompt, "mean_ttft_ms": None, "median_ttft_ms": None,
         "mean_tpot_ms": 1300 * time, "median_tpot_ms": 1300 * time} for (batch, prompt), time in measured
    ]  # fmt: skip


def asked(tmp_path, runs, *more):
    file = tmp_path / "bench.json"
    file.write_text("".join(json.dumps(run) + "\n" for run in runs))
    return file, run_cli("calibrate", str(file), "--hw", "h100", "-n", "1", "--format", "json", *more)


def test_a_small_log_becomes_a_file(runs, tmp_path):
    """Steps of 1.3 times the estimate are 1 - 1/1.3 above it; each row left out is predicted by the two others."""
    out = tmp_path / "mine.yaml"
    file, ran = asked(tmp_path, runs, "--out", str(out))
    assert ran.code == 0 and set(ran.json) == {"schema", "hardware", "rows", "tables", "notes"}
    assert (ran.json["schema"], ran.json["hardware"], ran.json["rows"]) == ("roofline/calibrate/2", "h100-sxm", 3)
    errors, blocks, left_out, unread, _ = (table["rows"] for table in ran.json["tables"])
    assert [(row["phase"], row["software"], row["on"], row["rows"]) for row in errors] == [
        ("decode", "vllm", "held out", 1),
        ("decode", "vllm", "fitted", 3),
    ]
    assert all(row["error_before"] == pytest.approx(1 - 1 / 1.3) and row["coverage_before"] == 0 for row in errors)
    assert errors[0]["error_after"] < 0.05 and errors[1]["error_after"] < 0.01 and errors[1]["coverage_after"] == 1
    assert {row["block"] for row in blocks} == {
        "stream",
        "cache",
        "compute",
        "layer",
        "engine",
    } and not left_out + unread
    assert all(row["says"] == ("your rows determine it" if row["contraction"] > 0.8 else "your rows in part" if row["contraction"] > 0.5 else "the shipped value")
               for row in blocks)  # fmt: skip
    assert all((row["move"] is None) == (row["says"] == "the shipped value") for row in blocks)
    written = yaml.safe_load(out.read_text())
    entry = written["calibration"]["decode"]["vllm"]
    assert written["extends"] == "h100-sxm" and (entry["rows"], entry["sources"]) == (3, [str(file)])
    assert (
        entry["range"]["batch"] == [1, 16]
        and entry["range"]["prompt"] == [512, 2048]
        and entry["range"]["devices"] == [1, 1]
    )
    assert entry["before"] == pytest.approx(1 - 1 / 1.3, abs=1e-4) and entry["after"] < 0.05 < entry["error"] < 0.25
    for (batch, prompt), run in zip(LOADS, runs, strict=True):
        found = estimate(out, batch, prompt)["phases"]["decode"]
        assert found["time_s"] == pytest.approx(run["mean_tpot_ms"] / 1e3, rel=0.02)
        assert found["interval_s"][0] < run["mean_tpot_ms"] / 1e3 < found["interval_s"][1]


def test_rows_that_contradict_physics_are_left_out(runs, tmp_path):
    """A tenth of the time beats the memory; a rate beyond what so many requests in flight can write is Little's law broken."""
    fast = {**runs[1], "mean_tpot_ms": runs[1]["mean_tpot_ms"] / 10, "median_tpot_ms": runs[1]["median_tpot_ms"] / 10}
    each = runs[0]["total_output_tokens"] / runs[0]["completed"]
    alone = each / (0.02 + (each - 1) * runs[0]["mean_tpot_ms"] / 1e3)
    many = {**runs[0], "mean_ttft_ms": 20.0, "output_throughput": 5 * alone}
    file, ran = asked(tmp_path, [many, fast, runs[2]])
    rows = {row["row"]: row for row in ran.json["tables"][2]["rows"]}
    assert (
        ran.json["rows"] == 1
        and set(rows) == {f"{file}:1", f"{file}:2"}
        and {row["left_out"] for row in rows.values()} == {"yes"}
    )
    assert "Little's law" in rows[f"{file}:1"]["reason"] and "below the floor" in rows[f"{file}:2"]["reason"]


def test_the_next_measurement_of_a_target(runs, tmp_path):
    target = "llama-3.1-8b -n 1 --phase decode --concurrency 256 --prompt 16k --output 128 --engine vllm"
    _, ran = asked(tmp_path, runs, "--target", target)
    found = ran.json["tables"][4]["rows"]
    assert 1 <= len(found) <= 3 and all(0 < row["sd_after"] < row["sd_before"] for row in found)
    assert found == sorted(found, key=lambda row: row["sd_after"])
