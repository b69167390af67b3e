"""A training step of hand-written kernels: forward, what carries gradients back, weight gradients, and the parts around them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
import yaml
from end_to_end_arithmetic.hand import (
    PEAK,
    Kernel,
    W,
    attention,
    by_group,
    elementwise,
    experts,
    gather,
    matmul,
    norm,
    total,
    transposed,
)

from rooflinecli.specs.snapshots import PUBLISHED

PRECEDENT = yaml.load((PUBLISHED / "precedent.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader)
S, COUNT = 256, 4  # tokens of a sequence; microbatches of one sequence


@dataclass(frozen=True)
class Work:
    """Kernels of one operation: forward, input gradient, weight gradient."""

    forward: tuple[Kernel, ...]
    inputs: tuple[Kernel, ...]
    weights: tuple[Kernel, ...] = ()


def mm(m: float, k: float, n: float, gradient: float = 4) -> Work:
    back, weights = transposed(m, k, n, gradient)
    return Work((matmul(m, k, n),), (back,), (weights,))


def grouped(tokens: float, k: float, n: float, seen: float, busiest: float = 1) -> Work:
    """Experts: the weight gradients of those that tokens reach are added to fp32 ones, as those of a dense matmul are."""
    back = experts(tokens, k, n, seen, again=tokens * n * busiest, flops=busiest)
    weights = experts(tokens, k, n, seen, moved=seen * k * n * 4, again=0, flops=busiest)
    return Work((experts(tokens, k, n, seen, flops=busiest),), (back,), (weights,))


def core(*args: Any, passes: float = 1, **kwargs: Any) -> Work:
    """Fused attention; backward takes five matmuls where forward took two, and twice the traffic."""
    return Work((attention(*args, **kwargs),), (attention(*args, factor=2.5, passes=2, **kwargs),))


def ew(read: float, written: float, linear: bool = False, times: float = 1) -> Work:
    """Backward reads and writes as much, and the input again where the operation is not linear."""
    back = read + written + (0 if linear else read)
    return Work((elementwise(read + written, times=times),), (elementwise(back, times=times),))


def block(
    z: float = S, tp: float = 1, times: float = 1, attend: Work | None = None, s: float = S, gradient: float = 4
) -> list[Work]:
    """A layer of the dense model over s tokens, z of them outside tensor parallelism of tp."""
    heads, kv = 4 / tp, max(2 / tp, 1)
    return [
        ew(z * 256, z * 256, times=times),
        ew(z * 256, z * 256, times=times),
        mm(s, 256, (heads + 2 * kv) * 32, gradient),
        ew(s * (heads + kv) * 32, s * (heads + kv) * 32, linear=True, times=times),
        attend or core(1, S, heads, kv, 32, 32, S * S / 2),
        mm(s, heads * 32, 256, gradient),
        mm(s, 256, 1024 / tp, gradient),
        ew(s * 1024 / tp, s * 512 / tp, times=times),
        mm(s, 512 / tp, 256, gradient),
        ew(4 * z * 256, 2 * z * 256, linear=True, times=times),
    ]


def stem(z: float = S) -> list[Work]:
    return [Work((gather(2 * z * 256),), (gather(3 * z * 256),))]


def head(z: float = S, tp: float = 1, times: float = 1, s: float = S, gradient: float = 4) -> list[Work]:
    """Final norm, logits of every token, and the loss: 28 bytes a logit to widen, normalize, subtract and narrow."""
    loss = Work((elementwise(0, moved=s * 1000 / tp * 28),), ())
    return [ew(z * 256, z * 256, times=times), mm(s, 256, 1000 / tp, gradient), loss]


def flat(work: list[Work], parts: str = "forward inputs weights") -> list[Kernel]:
    return [kernel for w in work for part in parts.split() for kernel in getattr(w, part)]


@dataclass
class Around:
    """What a step has in addition to the kernels of its microbatches. `wires`: axis -> seconds, least seconds, exposed seconds."""

    optimizer: float
    wires: dict[str, tuple[float, float, float]] = field(default_factory=dict)
    exchange: float = 0.0  # seconds of collectives among replicas once per step, 0.15 of which may hide
    tail: float = 0.0  # least seconds of the same
    overhead: float = 0.0
    bubble: float = 0.0
    straggle: float = 1.0
    count: int = COUNT
    experts: bool = False
    unlike: tuple[str, ...] = ()  # kinds of extrapolation (published_runs/precedent.yaml) that it has whole


def shown(times: float, spent: float, least: float, share: float) -> tuple[float, float, float]:
    """`times` collectives of which a share is exposed."""
    return times * spent, times * least, times * spent * share


def stage_parts(kernels: list[Kernel], around: Around) -> tuple[float, float]:
    """Seconds of a microbatch's work, exposed communication among it, and of the communication hidden behind it."""
    exposed = sum(exposed for _, _, exposed in around.wires.values())
    spent = sum(spent for spent, _, _ in around.wires.values())
    return total(kernels) + exposed + around.overhead, spent - exposed


def stage_seconds(kernels: list[Kernel], around: Around) -> float:
    """A microbatch: work and what hides behind it in the p-norm of hand.yaml."""
    return norm(2.5, *stage_parts(kernels, around))


def exchange_shown(kernels: list[Kernel], around: Around) -> float:
    """What replicas exchange once a step: 0.85 exposed, the rest overlapping a microbatch and what hides there already."""
    work, hidden = stage_parts(kernels, around)
    t = around.exchange
    return 0.85 * t + norm(2.5, work, hidden + 0.15 * t) - norm(2.5, work, hidden)


def check(answer: dict[str, Any], kernels: list[Kernel], around: Around) -> float:
    """Breakdown, sum, resources, floor and interval of a step; its seconds."""
    a = around
    work, hidden = stage_parts(kernels, a)
    stage, after = stage_seconds(kernels, a), exchange_shown(kernels, a)
    unbound = a.count * stage + a.bubble + after + a.optimizer
    seconds = unbound * a.straggle
    parts = {name: spent * a.count for name, spent in by_group(kernels).items()}
    communication = (sum(w[2] for w in a.wires.values()) + stage - work) * a.count + after
    parts["communication"] = communication
    parts["optimizer"] = parts.get("optimizer", 0.0) + a.optimizer
    parts |= {"bubble": a.bubble, "stragglers": seconds - unbound}
    parts |= {"overhead": a.overhead * a.count} if a.overhead else {}
    assert answer["breakdown_s"] == pytest.approx(parts)
    assert answer["time_s"] == pytest.approx(seconds)
    compute, memory = (
        sum(getattr(k, x) for k in kernels) * a.count / rate for x, rate in (("flops", PEAK), ("bytes", W))
    )
    wires = sum(least for _, least, _ in a.wires.values()) * a.count + a.tail
    assert answer["resources_s"] == pytest.approx({"compute": compute, "memory": memory, "communication": wires})
    if not a.tail:
        assert answer["floor_s"] == pytest.approx(max(compute, memory, wires))
    overlapped = (hidden - stage + work) * a.count + a.exchange - after
    assert sum(answer["hidden_s"].values()) == pytest.approx(overlapped, abs=1e-15)
    shares = (0.21 * min(overlapped / seconds, 1.5), 0.11 * min(communication / seconds, 1.5))
    model = "mixture" if a.experts else "dense"
    new = (unlike(overlapped / seconds, model), *(PRECEDENT["widening"][kind][model] for kind in a.unlike))
    error = sum(e * e for e in (0.13, 0.24 if a.experts else 0.0, *shares, *new)) ** 0.5
    low = max(answer["floor_s"], seconds / (1 + error))
    assert answer["interval_s"] == pytest.approx([low, seconds * (1 + error)])
    return seconds


def unlike(share: float, model: str) -> float:
    """What hiding more than nine of ten published runs adds to the error: all of it from where two models end."""
    usual, end = PRECEDENT["kinds"]["gpu"]["hidden"][model]
    return PRECEDENT["widening"]["hidden"][model] * min(max((share - usual) / (end - usual), 0.0), 1.0)


def adam(parameters: float, per_parameter: float = 2 * 12 + 4 + 2) -> float:
    """State read and written, gradient read, weight written, at 0.6 of the bandwidth."""
    return parameters * per_parameter / (0.6 * W) + 20e-6
