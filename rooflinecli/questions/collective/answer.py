"""`roofline collective`: one collective over n devices of a chip, level by level."""

from __future__ import annotations

from rooflinecli.core import num
from rooflinecli.core.derivation import label
from rooflinecli.core.errors import UsageError, unknown
from rooflinecli.core.lift import PLAIN, PlainLift
from rooflinecli.core.num import INF, Number
from rooflinecli.formulas import collectives as f
from rooflinecli.formulas import roofline
from rooflinecli.ledger.ops import Collective, ExpertAllToAll
from rooflinecli.price import moe_all2all, network
from rooflinecli.price.chip import Chip
from rooflinecli.price.network import OPS, PricedCollective, by_level, price_collective
from rooflinecli.questions.collective.question import ChipName, CollectiveAnswer, CollectiveLevel
from rooflinecli.specs.hardware import HardwareSpec
from rooflinecli.specs.layout import EXPERT_KERNELS

BUS = {
    "all-reduce": f.all_reduce_volume,
    "all-gather": f.gather_volume,
    "reduce-scatter": f.gather_volume,
    "all-to-all": f.all_to_all_volume,
    "permute": f.permute_volume,
    "broadcast": f.broadcast_volume,
    "reduce": f.broadcast_volume,
    "scatter": f.gather_volume,
    "gather": f.gather_volume,
}


def collective(
    op: str,
    size_bytes: Number,
    hardware: HardwareSpec,
    n: Number,
    regime: str = "kernel",
    lift: PlainLift = PLAIN,
    *,
    devices: Number | None = None,
    stride: Number = 1.0,
    efficiency: str = "expected",
    mesh: tuple[tuple[Number, Number], ...] | None = None,
    whole: bool = False,
    concurrent: Number = 1.0,
) -> CollectiveAnswer:
    """Return the cost of `op` on a tensor of `size_bytes` over n devices, one every `stride`, of a slice of `devices`.

    mesh: members and length on each torus axis, instead of the order of devices (along_axes). whole: `size_bytes` is the whole
    tensor for an all-to-all and a permute too, of which a device holds an n-th; else it is a device's buffer, as in nccl-tests.
    concurrent: equal collectives that share the links.
    Raises UsageError for an unknown operation or more devices than the network joins.
    """
    if op not in OPS:
        raise unknown("collective", op, OPS)
    shared = {f"network.{i}.bandwidth": level.bandwidth.si / concurrent for i, level in enumerate(hardware.network)}
    chip = Chip(hardware, lift, ideal=efficiency == "ideal", override=shared if concurrent != 1 else None)
    size, members = (
        lift("S", size_bytes, "B", "BYTES"),
        lift("n", float(n) if isinstance(n, int) else n, "devices", "-n"),
    )
    sent = size / members if whole and op in ("all-to-all", "permute") else size
    asked = Collective(op, op, sent, op, members, stride, mesh=mesh)
    used = members * stride if devices is None else devices
    priced = price_collective(asked, chip, regime, used)
    parts = list(by_level(asked, chip, regime, used))
    found = timed(op, hardware, size, members, priced, BUS[op](sent, members))
    latency, total = (float(sum(num.value(getattr(p, k)) for _, p in parts)) for k in ("latency", "expected"))
    found.bottleneck = "none" if not parts else "latency" if latency > total / 2 else "bandwidth"
    found.algorithm = ", then ".join(dict.fromkeys(part.algorithm for _, part in parts)) or "none"
    found.levels = [
        CollectiveLevel(
            name=level.level.name,
            kind=level.level.kind,
            volume_bytes=part.volume,
            bandwidth_bytes_per_s=part.bandwidth,
            latency_s=part.latency,
            floor_s=part.floor,
            expected_s=part.expected,
            algorithm=part.algorithm,
        )
        for level, part in parts
    ]
    return found


def timed(
    op: str,
    hardware: HardwareSpec,
    size: Number,
    members: Number,
    priced: PricedCollective,
    carried: Number,
    algorithm: str = "",
) -> CollectiveAnswer:
    """The answer for any collective, however it was priced: bytes, times, interval, and the rate of `carried` bytes."""
    expected = label(priced.expected, "t_comm")
    gain = priced.error if priced.gain is None else priced.gain
    alone = num.one(members)
    by_floor = "bandwidth" if num.value(priced.floor) * 2 > num.value(expected) else "latency"
    return CollectiveAnswer(
        op=op, hardware=ChipName(name=hardware.name, id=hardware.id), bytes=size, devices=members, volume_bytes=priced.volume,
        floor_s=priced.floor, expected_s=expected, time_s=expected,
        interval_s=(roofline.interval_low(expected, gain, priced.floor), roofline.interval_high(expected, priced.error)),
        bus_bandwidth_bytes_per_s=0.0 if alone else carried / expected, latency_s=priced.latency, bottleneck=by_floor, algorithm=algorithm,
        levels=[],
    )  # fmt: skip


def along_axes(hardware: HardwareSpec, axes: dict[str, float]) -> tuple[tuple[float, float], ...]:
    """Members and length of each axis of a group written as x=4,y=2. Raises UsageError where the chip has no such torus.

    The slice is the group itself: an axis of 16 closes where such axes do (wrap in the chip's file).
    """
    level = hardware.network[0] if hardware.network else None
    if level is None or level.kind != "torus":
        raise UsageError(f"--mesh: {hardware.name} is not laid out on a torus; give -n")
    longest = max(level.shape or [level.size or 0])
    for name, length in axes.items():
        if longest and length > longest:
            raise UsageError(f"--mesh {name}={length:g}: the longest axis of {hardware.name} has {longest:g} devices")
    if len(axes) > (level.axes or 1):
        raise UsageError(f"--mesh names {len(axes)} axes; the torus of {hardware.name} has {level.axes}")
    return tuple((size, size) for size in axes.values())


PHASES = ("dispatch", "combine")
SHOTS = ("custom", *network.SHOTS)
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
    and for kernels that were not timed on the chip.
    """
    chip = Chip(hardware, lift)
    size, members = lift("S", size_bytes, "B", "BYTES"), lift("n", float(n), "devices", "-n")
    if mode in SHOTS:
        _custom_only(op, members, chip, library or "vllm", mode)
        shots = network.SHOTS if mode == "custom" else (mode,)

        def by(shot: str, sent: Number) -> PricedCollective:
            return network.custom_all_reduce(sent, members, chip, library or "vllm", shot)

        shot = min(shots, key=lambda each: float(num.value(by(each, size).expected)))
        priced, empty = by(shot, size), by(shot, 0.0)
        carried = f.all_reduce_volume(size, members)
    else:
        if op not in PHASES:
            raise UsageError(
                f"--backend {mode} moves tokens to experts; ask for dispatch or combine, or leave --backend out"
            )
        if not moe_all2all.is_benchmarked(chip, mode):
            raise UsageError(f"--backend {mode}: these kernels were not timed on {chip.spec.name}; ask for all-to-all")
        experts = lift("k", float(top_k), "experts", "--top-k")
        priced, empty = (
            moe_all2all.price_exchange(
                ExpertAllToAll(op, mode, op, sent, experts, 1.0, 1.0, "ep", members, 1.0, limit=limit, variant=library),
                chip,
            )
            for sent in (size, 0.0)
        )
        carried = priced.volume
    priced.latency = empty.expected
    return timed(op, hardware, size, members, priced, carried, mode)


def _custom_only(op: str, n: Number, chip: Chip, library: str, mode: str) -> None:
    if op != "all-reduce":
        raise UsageError(f"--backend {mode}: custom kernels only reduce; ask for all-reduce, or leave --backend out")
    if library not in EXPERT_KERNELS:
        raise unknown("library", library, ("vllm", "sglang", "trtllm"))
    if not network.has_custom_all_reduce(chip, library):
        raise UsageError(
            f"--backend {mode}: {library}'s all-reduce was not timed on {chip.spec.name}; use --backend nccl"
        )
    if num.value(n) > min(network.LARGEST_CUSTOM, chip.levels[0].size):
        raise UsageError(
            f"--backend {mode}: these kernels reach {min(network.LARGEST_CUSTOM, chip.levels[0].size):.0f} devices of one host; use --backend nccl"
        )
