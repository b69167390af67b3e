"""`roofline layouts`: ways to split one layer over n devices in inference, with their collectives, priced and ranked.

Feed-forward: weights stay (split along one dimension, or two) and activations travel, or weights travel. Attention: by
head or by sequence. Pope et al. 2022, section 3.
"""

from __future__ import annotations

from rooflinecli.core.errors import UsageError
from rooflinecli.core.num import Number
from rooflinecli.formulas import roofline
from rooflinecli.formulas import sharding as f
from rooflinecli.layers.build import ledger
from rooflinecli.ledger.ledger import row_parameters
from rooflinecli.ledger.ops import Collective
from rooflinecli.price.chip import Chip
from rooflinecli.price.network import price_collective
from rooflinecli.quantization.formats import Formats, formats
from rooflinecli.questions.layouts.question import Partitioned, PartitionedAttention, PartitioningAnswer
from rooflinecli.specs.hardware import HardwareSpec
from rooflinecli.specs.model import ModelSpec

REGIME = "serving"
Sends = list[tuple[str, Number, float, float]]  # operation, bytes, members, stride


def layouts(
    model: ModelSpec,
    hardware: HardwareSpec,
    n: int,
    batch: float,
    queries: float = 1.0,
    context: float = 2048.0,
    dtype: str = "bf16",
) -> PartitioningAnswer:
    """Layouts of the last layer of a model for `batch` sequences of `queries` tokens. Raises UsageError."""
    if n < 1 or n & (n - 1):
        raise UsageError(f"-n {n}: layouts split devices into powers of two; give one")
    group = ledger(model).layers[-1]
    if group.moe or "F" not in group.axes or "K" not in group.axes:
        raise UsageError(
            f"{model.name}: layouts are for a dense feed-forward block with heads; experts have --ep in estimate"
        )
    chip, form = Chip(hardware), formats(dtype, None, None, dict(hardware.peak), hardware.name)
    sizes = group.sizes(
        {a: float(v) for a, v in group.axes.items()} | {"B": batch, "S": queries, "T": context, "O": 1.0, "Z": queries}
    )
    weights = (
        row_parameters(tuple(r for r in group.rows if r.name.startswith("feedforward.") and r.contraction), sizes)
        * form.weight
    )
    tokens, d, ff, first = batch * queries, sizes["D"], sizes["F"], sizes.get("U", sizes["F"])
    powers, p = [2**i for i in range(n.bit_length())], form.activation
    ways = [
        ("1D weight-stationary", _one(tokens, d, n, p), weights / n),
        *((f"2D weight-stationary {n // y} x {y}", _two(tokens, d, ff, first, n // y, y, p), weights / n) for y in powers[1:-1]),
        *((f"weight-gathered over {over}", _gathered(tokens, d, weights, over, n, p), weights * over / n) for over in powers[1:]),
    ]  # fmt: skip
    rows = [_row(chip, name, n, *sent, read) for name, sent, read in ways]
    return PartitioningAnswer(
        model=model.name,
        hardware=hardware.name,
        devices=n,
        tokens=tokens,
        context=context,
        weights_bytes=weights,
        feedforward=sorted(rows, key=lambda row: float(row.time_s)),
        attention=_attention(chip, sizes, batch, queries, context, n, form),
    )


def _one(tokens: Number, d: Number, n: int, p: float) -> tuple[Sends, Number]:
    size = tokens * d * p
    return [("all-gather", size, n, 1.0), ("reduce-scatter", size, n, 1.0)], f.weight_stationary_1d(
        tokens, d, float(n), p
    )


def _two(tokens: Number, d: Number, ff: Number, first: Number, x: int, y: int, p: float) -> tuple[Sends, Number]:
    """Width over x devices, hidden over y; the first matmul of a gated block leaves two partial sums."""
    along, across = tokens * d / x * p, tokens * p / y
    sends: Sends = [
        ("all-gather", along, y, 1.0),
        ("reduce-scatter", across * first, x, float(y)),
        ("all-gather", across * ff, x, float(y)),
        ("reduce-scatter", along, y, 1.0),
    ]
    return sends, f.weight_stationary_2d(tokens, d, (first + ff) / 2, float(x), float(x * y), p)


def _gathered(tokens: Number, d: Number, weights: Number, over: int, n: int, p: float) -> tuple[Sends, Number]:
    rest, size = n // over, tokens / over * d * p
    sends: Sends = [
        ("all-gather", weights * over / n, over, float(rest)),
        ("all-gather", size, rest, 1.0),
        ("reduce-scatter", size, rest, 1.0),
    ]
    return sends, f.weight_gathered(tokens, d, weights, float(over), float(n), p)


def _row(chip: Chip, name: str, n: int, sends: Sends, sent: Number, read: Number) -> Partitioned:
    """Communication and the weights a device reads, one after the other."""
    seconds = floor = 0.0
    for op, size, members, stride in sends:
        priced = price_collective(Collective(op, op, size, "layout", float(members), stride), chip, REGIME, float(n))
        seconds, floor = seconds + priced.expected, floor + priced.floor
    memory = roofline.effective_memory_time(read, chip.bandwidth, chip.constants(REGIME, "matmul").memory)
    return Partitioned(
        layout=name,
        sent_bytes=sent,
        communication_s=seconds,
        floor_s=roofline.floor_time(floor, read / chip.bandwidth),
        weights_read_bytes=read,
        memory_s=memory,
        time_s=seconds + memory,
    )


def _attention(
    chip: Chip, sizes: dict[str, Number], batch: float, queries: float, context: float, n: int, form: Formats
) -> list[PartitionedAttention]:
    """By head: no traffic beyond the projections' own. By sequence: q, k and v go to their sequence's device and o comes back."""
    k, h = sizes["K"], sizes["H"]
    moved = batch * queries / n * (2 * sizes["N"] + 2 * k) * h * form.activation
    c = chip.constants(REGIME, "decode_attention")
    rows = []
    for name, cache, size in (
        ("by head", f.cache_by_head(batch, context, k, h, float(n), form.kv), 0.0),
        ("by sequence", f.cache_by_batch(batch, context, k, h, float(n), form.kv), moved),
    ):
        sent = price_collective(
            Collective("all-to-all", "all-to-all", size, "layout", float(n), 1.0), chip, REGIME, float(n)
        )
        travel = sent.expected if size else 0.0
        memory = roofline.effective_memory_time(cache, chip.bandwidth, c.memory)
        rows.append(
            PartitionedAttention(
                attention=name,
                cache_bytes=cache,
                sent_bytes=sent.volume,
                communication_s=travel,
                memory_s=memory,
                floor_s=cache / chip.bandwidth,
                time_s=travel + memory,
            )
        )
    return sorted(rows, key=lambda row: float(row.time_s))
