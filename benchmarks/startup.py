"""CPU that commands take from start to end, as multiples of importing the libraries that a command line of this kind stands on.

python benchmarks/startup.py [runs]: medians of N runs that alternate, so that other load on the machine affects all.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from pathlib import Path

ROOFLINE = str(Path(sys.executable).with_name("roofline"))
BASE = "imports"
COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    BASE: [sys.executable, "-c", "import typer, pydantic, yaml, rich.console, rich.table"],
    "roofline --help": [ROOFLINE, "--help"],
    "roofline estimate": [ROOFLINE, "estimate", "llama70b", "--hw", "h100"],
    "roofline models": [ROOFLINE, "models"],
}


def seconds(command: list[str]) -> float:
    """CPU seconds of a process, its own and the system's."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0, command
    return used.ru_utime + used.ru_stime


def medians(runs: int) -> dict[str, float]:
    """Median CPU seconds per command."""
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for round_ in range(runs + 1):
        for name, command in COMMANDS.items():
            t = seconds(command)
            if round_:
                times[name].append(t)
    return {name: statistics.median(values) for name, values in times.items()}


if __name__ == "__main__":
    result = medians(int(sys.argv[1]) if len(sys.argv) > 1 else 15)
    for name, t in result.items():
        print(f"{name:<20} {t * 1e3:7.1f} ms   {t / result[BASE]:6.2f} x {BASE}")
