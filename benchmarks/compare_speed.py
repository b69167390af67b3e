"""Speed of this checkout and another one: `python benchmarks/compare_speed.py ../older` (a git worktree of the older commit).

One process of each stays loaded and they take turns, so that other load on the machine affects both. Columns are medians of CPU
time, warm, their ratio, and the ratio of the minima, which a busy machine changes less; `checks` are whole processes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
ESTIMATES: dict[str, dict[str, Any]] = {
    "serving, layout given": {"model": "llama-3-70b", "hw": "h100", "n": 8, "tp": 8, "phase": "prefill,decode"},
    "serving, layout chosen": {"model": "llama-3-70b", "hw": "h100", "phase": "prefill,decode"},
    "MoE, concurrency 64": {"model": "deepseek-v3", "hw": "h200", "n": 16, "tp": 16, "phase": "prefill,decode", "concurrency": 64},
    "training, layout given": {
        "model": "llama-3-70b", "hw": "h100", "phase": "train", "batch": 1024, "tp": 8, "pp": 4, "dp": 16, "zero": 1, "recompute": "full",
    },
    "training, layout chosen": {"model": "llama-3-70b", "hw": "h100", "n": 512, "phase": "train", "batch": 1024},
}  # fmt: skip
CHIPS = ("h100", "h200", "b200", "mi300x", "tpu-v5p")


def plans(limit: str) -> dict[str, Any]:
    """A plan file with 200 checks of one model on five chips, each with `limit` for its inter-token latency."""
    checks = {
        f"c{i}": {
            "hw": CHIPS[i % 5],
            "devices": (4, 8)[i % 2],
            "batch": 1 + i // 4,
            "prompt": 1024 + 16 * i,
            "output": 512,
            "require": {"decode.time_s": limit, "prefill.time_s": "<= 20 s", "feasible": True},
        }
        for i in range(200)
    }
    return {"defaults": {"model": "llama-3.3-70b"}, "checks": checks}


def work() -> None:
    """Answer each line `[name, repetitions]` of standard input with the CPU seconds of one warm estimate."""
    import rooflinecli

    warnings.simplefilter("ignore")
    for line in sys.stdin:
        name, repetitions = json.loads(line)
        rooflinecli.estimate(**ESTIMATES[name])
        start = time.process_time()
        for _ in range(repetitions):
            rooflinecli.estimate(**ESTIMATES[name])
        print((time.process_time() - start) / repetitions, flush=True)


class Checkout:
    """A checkout's package in a process of its own."""

    def __init__(self, root: Path, bytecode: str):
        self.environment = {**os.environ, "PYTHONPATH": str(root), "PYTHONPYCACHEPREFIX": bytecode}
        self.environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode
        command, pipe = [sys.executable, __file__, "--work"], subprocess.PIPE
        self.process = subprocess.Popen(command, env=self.environment, cwd=root, stdin=pipe, stdout=pipe, text=True)

    def estimate(self, name: str, repetitions: int) -> float:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps([name, repetitions]), file=self.process.stdin, flush=True)
        return float(self.process.stdout.readline())

    def check(self, plan: Path) -> float:
        """CPU seconds of `roofline check`."""
        command = [sys.executable, "-m", "rooflinecli", "check", str(plan)]
        with subprocess.Popen(command, env=self.environment, cwd="/", stdout=subprocess.DEVNULL) as child:
            _, status, used = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
        assert child.returncode in (0, 1)
        return used.ru_utime + used.ru_stime


def compare(name: str, sides: list[Checkout], rounds: int, once: Callable[[Checkout], float]) -> None:
    """Time both in alternation and print a row."""
    seconds: list[list[float]] = [[], []]
    for turn in range(rounds):
        for side in (0, 1) if turn % 2 else (1, 0):
            seconds[side].append(once(sides[side]))
    before, now = map(median, seconds)
    ratio = median(b / a for a, b in zip(*seconds, strict=True))
    minima = min(seconds[1]) / min(seconds[0])
    print(f"{name:24} {before * 1e3:10.3f} ms {now * 1e3:10.3f} ms {ratio:8.2f} {minima:8.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", type=Path, help="the older checkout")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", default="", help="cases whose name contains this")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        sides = [Checkout(root, folder) for root in (options.other.resolve(), ROOT)]
        print(f"{'':24} {'before':>13} {'now':>13} {'ratio':>8} {'minima':>8}")
        for name in ESTIMATES:
            if options.only in name:
                repetitions = max(1, int(0.1 / sides[0].estimate(name, 3)))
                compare(name, sides, options.rounds, lambda side, n=name, k=repetitions: side.estimate(n, k))  # type: ignore[misc]
        for name, limit in {"200 checks pass": "<= 1 s", "200 checks fail": "<= 1 ms"}.items():
            if options.only in name:
                plan = Path(folder, f"{name[11:]}.yaml")
                plan.write_text(json.dumps(plans(limit), indent=1), encoding="utf-8")
                for side in sides:
                    side.check(plan)
                compare(name, sides, max(3, options.rounds // 2), lambda side, p=plan: side.check(p))  # type: ignore[misc]


if __name__ == "__main__":
    work() if sys.argv[1:] == ["--work"] else main()
