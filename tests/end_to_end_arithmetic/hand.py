"""A chip whose every constant shows, and the times of its kernels written out by hand.

Nothing here is taken from the package: the forms are those of docs/accuracy.md in plain arithmetic, the constants those of
hand.yaml. Each test writes a step as a list of these kernels and adds it up.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

PEAK, W = 100e12, 1e12  # FLOP/s, B/s
INSIDE, OUTSIDE = 100e9, 10e9  # B/s of a device, one way


@dataclass(frozen=True)
class Kernel:
    """Seconds of one kernel, the group it is reported under, its class's error, FLOPs and bytes."""

    group: str
    kind: str
    seconds: float
    error: float
    flops: float = 0.0
    bytes: float = 0.0

    def __mul__(self, times: float) -> Kernel:
        return replace(self, seconds=self.seconds * times, flops=self.flops * times, bytes=self.bytes * times)


def norm(p: float, a: float, b: float) -> float:
    return (a**p + b**p) ** (1 / p)


def matmul(
    m: float,
    k: float,
    n: float,
    *,
    weight: float = 2,
    moved: float = 0,
    again: float | None = None,
    rate: float = 0.5 * PEAK,
    x: float = 2,
) -> Kernel:
    """x[m, k] @ w[k, n] in 16 bits; `moved` more bytes; `again`: elements of the further pass, those of x unless said."""
    flops, traffic = 2 * m * k * n, m * k * x + k * n * weight + m * n * 2 + moved
    compute = flops * (1 + 32 / k) / rate
    once_more = (m * k if again is None else again) * 3 / (0.4 * W)
    seconds = norm(2, compute, traffic / (0.8 * W)) + 3e-6 + 0.5e-9 * k + once_more
    return Kernel("matmul", "matmul", seconds, 0.1, flops, traffic)


def transposed(m: float, k: float, n: float, gradient: float = 4) -> list[Kernel]:
    """Both halves of a matmul's backward: dx = dy w^T, whose m x n input passes once more; dw = x^T dy, added in fp32."""
    return [matmul(m, k, n, again=m * n), matmul(m, k, n, moved=k * n * gradient, again=0)]


def experts(
    tokens: float,
    k: float,
    n: float,
    weights: float,
    *,
    moved: float = 0,
    again: float | None = None,
    flops: float = 1,
) -> Kernel:
    """Grouped matmul over `tokens` rows in all; `weights` matrices of k x n are touched."""
    work = 2 * tokens * k * n * flops
    traffic = tokens * k * 2 + weights * k * n * 2 + tokens * n * 2 + moved
    rate = 0.6 * PEAK
    once_more = (tokens * k if again is None else again) * 2 / (0.35 * W)
    seconds = norm(3, work * (1 + 20 * weights / tokens) / rate, traffic / (0.9 * W)) + 8e-6 + once_more
    return Kernel("matmul", "grouped_matmul", seconds, 0.3, work, traffic)


def routed(
    tokens: float, d: float, width: float, held: float, mu: float, *, ranks: float = 1, k: float = 2, weight: float = 2
) -> Kernel:
    """All experts of a layer in serving, on the busiest of `ranks`: `tokens` of the group, mu slots per expert, gated."""
    slots = tokens * k
    share = min(ranks, 1 + (2 * math.log(ranks) * ranks / (held * ranks)) ** 0.5)
    rows, seen = share * slots / ranks, held * (1 - (1 + share * mu / 1.5) ** -1.5)
    compute = 6 * rows * d * width * (1 + 40 * seen / rows) / (min(0.7 * 1.1, 1) * PEAK)
    stream = 3 * seen * d * width * weight / (min(0.85 * 1.2, 0.9) * W)
    passed = 0.75 * rows + (0.1 + 0.9 * 0.25) * slots  # a quarter of the passes sees the whole group
    # half of the start comes with the slots; of the walk over experts held serving sees a quarter, of the rest a half
    starts = 0.5 * (9e-6 / 2 * (1 + slots / (slots + 256)) + 1.5e-9 * (d + width)) + 0.25 * 50e-9 * held
    seconds = norm(3, compute, stream) + starts + 5 * 2 * 2 * (d + width) * passed / W
    least = held * (1 - (1 + mu / 0.45) ** -0.45)
    even = slots / ranks
    traffic = 3 * least * d * width * weight + even / k * d * 4
    return Kernel("matmul", "routed_experts", seconds, 0.35, 6 * even * d * width, traffic)


def touched(experts: float, top_k: float, tokens: float) -> float:
    """Experts that at least one of the tokens visits, each token drawing top_k of them."""
    return experts * (1 - (1 - top_k / experts) ** tokens)


def attention(
    b: float,
    s: float,
    heads: float,
    kv_heads: float,
    qk: float,
    v: float,
    pairs: float,
    *,
    keys: float | None = None,
    span: float | None = None,
    factor: float = 1,
    passes: float = 1,
    busiest: float = 1,
) -> Kernel:
    """Fused attention of s queries on `keys` keys; `pairs` per head; `span` the longest run of keys with its tile of 128."""
    keys = s if keys is None else keys
    span = keys if span is None else span
    width, flops = (qk + v) / 2, 2 * b * heads * pairs * (qk + v) * factor * busiest
    traffic = b * (s * heads + keys * kv_heads) * (qk + v) * 2 * passes
    compute = flops * (1 + 24 / width) * (1 + 16 * s / pairs) / (0.4 * PEAK)
    tail = 4 * 40 * (width + 24) * span / (0.4 * PEAK)
    append = b * s * kv_heads * (qk + v) * 4 / (0.6 * W)
    seconds = compute + tail + traffic / (0.7 * W) + 5e-6 + append + b * heads * s / 128 * 7e-9
    return Kernel("attention", "prefill_attention", seconds, 0.2, flops, traffic)


def cached_attention(
    b: float, heads: float, kv_heads: float, qk: float, v: float, keys: float, kv: float = 2
) -> Kernel:
    """One query per sequence against its cache of `keys` keys and values, kv bytes each."""
    flops = 2 * b * heads * keys * (qk + v)
    traffic = b * keys * kv_heads * (qk + v) * kv + b * heads * (qk + v) * 2
    busy = max(flops / (0.3 * PEAK), b * kv_heads * 50e-9)
    return Kernel("attention", "decode_attention", norm(1.5, busy, traffic / (0.6 * W)) + 4e-6, 0.15, flops, traffic)


def latent_attention(b: float, heads: float, rank: float, rope: float, keys: float, items: float) -> Kernel:
    """One query per sequence against a latent of rank + rope that all heads share; `items` work items a sequence."""
    flops = 2 * b * heads * keys * (2 * rank + rope)
    traffic = b * keys * (rank + rope) * 2 + b * heads * (2 * rank + rope) * 2
    over = 6e-6 + 0.2e-9 * keys + b * items * 80e-9
    return Kernel(
        "attention",
        "latent_attention",
        norm(2, flops / (0.45 * PEAK), traffic / (0.65 * W)) + over,
        0.25,
        flops,
        traffic,
    )


def scores(
    b: float,
    s: float,
    heads: float,
    kv_heads: float,
    h: float,
    *,
    factor: float = 1,
    passes: float = 1,
    rate: float = 0.25,
) -> Kernel:
    """Materialised attention over all s x s pairs: two matmuls, scores written and read between them."""
    flops = 4 * b * heads * s * s * h * factor
    traffic = (b * s * (heads + kv_heads) * 2 * h * 2 + 2 * b * heads * s * s * 2) * passes
    return Kernel("attention", "scores", max(flops / (rate * PEAK), traffic / (0.75 * W)) + 6e-6, 0.28, flops, traffic)


def elementwise(elements: float, *, moved: float = 0, times: float = 1) -> Kernel:
    """A pass that reads or writes a number of 16-bit elements and `moved` further bytes; it has no floor."""
    return Kernel("elementwise", "elementwise", norm(3, 1e-6, (elements * 2 + moved) * times / (0.5 * W)), 0.12)


def gather(elements: float) -> Kernel:
    return Kernel("elementwise", "gather", elements * 2 / (0.25 * W) + 2e-6, 0.22)


def wire(volume: float, hops: float, *, start: float = 1, outside: bool = False) -> float:
    """Seconds of `volume` bytes sent by each device over a level in `hops` steps."""
    if outside:  # the level's latency of 4 us is more than the 1 us a hop was measured at
        return 8e-6 * start + 4e-6 * hops + volume / OUTSIDE / 0.5 + (6e-6 * volume / OUTSIDE) ** 0.5
    return 5e-6 * start + 2e-6 * hops + volume / INSIDE / 0.8 + (3e-6 * volume / INSIDE) ** 0.5


def all_reduce(size: float, n: float) -> float:
    """Ring over n devices of one host; per_hop is a time per further member."""
    return wire(2 * size * (n - 1) / n, n - 1)


def gathering(size: float, n: float) -> float:
    """Ring all-gather or reduce-scatter over n devices of one host."""
    return wire(size * (n - 1) / n, n - 1)


def total(kernels: Iterable[Kernel], group: str | None = None) -> float:
    return sum(k.seconds for k in kernels if group in (None, k.group))


def by_group(kernels: Iterable[Kernel]) -> dict[str, float]:
    kernels = list(kernels)
    return {group: total(kernels, group) for group in dict.fromkeys(k.group for k in kernels)}


def spread(kernels: Iterable[Kernel], others: Iterable[tuple[float, float]] = ()) -> float:
    """Error of a sum in seconds: classes independent, one class's kernels all off together; others as (seconds, error)."""
    classes: dict[str, float] = {}
    for k in kernels:
        classes[k.kind] = classes.get(k.kind, 0.0) + k.seconds * k.error
    return (sum(e * e for e in classes.values()) + sum((s * e) ** 2 for s, e in others)) ** 0.5
