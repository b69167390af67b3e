"""Sequences that an engine runs at once (vLLM's --max-num-seqs and its like): the rest of a load queues, in an estimate as in a simulation."""

from __future__ import annotations

import re
from typing import Any

import pytest

from rooflinecli.core.errors import UsageError
from rooflinecli.formulas.closed_loop import all_slots_taken, queued_ttft, wait_for_slot
from rooflinecli.importers.launch import read
from rooflinecli.interfaces import verbs

LLAMA = {"model": "llama-3.1-8b", "hw": "h100", "n": 1, "prompt": 1000, "output": 200}


def ask(verb: str, options: dict[str, Any]) -> Any:
    return verbs.answer(verbs.question(verb).read(options))


def both(load: dict[str, Any], **simulated: Any) -> tuple[dict[str, float], dict[str, float]]:
    """(TTFT, ITL, tokens per second) of an estimate and of a simulation."""
    phases = ask("estimate", {**LLAMA, **load, "phase": "prefill,decode"})["phases"]
    run = ask("simulate", {**LLAMA, **load, "interval": False, **simulated})["simulate"]
    assert run["decode_batch_max"] <= load["max_num_seqs"] and phases["decode"]["batch"] <= load["max_num_seqs"]
    names = {
        "ttft_mean_s": ("prefill", "time_s"),
        "tpot_mean_s": ("decode", "time_s"),
        "output_tokens_per_s": ("decode", "tokens_per_s"),
    }
    return {name: phases[phase][key] for name, (phase, key) in names.items()}, {name: run[name] for name in names}


@pytest.mark.parametrize(
    "load",
    [
        {"engine": "vllm", "max_num_seqs": 32, "concurrency": 64},
        {"engine": "sglang", "max_num_seqs": 8, "concurrency": 12},
        {"engine": "trtllm", "max_num_seqs": 1, "concurrency": 4},
        {"engine": "vllm", "max_num_seqs": 4, "concurrency": 64, "fixed_lengths": True},  # counted step by step
        {"engine": "vllm", "max_num_seqs": 8, "concurrency": 24, "output": 12},
    ],
    ids=str,
)
def test_clients_beyond_the_limit_wait_for_one_to_end(load: dict[str, Any]) -> None:
    estimated, simulated = both(load)
    assert estimated == pytest.approx(simulated, rel=0.1)
    free = ask("estimate", {**LLAMA, **load, "max_num_seqs": None, "phase": "prefill,decode"})["phases"]
    assert estimated["ttft_mean_s"] > free["prefill"]["time_s"] and estimated["tpot_mean_s"] < free["decode"]["time_s"]


def test_a_limit_that_no_one_meets_changes_nothing() -> None:
    one, other = (ask("estimate", {**LLAMA, "concurrency": 16, "max_num_seqs": most})["phases"] for most in (16, None))
    assert one["prefill"] == other["prefill"] and one["decode"]["tokens_per_s"] == other["decode"]["tokens_per_s"]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("most", "qps"), [(1, 0.4), (4, 2.0), (16, 4.0)])
def test_arrivals_wait_for_a_slot(most: int, qps: float) -> None:
    estimated, simulated = both({"engine": "vllm", "max_num_seqs": most, "qps": qps}, num_requests=4000)
    rates = {"output_tokens_per_s": qps * 200}
    assert estimated | rates == pytest.approx(simulated | rates, rel=0.12)


def test_a_rate_beyond_what_full_slots_answer_is_not_sustained(cli: Any) -> None:
    """Memory lacks nothing, and the answer does not say so; a simulation completes as many as full slots answer."""
    overloaded = {**LLAMA, "engine": "vllm", "max_num_seqs": 4, "qps": 3}
    estimated = ask("estimate", overloaded)
    assert not estimated["feasible"]
    (message,) = {violation["message"] for violation in estimated["violations"]}
    found = re.search(
        r"--max-num-seqs 4 answers (2\.\d+) requests/s; use -n 2 --dp 2, a larger --max-num-seqs or", message
    )
    assert found is not None and ask("estimate", {**overloaded, "n": 2, "dp": 2})["feasible"]
    ran = ask("simulate", {**overloaded, "interval": False})
    assert not ran["sustained"] and ran["simulate"]["requests_per_s"] == pytest.approx(float(found[1]), rel=0.03)
    words = [part for name, value in overloaded.items() if name != "model" for part in (f"-{name}" if name == "n" else f"--{name.replace('_', '-')}", str(value))]  # fmt: skip
    screen = " ".join(cli("estimate", LLAMA["model"], *words).out.split())
    assert (
        "Serving on 1 device does not sustain the request rate." in screen
        and "(all that --max-num-seqs 4 lets in)" in screen
    )
    assert "does not fit" not in screen and "memory holds" not in screen


@pytest.mark.parametrize(
    "load",
    [
        {"qps": 80},
        {"qps": 200, "n": None, "tp": 2, "pp": 1, "max_num_seqs": 256},
        {"qps": 30},
        {"qps": 70, "output": 1},
        {"qps": 40, "max_num_seqs": 3, "output": 16, "engine": "sglang"},
        {"model": "mixtral-8x7b", "n": 2, "tp": 2, "qps": 40},
    ],
    ids=str,
)
def test_the_replicas_that_a_refusal_names_sustain_the_rate_and_one_fewer_do_not(load: dict[str, Any]) -> None:
    asked = {**LLAMA, "engine": "vllm", "dp": 1, **load}
    refused = ask("estimate", asked)["violations"][0]["message"]
    named = re.search(r"use (?:-n (\d+) )?--dp (\d+)", refused)
    assert named is not None and (named[1] is None) == (asked["n"] is None)
    for replicas, feasible in ((int(named[2]), True), (int(named[2]) - 1, False)):
        devices = {"n": asked["n"] and replicas * int(asked["n"]), "dp": replicas}
        assert ask("estimate", {**asked, **devices})["feasible"] == feasible


def test_a_sweep_over_clients_is_as_many_estimates(cli: Any) -> None:
    words = (
        "llama-3.1-8b",
        "--hw",
        "h100",
        "-n",
        "1",
        "--tp",
        "1",
        "--prompt",
        "1000",
        "--output",
        "200",
        "--max-num-seqs",
        "8",
        "--concurrency",
        "4,8,32",
    )
    points = cli("sweep", *words, "--columns", "prefill.time_s,decode.tokens_per_s", "--format", "json").json["points"]
    for users, point in zip((4, 8, 32), points, strict=True):
        phases = ask("estimate", {**LLAMA, "max_num_seqs": 8, "concurrency": users})["phases"]
        assert point["prefill.time_s"] == pytest.approx(phases["prefill"]["time_s"], rel=1e-9)
        assert point["decode.tokens_per_s"] == pytest.approx(phases["decode"]["tokens_per_s"], rel=1e-9)


def test_a_batch_beyond_the_limit_is_refused_and_none_is_the_limit() -> None:
    with pytest.raises(UsageError, match="--max-num-seqs 8 runs fewer; give --concurrency 16"):
        ask("estimate", {**LLAMA, "batch": 16, "max_num_seqs": 8})
    assert ask("estimate", {**LLAMA, "max_num_seqs": 8})["phases"]["decode"]["batch"] == 8


@pytest.mark.parametrize(
    "command",
    [
        "vllm serve meta-llama/Llama-3.1-8B --max-num-seqs 32",
        "python -m sglang.launch_server --model-path meta-llama/Llama-3.1-8B --max-running-requests 32",
        "trtllm-serve meta-llama/Llama-3.1-8B --max_batch_size 32",
        "lmdeploy serve api_server meta-llama/Llama-3.1-8B --max-batch-size 32",
        "llama-server -m Llama-3.1-8B-Q4_K_M.gguf --parallel 32",
    ],
)
def test_the_limit_of_a_launch_holds_under_a_load(command: str) -> None:
    for load in ({"concurrency": 64}, {"qps": 1.0}):
        found = read.options(command, {**load, "model": "llama-3.1-8b"}, lambda remark: None)
        assert int(found["max-num-seqs"]) == 32 and "batch" not in found
    assert int(read.options(command, {"model": "llama-3.1-8b"}, lambda remark: None)["batch"]) == 32
    given = read.options(command, {"model": "llama-3.1-8b", "max-num-seqs": 16, "qps": 1.0}, lambda remark: None)
    assert given["max-num-seqs"] == 16 and "batch" not in given


@pytest.mark.parametrize(
    ("tool", "flag"),
    [
        ("vllm", "--max-num-seqs 8"),
        ("sglang", "--max-running-requests 8"),
        ("trtllm", "--max_batch_size 8"),
        ("llama.cpp", "--parallel 8"),
    ],
)
def test_a_launch_is_written_with_the_limit_and_read_again(cli: Any, tmp_path: Any, tool: str, flag: str) -> None:
    asked = (
        "llama-3.1-8b",
        "--hw",
        "h100",
        "--concurrency",
        "12",
        "--max-num-seqs",
        "8",
        "--prompt",
        "1000",
        "--output",
        "200",
        "--engine",
        "vllm",
    )
    file = tmp_path / "launch.sh"
    assert cli("estimate", *asked, "--emit", tool, "--out", str(file)).code == 0
    assert flag in file.read_text() and "not part of this launch" not in file.read_text()
    one, other = (
        cli("estimate", *words, "--format", "json").json for words in (asked, ("--from", str(file), "--engine", "vllm"))
    )
    assert one["phases"]["prefill"]["time_s"] == other["phases"]["prefill"]["time_s"]


def test_as_many_as_memory_holds_is_that_number() -> None:
    options = {**LLAMA, "hw": "l40s", "prompt": 3000, "phase": "prefill,decode"}
    most = ask("estimate", {**options, "concurrency": "max"})
    given = ask("estimate", {**options, "concurrency": most["phases"]["decode"]["max_batch"]})
    assert most["phases"] == given["phases"] and most.get("notes") == given.get("notes")


@pytest.mark.parametrize(
    ("lengths", "found"),
    [
        ({"prompt": 3000, "output": 200}, "admits no request of --prompt 3000 and --output 200"),
        ({"prompt": 1024}, "admits no request of --prompt 1024"),
        ({"prompt": 900}, {"output": 124}),
        ({"output": 700}, {"prompt": 324}),
        ({"prompt": "512", "output": 512}, {}),
    ],
    ids=str,
)
def test_a_request_longer_than_its_server_admits_is_refused(lengths: dict[str, Any], found: Any) -> None:
    command = "vllm serve meta-llama/Llama-3.1-8B --max-model-len 1024"
    if isinstance(found, str):
        with pytest.raises(UsageError, match=f"--max-model-len 1024 {found}"):
            read.options(command, lengths, lambda remark: None)
    else:
        options = read.options(command, lengths, lambda remark: None)
        assert {name: int(options[name]) for name in found} == found


def test_one_slot_is_one_server() -> None:
    """Pollaczek and Khinchine: u t (1 + c^2) / 2 (1 - u); and Little: two requests for each that runs wait for one."""
    assert all_slots_taken(0.05, 1.0, 4.0, 10.0) == pytest.approx(0.5)
    assert wait_for_slot(0.5, 1.0, 10.0, 0.5, 0.0) == pytest.approx(0.5 * 10 / (2 * 0.5))
    assert queued_ttft(2.0, 1.0, 9.0, float("inf"), 1.5) == pytest.approx(11.0)


SMALL_CACHE: dict[str, Any] = {**LLAMA, "engine": "vllm", "n": 1, "tp": 1, "prompt": 8192, "output": 16}


def test_more_clients_than_the_cache_holds_queue() -> None:
    """An engine starts as many as its cache has room for: as many as with that limit of its own, and in both verbs the answer says so."""
    crowded = ask("estimate", {**SMALL_CACHE, "concurrency": 80, "phase": "prefill,decode"})
    decode = crowded["phases"]["decode"]
    assert crowded["feasible"] and decode["batch"] == decode["max_batch"] < 80
    limited = ask("estimate", {**SMALL_CACHE, "concurrency": 80, "max_num_seqs": decode["max_batch"], "phase": "prefill,decode"})  # fmt: skip
    for phase in ("prefill", "decode"):
        assert crowded["phases"][phase]["time_s"] == pytest.approx(limited["phases"][phase]["time_s"], rel=0.005)
    assert decode["tokens_per_s"] == pytest.approx(limited["phases"]["decode"]["tokens_per_s"], rel=0.005)
    assert any(f"holds {decode['max_batch']:.0f} of the 80 requests in flight" in note for note in crowded["notes"])
    run = ask("simulate", {**SMALL_CACHE, "concurrency": 80, "num_requests": 160, "interval": False})
    assert any("of the 80 requests in flight" in note for note in run["notes"])
    assert run["simulate"]["output_tokens_per_s"] == pytest.approx(decode["tokens_per_s"], rel=0.1)


LONG_ANSWERS: dict[str, Any] = {"model": "llama-3-8b", "hw": "a100-40gb", "n": 1, "prompt": 256, "output": 1024, "phase": "prefill,decode"}  # fmt: skip


@pytest.mark.parametrize(("engine", "held"), [("vllm", 768), ("sglang", 1024), ("trtllm", 1280), ("llamacpp", 1280)])
def test_pages_hold_what_is_cached_and_set_aside(engine: str, held: int) -> None:
    """Of 256 + 1,024 tokens at random places: half of the answer; with a share of the rest set aside; all of it in slots of full length."""
    options = {**LONG_ANSWERS, "engine": engine}
    most = ask("estimate", {**options, "concurrency": "max"})["phases"]["decode"]
    whole = ask("estimate", {**options, "batch": 1})["phases"]["decode"]["max_batch"]
    assert whole <= most["max_batch"] and most["max_batch"] == pytest.approx(whole * 1280 / held, rel=0.02)
    assert ask("estimate", {**options, "prompt": 400_000, "concurrency": "max"})["phases"]["decode"]["max_batch"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("lengths", [(256, 1024), (1024, 1024), (4096, 512)], ids=str)
@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm", "lmdeploy", "python-server"])
def test_a_full_cache_of_pages_makes_what_its_simulation_makes(engine: str, lengths: tuple[int, int]) -> None:
    """Three times as many clients as fit: requests that are evicted are computed again, and wait."""
    options = {**LONG_ANSWERS, "prompt": lengths[0], "output": lengths[1], "engine": engine}
    clients = 3 * int(ask("estimate", {**options, "concurrency": "max"})["phases"]["decode"]["max_batch"])
    options["concurrency"] = min(clients, 600)
    phases = ask("estimate", options)["phases"]
    run = ask("simulate", {k: v for k, v in options.items() if k != "phase"} | {"interval": False})["simulate"]
    assert phases["decode"]["tokens_per_s"] == pytest.approx(run["output_tokens_per_s"], rel=0.1)
    assert phases["decode"]["time_s"] == pytest.approx(run["itl_mean_s"], rel=0.12)
    assert phases["prefill"]["time_s"] == pytest.approx(run["ttft_mean_s"], rel=0.12)


def test_devices_that_are_not_given_hold_all_clients_and_a_search_has_rows_that_do() -> None:
    """Only devices that are given make clients queue for the cache."""
    free = {**SMALL_CACHE, "n": None, "tp": None, "concurrency": 80, "phase": "decode"}
    assert ask("estimate", free)["phases"]["decode"]["batch"] == 80
    found = ask("search", {**SMALL_CACHE, "batch": 80, "n": 1, "tp": None, "phase": "decode"})
    assert not found["results"] and "the cache holds" in found["nearest_miss"]["shortfall"]


def test_what_arrives_in_an_open_loop_ends() -> None:
    """Tokens per second are those asked for, also of answers of one token, so that tokens sell for what the server costs."""
    for output in (1, 40):
        asked = {**LLAMA, "engine": "vllm", "n": 1, "tp": 1, "prompt": 700, "output": output, "qps": 3, "price": "2"}
        answer = ask("estimate", {**asked, "max_num_seqs": 16, "phase": "prefill,decode"})
        assert answer["phases"]["decode"]["tokens_per_s"] == pytest.approx(3 * output)
        sold = answer["cost"]["usd_per_million_input_tokens"] * 700 + answer["cost"]["usd_per_million_output_tokens"] * output  # fmt: skip
        assert sold / 1e6 == pytest.approx(2 / 3600 / 3)


def test_a_search_under_the_limit_prints_the_rate_that_an_estimate_answers() -> None:
    """Pools of prefill and decode have batches up to the limit too: one of 376 sequences was refused."""
    found = ask("search", {**LLAMA, "engine": "vllm", "n": 2, "max_num_seqs": 4, "qps": 3, "phase": "decode"})
    best = found["results"][0]["serve"]
    refused = ask("estimate", {**LLAMA, "engine": "vllm", "n": 1, "tp": 1, "max_num_seqs": 4, "qps": 9})["violations"][0]["message"]  # fmt: skip
    assert float(re.search(r"answers (\S+) requests/s", refused)[1]) == pytest.approx(
        best["requests_per_s"] / best["instances"], rel=0.01
    )  # type: ignore[index]
