"""`roofline plan`: its rows against the commands it prints, its counts against every count, its refusals."""

from __future__ import annotations

import itertools
import json
import math
import random
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from conftest import run_cli
from hypothesis import given
from hypothesis import strategies as st

from rooflinecli.formulas import scaling
from rooflinecli.questions.plan import training as device_counts
from rooflinecli.questions.plan.question import Plan
from rooflinecli.questions.search.search_request import question
from rooflinecli.questions.search.training import search

RUN = ["llama-3-8b", "--tokens", "100B", "--batch", "512"]


def asked(*args: str, code: int = 0) -> dict[str, Any]:
    ran = run_cli("plan", *args, "--format", "json")
    assert ran.code == code, ran.err
    return ran.json


def answered(command: str) -> dict[str, Any]:
    """What the printed command says, from a fresh question."""
    ran = run_cli(*shlex.split(command)[1:], "--format", "json")
    assert ran.code == 0, ran.err
    return ran.json


@given(st.integers(1, 20_000), st.sampled_from([1, 4, 8]))
def test_counts_rise_by_whole_hosts_to_the_most(most: int, host: int) -> None:
    found = device_counts.ladder(most, host)
    assert found[-1] == most and found == sorted(set(found))
    assert all(n % host == 0 for n in found[:-1] if n > host)
    assert all(b <= a * (1 + 1 / 8) + host for a, b in itertools.pairwise(found) if a >= host)


@given(st.floats(1, 2e5), st.integers(1, 131_072), st.floats(0.5, 1.0))
def test_the_fewest_is_that_of_trying_every_count(work: float, first: int, power: float) -> None:
    ladder = device_counts.ladder(131_072, 8)

    def over(n: int) -> float:
        return work / n**power if n >= 24 else math.inf  # nothing fits on fewer

    every = next((n for n in ladder if over(n) <= 1), None)
    assert device_counts.min_count(ladder, over, first) == every


@pytest.mark.parametrize("splits", [True, False])
def test_a_power_of_two_that_meets_the_deadline_is_not_passed_over(splits: bool) -> None:
    """Counts between powers of two split into fewer layouts, so that all of them up to the next may be too slow: the power below stands."""
    asked = device_counts.target(Plan("llama-3-8b", "h100", tokens="1T", deadline="30d"))
    chip = device_counts.ChipPlan(asked, "h100")
    chip.over_deadline = lambda n: 700 / n * (1 if n & (n - 1) == 0 or splits else 3)  # type: ignore[method-assign]
    counts = device_counts.ladder(131_072, 8)
    assert chip._enough(counts, 30 * 86400.0) == (704 if splits else 1024)


def starved(n: int) -> float:
    """Seconds of a run that recomputes on fewer than 64 devices, and waits for its network on many."""
    return 1000 / n * (1.4 if n < 64 else 1.0) + n / 1e7


@given(st.floats(0.8, 3.0))
def test_the_fastest_within_a_budget_is_that_of_trying_every_count(allowed: float) -> None:
    ladder = device_counts.ladder(4096, 8)

    def over(n: int) -> float:
        return n * starved(n) / 1000 / allowed

    every = min((n for n in ladder if n >= 16 and over(n) <= 1), key=starved, default=None)
    found = device_counts.fastest_within(ladder, over, starved, 16)
    assert (found is None) == (every is None)
    assert found is None or (over(found) <= 1 and starved(found) <= 1.02 * starved(every))


def test_the_cheapest_is_not_the_fewest() -> None:
    """Memory-starved counts recompute: the bill of 16 devices is 1.4 times that of 64."""
    ladder = device_counts.ladder(4096, 8)
    bills = {n: n * starved(n) for n in ladder if n >= 16}
    found = device_counts.cheapest(ladder, lambda n: n * starved(n), starved, 16)
    assert bills[found] <= 1.001 * min(bills.values()) and bills[16] > 1.39 * bills[found]


@pytest.mark.slow
def test_a_budget_is_met_by_more_devices_than_the_fewest() -> None:
    """Llama 3.3 70B, 15T tokens: 16 H100 recompute everything and cost 1.4 times 16 million dollars, some hundred do not."""
    (row,) = asked("llama-3.3-70b", "--tokens", "15T", "--hw", "h100", "--budget", "16 M USD")["rows"]
    assert row["feasible"] and row["devices"] >= 256 and row["cost_at_bound_usd"] <= 16e6
    assert min(count["training_usd"] for count in row["tried"] if count["devices"] == 16) > 16e6


def slowdown(devices: int, params: float, z: float = 0.0) -> float:
    """Daly's slowdown with the failures of five fleets (z standard deviations from their mean), 14 bytes per parameter at 2 TB/s over
    16,384 devices, ten minutes to restart, and 47 planned interruptions for 419 failures."""
    mtbf, save = 37_300 * 3600 * math.exp(0.67 * z) / devices, 14 * params / (devices * 2e12 / 16384)
    ratio = save / (2 * mtbf)
    interval = math.sqrt(2 * save * mtbf) * (1 + math.sqrt(ratio) / 3 + ratio / 9) - save
    slow = mtbf / interval * math.exp(600 / mtbf) * math.expm1((interval + save) / mtbf)
    return slow + 47 / 419 * (save + 600) / mtbf


def goodput(devices: int, params: float) -> float:
    return 1 / slowdown(devices, params)


def at_bound(devices: int, params: float, step: float) -> float:
    """A run `step` times as long at the upper bound, over one without failures: theirs are at their bound too, as independent factors."""
    expected, worse = slowdown(devices, params), slowdown(devices, params, -1.2816)
    return expected * math.exp(math.hypot(math.log(step), math.log(worse / expected)))


@pytest.mark.slow
@pytest.mark.parametrize("hold", ["pessimistic", "expected"])
def test_every_row_is_what_its_command_prints(hold: str) -> None:
    result = asked(*RUN, "--hw", "h100,tpu-v5p,mi300x", "--price", "mi300x=2.5", "--deadline", "4d", "--hold", hold)
    assert [row["rank"] for row in result["rows"]] == [1, 2, 3] and result["unpriced"] == []
    held = [row["cost_at_bound_usd"] for row in result["rows"]]
    assert held == sorted(held)
    for row in result["rows"]:
        found = answered(row["command"])
        train, cost = found["phases"]["train"], found["cost"]
        assert row["run_s"] == train["run_s"] and row["training_usd"] == cost["training_usd"]
        assert (row["time_s"], row["interval_s"], row["mfu"]) == (train["time_s"], train["interval_s"], train["mfu"])
        assert row["devices"] == found["layout"]["devices"]
        params, n = found["model"]["parameters"]["total"], row["devices"]
        longer = (
            at_bound(n, params, train["interval_s"][1] / train["time_s"])
            if hold == "pessimistic"
            else 1 / goodput(n, params)
        )
        worst = train["run_s"] * longer
        lost = goodput(n, params)
        assert row["goodput"] == pytest.approx(lost, rel=1e-12) and 0.9 < lost < 1
        assert row["elapsed_s"] == pytest.approx(row["run_s"] / lost, rel=1e-12)
        assert row["elapsed_usd"] == pytest.approx(row["training_usd"] / lost, rel=1e-12)
        assert row["time_at_bound_s"] == pytest.approx(worst, rel=1e-9) and row["time_at_bound_s"] <= 4 * 86400
        usd = worst / 3600 * row["devices"] * row["usd_per_device_hour"]
        assert row["cost_at_bound_usd"] == pytest.approx(usd, rel=1e-12)
        assert row["device_hours"] == float(scaling.device_hours(row["devices"], train["run_s"]))


@pytest.mark.slow
def test_no_fewer_devices_meet_the_deadline() -> None:
    row = asked(*RUN, "--hw", "h100", "--deadline", "2d")["rows"][0]
    for n in (n for n in device_counts.ladder(4096, 8) if row["devices"] // 2 <= n < row["devices"]):
        options = {"model": RUN[0], "hw": "h100", "tokens": "100B", "batch": "512", "n": str(n)}
        best = search(question(options, "train.interval_s.1", [])).top(1)
        steps = math.ceil(100e9 / (512 * 4096))
        ratio = row["interval_s"][1] / row["time_s"]
        assert not best or best[0].keys[0] * steps * at_bound(n, 8.03e9, ratio) / ratio > 2 * 86400, n


@pytest.mark.slow
def test_a_budget_alone_buys_the_shortest_run_that_it_pays_for() -> None:
    row = asked(*RUN, "--hw", "h100", "--budget", "$30k", "-n", "256")["rows"][0]
    assert row["cost_at_bound_usd"] <= 30_000
    dearer = asked(*RUN, "--hw", "h100", "--budget", "60k", "-n", "256")["rows"][0]
    assert dearer["devices"] >= row["devices"] and dearer["time_at_bound_s"] <= row["time_at_bound_s"]


@pytest.mark.slow
def test_a_deadline_and_a_budget_bind_together() -> None:
    free = asked(*RUN, "--hw", "h100", "--deadline", "4d")["rows"][0]
    enough = free["cost_at_bound_usd"] * 1.01
    assert asked(*RUN, "--hw", "h100", "--deadline", "4d", "--budget", f"{enough:.2f}")["feasible"]
    short = asked(*RUN, "--hw", "h100", "--deadline", "4d", "--budget", f"{enough / 2:.2f}", code=1)
    ratio = re.search(r"costs (\S+) times the budget", short["rows"][0]["infeasible_reason"])
    assert ratio is not None and 1 < float(ratio[1]) <= 1.98  # 2 / 1.01 on the fewest; more devices may cost less


@pytest.mark.slow
def test_a_chip_that_cannot_is_named_and_so_is_one_without_a_price() -> None:
    result = asked(*RUN, "--hw", "t4,gaudi3,h100", "--deadline", "4d", "-n", "64")
    assert [row["chip"] for row in result["rows"]] == ["h100", "gaudi3", "t4"] and result["unpriced"] == ["gaudi3"]
    assert result["rows"][-1]["infeasible_reason"] and result["rows"][1]["training_usd"] is None
    text = run_cli("plan", *RUN, "--hw", "t4,gaudi3,h100", "--deadline", "4d", "-n", "64").out
    assert "no price is known for gaudi3" in text and "T4" in text


@pytest.mark.slow
def test_a_service_is_what_its_command_prints_times_its_instances() -> None:
    args = ["llama-3-8b", "--phase", "decode", "--qps", "60", "--slo", "ttft=400ms,itl=20ms", "--hw", "h100,l40s,a100"]
    result = asked(*args)
    for row in (r for r in result["rows"] if r["feasible"]):
        found = answered(row["command"])
        first, other = found["phases"]["prefill"], found["phases"]["decode"]
        assert row["interval_ttft_s"] == first["interval_s"] and row["interval_itl_s"] == other["interval_s"]
        assert first["interval_s"][1] <= 0.4 and other["interval_s"][1] <= 0.02
        low = other["tokens_per_s_interval"][0] / found["workload"]["output"]
        assert row["instances"] * low >= 60
        fewer = int(row["instances"] * 0.99) - 1  # the rate that an instance holds is found to half a percent
        words = shlex.split(row["command"])[1:-1]
        assert words.pop() == "--concurrency"
        loaded = run_cli(*words, "--qps", repr(60 / max(fewer, 1)), "--format", "json").json["phases"]
        late = loaded["prefill"]["interval_s"][1] > 0.4 or loaded["decode"]["interval_s"][1] > 0.02
        assert fewer < 1 or fewer * low < 60 or late
        assert row["devices"] == row["instances"] * found["layout"]["devices"]
        assert row["usd_per_million_output_tokens"] == found["cost"]["usd_per_million_output_tokens"]
        assert row["total_batch"] == row["instances"] * row["layout"]["dp"] * found["phases"]["decode"]["batch"]
    assert result["rows"][0]["feasible"]


_QUESTIONS = random.Random(2910)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "chip", "prompt", "output", "qps", "ttft", "itl", "bound"),
    [
        (
            _QUESTIONS.choice(["llama-3-8b", "mistral-7b-v0.1", "olmoe-1b-7b", "qwen3-32b", "llama-3.3-70b"]),
            _QUESTIONS.choice(["h100", "mi300x", "l40s", "a100", "b200", "tpu-v6e"]),
            _QUESTIONS.choice([128, 512, 2048]),
            _QUESTIONS.choice([16, 128, 512]),
            _QUESTIONS.choice([0.5, 2, 7, 23, 90]),
            _QUESTIONS.choice([0.5, 1, 4]),
            _QUESTIONS.choice([0.02, 0.05, 0.2]),
            _QUESTIONS.choice(["pessimistic", "expected"]),
        )
        for _ in range(5)
    ],
)
def test_a_service_takes_as_many_devices_as_search_and_fleet_find(
    tmp_path: Path, model: str, chip: str, prompt: int, output: int, qps: float, ttft: float, itl: float, bound: str
) -> None:
    """plan, search and fleet count instances by one rate and hold limits at one bound."""
    load = ["--prompt", str(prompt), "--output", str(output), "--hw", chip, "--bound", bound]
    slo = f"ttft={ttft}s,itl={itl}s"
    words = [model, "--phase", "decode", "--qps", str(qps), "--slo", slo, *load]
    plan = run_cli("plan", *words, "--format", "json").json
    found = run_cli("search", *words, "--objective", "devices", "--format", "json").json
    assert plan["feasible"] == found["feasible"]
    if not plan["feasible"]:
        return
    row = plan["rows"][0]
    assert row["devices"] == found["results"][0]["serve"]["devices"]
    file = tmp_path / "fleet.yaml"
    file.write_text(
        f"fleet: {{{chip}: {{devices: {row['devices']}}}}}\n"
        f"models: {{{model}: {{qps: {qps}, slo: '{slo}', prompt: {prompt}, output: {output}}}}}\n"
    )
    ran = run_cli("fleet", str(file), "--bound", bound, "--objective", "devices", "--format", "json")
    assert ran.json["feasible"] and ran.json["devices"] == row["devices"], ran.out


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--hw", "h100"], "--deadline 30d"),
        (["--hw", "h100", "--deadline", "soon"], "--deadline soon"),
        (["--hw", "h100", "--deadline", "-3d"], "above zero"),
        (["--hw", "h100", "--deadline", "4d", "--budget", "lots"], "--budget lots"),
        (["--hw", "h100", "--deadline", "4d", "--price", "b200=2"], "not among"),
        (["--hw", "h100", "--deadline", "4d", "--price", "h100=free"], "--price h100=free"),
        (["--hw", "h100", "--deadline", "4d", "--qps", "4"], "leave one of them out"),
        (["--hw", "mi250x", "--budget", "1 M USD"], "no price is known for mi250x"),
        (["--hw", "h100", "--deadline", "4d", "--price", "h100="], "no price after the ="),
        (["--hw", "8xh100", "--deadline", "4d"], "plan chooses the device count"),
        (["--hw", "h100,nosuch", "--deadline", "4d"], "nosuch"),
        (["--hw", "h100", "--phase", "decode", "--qps", "4", "--slo", "e2e=3s"], "here are ttft and itl"),
    ],
)
def test_what_is_wrong_is_one_sentence(args: list[str], says: str) -> None:
    tokens = [] if "decode" in args else ["--tokens", "100B"]
    ran = run_cli("plan", "llama-3-8b", *tokens, *args)
    assert ran.code == 2 and says in ran.err and ran.err.count("\n") == 1 and not ran.out


@pytest.mark.slow
def test_the_device_hours_of_llama_405b_are_those_that_meta_reports() -> None:
    """30.84 M hours on H100, some 15.6T tokens (Llama 3.1 405B model card, huggingface.co/meta-llama/Llama-3.1-405B); the interval is of 80%."""
    args = [
        "llama-3.1-405b",
        "--tokens",
        "15.6T",
        "--batch",
        "2048",
        "--seq",
        "8k",
        "--hw",
        "h100",
        "--deadline",
        "110d",
        "-n",
        "16384",
    ]
    row = asked(*args)["rows"][0]
    low, high = row["device_hours_interval"]
    assert low <= 30.84e6 <= high and row["device_hours"] == pytest.approx(30.84e6, rel=0.2)


@pytest.mark.slow
@pytest.mark.slow
@pytest.mark.parametrize(
    "asked", [{"tokens": 1e9, "batch": 64, "deadline": 86400.0}, {"qps": 5.0, "phase": "decode", "slo": "itl=40ms"}]
)
def test_layouts_are_counted_while_a_chip_is_planned(asked: dict[str, Any]) -> None:
    heard = list[tuple[int, int]]()
    plan = Plan("llama-3-8b", hw="h100,h200", **asked).answer(lambda layouts, chips: heard.append((layouts, chips)))
    assert sum(layouts for layouts, _ in heard) == plan.layouts > 0
    assert [chips for _, chips in heard] == sorted(chips for _, chips in heard) and heard[-1][1] == 2
    assert "qps" in asked or heard[0][0] > 0 == heard[0][1]


def test_python_asks_the_same() -> None:
    from rooflinecli.interfaces.python import api

    args = {"tokens": "100B", "batch": 512, "deadline": "4d", "price": "h100=2.5"}
    assert api.plan("llama-3-8b", ["h100"], **args) == asked(
        *RUN, "--hw", "h100", "--deadline", "4d", "--price", "h100=2.5"
    )  # type: ignore[arg-type]


@pytest.mark.slow
def test_formats_and_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    args = ["plan", *RUN, "--hw", "h100,tpu-v5p", "--deadline", "4d"]
    first, text = run_cli(*args).out, run_cli(*args, "--details").out
    assert all(len(line) <= 80 for line in f"{first}\n{text}".splitlines()) and len(first.splitlines()) <= 24
    assert first.count("roofline estimate") == 1 and text.count("roofline estimate") == 2
    rows = run_cli(*args, "--format", "csv").out.splitlines()
    assert rows[0].startswith("rank,chip,feasible,hardware") and len(rows) == 3
    assert run_cli(*args, "--format", "markdown").out.count("|") > 20
    assert json.loads(run_cli(*args, "--format", "json").out)["schema"] == "roofline/plan/2"


@pytest.mark.slow
@pytest.mark.parametrize(
    "asked",
    [("--tokens", "15T", "--deadline", "60d", "--dtype", "fp8"), ("--qps", "20", "--slo", "ttft=2s,itl=50ms", "--prompt", "2048", "--output", "256")],
    ids=("training", "service"),
)  # fmt: skip
def test_four_chips_fit_a_screen(monkeypatch: pytest.MonkeyPatch, asked: tuple[str, ...]) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = run_cli("plan", "llama-3.3-70b", "--hw", "h100,b200,mi300x,tpu-v5p", *asked).out
    assert len(text.splitlines()) <= 24 and ("at the fp8 peak" in text) == ("fp8" in asked)


def test_why_nothing_keeps_to_a_limit_is_said_in_words_and_units():
    """No first token comes within a microsecond; one device is no devices."""
    serving = ("plan", "llama-3-8b", "--hw", "h100", "--phase", "decode")
    text = " ".join(run_cli(*serving, "--qps", "5", "--slo", "ttft=1ms").out.split())
    assert re.search(r"misses it: TTFT is \d+\.?\d* ms, required <= 1\.000 ms", text), text
    text = " ".join(run_cli(*serving, "--qps", "500", "--slo", "itl=100ms", "-n", "1").out.split())
    assert re.search(r"the rate takes \d+ devices, and -n allows 1", text), text
    text = " ".join(run_cli("plan", *RUN, "--hw", "t4", "--deadline", "4d", "-n", "1").out.split())
    assert "1 devices" not in text and "up to 1 device" in text, text


@pytest.mark.slow
def test_a_neighboring_count_that_is_cheaper_and_faster_is_named():
    ran = run_cli("plan", "llama-3-8b", "--tokens", "1T", "--hw", "h100", "--deadline", "30d")
    text = " ".join(ran.out.split())
    beaten = re.search(
        r"64 x H100 SXM5 80GB: cheaper and faster \(\$([\d,]+), .*?, against \$([\d,]+), .*? of 56, all at the pess",
        text,
    )
    assert beaten is not None and int(beaten[1].replace(",", "")) < int(beaten[2].replace(",", ""))
    assert "the answer is the fewest devices" in text and "global batch: 1,024 sequences" in text


@pytest.mark.slow
def test_a_budget_that_the_expected_cost_meets_says_so():
    asked = ["plan", "llama-3-8b", "--tokens", "1T", "--hw", "h100", "--budget", "100000 USD", "-n", "8"]
    ran = run_cli(*asked)
    said = " ".join(ran.out.split())
    assert ran.code == 1 and "--bound expected, by which it is within the budget" in said
    head = re.search(r"the cheapest costs \$([\d,]+) on 8 x H100 SXM5 80GB, \$([\d,]+) at the pessimistic bound", said)
    expected, bound = (int(usd.replace(",", "")) for usd in head.groups())
    assert (
        expected < 100_000 < bound
    )  # 1e12 x 6 x 8.03e9 FLOP at an MFU of 47 % of 989.4 TFLOP/s, 3 USD/h: 86,200 without failures
    assert expected == pytest.approx(1e12 * 6 * 8.03e9 / (0.471 * 989.4e12) / 3600 * 3, rel=0.02)
    assert run_cli(*asked, "--bound", "expected").code == 0


@pytest.mark.slow
def test_heads_of_a_service_say_which_rate_the_dollars_are_at():
    ran = run_cli("plan", "llama-3-8b", "--hw", "h100", "--slo", "ttft=2s,itl=50ms", "--qps", "2")
    assert "$/M output at max" in ran.out and "max req/s" in ran.out
    assert "/M input and output tokens at 2 req/s" in " ".join(ran.out.split())


@pytest.mark.parametrize(
    ("bound", "itl_ms", "place"),
    [("expected", 40, 0), pytest.param("pessimistic", 30, 1, marks=pytest.mark.slow), pytest.param("expected", 30, 0, marks=pytest.mark.slow)],
)  # fmt: skip
def test_a_plan_holds_its_slo_while_requests_arrive_at_random(tmp_path, bound, itl_ms, place):
    """An open loop waits longer than as many clients do: the devices of a plan meet the limit under `estimate --qps`, fewer do not; a
    search and a fleet take as many."""
    load = [
        "llama-3.3-70b",
        "--hw",
        "h100",
        "--prompt",
        "2k",
        "--output",
        "512",
        "--engine",
        "vllm",
        "--tp",
        "4",
        "--qps",
        "20",
    ]
    slo = ["--slo", f"ttft=2s,itl={itl_ms}ms", "--bound", bound, "--format", "json"]
    (row,) = run_cli("plan", *load, *slo).json["rows"]
    devices = row["devices"]

    def itl(n: int) -> float:
        found = run_cli("estimate", *load, "-n", f"{n}", "--dp", f"{n // 4}", "--bound", bound, "--format", "json").json
        decode = found["phases"]["decode"]
        return 1e3 * (decode["interval_s"][1] if place else decode["time_s"]) if found["feasible"] else float("inf")

    assert itl(devices) <= itl_ms < itl(devices - 4)
    (found, *_) = run_cli("search", *load, *slo, "--phase", "decode").json["results"]
    assert found["serve"]["devices"] == devices
    file = tmp_path / "fleet.yaml"
    service = f"llama-3.3-70b: {{qps: 20, prompt: 2k, output: 512, engine: vllm, tp: 4, slo: 'ttft=2s,itl={itl_ms}ms'}}"
    file.write_text(f"fleet:\n  h100: {{devices: 64}}\nbound: {bound}\nmodels:\n  {service}\n")
    assert sum(placed["devices"] for placed in run_cli("fleet", str(file), "--format", "json").json["rows"]) == devices


def test_latencies_of_a_plan_are_those_of_an_estimate_under_the_rate():
    load = ["llama-3-8b", "--hw", "a100", "--prompt", "1500", "--output", "100", "--qps"]
    (row,) = run_cli("plan", *load, "20", "--slo", "ttft=2s,itl=30ms", "--format", "json").json["rows"]
    assert row["instances"] > 1 and row["devices"] == row["instances"] * row["layout"]["devices"]
    one = ["-n", str(row["layout"]["devices"]), "--tp", str(row["layout"]["tp"])]
    phases = run_cli("estimate", *load, f"{20 / row['instances']!r}", *one, "--format", "json").json["phases"]
    assert row["ttft_at_qps_s"] == pytest.approx(phases["prefill"]["time_s"], rel=1e-9)
    assert row["itl_at_qps_s"] == pytest.approx(phases["decode"]["time_s"], rel=1e-9)
    assert row["ttft_at_qps_s"] < row["ttft_s"] and row["itl_at_qps_s"] < row["itl_s"]  # those at capacity


@pytest.mark.slow
def test_plan_search_fleet_and_estimate_price_the_tokens_of_a_rate_alike(tmp_path):
    """Dollars an hour over the tokens that 2 requests/s bring in it, whatever the instances could carry."""
    load = ["llama-3-8b", "--prompt", "1500", "--output", "100", "--qps", "2"]
    priced = ["--hw", "h100", "--phase", "decode", "--slo", "ttft=2s,itl=30ms", "--price", "2.5", "--format", "json"]
    (planned,) = run_cli("plan", *load, *priced).json["rows"]
    found = run_cli("search", *load, *priced).json["results"][0]["serve"]
    file = tmp_path / "fleet.yaml"
    service = "llama-3-8b: {qps: 2, prompt: 1500, output: 100, slo: 'ttft=2s,itl=30ms'}"
    file.write_text(f"fleet:\n  h100: {{devices: 8, price: 2.5}}\nmodels:\n  {service}\n")
    (placed,) = run_cli("fleet", str(file), "--format", "json").json["rows"]
    by_hand = planned["devices"] * 2.5 / (2 * 1600 * 3600) * 1e6
    for row in (planned, found, placed):
        assert row["devices"] == planned["devices"]
        assert row["usd_per_million_tokens_at_qps"] == pytest.approx(by_hand)
    estimated = run_cli(
        "estimate",
        *load,
        "--phase",
        "prefill,decode",
        "--hw",
        "h100",
        "--price",
        "2.5",
        "-n",
        str(planned["devices"]),
        "--format",
        "json",
    )
    assert estimated.json["cost"]["usd_per_million_tokens"] == pytest.approx(by_hand)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("verb", ["estimate", "search", "plan", "sweep"])
def test_a_price_that_is_not_of_the_region_is_noted(verb):
    asked = [verb, "llama-3-8b", "--hw", "h100", "--phase", "decode", "-n", "1", "--batch", "4", "--region"]
    asked[6:6] = ["--qps", "1", "--slo", "itl=1s"] if verb == "plan" else []
    noted = [
        line for line in run_cli(*asked, "europe-west4").err.splitlines() if "not for --region europe-west4" in line
    ]
    assert noted == [
        "roofline: note: the price of H100 SXM5 80GB is stated without a region, not for --region europe-west4; --price USD gives the region's own"
    ]
    assert "region" not in run_cli(*asked, "europe-west4", "--price", "2").err


def test_figures_of_a_system_are_said_to_be_per_device():
    assert "DGX H100 (8 GPUs): per device, 989 TFLOP/s" in run_cli("hardware", "dgx-h100").out
    assert "per device," not in run_cli("hardware", "h100").out.splitlines()[0]


def test_a_budget_below_the_flops_at_peak_is_refused_at_once_in_plain_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    """6 x 8.03e9 parameters x 100e9 tokens, and attention, at 989 TFLOP/s and the price of the file; no layout is searched."""
    monkeypatch.setattr(device_counts, "fastest_layout", None)
    row = asked(*RUN, "--hw", "h100", "--price", "2.5", "--deadline", "4d", "--budget", "5 USD", code=1)["rows"][0]
    ratio = re.search(r"costs over ([\d,]+) times the budget on any device count", row["infeasible_reason"])
    least = 6 * 7.5e9 * 100e9 / 989.4e12 / 3600 * 2.5 / 5
    assert ratio is not None and least < float(ratio[1].replace(",", "")) < 1.3 * least and not row["tried"]


def test_a_layout_that_the_framework_named_has_no_flag_for_is_said_where_it_is_best() -> None:
    """Megatron's launches have no flag for a shard group: what `--emit megatron` refuses of the command printed."""
    sizes = "--tp 1 --pp 1 --cp 1 --zero 3 --recompute none --micro-batch-size 1".split()
    ask = [
        "search",
        "qwen3-14b",
        "--hw",
        "h200",
        "-n",
        "32",
        "--phase",
        "train",
        "--batch",
        "512",
        "--seq-len",
        "8k",
        *sizes,
    ]
    text = " ".join(run_cli(*ask, "--framework", "megatron").out.replace("\\\n", " ").split())
    command = re.search(r"best: roofline (estimate .*?--recompute none)", text)
    assert command is not None and "--dp-shard 16: Megatron Core 0.20 has no flag for it in this layout" in text, text
    refused = run_cli(*command[1].split(), "--emit", "megatron")
    assert refused.code == 1 and "--dp-shard 16: Megatron Core 0.20 has no flag for it in this layout" in " ".join(
        refused.err.split()
    )
    assert "has no flag" not in " ".join(run_cli(*ask, "--framework", "megatron", "--dp-shard", "32").out.split())
    assert "has no flag" not in " ".join(run_cli(*ask).out.split())


def test_what_an_estimate_warns_of_is_said_of_the_best_row_of_a_search_a_plan_and_a_comparison() -> None:
    """An MFU above every published run; the command printed names listed options, of which none changes nothing."""
    load = "--batch 512 --seq-len 8k --framework megatron".split()
    sizes = "--tp 1 --pp 1 --cp 1 --zero 3 --recompute none --micro-batch-size 1".split()
    for ran in (
        run_cli("search", "qwen3-14b", "--hw", "h200", "-n", "32", "--phase", "train", *load, *sizes),
        run_cli("plan", "qwen3-14b", "--hw", "h200", "-n", "8", "--tokens", "30B", "--deadline", "12d", *load, *sizes),
        run_cli("compare", "qwen3-14b", "--hw", "h200,a100", "-n", "32", "--phase", "train", *load, *sizes),
    ):
        text = " ".join(ran.out.replace("\\\n", " ").split())
        assert "is above every published run known here" in text, text
        command = re.search(r"best: roofline (estimate .*?--recompute none)", text)
        if command is not None:
            assert "--micro-batch-size 1" in command[1] and "sequence-parallel" not in command[1]
            assert "changes nothing" not in run_cli(*command[1].split()).err


@pytest.mark.slow
@pytest.mark.parametrize(
    "asked",
    [
        "llama-3.1-8b --qps 10 --slo ttft=50ms,itl=5ms --prompt 2048 --output 256",
        "llama-3.1-8b --qps 200 --slo ttft=2s --prompt 2048 --output 256 --deadline 30d --budget 5000USD",
        "llama-3-8b --tokens 1T --deadline 2d -n 64",
        "llama-3-8b --tokens 1T --budget 100000USD",
        # no more than 64 devices make progress between preemptions, and those need longer
        "llama-3-8b --tokens 1T --deadline 30d --price spot --preempted 12h",
    ],
)
def test_what_is_to_be_tried_is_met(asked: str) -> None:
    ran = run_cli("plan", *asked.split(), "--hw", "h100")
    tries = re.search(r"(?:try|meets) (--\w+) ('[\w. ]+'|[\w.=,]+\w)", " ".join(ran.out.split()))
    assert ran.code == 1 and tries is not None, ran.out
    words = asked.split()
    words[words.index(tries[1]) + 1] = tries[2].strip("'")
    assert run_cli("plan", *words, "--hw", "h100").code == 0
    assert "preempted" not in asked or "limited by failures and preemptions" in " ".join(ran.out.split())


@pytest.mark.slow
def test_a_deadline_that_nothing_meets_is_answered_with_the_fastest_run():
    """The first line has the time that the remedy asks for, which is met when it is followed."""
    asked = ("plan", "llama-3-8b", "--tokens", "1T", "--hw", "h100", "-n", "16", "--deadline")
    said = " ".join(run_cli(*asked, "10d").out.split())
    head = re.search(
        r"infeasible, the fastest takes ([\d.]+) days on 16 x H100 SXM5 80GB at the pessimistic bound", said
    )
    remedy = re.search(r"try --deadline ([\d.]+d)", said)
    assert head and remedy and run_cli(*asked, remedy[1]).code == 0
