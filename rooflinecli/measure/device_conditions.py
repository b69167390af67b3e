"""Clocks, power and temperature of the device at every timing, read and never set: a rate means little without its clock."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from statistics import median

from rooflinecli.measure.cases import Record

# field of nvidia-smi -> name and unit here
FIELDS = {"clocks.sm": "sm_mhz", "clocks.mem": "memory_mhz", "power.draw": "power_w", "temperature.gpu": "celsius"}
SHOWN = {"sm_mhz": "MHz SM", "memory_mhz": "MHz memory", "power_w": "W", "celsius": "C"}


def nvidia(query: str) -> str:
    """Fields of the first device by nvidia-smi, comma-separated; empty where there is none."""
    command = ["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.splitlines()[0].strip() if done.returncode == 0 and done.stdout.strip() else ""


def seen() -> dict[str, float]:
    """Current values: {'sm_mhz': 1980.0, ...}; empty where the device reports none."""
    values = nvidia(",".join(FIELDS)).split(",")
    if len(values) != len(FIELDS):
        return {}
    return {
        name: number
        for name, text in zip(FIELDS.values(), values, strict=True)
        if (number := _number(text)) is not None
    }


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:  # "[N/A]"
        return None


def summary(records: Iterable[Record]) -> str:
    """Lowest, median and highest of each over the records that have it; empty where none has."""
    conditions = [r["conditions"] for r in records if r.get("conditions")]
    parts = []
    for name, unit in SHOWN.items():
        values = [c[name] for c in conditions if name in c]
        if values:
            parts.append(f"{min(values):g} / {median(values):g} / {max(values):g} {unit}")
    return ", ".join(parts)
