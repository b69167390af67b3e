"""`roofline collective ... --mode`: kernels beside NCCL's, of expert parallelism (dispatch, combine) and of small all-reduces."""

from __future__ import annotations

from typing import Any

from rooflinecli.core import num
from rooflinecli.core.errors import UsageError, unknown
from rooflinecli.core.lift import PLAIN, PlainLift
from rooflinecli.core.num import INF, Number
from rooflinecli.formulas import collectives as f
from rooflinecli.ledger.ops import ExpertAllToAll
from rooflinecli.price import custom_all_reduce, moe_all2all
from rooflinecli.price.chip import Chip
from rooflinecli.price.network import PricedCollective
from rooflinecli.questions.collective.answer import timed
from rooflinecli.specs.engine import EXPERT_KERNELS
from rooflinecli.specs.hardware import HardwareSpec

PHASES = ("dispatch", "combine")
SHOTS = ("custom", *custom_all_reduce.SHOTS)
MODES = ("nccl", *moe_all2all.MODES, *SHOTS)


def with_mode(
    op: str,
    size_bytes: Number,
    hardware: HardwareSpec,
    n: Number,
    mode: str,
    *,
    top_k: Number = 8.0,
    limit: Number = INF,
    library: str = "",
    lift: PlainLift = PLAIN,
) -> dict[str, Any]:
    """`op` by the kernels of `mode` over n devices, one next to the other.

    An all-reduce takes custom kernels of `library` (custom: the faster). dispatch and combine take `size_bytes` of tokens on
    each rank, of which each goes to `top_k` experts on at most `limit` nodes. Raises UsageError for what does not go together
    and for kernels that nobody timed on the chip.
    """
    chip = Chip(hardware, lift)
    size, members = lift("S", size_bytes, "B", "BYTES"), lift("n", float(n), "devices", "-n")
    if mode in SHOTS:
        _custom_only(op, members, chip, library or "vllm", mode)
        priced = custom_all_reduce.all_reduce(size, members, chip, library or "vllm", "" if mode == "custom" else mode)
        carried = f.all_reduce_volume(size, members)
    else:
        _exchange_only(op, mode, chip)
        experts = lift("k", float(top_k), "experts", "--top-k")
        e = ExpertAllToAll(op, mode, op, size, experts, 1.0, 1.0, "ep", members, 1.0, limit=limit, variant=library)
        priced = moe_all2all.price_exchange(e, chip)
        carried = priced.volume
    return _answer(op, mode, hardware, size, members, priced, carried)


def _custom_only(op: str, n: Number, chip: Chip, library: str, mode: str) -> None:
    if op != "all-reduce":
        raise UsageError(f"--mode {mode}: custom kernels only reduce; ask for all-reduce, or leave --mode out")
    if library not in EXPERT_KERNELS:
        raise unknown("library", library, ("vllm", "sglang", "trtllm"))
    if not custom_all_reduce.is_benchmarked(chip, library):
        raise UsageError(f"--mode {mode}: nobody timed {library}'s all-reduce on {chip.spec.name}; use --mode nccl")
    if num.value(n) > min(custom_all_reduce.MOST, chip.levels[0].size):
        raise UsageError(
            f"--mode {mode}: these kernels reach {min(custom_all_reduce.MOST, chip.levels[0].size):.0f} devices of one host; use --mode nccl"
        )


def _exchange_only(op: str, mode: str, chip: Chip) -> None:
    if op not in PHASES:
        raise UsageError(f"--mode {mode} moves tokens to experts; ask for dispatch or combine, or leave --mode out")
    if not moe_all2all.is_benchmarked(chip, mode):
        raise UsageError(f"--mode {mode}: nobody timed these kernels on {chip.spec.name}; ask for all-to-all")


def _answer(
    op: str,
    mode: str,
    hardware: HardwareSpec,
    size: Number,
    members: Number,
    priced: PricedCollective,
    carried: Number,
) -> dict[str, Any]:
    """The same object as that of any collective; levels are those of NCCL alone."""
    found = timed(op, hardware, size, members, priced, carried)
    expected = found["expected_s"]
    return found | {
        "latency_s": num.maximum(expected - priced.floor, 0.0),
        "bound": "bandwidth" if num.value(priced.floor) * 2 > num.value(expected) else "latency",
        "algorithm": mode,
        "levels": [],
    }
