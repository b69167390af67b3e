"""First screens: at most 24 lines at 80 columns, the answer in the first of them, nothing cut, and remedies that hold when followed."""

from __future__ import annotations

import re
import shlex

import pytest
from conftest import run_cli

# verb and options -> what its first line must hold
SCREENS = {
    "estimate deepseek-v3 --hw h200 --prompt 4k --output 1k --concurrency 256": r"TTFT .* ITL .* tok/s",
    "estimate qwen3-30b-a3b --hw l40s --prompt 1k --output 500 --qps 2": r"TTFT .* ITL .* tok/s",
    "estimate mixtral-8x7b --hw rtx4090 -n 1 --phase decode": r"does not fit",
    "search deepseek-v3 --hw h200 -n 16 --slo ttft=2s,itl=50ms --prompt 4k --output 1k": r"TTFT .* ITL .* max .* req/s",
    "search llama-3-405b --hw b200 --qps 10 --slo ttft=3s,itl=60ms": r"4 instances of 8 devices .* TTFT",
    "search llama-3.3-70b --hw h100 -n 2 --slo itl=5ms": r"none of .* layouts .* nearest is tp2: ITL is 32.\d+ ms, required",
    "plan llama-3.3-70b --hw h100,b200,mi300x --qps 20 --slo ttft=2s,itl=40ms": r"x B200 .* TTFT .* \$[\d.]+/h",
    "compare deepseek-v3 --hw h200,b200,mi355x -n 8 --concurrency 128": r"is best, ITL",
    "simulate llama-3-8b --hw a100 -n 1 --qps 40 --prompt 1k --output 200": r"completes [\d.]+/s: overloaded",
    "simulate qwen3-8b --hw l40s -n 1 --concurrency 16 --prompt 1k --output 200": r"TTFT p50 .* tok/s",
    "fit llama-3-70b --hw rtx4090": r"Largest that holds .*: IQ2_M, [\d.]+ tok/s",
    "fit gpt-oss-120b --hw rtx5090": r"None holds .* rest in host memory is \S+, [\d.]+ tok/s",
    "kernel matmul 4096 4096 4096 --hw h100": r"expected .* bound",
    "models deepseek-v3": r"671B parameters, 37.6B active .* KV cache",
    "models llama-3-70b": r"70.6B parameters, .* KV cache",
    "hardware h100 b200": r"Most 16-bit FLOP/s: b200-sxm",
    "ops llama-3-8b --hw h100 -n 1 --phase decode": r"decode 10.5 ms, most of it attention.core",
    "partitioning llama70b --hw tpu-v5e -n 16 --batch 64": r"feed-forward fastest by .* attention",
    "shard 'X[I_x, J] W[J_y, K]' --mesh x=4,y=2 --sizes I=1k,J=4k,K=16k --hw tpu-v5e": r"2.04 ms, of it 1.82 ms communication",
    "collective dispatch 2MB --hw h100 -n 64 --backend deepep-low-latency": r"dispatch of 2.00 MB .*: 319 µs \(",
    "validate rl": r"tables?: mean error .* in the 80% interval",
}  # fmt: skip


@pytest.mark.sampled(9)
@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("asked", SCREENS)
def test_the_first_screen_of_a_verb_has_the_answer_and_no_more_than_24_lines(monkeypatch, asked: str, width: int):
    monkeypatch.setenv("COLUMNS", str(width))
    lines = run_cli(*shlex.split(asked)).out.splitlines()
    assert len(lines) <= 24, "\n".join(lines)
    assert max(map(len, lines)) <= width and not any("…" in line for line in lines)
    head = " ".join(line.strip() for line in lines[: next(i for i, line in enumerate(lines) if i and line[:1] != " ")])
    assert re.search(SCREENS[asked], head), head


@pytest.mark.slow
def test_remedies_of_the_first_line_hold_when_followed():
    """The devices, the SLO and the command that answers without a result name."""
    short = ("search", "qwen3-32b", "--hw", "a100", "--slo", "itl=50ms", "--qps", "3", "-n")
    said = re.sub(r"\s+", " ", run_cli(*short, "4").out)
    found = re.search(r"4 devices serve ([\d.]+) of 3 requests/s; (\d+) would serve all", said)
    assert found is not None and float(found[1]) < 3 and run_cli(*short, found[2]).code == 0
    late = ("search", "llama-3.3-70b", "--hw", "h100", "-n", "2", "--slo")
    slo = re.search(r"it meets --slo (\S+)", re.sub(r"\s+", " ", run_cli(*late, "itl=5ms").out))
    assert slo is not None and run_cli(*late, slo[1]).code == 0
    shared = run_cli("fit", "gpt-oss-120b", "--hw", "rtx5090")
    (rate,) = re.findall(r"is \S+, ([\d.]+) tok/s", re.sub(r"\s+", " ", shared.out))
    again = run_cli(
        *shlex.split(shared.out[shared.out.index("roofline estimate") :].split("\n\n")[0].replace("\\\n", " "))[1:]
    )
    assert again.code == 0 and f"{rate} tok/s" in again.out
