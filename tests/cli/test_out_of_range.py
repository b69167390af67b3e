"""Numbers beyond anything there is are refused by the option that holds them, before any work, and never answered with a dash, a zero or 309 digits."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from conftest import run_cli

HUGE = ("1e13", "1e300", "1e308")
KERNELS = (
    ("matmul", "{}", "8", "8"),
    ("matmul", "8", "8", "{}"),
    ("attention", "{}", "8"),
    ("attention", "8", "8", "--batch", "{}"),
    ("grouped", "{}", "--d-model", "64", "--width", "64", "--experts", "8", "--top-k", "2"),
)


@pytest.mark.parametrize("size", HUGE)
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: f"{k[0]}-{k.index('{}')}")
def test_a_kernel_refuses_a_size_that_nothing_has(kernel: tuple[str, ...], size: str) -> None:
    ran = run_cli("kernel", *(part.format(size) for part in kernel), "--hw", "h100")
    assert ran.code == 2 and not ran.out, ran
    assert f" {float(size):g}: exceeds the supported maximum of 1e+12" in ran.err


@pytest.mark.parametrize("size", HUGE)
def test_a_sharded_matmul_refuses_it_too(size: str) -> None:
    ran = run_cli("shard", "X[I_x, J] W[J, K]", "--mesh", "x=4", "--sizes", f"I={size},J=4k,K=4k", "--hw", "tpu-v5e")
    assert ran.code == 2 and "exceeds the supported maximum" in ran.err, ran


@pytest.mark.parametrize(
    ("load", "said"),
    [
        (("--concurrency", "1e308"), "--concurrency 1e308: exceeds the supported maximum"),
        (("--requests", "1e15", "--qps", "4"), "--num-requests 1e15: exceeds the supported maximum"),
        (("--concurrency", "1e9"), "--concurrency 1e+09 and 10 requests per client: at most 20,000,000 requests"),
        (("--requests", "1e9", "--qps", "4"), "--num-requests 1e+09: at most 20,000,000 requests"),
        (("--qps", "1e-300", "--requests", "10"), "--qps 1e-300: exceeds the supported range"),
        (("--qps", "1e-9", "--requests", "10"), "--qps 1e-09: 10 requests take longer than 1e+09 s"),
    ],
)
def test_a_load_that_no_clock_can_tell_is_refused_by_its_own_option(load: tuple[str, ...], said: str) -> None:
    """At 1e300 s an instant and a millisecond after it are the same number, and first tokens took 0 s."""
    ran = run_cli("simulate", "llama-3-8b", "--hw", "h100", "--engine", "vllm", *load)
    assert ran.code == 2 and said in ran.err and len(ran.err) < 200, ran


@pytest.mark.parametrize("row", ["1e17,100,20,,", "1,100,20,a,1e17"])
def test_a_trace_of_such_times_is_refused(tmp_path: Path, row: str) -> None:
    trace = tmp_path / "far.csv"
    trace.write_text(f"time,prompt,output,session,think\n0,100,20,a,0\n{row}\n")
    ran = run_cli("simulate", "llama-3-8b", "--hw", "h100", "--engine", "vllm", "--trace", str(trace))
    assert ran.code == 2 and "a request comes 1e+17 s after another" in ran.err, ran


@pytest.mark.parametrize(("option", "written"), [("--budget", "1e308"), ("--deadline", "1e300d")])
def test_a_plan_refuses_a_limit_that_nobody_has(option: str, written: str) -> None:
    ran = run_cli("plan", "llama-3-8b", "--tokens", "1T", option, written, "--hw", "h100")
    assert ran.code == 2 and f"{option} {written}: " in ran.err and ("exceeds" in ran.err or "more than" in ran.err), (
        ran
    )


def test_a_pipe_is_not_said_to_be_missing(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    ran = run_cli("simulate", "llama-3-8b", "--hw", "h100", "--trace", str(pipe))
    assert ran.code == 3 and "a pipe or a device, where a file is expected" in ran.err, ran


@pytest.mark.parametrize("target", ["x.foo", "{folder}", "{folder}/pictures.png", "{folder}/none/x.png"])
@pytest.mark.parametrize(
    "command",
    [
        ("simulate", "llama-3-8b", "--hw", "h100", "--engine", "vllm", "--qps", "4", "--requests", "20"),
        ("simulate", "llama-3-8b", "--hw", "h100", "--engine", "vllm", "--qps", "2,4", "--requests", "20"),
        ("sweep", "llama-3-8b", "--hw", "h100", "--phase", "decode", "--batch", "1,2"),
        ("ops", "llama-3-8b", "--hw", "h100", "-n", "1", "--phase", "decode"),
    ],
    ids=("one", "study", "sweep", "ops"),
)
def test_a_picture_that_cannot_be_drawn_is_refused_before_the_answer(
    command: tuple[str, ...], target: str, tmp_path: Path
) -> None:
    (tmp_path / "pictures.png").mkdir()
    ran = run_cli(*command, "--plot", target.format(folder=tmp_path))
    assert ran.code == 2 and not ran.out and "--plot " in ran.err, ran


def test_what_experts_send_is_a_collective_of_its_modes() -> None:
    ran = run_cli("collective", "dispatch", "945KB", "-n", "64", "--hw", "h100")
    assert ran.code == 2 and "add --backend deepep-low-latency" in ran.err, ran
    ran = run_cli("collective", "nonsense", "945KB", "-n", "64", "--hw", "h100")
    assert ran.code == 2 and "dispatch" in ran.err and "all-reduce" in ran.err, ran


def test_a_share_is_not_called_a_time() -> None:
    ran = run_cli("estimate", "llama-3-8b", "--hw", "h100", "--prefix-hit-rate", "1.5")
    assert ran.code == 2 and "--prefix-hit-rate 1.5: expected a share from 0 up to 1" in ran.err, ran


def test_a_range_of_too_many_values_is_counted_in_a_few_digits() -> None:
    ran = run_cli("sweep", "llama-3-8b", "--hw", "h100", "--batch", "1..1e308", "--phase", "decode")
    assert ran.code == 2 and "1e+308 values; give a step" in ran.err and len(ran.err) < 200, ran


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [("compare", "--hw", "h100,h200", "-n", "1"), ("search", "--hw", "h100", "-n", "2", "--batch", "64")],
    ids=lambda c: c[0],
)
def test_a_tornado_is_shown_or_said_to_be_missing(command: tuple[str, ...]) -> None:
    name, *rest = command
    for format in ("table", "markdown"):
        ran = run_cli(name, "llama-3.2-1b", *rest, "--sensitivity", "--format", format)
        assert ran.code == 0
        assert "with it changed by 10%" in ran.out.replace("\n", " ") or "flips the ranking" in ran.out, (format, ran)
    ran = run_cli(name, "llama-3.2-1b", *rest, "--sensitivity", "--format", "csv")
    assert ran.code == 0 and "--sensitivity has no place in csv" in ran.err, ran


@pytest.mark.parametrize("verb", [("collective", "all-reduce", "1GB"), ("estimate", "llama-3-8b")])
def test_more_devices_than_anybody_has_are_refused(verb: tuple[str, ...]) -> None:
    """The largest machines have some hundred thousand; a thousand million were answered in microseconds."""
    ran = run_cli(*verb, "--hw", "h100", "-n", "1e9")
    assert ran.code == 2 and not ran.out, ran
    assert "-n 1e+09: exceeds the supported maximum of 1e+07" in ran.err


@pytest.mark.slow
def test_an_explanation_writes_joules_as_other_units_are_written() -> None:
    ran = run_cli(
        "estimate",
        "llama-3-8b",
        "--hw",
        "h100",
        "-n",
        "8",
        "--phase",
        "train",
        "--batch",
        "64",
        "--tokens",
        "1T",
        "--explain",
        "train.run_energy_j",
        "--depth",
        "1",
    )
    assert ran.out.startswith("E = 6") and " GJ (" in ran.out.splitlines()[0], ran.out


def test_a_kernel_says_by_how_much_its_bound_is_the_longer_one() -> None:
    """4096^3: 2 * 4096^3 FLOP / 989.4 TFLOP/s over 3 * 4096^2 * 2 B / 3.35 TB/s is 4.62."""
    ran = run_cli("kernel", "matmul", "4096", "4096", "4096", "--hw", "h100")
    assert "compute bound, 4.6x memory" in ran.out and "bound by" not in ran.out
