"""Clocks, power and temperature of the device beside every timing: a rate means little without the clock it ran at.

Nothing is set, only read: locked or not, the clock that was seen is what a profile tells.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from statistics import median
from typing import Any

# field of nvidia-smi -> name and unit here
FIELDS = {"clocks.sm": "sm_mhz", "clocks.mem": "memory_mhz", "power.draw": "power_w", "temperature.gpu": "celsius"}
TOLD = {"sm_mhz": "MHz SM", "memory_mhz": "MHz memory", "power_w": "W", "celsius": "C"}


def nvidia(query: str) -> str:
    """Fields of the first device by nvidia-smi, comma-separated; nothing where there is none."""
    command = ["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.splitlines()[0].strip() if done.returncode == 0 and done.stdout.strip() else ""


def seen() -> dict[str, float]:
    """What the device reports right now: {'sm_mhz': 1980.0, ...}; empty where nothing reports."""
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


def summary(records: Iterable[dict[str, Any]]) -> str:
    """Lowest, median and highest of each over the records that have it; empty where none has."""
    held = [r["conditions"] for r in records if r.get("conditions")]
    parts = []
    for name, unit in TOLD.items():
        values = [c[name] for c in held if name in c]
        if values:
            parts.append(f"{min(values):g} / {median(values):g} / {max(values):g} {unit}")
    return ", ".join(parts)
