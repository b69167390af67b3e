"""Rows of volunteers' databases that cannot be the machine they name: a lesser chip of its maker runs the same file more than twice as fast.

A mean over users mixes drivers, shares of a virtual board and falls back to the CPU, and nothing in a row tells which. The rule asks no
prediction: it holds measured rates of tokens against each other, which weights on their way over a bus decide, on boards with no more
bandwidth, matrix rate and memory. Prompts are not compared: matrix units of different years want different kernels.
"""

from __future__ import annotations

from typing import Any

from rooflinecli.specs.hardware import HardwareSpec, load_hardware

VOLUNTEERS = ("localscore_2026", "normiebench_2026", "llmfit_2026")
TIMES = 2.0  # by how much a lesser chip must be faster


def apart(rows: tuple[dict[str, Any], ...]) -> frozenset[str]:
    """Ids of the rows that are set apart."""
    asked = [row for row in rows if row["group"] in VOLUNTEERS]
    return frozenset(row["id"] for row in asked if any(_beaten(row, other) for other in rows))


def _beaten(row: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether `other` shows that this row's chip was not at work."""
    same = all(
        row.get(key, 1) == other.get(key, 1) for key in ("model", "weights", "engine", "batch", "devices", "prompt")
    )
    if not same or not other.get("decode", 0.0) > TIMES * row.get("decode", float("inf")):
        return False
    return _lesser(load_hardware(other["hardware"]), load_hardware(row["hardware"]))


def _lesser(one: HardwareSpec, other: HardwareSpec) -> bool:
    """Whether `one` has no more of anything than `other`."""
    if one.id == other.id or one.vendor != other.vendor:
        return False
    return all(a <= b for a, b in zip(_figures(one), _figures(other), strict=True))


def _figures(spec: HardwareSpec) -> tuple[float, float, float]:
    rate = max(figure.si for name, figure in spec.peak.items() if name in ("fp16", "bf16", "fp32"))
    return spec.memory.bandwidth.si, rate, spec.memory.capacity.si
