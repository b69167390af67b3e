"""`roofline calibrate` from log to file to estimate, and what it refuses."""

from __future__ import annotations

import json
import re

import pytest
import yaml
from calibrate.logs import LOGS, NCCL, VLLM
from conftest import run_cli

LOADS = [(1, 512), (8, 2048), (16, 1024), (32, 4096), (64, 1024), (128, 512), (4, 8192)]


def estimate(hw, batch, prompt, *more, engine="vllm"):
    return run_cli(
        "estimate", "llama-3.1-8b", "--hw", str(hw), "-n", "1", "--engine", engine, "--phase", "decode", "--concurrency", str(batch),
        "--prompt", str(prompt), "--output", "128", "--format", "json", *more,
    ).json  # fmt: skip


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """A vLLM result file of a machine a fifth slower than the shipped one, its first tokens left out."""
    file = tmp_path_factory.mktemp("logs") / "bench.json"
    runs = []
    for batch, prompt in LOADS:
        expected = estimate("h100-sxm", batch, prompt)["phases"]["decode"]["time_s"]
        sizes = {
            "max_concurrency": batch,
            "total_input_tokens": 100 * prompt,
            "mean_tpot_ms": 1300 * expected,
            "median_tpot_ms": 1300 * expected,
        }
        runs.append({**VLLM, **sizes, "mean_ttft_ms": None, "median_ttft_ms": None})
    file.write_text("".join(json.dumps(run) + "\n" for run in runs))
    return file


@pytest.mark.slow
def test_a_log_becomes_a_file_that_estimates_read(log, tmp_path):
    out = tmp_path / "mine.yaml"
    ran = run_cli("calibrate", str(log), "--hw", "h100", "-n", "1", "--out", str(out), "--format", "json")
    assert ran.code == 0, ran.err
    held = next(row for row in ran.json["tables"][0]["rows"] if row["on"] == "held out")
    assert held["error_before"] == pytest.approx(0.23, abs=0.01)
    assert held["error_after"] < 0.05
    written = yaml.safe_load(out.read_text())
    assert written["extends"] == "h100-sxm"
    entry = written["calibration"]["decode"]["vllm"]
    assert entry["rows"] == 7
    assert entry["sources"] == [str(log)]
    assert entry["range"]["batch"] == [1.0, 128.0]
    shipped, mine = (estimate(hw, 16, 1024) for hw in ("h100-sxm", out))
    assert mine["phases"]["decode"]["time_s"] == pytest.approx(1.3 * shipped["phases"]["decode"]["time_s"], rel=0.06)
    low, high = mine["phases"]["decode"]["interval_s"]
    assert high / mine["phases"]["decode"]["time_s"] == pytest.approx(1 + entry["error"])
    assert not [note for note in mine.get("notes", ()) if "calibrat" in note]
    assert mine["phases"]["decode"]["floor_s"] == shipped["phases"]["decode"]["floor_s"]
    assert low >= mine["phases"]["decode"]["floor_s"]


@pytest.mark.slow
def test_beyond_the_rows_the_interval_is_the_wider_one_and_says_so(log, tmp_path):
    out = tmp_path / "mine.yaml"
    assert run_cli("calibrate", str(log), "--hw", "h100", "-n", "1", "--out", str(out)).code == 0
    far = estimate(out, 1024, 512)
    (beyond,) = [note for note in far["notes"] if "outside the rows" in note]
    assert "batch" in beyond
    other = estimate(out, 16, 1024, engine="sglang")
    assert any("calibrated for --engine vllm" in note for note in other["notes"])
    assert other["phases"] == estimate("h100-sxm", 16, 1024, engine="sglang")["phases"]
    ideal = estimate(out, 16, 1024, "--efficiency", "ideal")
    assert (
        ideal["phases"]["decode"]["time_s"]
        == estimate("h100-sxm", 16, 1024, "--efficiency", "ideal")["phases"]["decode"]["time_s"]
    )


@pytest.mark.slow
def test_an_explanation_cites_the_calibration(log, tmp_path):
    out = tmp_path / "mine.yaml"
    run_cli("calibrate", str(log), "--hw", "h100", "-n", "1", "--out", str(out))
    text = run_cli(
        "estimate", "llama-3.1-8b", "--hw", str(out), "-n", "1", "--engine", "vllm", "--phase", "decode", "--concurrency", "16",
        "--explain", "decode.time_s", "--depth", "9",
    ).out  # fmt: skip
    assert "mine.yaml:" in text
    assert "times 0." in text


def test_what_a_log_does_not_say_is_asked_for_by_flag(log, tmp_path):
    ran = run_cli("calibrate", str(log), "--hw", "h100")
    assert (ran.code, "give -n" in ran.err) == (2, True)
    assert f"{log}:1" in ran.err
    train = tmp_path / "train.log"
    train.write_text(LOGS["maxtext"][0])
    ran = run_cli("calibrate", str(train), "--hw", "h100")
    assert ran.code == 2
    assert "give --model, --batch, --seq-len, -n" in ran.err


def test_a_log_of_another_model_is_not_accepted_in_silence(log):
    ran = run_cli("calibrate", str(log), "--hw", "h100", "-n", "1", "--model", "llama-3.1-70b")
    assert ran.code == 3
    assert "not of --model llama-3.1-70b" in ran.err
    ran = run_cli("calibrate", str(log), "--hw", "h100", "-n", "1", "--prompt", "77")
    assert ran.code == 3
    assert "not --prompt 77" in ran.err


def test_a_sized_description_of_another_model_is_refused(tmp_path):
    file = tmp_path / "llama.jsonl"
    file.write_text(LOGS["llama-bench-jsonl"][0])
    ran = run_cli("calibrate", str(file), "--hw", "h100", "-n", "1", "--model", "llama-2-70b")
    assert ran.code == 3
    assert "llama 8B Q4_K" in ran.err


@pytest.mark.slow
def test_rows_below_the_floor_are_named_and_left_out(log, tmp_path):
    """A rate of prompts and answers together, read as one of answers, beats the memory."""
    lines = log.read_text().splitlines()
    run = json.loads(lines[2])
    lines[2] = json.dumps({**run, "mean_tpot_ms": run["mean_tpot_ms"] / 10})
    file = tmp_path / "bench.json"
    file.write_text("\n".join(lines))
    ran = run_cli("calibrate", str(file), "--hw", "h100", "-n", "1", "--format", "json")
    said = ran.json["tables"][2]["rows"]
    assert [(row["row"], row["left_out"]) for row in said] == [(f"{file}:3", "yes")]
    assert "below the floor" in said[0]["reason"]
    assert ran.json["rows"] == 6


def test_a_probe_alone_moves_the_collectives(tmp_path):
    """An all-reduce three times slower than the shipped link."""
    file = tmp_path / "nccl.log"
    rows = "".join(
        f"  {2**i}   {2**i // 4}   float  sum  -1  {3 * 1.5 * 2**i / 380e3:.2f}  1.0  1.0  0  1.0 1.0 1.0 0\n"
        for i in range(24, 33)
    )
    head, _, rest = NCCL.partition("     8388608")
    file.write_text(head + rows + "# Avg bus" + rest.partition("# Avg bus")[2])
    ran = run_cli("calibrate", str(file), "--hw", "h100", "--format", "json")
    assert ran.code == 0, ran.err
    blocks = {(r["phase"], r["block"]): r for r in ran.json["tables"][1]["rows"]}
    assert blocks["train", "collective"]["says"] == "your rows determine it"
    assert blocks["train", "collective"]["move"] > 0.5


@pytest.mark.slow
def test_the_next_measurement_narrows_the_target(log):
    ran = run_cli(
        "calibrate", str(log), "--hw", "h100", "-n", "1", "--format", "json", "--target",
        "llama-3.1-8b -n 1 --phase decode --concurrency 256 --prompt 16k --output 128 --engine vllm",
    )  # fmt: skip
    found = ran.json["tables"][4]["rows"]
    assert 1 <= len(found) <= 3
    assert all(row["sd_after"] < row["sd_before"] for row in found)
    assert run_cli("calibrate", str(log), "--hw", "h100", "-n", "1", "--target", "llama --nonsense 3").code == 2


def test_unknown_factors_in_a_file_are_errors(tmp_path):
    file = tmp_path / "c.yaml"
    entry = (
        "{factors: {efficiency.matmull.memory: 0.7}, error: 0.1, date: '2026-11-22', rows: 4, before: 0.2, after: 0.1}"
    )
    file.write_text(f"extends: h100-sxm\ncalibration:\n  decode:\n    vllm: {entry}\n")
    ran = run_cli("estimate", "llama-3.1-8b", "--hw", str(file), "--phase", "decode")
    assert ran.code == 3
    assert f"{file}:4" in ran.err
    assert "matmull" in ran.err


@pytest.mark.slow
def test_more_requests_in_flight_than_allowed_contradict_themselves(log, tmp_path):
    """The usual factor of two to nine: a rate that counts prompts too."""
    lines = log.read_text().splitlines()
    run = json.loads(lines[0])
    each = run["total_output_tokens"] / run["completed"]
    alone = 1 / (0.02 + (each - 1) * run["mean_tpot_ms"] / 1e3) * each
    lines[0] = json.dumps({**run, "mean_ttft_ms": 20.0, "output_throughput": 5 * alone})
    file = tmp_path / "bench.json"
    file.write_text("\n".join(lines))
    ran = run_cli("calibrate", str(file), "--hw", "h100", "-n", "1", "--format", "json")
    said = ran.json["tables"][2]["rows"]
    assert [(row["row"], row["left_out"]) for row in said] == [(f"{file}:1", "yes")]
    assert "Little's law" in said[0]["reason"]


@pytest.mark.slow
def test_measured_rows_stand_beside_the_estimate(log):
    ran = run_cli("compare", "llama-3.1-8b", "--hw", "h100", "-n", "1", "--measured", str(log), "--format", "json")
    assert ran.code == 0, ran.err
    rows = ran.json["rows"]
    assert [row["row"] for row in rows] == [f"{log}:{i}" for i in range(1, 8)]
    assert all(row["gap"] == pytest.approx(0.3, abs=1e-6) for row in rows)
    asks = [e["asks"] for e in rows[0]["explained_by"]]
    assert asks == sorted(asks) and asks
    assert "stream" in rows[0]["explained_by"][0]["what"] or "layer" in rows[0]["explained_by"][0]["what"]
    assert run_cli("compare", "llama-3.1-8b", "--hw", "h100,h200", "-n", "1", "--measured", str(log)).code == 2
    assert (
        "would explain +30%"
        in run_cli("compare", "llama-3.1-8b", "--hw", "h100", "-n", "1", "--measured", str(log)).out
    )


@pytest.mark.slow
def test_a_training_log_is_explained_by_assumptions(tmp_path):
    file = tmp_path / "train.log"
    file.write_text(LOGS["llm-foundry"][0])
    ran = run_cli(
        "compare", "llama-2-7b", "--hw", "a100", "-n", "64", "--batch", "256", "--seq", "2k", "--micro-batch-size", "4", "--zero", "3",
        "--tp", "1", "--pp", "1", "--measured", str(file), "--format", "json",
    )  # fmt: skip
    (row,) = ran.json["rows"]
    assert (row["quantity"], row["measured_s"], row["software"]) == ("train", 4.0, "llm-foundry")
    assert row["verdict"] == "slower"
    assert any("padding" in e["what"] for e in row["explained_by"])


@pytest.mark.slow
def test_worse_on_the_rows_held_out_writes_nothing_without_force(tmp_path, monkeypatch):
    from rooflinecli.calibrate import answer as module
    from rooflinecli.calibrate.phase_fit import HeldOutScore, fit_phase

    def worse(*args):
        found = fit_phase(*args)
        found.scores[0] = HeldOutScore("held out", 2, 0.05, 0.2, 1.0, 0.5)
        return found

    monkeypatch.setattr(module, "fit_phase", worse)
    file, out = tmp_path / "bench.json", tmp_path / "mine.yaml"
    runs = []
    for batch, prompt in LOADS:
        expected = estimate("h100-sxm", batch, prompt)["phases"]["decode"]["time_s"]
        runs.append(
            {
                **VLLM,
                "max_concurrency": batch,
                "total_input_tokens": 100 * prompt,
                "mean_tpot_ms": 1500 * expected,
                "mean_ttft_ms": None,
                "median_ttft_ms": None,
            }
        )
    file.write_text("".join(json.dumps(run) + "\n" for run in runs))
    ran = run_cli("calibrate", str(file), "--hw", "h100", "-n", "1", "--out", str(out))
    assert (ran.code, out.exists()) == (1, False)
    assert "worse on the held-out rows" in ran.out and "5.0% to 20.0%, worse" in " ".join(ran.out.split())
    assert f"not written: {out}: the held-out rows got worse; --force writes it" in " ".join(ran.err.split())
    assert run_cli("calibrate", str(file), "--hw", "h100", "-n", "1", "--out", str(out), "--force").code == 0
    assert out.exists()


@pytest.mark.slow
def test_an_ideal_machine_is_not_calibrated(log, tmp_path):
    """Where every kernel reaches the roofline nothing that was measured counts: neither time nor interval moves."""
    profile = tmp_path / "mine.yaml"
    assert run_cli("calibrate", str(log), "--hw", "h100", "-n", "1", "--out", str(profile)).code == 0
    ask = (
        "--batch",
        "8",
        "--prompt",
        "512",
        "--output",
        "128",
        "-n",
        "1",
        "--phase",
        "decode",
        "--engine",
        "vllm",
        "--format",
        "json",
    )
    ideal = [
        json.loads(run_cli("estimate", "llama-3.1-8b", "--hw", hw, *ask, "--efficiency", "ideal").out)["phases"][
            "decode"
        ]
        for hw in (str(profile), "h100-sxm")
    ]
    assert ideal[0]["time_s"] == ideal[1]["time_s"] and ideal[0]["interval_s"] == ideal[1]["interval_s"]
    expected = [
        json.loads(run_cli("estimate", "llama-3.1-8b", "--hw", hw, *ask).out)["phases"]["decode"]
        for hw in (str(profile), "h100-sxm")
    ]
    assert expected[0]["time_s"] != expected[1]["time_s"]


@pytest.mark.slow
def test_one_row_alone_is_told_how_far_it_moved_a_block(tmp_path):
    """Nothing contradicts a single row, so a mistake in it moves the constants as far: the command says which and by how much."""
    step = estimate("h100-sxm", 16, 1024)["phases"]["decode"]["time_s"]
    rows = []
    for batch, factor in ((16, 1500), (64, 1500)):
        times = {
            "mean_tpot_ms": factor * step,
            "median_tpot_ms": factor * step,
            "mean_ttft_ms": None,
            "median_ttft_ms": None,
        }
        rows.append(json.dumps({**VLLM, "max_concurrency": batch, "total_input_tokens": 102400, **times}) + "\n")
    alone, two = tmp_path / "one.json", tmp_path / "two.json"
    alone.write_text(rows[0])
    two.write_text("".join(rows))
    said = [
        run_cli("calibrate", str(f), "--hw", "h100", "-n", "1", "--format", "json").json["notes"] for f in (alone, two)
    ]
    note = next(n for n in said[0] if "one row alone" in n)
    assert re.search(r"^decode \(vllm\): one row alone moved .+ by \+\d+%, and would as far if it were wrong", note), (
        note
    )
    assert not any("one row alone" in n for n in said[1])


@pytest.mark.slow
def test_rows_that_repeat_are_one_row_and_none_is_held_out_beside_its_copy(log, tmp_path):
    """Sixteen ranks that differ in the last digit, in a file each or in one."""
    line = json.loads(log.read_text().splitlines()[2])
    files = []
    for rank in range(16):
        files.append(tmp_path / f"rank{rank}.json")
        files[-1].write_text(json.dumps({**line, "mean_tpot_ms": line["mean_tpot_ms"] * (1 + 1e-4 * rank)}))
    ran = run_cli("calibrate", *map(str, files), "--hw", "h100", "-n", "1", "--format", "json")
    assert ran.json["rows"] == 1
    assert "held out" not in {row["on"] for row in ran.json["tables"][0]["rows"]}
    assert any("rank7.json:1: the median of 16 rows of one question" in note for note in ran.json["notes"])


@pytest.mark.slow
def test_a_rate_that_cannot_be_sustained_is_set_aside_with_its_line(log, tmp_path):
    many = {"completed": 100_000, "total_input_tokens": 1024 * 100_000, "total_output_tokens": 128 * 100_000}
    run = {**json.loads(log.read_text().splitlines()[1]), "max_concurrency": None, **many}
    file = tmp_path / "open.json"
    file.write_text("\n".join(json.dumps({**run, "request_rate": rate}) for rate in (1, 2, 4000)))
    ran = run_cli("calibrate", str(file), "--hw", "h100", "-n", "1", "--format", "json")
    (row,) = ran.json["tables"][3]["rows"]
    assert (ran.json["rows"], row["row"]) == (2, f"{file}:3") and "--qps 4000" in row["reason"]


def test_constants_near_saturation_stay_finite(log, tmp_path):
    """Measured slower than the rate allows at the fitted constants: no factor and no error may be NaN."""
    run = {**json.loads(log.read_text().splitlines()[1]), "max_concurrency": None, "total_input_tokens": 102400}
    file, out = tmp_path / "open.json", tmp_path / "mine.yaml"
    rows = [
        {**run, "request_rate": q, "mean_tpot_ms": t, "median_tpot_ms": t}
        for q, t in ((20, 30), (40, 90), (43, 180), (44, 200))
    ]
    file.write_text("\n".join(map(json.dumps, rows)))
    ran = run_cli("calibrate", str(file), "--hw", "h100", "-n", "1", "--format", "json", "--out", str(out), "--force")
    assert "NaN" not in ran.out and "Infinity" not in ran.out
    assert not out.exists() or "nan" not in out.read_text()


@pytest.mark.parametrize("name", ["llama-bench-md", "own-measure"])
def test_a_log_of_a_cpu_is_no_log_of_a_gpu(name, tmp_path):
    file = tmp_path / "cpu.log"
    environment = '{"schema": "roofline-measure/1", "key": "environment"'
    text = (
        LOGS[name][0]
        .replace("CUDA", "CPU")
        .replace(environment, environment + ', "platform": "cpu", "kind": "EPYC", "fingerprint": "f"')
    )
    file.write_text(text)
    ran = run_cli("calibrate", str(file), "--hw", "h100", "--model", "llama-3.1-8b", "-n", "1")
    assert ran.code == 3 and "measured on a CPU" in ran.err and f"{file}:" in ran.err


def test_a_log_that_names_its_device_is_not_fitted_to_another(tmp_path):
    file = tmp_path / "nccl.log"
    file.write_text(NCCL)
    ran = run_cli("calibrate", str(file), "--hw", "b200")
    assert ran.code == 3 and "measured on NVIDIA H100 80GB HBM3" in ran.err
    assert run_cli("calibrate", str(file), "--hw", "h100").code == 0


def test_a_plan_is_compared_with_rows_of_its_own_lengths_and_load(tmp_path):
    """Other prompts and other loads of the file are left out; a first token under load is one, and not a lone prefill."""
    from rooflinecli.calibrate.answer import rows_of_plan

    file = tmp_path / "bench.json"
    runs = [
        {**VLLM, "max_concurrency": load, "total_input_tokens": 100 * prompt}
        for load, prompt in ((8, 1024), (8, 2048), (16, 1024))
    ]
    file.write_text("".join(json.dumps(run) + "\n" for run in runs))
    plan = {"model": "llama-3.1-8b", "hw": "h100-sxm", "n": 1, "prompt": 1024, "concurrency": 8}
    found = rows_of_plan([file], plan)
    assert {gap.row for gap in found} == {f"{file}:1"}
    assert {gap.quantity for gap in found} == {"itl", "ttft"}
    assert {gap.row for gap in rows_of_plan([file], plan | {"prompt": 2048})} == {f"{file}:2"}


def test_a_phase_that_gets_worse_does_not_veto_another():
    """The headline names both, and the file takes the one that improved."""
    from types import SimpleNamespace

    from rooflinecli.calibrate.answer import CalibrationAnswer
    from rooflinecli.calibrate.phase_fit import HeldOutScore

    better, worse = (HeldOutScore("held out", 2, 0.2, after, 1.0, 0.5) for after in (0.1, 0.3))
    fits = [
        SimpleNamespace(phase=phase, software="vllm", scores=[score], moved=True, refused=score.worse)
        for phase, score in (("decode", better), ("ttft", worse))
    ]
    answer = CalibrationAnswer(None, 4, fits)
    assert [g.phase for g in answer.written()] == ["decode"] and len(answer.written(force=True)) == 2
    said = answer.headline("my.yaml")
    assert (
        "decode (vllm): error on the held out rows 20.0% to 10.0%; ttft (vllm): error on the held out rows 20.0% to 30.0%, worse."
        in said
    )
    assert said.endswith("my.yaml is written with decode without ttft, which got worse (--force writes it).")


def test_one_row_is_set_against_the_shipped_constants_and_nothing_is_written_without_a_name(tmp_path):
    file = tmp_path / "slow.log"
    file.write_text("iteration 9/10 | elapsed time per iteration (ms): 99999.0 | global batch size: 128 |\n")
    asked = ["calibrate", str(file), "--hw", "h100", "--model", "llama-3-8b", "-n", "64", "--seq-len", "8192"]
    said = " ".join(run_cli(*asked).out.split())
    assert "above the shipped constants" in said and "other rows" not in said
    assert ("Nothing is written; --out FILE writes it." in said) == ("Moved:" in said)
    folder = run_cli("calibrate", str(tmp_path), "--hw", "h100")
    assert folder.code == 3 and f"{tmp_path}: cannot be read (Is a directory)" in folder.err
