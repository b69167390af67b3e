"""One collective -> seconds. A group is a size and a stride; the levels it spans follow from the hardware file.

Groups are placed innermost first, so a group of n with one member every `stride` devices fills the inner level before
it reaches the next, and a collective over several levels is done level by level: reduce inside, exchange outside. A fabric
around a fabric is a tier of the same ports: one ring passes through both, and what crosses waits for the tier's uplinks.
"""

from __future__ import annotations

from collections.abc import Iterator

from rooflinecli.core import num
from rooflinecli.core.derivation import label
from rooflinecli.core.errors import UsageError, unknown
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.num import Number
from rooflinecli.formulas import collectives as f
from rooflinecli.ledger.ops import Collective
from rooflinecli.price import fabrics
from rooflinecli.price.chip import Chip, LevelNumbers
from rooflinecli.price.fabrics import DIRECT, ROOTED, GroupSpan, LevelPrice

OPS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "permute", *ROOTED)
SHOTS = ("one-shot", "two-shot")  # custom all-reduces of serving engines inside one NVLink domain
NCCL = "nccl"  # the library of an engine without such kernels
LARGEST_CUSTOM = 8.0  # devices that these kernels serve
COST = {
    "switch": fabrics.switch,
    "pcie": fabrics.switch,
    "mesh": fabrics.mesh,
    "fabric": fabrics.fabric,
    "torus": fabrics.torus,
}


@dataclass(slots=True, eq=False, repr=False)
class PricedCollective:
    floor: Number
    expected: Number
    volume: Number
    error: Number  # toward longer times
    gain: Number | None = None  # toward shorter ones, where it is not the same
    latency: Number = 0.0  # what of `expected` a message without bytes takes too


def price_collective(collective: Collective, chip: Chip, regime: str, devices: Number) -> PricedCollective:
    """Floor, expected time and bytes sent per device of one collective.

    Reductions and gathers go level by level, chunk after chunk, so that their wires work at the same time; an all-to-all or a permute uses the wires of all levels at once. The floor
    lets every level work at the same time, but for a NIC behind the device's own PCIe port, which carries the bytes of both
    levels. Raises UsageError when the chip's file describes no network for the group.
    """
    if collective.n.__class__ is float and collective.n == 1.0 and collective.op in OPS:
        return PricedCollective(0.0, 0.0, 0.0, 0.0)
    floor: Number = 0.0
    expected: Number = 0.0
    volume: Number = 0.0
    error: Number = 0.0
    latency: Number = 0.0
    inner: Number = 0.0  # floor of the level within
    together = collective.op in DIRECT
    pipelined = regime == "kernel"  # a step's constants were fitted to the sum of the levels
    ports: Number = 0.0  # wire time on the ports between hosts so far, which a further tier includes
    for level, part in by_level(collective, chip, regime, devices):
        floor = num.maximum(floor, part.floor)
        spent = part.expected
        if level.tier and not (together or pipelined):
            expected = expected - ports
        if level.index > 0 and not num.one(collective.rails):
            spent = f.multi_rail_time(spent, part.latency, collective.rails)
        ports = spent - part.latency if level.level.kind == "fabric" else 0.0
        spent, without_bytes = label(spent, f"t_{level.index}"), label(part.latency, f"t_lat_{level.index}")
        before, both = expected, latency + without_bytes
        if together:
            latency = num.where(expected < spent, without_bytes, latency)
            expected = num.maximum(expected, spent)
        else:
            inside = pipelined and num.present(expected)
            expected = f.pipelined_time(expected, latency, spent, without_bytes) if inside else expected + spent
            latency = both
        if level.port is not None:
            floor = num.maximum(floor, inner + f.collective_floor(part.volume, level.port))
            on_port = before + f.time_on_port(spent, without_bytes, level.bandwidth, level.port)
            latency = num.where(on_port > expected, both, latency)
            expected = num.maximum(expected, on_port)
        inner = part.floor
        volume = volume + part.volume
        error = num.maximum(error, part.error)
    if regime == "kernel" and num.present(expected):  # a step's own error is that of whole phases
        spent = num.maximum(expected, 1e-30)
        replayed = chip.levels[0].level.kind != "torus"  # whose collectives come out of a compiled program
        gain = f.message_gain(error, latency, spent) if replayed else None
        return PricedCollective(floor, expected, volume, f.message_error(error, latency, spent), gain, latency)
    return PricedCollective(floor, expected, volume, error, latency=latency)


def by_level(
    collective: Collective, chip: Chip, regime: str, devices: Number
) -> Iterator[tuple[LevelNumbers, LevelPrice]]:
    """The network levels that a group spans, from the inside out, with the price of each."""
    if collective.op not in OPS:
        raise unknown("collective", collective.op, OPS)
    if num.one(collective.n):
        return
    if not chip.levels:
        if not num.plain(collective.n):
            return  # a sweep masks the points with more than one device
        raise UsageError(
            f"{chip.spec.name}: its file describes no network, so a plan has one device; add `network:` to it"
        )
    reach, last = chip.levels[-1].size, collective.n * collective.stride
    if num.plain(last) and num.value(last) > reach:
        raise UsageError(
            f"{num.value(last):.0f} devices: {chip.spec.name} describes a network of {reach:.0f}; "
            "use fewer, or add an outer level to its file"
        )
    inner: Number = 1.0
    size = collective.size
    ports: Number = 0.0
    for level in chip.levels:
        members = f.members_within(level.size, collective.stride, collective.n)
        fan = f.fan_out(members, inner)
        if not num.one(fan):
            # of a host, whose devices have ports of their own; hosts of a pod share its uplinks with those of other groups
            least = f.least_members(inner, collective.n) if level.index == 1 else inner
            span = GroupSpan(fan, inner, members, collective.n, collective.stride, devices, collective.mesh, least)
            sent = size if level.index == 0 else size * collective.outer_share
            part = COST[level.level.kind](collective.op, sent, span, level, regime)
            if not num.plain(fan):  # a sweep visits every level; where the group does not span it, it adds no error
                part.error = num.where(fan > 1, part.error, 0.0)
            _contend(collective, level, part, inner, ports)
            ports = part.expected - part.latency if level.level.kind == "fabric" else 0.0
            yield level, part
            if collective.op not in DIRECT:
                size = size / f.least_members(fan, collective.n)
        if num.plain(members) and num.value(members) == num.value(collective.n):
            return  # outer levels have no further members
        inner = members


def _contend(collective: Collective, level: LevelNumbers, part: LevelPrice, inner: Number, ports: Number) -> None:
    """Lengthen a fabric's price where its uplinks are oversubscribed or collide, `ports` seconds of wire being spent at its inner tier.

    Of a ring, and of the shifts between neighbors, one member in `inner` crosses; an all-to-all says its own bytes.
    """
    at = level.level
    if at.kind != "fabric" or (at.oversubscription == 1 and at.collisions is None and not level.tier):
        return
    every = collective.op == "all-to-all"
    wire = part.expected - part.latency
    both = wire if collective.op == "permute" else wire + ports
    if at.rails and not every:
        part.expected = part.latency + both
        return
    share = 1.0 if not level.tier else wire / both if every else 1 / inner
    slow = f.uplink_contention(level.oversubscription, level.collisions, share)
    part.expected = part.latency + both * slow
    crossing = 1.0 if every or not level.tier or collective.op != "permute" else 1 / inner
    part.floor = part.floor * num.maximum(level.oversubscription * crossing, 1)
    # nccl-tests of one's own settle it
    if at.collisions is None and "efficiency.collective.memory" not in level.chip.factors:
        part.error = num.where(slow > 1, f.contention_error(part.error, level.collisions), part.error)


def has_custom_all_reduce(chip: Chip, library: str) -> bool:
    """Whether a library's kernels were benchmarked on the chip's generation."""
    return chip.has_constants("custom_all_reduce", f"one-shot@{library}")


def custom_all_reduce(size: Number, n: Number, chip: Chip, library: str, shot: str = "") -> PricedCollective:
    """An all-reduce of `size` bytes over n devices of the innermost level by an engine's own kernels, the faster of both unless one is named.

    The floor is that of in-network reduction: every device sends its bytes once.
    """
    bandwidth = chip.levels[0].bandwidth
    one, two = (chip.constants("kernel", "custom_all_reduce", shot, f"{shot}@{library}") for shot in SHOTS)
    once = f.one_shot_all_reduce(one.overhead, size, n, one.memory, bandwidth)
    twice = f.two_shot_all_reduce(one.overhead, two.overhead, size, n, two.memory, bandwidth)
    expected = {"one-shot": once, "two-shot": twice}.get(shot, f.faster(once, twice))
    least = f.collective_floor(f.reduced_in_network_volume(size, n), bandwidth)
    sent = {"one-shot": size * (n - 1)}.get(shot, f.all_reduce_volume(size, n))
    error = num.maximum(one.error, two.error)
    return PricedCollective(least, num.maximum(expected, least), sent, error)


def replacement_price(collective: Collective, chip: Chip, priced: PricedCollective) -> PricedCollective:
    """The price of an all-reduce in an engine with custom kernels: NCCL's, or theirs where they reach and are faster."""
    if not chip.levels or chip.ideal or not has_custom_all_reduce(chip, collective.library):
        return priced
    custom = custom_all_reduce(collective.size, collective.n, chip, collective.library)
    reach = num.minimum(LARGEST_CUSTOM, chip.levels[0].size)
    near = (collective.n * collective.stride <= reach) & (collective.n > 1)
    expected = num.where(near, num.minimum(custom.expected, priced.expected), priced.expected)
    return PricedCollective(priced.floor, expected, priced.volume, priced.error)
