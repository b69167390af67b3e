"""What a serving pass of hand-written kernels must come to."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from assembly.hand import PEAK, Kernel, W, by_group, spread, total

STEP, SEQUENCE = 1.5e-3, 6e-6  # seconds per step and per sequence of the default engine, engines/python-server.yaml
Wires = Iterable[tuple[float, float, float]]  # collectives: seconds, least seconds, error


def check(
    answer: dict, kernels: list[Kernel], layers: int, *, moe_layers: int = 0, sequences: float = 1, wires: Wires = ()
) -> float:
    """Breakdown, sum, floor, interval and bytes of a pass of these kernels and collectives; the seconds of it."""
    starts, engine = layers * 10e-6 + moe_layers * 17e-6, STEP + sequences * SEQUENCE
    spent, least = (sum(w[i] for w in wires) for i in (0, 1))
    seconds = total(kernels) + starts + engine + spent
    parts = by_group(kernels) | {"overhead": starts, "engine": engine, "communication": spent}
    assert answer["breakdown_s"] == pytest.approx(parts)
    assert answer["time_s"] == pytest.approx(seconds)
    compute, memory = sum(k.flops for k in kernels) / PEAK, sum(k.bytes for k in kernels) / W
    assert answer["resources_s"] == pytest.approx({"compute": compute, "memory": memory, "communication": least})
    assert answer["floor_s"] == pytest.approx(max(compute, memory, least))
    assert answer["bytes_per_device"] == pytest.approx(sum(k.bytes for k in kernels))
    unsure = sum(w[0] * w[2] for w in wires)  # one class, fully correlated
    error = spread(kernels, [(starts + engine, 0.4), (unsure, 1.0)]) / seconds
    low = max(answer["floor_s"], seconds / (1 + error))
    assert answer["interval_s"] == pytest.approx([low, seconds * (1 + error)])
    return seconds
