"""Every legal training layout on so many devices, as arrays: splits of the devices first, then what each split leaves open.

A layout is legal when tp divides the heads, pp is at most the layers, ep divides
dp and the experts, every replica gets a microbatch, cp divides the sequence, virtual stages divide the layers of a stage
evenly and then the microbatches of a replica come in multiples of pp (Narayanan et al. 2021). Micro-batches are the divisors of a replica's share of the batch and the powers of two up to it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from rooflinecli.answers.search.question import Question
from rooflinecli.engine.scene import Scene
from rooflinecli.specs.plan import CHOSEN

SIZES = ("tp", "pp", "cp", "dp", "ep", "micro_batch", "virtual_stages")


@dataclass
class Layouts:
    """Legal layouts as one array per size; `splits` numbers the device splits; `rejected` counts what no rule let in."""

    sizes: dict[str, np.ndarray]
    split: np.ndarray
    rejected: dict[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.split)

    def take(self, chosen: Any) -> Layouts:
        return Layouts({k: v[chosen] for k, v in self.sizes.items()}, self.split[chosen])


@cache
def divisors(n: int) -> tuple[int, ...]:
    low = [d for d in range(1, math.isqrt(n) + 1) if n % d == 0]
    return tuple(dict.fromkeys([*low, *(n // d for d in reversed(low))]))


def layouts(scene: Scene, question: Question, devices: int) -> Layouts:
    """All of them. Sizes the question fixes are taken as given and still have to be legal."""
    rows: list[np.ndarray] = []
    rejected: dict[str, int] = {}

    def refuse(why: str, count: int) -> None:
        rejected[why] = rejected.get(why, 0) + count

    for number, (tp, pp, cp, dp) in enumerate(_splits(question, devices)):
        rest = [
            _allowed(question, "ep", _expert_groups(scene, dp)),
            _allowed(question, "micro-batch", _micro_batches(scene, dp)),
            _allowed(question, "virtual-stages", _virtual(scene, pp)),
        ]
        count = math.prod(len(r) for r in rest)
        why = _refusal(scene, tp, pp, cp, dp)
        if why or not count:
            refuse(why or "a micro-batch or expert group as asked for", max(count, 1))
            continue
        grid = _interleaved(scene, np.stack([g.reshape(-1) for g in np.meshgrid(*rest, indexing="ij")]), pp, dp)
        refuse("interleaving needs microbatches in multiples of pp", count - grid.shape[1])
        count = grid.shape[1]
        head = np.array([tp, pp, cp, dp], dtype=np.float64)[:, None]
        rows.append(np.concatenate([np.full((1, count), number), np.broadcast_to(head, (4, count)), grid]))
    table = np.concatenate(rows, axis=1) if rows else np.zeros((8, 0))
    return Layouts(dict(zip(SIZES, table[1:], strict=True)), table[0], rejected)


def _splits(question: Question, devices: int) -> Iterator[tuple[int, int, int, int]]:
    for tp in _allowed(question, "tp", divisors(devices)):
        for pp in _allowed(question, "pp", divisors(devices)):
            for cp in _allowed(question, "cp", divisors(devices)):
                dp, rest = divmod(devices, int(tp * pp * cp))
                if not rest and dp >= 1 and _allowed(question, "dp", (dp,)):
                    yield int(tp), int(pp), int(cp), dp


def _allowed(question: Question, name: str, values: Any) -> list[float]:
    """Those of `values` that the question leaves open; for micro-batches and virtual stages a given value is itself the choice."""
    if name not in question.open:
        return [float(v) for v in values]
    given = question.open[name]
    return [
        float(v)
        for v in (given if name == "micro-batch" else values)
        if v in given and (name != "micro-batch" or v <= max(values, default=0))
    ]


def _expert_groups(scene: Scene, dp: int) -> list[int]:
    experts = {g.axes["E"] for g in scene.book.layers if g.moe}
    return [e for e in divisors(dp) if all(x % e == 0 for x in experts)] if experts else [1]


def _micro_batches(scene: Scene, dp: int) -> list[int]:
    share = math.floor(scene.train_batch / dp)
    if share < 1:
        return []
    powers = [2**i for i in range(share.bit_length())]
    return sorted({*divisors(share), *powers})


def _virtual(scene: Scene, pp: int) -> list[int]:
    layers = scene.book.n_layers
    if pp == 1 or layers % pp:
        return [1]
    return list(divisors(layers // pp))


def _interleaved(scene: Scene, grid: np.ndarray, pp: int, dp: int) -> np.ndarray:
    """Columns (ep, micro-batch, virtual stages) that the interleaved schedule can run."""
    count = np.ceil(scene.train_batch / (dp * grid[1]))
    return grid[:, (grid[2] == 1) | (count % pp == 0)]


def _refusal(scene: Scene, tp: int, pp: int, cp: int, dp: int) -> str:
    """The rule a split of the devices breaks, or nothing."""
    for heads in sorted({g.axes["N"] for g in scene.book.layers if "N" in g.axes}):
        if heads % tp:
            return f"tp divides the {heads} heads"
    if pp > scene.book.n_layers:
        return f"pp is at most the {scene.book.n_layers} layers"
    if scene.seq % cp:
        return "cp divides the sequence"
    if dp > scene.train_batch:
        return "every replica has a microbatch"
    if dp % int(scene.request.shard or 1):
        return "shard divides dp"
    reach = scene.chip.levels[-1].size if scene.chip.levels else 1.0
    if tp * pp * cp * dp > reach:
        return f"the network joins {reach:.0f} devices"
    return ""


def structures(question: Question) -> Iterator[tuple[int, str, bool]]:
    """ZeRO stage, recomputation and sequence parallelism, plainest first: ties go to the first."""
    for recompute in question.open.get("recompute", CHOSEN):
        for zero in question.open.get("zero", (0, 1, 2, 3)):
            for parallel in question.open.get("sequence-parallel", (False, True)):
                yield int(zero), str(recompute), bool(parallel)


def concerned(found: Layouts, question: Question, zero: int, parallel: bool) -> Any:
    """The layouts for which this structure is not the same as a plainer one."""
    keep = np.ones(len(found), dtype=bool)
    if "zero" not in question.open and zero:
        keep &= found.sizes["dp"] * found.sizes["cp"] > 1
    if "sequence-parallel" not in question.open and parallel:
        keep &= found.sizes["tp"] > 1
    return np.flatnonzero(keep)
