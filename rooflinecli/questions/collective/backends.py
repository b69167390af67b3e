"""`roofline collective ... --backend`: kernels other than NCCL's, of expert parallelism (dispatch, combine) and of small all-reduces."""

from __future__ import annotations

from rooflinecli.core import num
from rooflinecli.core.errors import UsageError, unknown
from rooflinecli.core.lift import PLAIN, PlainLift
from rooflinecli.core.num import INF, Number
from rooflinecli.formulas import collectives as f
from rooflinecli.ledger.ops import ExpertAllToAll
from rooflinecli.price import custom_all_reduce, moe_all2all
from rooflinecli.price.chip import Chip
from rooflinecli.questions.collective.answer import timed
from rooflinecli.questions.collective.answer_types import CollectiveAnswer
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
) -> CollectiveAnswer:
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
    return timed(op, hardware, size, members, priced, carried, algorithm=mode)


def _custom_only(op: str, n: Number, chip: Chip, library: str, mode: str) -> None:
    if op != "all-reduce":
        raise UsageError(f"--backend {mode}: custom kernels only reduce; ask for all-reduce, or leave --backend out")
    if library not in EXPERT_KERNELS:
        raise unknown("library", library, ("vllm", "sglang", "trtllm"))
    if not custom_all_reduce.is_benchmarked(chip, library):
        raise UsageError(
            f"--backend {mode}: nobody timed {library}'s all-reduce on {chip.spec.name}; use --backend nccl"
        )
    if num.value(n) > min(custom_all_reduce.MOST, chip.levels[0].size):
        raise UsageError(
            f"--backend {mode}: these kernels reach {min(custom_all_reduce.MOST, chip.levels[0].size):.0f} devices of one host; use --backend nccl"
        )


def _exchange_only(op: str, mode: str, chip: Chip) -> None:
    if op not in PHASES:
        raise UsageError(
            f"--backend {mode} moves tokens to experts; ask for dispatch or combine, or leave --backend out"
        )
    if not moe_all2all.is_benchmarked(chip, mode):
        raise UsageError(f"--backend {mode}: nobody timed these kernels on {chip.spec.name}; ask for all-to-all")
