"""Startup time of the command line as multiples of `python -c pass`: medians of N alternating runs.

python benchmarks/startup.py [runs]
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOFLINE = str(Path(sys.executable).with_name("roofline"))
COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "roofline --help": [ROOFLINE, "--help"],
    "roofline estimate": [ROOFLINE, "estimate", "llama70b", "--hw", "h100"],
    "roofline models": [ROOFLINE, "models"],
}


def seconds(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def medians(runs: int) -> dict[str, float]:
    """Median wall seconds per command; the commands alternate, so that a drift of the machine affects all."""
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for round_ in range(runs + 1):
        for name, command in COMMANDS.items():
            t = seconds(command)
            if round_:
                times[name].append(t)
    return {name: statistics.median(values) for name, values in times.items()}


if __name__ == "__main__":
    result = medians(int(sys.argv[1]) if len(sys.argv) > 1 else 15)
    base = result["python -c pass"]
    for name, t in result.items():
        print(f"{name:<20} {t * 1e3:7.1f} ms   {t / base:5.1f} x python -c pass")
