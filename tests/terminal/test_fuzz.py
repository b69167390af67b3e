"""The command line under random options, hostile values, odd widths and encodings: an answer or one sentence, never a traceback."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
from collections.abc import Iterator
from unittest.mock import patch

import pytest
from conftest import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rooflinecli.interfaces.cli.main import main

HOSTILE = st.sampled_from(
    "0 -1 1 2 3 7 8 64 1e30 -1e30 1e308 nan inf 1e-9 0.5 1,2 1..4 4..1 1..8x2 8k 2.0k 10% x auto = .. , - '' \0 \x1b[31m ∞ ² ٣ "
    "none full 1f1b bf16 fp8 fp64 vllm max 40ms 3TB/s 16M-tokens a.b.c ../.. /dev/null".split(" ")
)
SIZES = st.sampled_from("0 1 2 3 4 8 16 64 1000 4096 128k 1e9 1e30 max".split())
WORDS = {
    "--dtype": "bf16 fp8 int4 fp4 fp64 tf32",
    "--kv-dtype": "bf16 fp8 int4",
    "--phase": "train prefill decode prefill,decode",
    "--recompute": "none full selective op",
    "--recipe": "full lora qlora dpo",
    "--pipeline-schedule": "1f1b gpipe zero-bubble",
    "--engine": "vllm sglang trtllm cuda-graph",
    "--explain": "plan decode.time_s train.mfu time_s goodput prefill.memory.total_bytes expected_s interval_s levels.0.floor_s",
    "--rank": "decode.time_s train.tokens_per_s cost.usd_per_million_output_tokens memory.headroom_fraction feasible plan.tp",
    "--at": "same-cost same-memory same-devices",
    "--columns": "decode.* train.interval_s.1 cost memory",
    "--where": "decode.time_s<=40ms train.mfu>=1 feasible==1",
    "--set": "memory.bandwidth=1..5TB/s peak.bf16=x1,x2 efficiency.matmul.compute=0 power=1W",
    "--sort": "order time flops bytes intensity",
    "--measured": "35ms 0s 1h 1ns",
    "--objective": "latency cost energy devices train.interval_s.high train.interval_s.1 throughput,latency",
    "--mtbf": "1s 50000h 0s",
    "--restart": "1e300s 10min",
    "--interval": "1ns 1h",
    "--run": "54days 1e40days",
    "--efficiency": "ideal expected",
}
PLAN = "-n --tp --pp --dp --cp --ep --zero --batch --prompt --output --seq --dtype --kv-dtype --phase --price --efficiency".split()
MORE = "--micro-batch-size --virtual-stages --recompute --recipe --pipeline-schedule --engine --qps --concurrency --shard --lora-rank".split()
VERBS = {
    "estimate gpt2 --hw h100": [
        *PLAN,
        *MORE,
        "--explain",
        "--depth",
        "--mfu",
        "--measured",
        "--layers-per-stage",
        "--tokens",
    ],
    "estimate deepseek-v2-lite --hw tpu-v5e": [*PLAN, *MORE, "--explain"],
    "estimate clip --hw 8xH100": [*PLAN, "--explain"],
    "sweep gpt2 --hw h100": [*PLAN, "--set", "--where", "--columns", "--concurrency", "--qps"],
    "search gpt2 --hw h100 -n 2": ["--phase", "--batch", "--tp", "--objective", "--where", "--top", "--qps", "--ttft"],
    "compare gpt2 --hw h100,mi300x": ["-n", "--tp", "--batch", "--prompt", "--rank", "--at"],
    "ops llama-3-8b --hw h100": [*PLAN, "--sort", "--top"],
    "kernel matmul 64 64 64 --hw h100": ["--dtype", "--measured", "--explain", "--depth"],
    "kernel elementwise 1e7 --hw h100": ["--reads", "--writes", "--flops-per-element", "--dtype", "--explain"],
    "collective all-reduce 1GB --hw tpu-v5p -n 8": ["-n", "--explain", "--depth"],
    "goodput -n 1000 --checkpoint 30s": ["-n", "--params", "--mtbf", "--restart", "--interval", "--run", "--explain"],
    "layouts llama-3-8b --hw h100 -n 8": ["-n", "--batch", "--tokens", "--context", "--dtype"],
    "hardware": ["--vendor", "--min-memory", "--dtype"],
    "hardware h100": [],
    "models gpt2": [],
    "formula memory_time bytes_moved=1GB bandwidth=1TB/s": ["--depth"],
    "scaling run -p 70B --tokens 15T --mfu 0.4 --hw h100": ["-n", "--mfu", "--price", "--peak", "--explain"],
    "speculate -a 0.8 -c 0.1": ["-a", "-c", "--explain"],
}


@st.composite
def command_lines(draw: st.DrawFn) -> list[str]:
    """A command line that works, with up to three more options, now and then with a hostile value or word."""
    base = draw(st.sampled_from(sorted(VERBS)))
    line = base.split()
    for flag in draw(st.lists(st.sampled_from(VERBS[base]), max_size=3, unique=True)) if VERBS[base] else ():
        usual = st.sampled_from(WORDS[flag].split()) if flag in WORDS else SIZES
        line += [flag, draw(st.one_of(usual, usual, usual, HOSTILE))]
    if draw(st.integers(0, 9)) == 0:
        line[draw(st.integers(0, len(line) - 1))] = draw(HOSTILE | st.text(max_size=8))
    return [*line, *draw(st.sampled_from(((), ("--format", "json"), ("--format", "csv"), ("--format", "markdown"))))]


SLOWEST = 60  # seconds; nothing here takes one, even on a busy machine


@contextlib.contextmanager
def in_time(line: list[str]) -> Iterator[None]:
    """A command that never ends is a failure to report, not a suite that never ends."""

    def stop(*_: object) -> None:
        raise TimeoutError(line)

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SLOWEST)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def run(line: list[str], width: int, encoding: str) -> tuple[int, str, str]:
    """Exit code, standard output, standard error; a mistake of ours raises (tests/conftest.py)."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding=encoding) for _ in range(2))
    code = 0
    with (
        patch.object(sys, "argv", ["roofline", *line]),
        patch.dict(os.environ, {"COLUMNS": str(width)}),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        in_time(line),
    ):
        try:
            main()
        except SystemExit as stop:
            code = int(stop.code or 0)
    texts = []
    for stream in (out, err):
        stream.flush()
        texts.append(stream.buffer.getvalue().decode(encoding))
    return code, *texts


def holds(line: list[str], width: int, encoding: str) -> None:
    code, out, err = run(line, width, encoding)
    assert code in (0, 1, 2, 3), (line, err)
    assert "Traceback" not in out + err and "Warning" not in err and "\x1b" not in out + err
    if code in (2, 3):
        assert err.startswith("roofline: ") and err.count("\n") == 1, (line, err)


WIDTHS, ENCODINGS = st.integers(20, 200), st.sampled_from(["utf-8", "ascii", "latin-1"])


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(command_lines(), WIDTHS, ENCODINGS)
def test_any_command_line_is_answered_or_refused_in_a_sentence(line: list[str], width: int, encoding: str) -> None:
    holds(line, width, encoding)


@pytest.mark.slow
@settings(max_examples=examples(1500), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(command_lines(), WIDTHS, ENCODINGS)
def test_so_are_many_more(line: list[str], width: int, encoding: str) -> None:
    holds(line, width, encoding)


def test_the_fuzz_can_fail() -> None:
    with (
        patch("rooflinecli.questions.models.answer.models", side_effect=LookupError("planted")),
        pytest.raises(LookupError),
    ):
        holds(["models"], 80, "utf-8")
