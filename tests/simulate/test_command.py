"""`roofline simulate` at the command line."""

from __future__ import annotations

import csv
import json

import pytest
from conftest import ROOT, run_cli

BASE = ("simulate", "llama-3-8b", "--hw", "h100", "--engine", "vllm", "--requests", "200")
BURSTY = str(ROOT / "examples" / "traces" / "bursty.csv")


def answer(*args):
    ran = run_cli(*BASE, *args, "--format", "json")
    assert ran.code in (0, 1) and not ran.err, ran.err
    return json.loads(ran.out)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm", "cuda-graph", "python-server"])
def test_every_engine_answers_in_every_format(engine):
    args = (
        "simulate",
        "llama-3-8b",
        "--hw",
        "h100",
        "--engine",
        engine,
        "--requests",
        "30",
        "--qps",
        "5",
        "--slo",
        "ttft=2s@90",
        "--seeds",
        "1",
    )
    for format in ("table", "json", "csv", "markdown"):
        ran = run_cli(*args, "--format", format)
        assert ran.code in (0, 1) and ran.out and not ran.err


def test_the_answer_is_one_object_in_si():
    found = answer("--qps", "10", "--slo", "ttft=500ms,itl=20ms,e2e=10s@99")
    values = found["simulate"]
    assert found["schema"] == "roofline/simulate/2" and found["slo"]["limits"] == {
        "ttft": 0.5,
        "itl": 0.02,
        "e2e": 10.0,
    }
    for name in ("ttft", "itl", "tpot", "e2e", "queue"):
        points = [values[f"{name}_{p}_s"] for p in ("p50", "p90", "p95", "p99", "max")]
        assert points == sorted(points)
        low, high = found["interval"].get(f"{name}_p99_s", (0, 1))
        assert low <= values[f"{name}_p99_s"] <= high
    assert values["requests"] == 200 and values["goodput_requests_per_s"] <= values["requests_per_s"]
    assert values["steady_s"] < values["duration_s"]  # no ramp, no drain
    assert values["output_tokens_per_s"] == pytest.approx(values["requests_per_s"] * 256, rel=0.02)


def test_equal_seeds_give_equal_answers():
    args = (
        "--qps",
        "10",
        "--prompt",
        "lognormal:800,0.5",
        "--output",
        "uniform:10,400",
        "--arrivals",
        "gamma:2",
        "--no-interval",
    )
    first, again, other = answer(*args), answer(*args), answer(*args, "--seed", "1")
    assert first == again and first["simulate"] != other["simulate"]


@pytest.mark.slow
def test_the_fewest_replicas_are_confirmed_by_one_fewer(tmp_path):
    args = (
        "simulate",
        "llama70b",
        "--hw",
        "h100",
        "--tp",
        "4",
        "--dtype",
        "fp8",
        "--engine",
        "vllm",
        "--trace",
        BURSTY,
        "--no-interval",
        "--slo",
        "ttft=1s,itl=50ms@99",
        "--format",
        "json",
    )
    found = json.loads(run_cli(*args, "--replicas", "min").out)
    count = found["simulate"]["replicas"]
    assert count > 1 and found["slo"]["met"] and found["slo"]["attainment_with_one_fewer_replica"] < 0.99
    fewer = run_cli(*args, "--replicas", str(count - 1))
    assert (
        fewer.code == 1
        and json.loads(fewer.out)["simulate"]["slo_attainment"] == found["slo"]["attainment_with_one_fewer_replica"]
    )
    assert run_cli(*args, "--replicas", str(count)).code == 0


def test_a_study_is_a_row_each():
    ran = run_cli(*BASE, "--qps", "5,20", "--replicas", "1,2", "--format", "csv")
    rows = list(csv.DictReader(ran.out.splitlines()))
    assert [(r["qps"], r["replicas"]) for r in rows] == [("5", "1"), ("5", "2"), ("20", "1"), ("20", "2")]
    one = answer("--qps", "20", "--replicas", "2")["simulate"]
    assert float(rows[-1]["ttft_p99_s"]) == one["ttft_p99_s"]


@pytest.mark.slow
def test_processes_give_the_answers_of_one():
    args = (*BASE, "--qps", "5,10,20", "--format", "json")
    assert run_cli(*args).out == run_cli(*args, "--jobs", "2").out


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_every_request_is_written(tmp_path, suffix):
    path = tmp_path / f"r.{suffix}"
    found = answer("--concurrency", "8", "--lengths", "0.8:1", "--no-interval", "--requests-out", str(path))
    if suffix == "csv":
        rows = list(csv.DictReader(path.read_text().splitlines()))
    else:
        rows = pytest.importorskip("pyarrow.parquet").read_table(path).to_pylist()
    assert len(rows) == 200 == found["simulate"]["requests"]
    assert sum(float(r["ttft_s"]) for r in rows) / 200 == pytest.approx(found["simulate"]["ttft_mean_s"])


def test_pictures():
    for kind in ("percentiles", "load"):
        assert "┤" in run_cli(*BASE, "--qps", "10", "--plot", "-", "--plot-kind", kind, "--no-interval").out
    assert "slo_attainment against qps" in run_cli(*BASE, "--qps", "5,10", "--slo", "ttft=1s", "--plot", "-").out


def test_pools_move_caches():
    """Prompts on one pool, answers on another: a slower link makes answers end later, first tokens come as before."""
    args = ("--qps", "10", "--prefill-pool", "1", "--decode-pool", "1", "--no-interval")
    fast, slow = (answer(*args, "--kv-link", link)["simulate"] for link in ("400 GB/s", "100 MB/s"))
    assert fast["devices"] == 2 and fast["ttft_p50_s"] == slow["ttft_p50_s"]
    assert slow["e2e_p50_s"] - fast["e2e_p50_s"] == pytest.approx(2048 * 131072 / 1e8, rel=0.1)  # 128 KiB a token, bf16


@pytest.mark.parametrize(
    ("args", "says", "code"),
    [
        ((), "no load given", 2),
        (("--qps", "1", "--concurrency", "2"), "give one of them", 2),
        (("--qps", "1", "--slo", "p99=1s"), "is no limit", 2),
        (("--qps", "1", "--slo", "ttft=1"), "unit", 2),
        (("--qps", "1", "--replicas", "min"), "--slo", 2),
        (("--qps", "1", "--arrivals", "gamma:x"), "coefficient", 2),
        (("--qps", "1", "--prompt", "normal:3"), "lognormal", 2),
        (("--qps", "1", "--scheduler", "budget=3"), "unknown scheduler setting", 2),
        (("--qps", "1", "--scheduler", "token_budget=many"), "token_budget", 2),
        (("--qps", "1", "--router", "round"), "round-robin", 2),
        (("--qps", "1", "--prefill-pool", "1"), "go together", 2),
        (("--qps", "0"), "above zero", 2),
        (("--qps", "1", "--window", "1:2"), "--trace", 2),
        (("--qps", "1", "--kv-offload", "host=1GB@1GB/s"), "--prefix-caching", 2),
        (("--qps", "1", "--scheduler", "memory_share=2"), "memory_share", 2),
        (("--qps", "1", "--prompt", "exponential:100k"), "needs more cache", 1),
        (("--trace", "none.csv"), "no such file", 3),
        (("--qps", "1", "--requests-out", "x.txt"), "FILE.csv", 2),
        (("--qps", "1", "--slo", ""), "--slo '': empty", 2),
        (("--qps", "1", "--lengths", ""), "--length-range '': empty", 2),
    ],
)
def test_mistakes_are_one_sentence(args, says, code):
    ran = run_cli(*BASE, *args)
    assert ran.code == code and says in ran.err and ran.err.count("\n") == 1 and "Traceback" not in ran.err, ran.err


def test_an_interrupted_run_says_what_it_knows(monkeypatch):
    """Ctrl-C in the middle: the requests that had ended, and exit code 130."""
    from rooflinecli.simulate.replica import Replica

    steps = iter(range(10_000))
    taken = Replica.step

    def interrupted(self, until, *more):
        if next(steps) == 400:
            raise KeyboardInterrupt
        return taken(self, until, *more)

    monkeypatch.setattr(Replica, "step", interrupted)
    ran = run_cli(*BASE, "--qps", "10", "--format", "json")
    found = json.loads(ran.out)
    assert ran.code == 130 and found["interrupted"] and 0 < found["simulate"]["requests"] < 200


def test_lengths_left_out_are_those_of_an_estimate():
    """Whisper's decoder begins with four tokens and ends at 448; Llama takes what it took before."""
    for model, prompt, output in (("whisper-large-v3", 4, 224), ("llama-3-8b", 2048, 256)):
        asked = (
            "simulate",
            model,
            "--hw",
            "h100",
            "--qps",
            "5",
            "--requests",
            "20",
            "--no-interval",
            "--format",
            "json",
        )
        found = json.loads(run_cli(*asked).out)["simulate"]
        assert found["input_tokens_per_s"] / found["requests_per_s"] == pytest.approx(prompt, rel=0.1)
        assert found["output_tokens_per_s"] / found["requests_per_s"] == pytest.approx(output, rel=0.1)


def test_layers_on_the_host_leave_room_for_cache():
    """Sixteen of 32 layers on the device: half the cache of a token lies there, with half of the layers' weights."""
    asked = (
        "simulate",
        "llama-3-8b",
        "--hw",
        "rtx-4090",
        "--engine",
        "llamacpp",
        "--qps",
        "0.1",
        "--requests",
        "5",
        "--no-interval",
        "--format",
        "json",
    )
    whole, half = (json.loads(run_cli(*asked, *more).out) for more in ((), ("--gpu-layers", "16")))
    layer = 2 * 1024 * 2  # keys and values of 8 heads of 128, two bytes: a layer's cache of a token
    weights = (
        16 * 2 * (4096 * (2 * 4096 + 2 * 1024) + 3 * 4096 * 14336) + 2 * 128256 * 4096 * 2
    )  # layers, embedding and head
    gained = (half["kv_cache_tokens"] * 16 - whole["kv_cache_tokens"] * 32) * layer
    assert gained == pytest.approx(weights, rel=1e-3)
    assert half["simulate"]["tpot_p50_s"] > 2 * whole["simulate"]["tpot_p50_s"]


def test_requests_are_a_frame():
    from rooflinecli.interfaces.python import api

    found = api.simulate("llama-3-8b", "h100", qps=5, requests=50, engine="vllm")
    frame = found.requests()
    assert len(frame) == 50 and float(frame["ttft_s"].mean()) == pytest.approx(found["ttft_mean_s"])
    assert {"arrival_s", "prompt", "output", "queue_s", "tpot_s", "e2e_s", "replica"} <= set(frame.columns)
    assert (
        found.ttft_mean_s == found["ttft_mean_s"] and found.layout == found["layout"] and found.to_dict() == dict(found)
    )
    assert not hasattr(found, "tftt_mean_s")


def test_an_interrupted_study_keeps_whole_rows(monkeypatch):
    """Ctrl-C in the third simulation: two rows, none of a part of one; in the repeats of an interval the run stands without one."""
    from rooflinecli.simulate.replica import Replica

    taken, stops = Replica.step, {}

    def interrupted(self, until, *more):
        if self not in stops.setdefault("seen", []):
            stops["seen"].append(self)
        if len(stops["seen"]) == 3 and self.steps > 50:
            raise KeyboardInterrupt
        return taken(self, until, *more)

    monkeypatch.setattr(Replica, "step", interrupted)
    ran = run_cli(*BASE, "--qps", "5,10,20,40", "--format", "json")
    assert ran.code == 130 and [row["qps"] for row in json.loads(ran.out)["rows"]] == ["5", "10"]
    assert "2 of 4 simulations" in ran.err
    stops.clear()
    ran = run_cli(*BASE, "--qps", "5", "--format", "json")
    found = json.loads(ran.out)
    assert ran.code == 130 and found["interrupted"] and not found["interval"] and found["simulate"]["requests"] == 200


def test_first_tokens_are_less_sure_than_the_rest():
    """Their interval reaches beyond the repeats by the engine's own error, that of further tokens does not."""
    wide, narrow = (
        answer("--qps", "10", "--scheduler", f"first_token_error={error}")["interval"] for error in (0.5, 0)
    )
    low, high = wide["ttft_p99_s"]
    assert low == pytest.approx(narrow["ttft_p99_s"][0] / 1.5) and high == pytest.approx(narrow["ttft_p99_s"][1] * 1.5)
    assert wide["tpot_p99_s"] == narrow["tpot_p99_s"]


def test_a_trace_too_short_for_a_steady_window_is_counted_whole(tmp_path):
    (tmp_path / "t.csv").write_text("time,prompt,output\n0,10,10\n4,10,10\n")
    ran = run_cli("simulate", "llama-3-8b", "--hw", "h100", "--trace", str(tmp_path / "t.csv"), "--no-interval")
    assert ran.code == 0 and "the trace is too short for a steady window: rates are over the whole run" in ran.out
    assert "4.89 tok/s" in ran.out
