"""Serving passes of the dense model, kernel by kernel, and what a pass of such kernels must come to."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from end_to_end_arithmetic.hand import (
    PEAK,
    Kernel,
    W,
    attention,
    by_group,
    cached_attention,
    elementwise,
    gather,
    matmul,
    spread,
    total,
)

STEP, SEQUENCE, MOE_SEQUENCE = (
    0.2e-3,
    12.9e-6,
    13.1e-6,
)  # seconds per step and per sequence of the default engine, engines/python-server.yaml
Wires = Iterable[tuple[float, float, float]]  # collectives: seconds, least seconds, error

S = 256  # prompt
B, CONTEXT = 8, 250  # sequences, and their length in decode: a prompt of 200 and half of an answer of 100
LOAD = {"batch": B, "prompt": 200, "output": 100}


def layer(tokens: int, core: Kernel) -> list[Kernel]:
    """A layer of the dense model: D 256, 4 + 2 + 2 heads of 32, gated feed-forward of 512."""
    return [
        elementwise(2 * tokens * 256),  # norm: read and written
        elementwise(2 * tokens * 256),
        matmul(tokens, 256, 8 * 32),
        elementwise(2 * tokens * (4 + 2) * 32),  # rotary on q and k
        core,
        matmul(tokens, 4 * 32, 256),
        matmul(tokens, 256, 2 * 512),
        elementwise(tokens * (2 * 512 + 512)),  # silu(gate) * up
        matmul(tokens, 512, 256),
        elementwise(2 * 3 * tokens * 256),  # two residual additions: two read, one written
    ]


def ends(tokens: int, logits: int, vocabulary: int = 1000) -> list[Kernel]:
    """Embedding, final norm, and the logits of the last tokens alone."""
    return [gather(2 * tokens * 256), elementwise(2 * tokens * 256), matmul(logits, 256, vocabulary)]


def prompt_layer(pairs: float = S * S / 2, span: float = S) -> list[Kernel]:
    return layer(S, attention(1, S, 4, 2, 32, 32, pairs, span=span))


def token_layer(keys: float = CONTEXT, kv: float = 2) -> list[Kernel]:
    """One token of each of the sequences."""
    return layer(B, cached_attention(B, 4, 2, 32, 32, keys, kv))


def check(
    answer: dict,
    kernels: list[Kernel],
    layers: int,
    *,
    moe_layers: int = 0,
    sequences: float = 1,
    wires: Wires = (),
    stages: int = 1,
    last: list[Kernel] | None = None,
) -> float:
    """Breakdown, sum, floor, interval and bytes of a pass of these kernels and collectives; the seconds of it.

    Every stage has a host of its own. `last`: kernels of the last stage alone, for which as many microbatches as there are stages wait.
    """
    starts = layers * 10e-6 + moe_layers * 17e-6
    engine = stages * (STEP + sequences * (MOE_SEQUENCE if moe_layers else SEQUENCE))
    spent, least = (sum(w[i] for w in wires) for i in (0, 1))
    seconds = total(kernels) + starts + engine + spent
    parts = by_group(kernels) | {"overhead": starts, "engine": engine, "communication": spent}
    if last is not None:
        head = total(last)
        inner = seconds - spent - head
        idle = (
            max(stages * (inner * (layers // stages) / layers + head), stages * inner * -(-layers // stages) / layers)
            - seconds
        )
        parts["bubble"], seconds = max(idle, 0.0), max(seconds, seconds + idle)
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
