"""This checkout against another, in one run: `python benchmarks/against.py ../older` (a git worktree of the older commit).

One process of each stays loaded, and they take turns, so that what else the machine does meets both alike. Figures are medians
of CPU time, warm, and last the ratio of the least of each, which a busy machine moves less; `checks` are whole processes, each
started anew. `--numbers 300` asks both so many random estimates instead and says which numbers differ and why (figures.py);
what differs without a known reason is listed, and ends it with 1.
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

import figures
from many_checks import plans

HERE = Path(__file__).resolve().parents[1]
ESTIMATES: dict[str, dict[str, Any]] = {
    "serving, plan given": {"model": "llama-3-70b", "hw": "h100", "n": 8, "tp": 8, "phase": "prefill,decode"},
    "serving, plan chosen": {"model": "llama-3-70b", "hw": "h100", "phase": "prefill,decode"},
    "a mixture, 64 in flight": {
        "model": "deepseek-v3",
        "hw": "h200",
        "n": 16,
        "phase": "prefill,decode",
        "tp": 16,
        "dp": 1,
        "pp": 1,
        "concurrency": 64,
    },
    "training, plan given": {
        "model": "llama-3-70b",
        "hw": "h100",
        "phase": "train",
        "batch": 1024,
        "tp": 8,
        "pp": 4,
        "dp": 16,
        "micro_batch": 1,
        "zero": 1,
        "recompute": "full",
    },
    "training, plan chosen": {"model": "llama-3-70b", "hw": "h100", "n": 512, "phase": "train", "batch": 1024},
}


def work(name: str, loops: int) -> float:
    """CPU seconds of one estimate, warm."""
    from rooflinecli.questions.estimate.answer import estimate

    try:
        from rooflinecli.engine import build_request as ask
    except ImportError:  # 0.1.0
        from rooflinecli.questions import ask  # type: ignore[no-redef, attr-defined]
    request = ask.request(ESTIMATES[name])
    estimate(request)
    began = time.process_time()
    for _ in range(loops):
        estimate(request)
    return (time.process_time() - began) / loops


def serve() -> None:
    """Answers lines `name loops` with seconds, and options with the numbers of their estimate, until there are no more."""
    warnings.simplefilter("ignore")
    for line in sys.stdin:
        asked = json.loads(line)
        print(json.dumps(figures.answer(asked) if isinstance(asked, dict) else work(*asked)), flush=True)


class Checkout:
    """A checkout's package in a process of its own."""

    def __init__(self, root: Path, bytecode: str):
        self.environment = {**os.environ, "PYTHONPATH": str(root), "PYTHONPYCACHEPREFIX": bytecode}
        self.environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode
        command = [sys.executable, __file__, "--serve"]
        self.process = subprocess.Popen(
            command, env=self.environment, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def estimate(self, name: str, loops: int) -> float:
        return float(self.ask([name, loops]))

    def ask(self, what: Any) -> Any:
        """What `serve` says to a line."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps(what), file=self.process.stdin, flush=True)
        return json.loads(self.process.stdout.readline())

    def check(self, plan: Path) -> float:
        """CPU seconds of `roofline check`."""
        command = [sys.executable, "-m", "rooflinecli.interfaces.cli.main", "check", str(plan)]
        with subprocess.Popen(command, env=self.environment, cwd="/", stdout=subprocess.DEVNULL) as child:
            _, status, used = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
        assert child.returncode in (0, 1)
        return used.ru_utime + used.ru_stime


def compared(name: str, sides: list[Checkout], rounds: int, once: Callable[[Checkout], float]) -> None:
    """Rounds in turn, and the medians of both."""
    seconds: list[list[float]] = [[], []]
    for turn in range(rounds):
        for side in (0, 1) if turn % 2 else (1, 0):
            seconds[side].append(once(sides[side]))
    before, now = map(median, seconds)
    ratio = median(b / a for a, b in zip(*seconds, strict=True))
    least = min(seconds[1]) / min(seconds[0])
    print(f"{name:24} {before * 1e3:10.3f} ms {now * 1e3:10.3f} ms {ratio:8.2f} {least:8.2f}", flush=True)


def numbers(count: int, seed: int, sides: list[Checkout], roots: list[Path]) -> bool:
    """So many random estimates of both, those that both refuse aside; whether all that differs is explained."""
    models, chips = figures.both_know(roots, "models"), figures.both_know(roots, "hardware")
    pairs = []
    for question in figures.questions(models, [chip for chip in figures.CHIPS if chip in chips], seed):
        before, now = (side.ask(question) for side in sides)
        if "refused" not in before or "refused" not in now:
            pairs.append((question, before, now))
        if len(pairs) == count:
            break
    lines, explained = figures.compare(pairs)
    print("\n".join(lines))
    return explained


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", type=Path, nargs="?", help="the older checkout")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", default="", help="cases whose name holds this")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--numbers", type=int, default=0, metavar="COUNT", help="compare so many random estimates")
    parser.add_argument("--seed", type=int, default=figures.SEED, help="of the random estimates")
    asked = parser.parse_args()
    if asked.serve:
        return serve()
    with tempfile.TemporaryDirectory() as folder:
        roots = [asked.other.resolve(), HERE]
        sides = [Checkout(root, folder) for root in roots]
        if asked.numbers:
            sys.exit(0 if numbers(asked.numbers, asked.seed, sides, roots) else 1)
        print(f"{'':24} {'before':>13} {'now':>13} {'ratio':>8} {'of least':>8}")
        for name in ESTIMATES:
            if asked.only in name:
                loops = max(1, int(0.1 / sides[0].estimate(name, 3)))
                compared(name, sides, asked.rounds, lambda side, n=name, k=loops: side.estimate(n, k))  # type: ignore[misc]
        for name, limit in {"200 checks pass": "<= 1 s", "200 checks fail": "<= 1 ms"}.items():
            if asked.only in name:
                plan = Path(folder, f"{len(name)}{limit[-2:].strip()}.yaml")
                plan.write_text(json.dumps(plans(limit), indent=1), encoding="utf-8")
                for side in sides:
                    side.check(plan)
                compared(name, sides, max(3, asked.rounds // 2), lambda side, p=plan: side.check(p))  # type: ignore[misc]


if __name__ == "__main__":
    main()
