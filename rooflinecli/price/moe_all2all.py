"""One MoE all-to-all -> seconds, by its backend, and a floor that no backend beats.

A backend has other constants over several nodes (`-nodes`) than inside one NVLink domain, because proxies, notifications and NICs
take part.
"""

from __future__ import annotations

from rooflinecli.core import num
from rooflinecli.core.errors import UsageError
from rooflinecli.core.num import Number
from rooflinecli.formulas import collectives as f
from rooflinecli.formulas import roofline
from rooflinecli.ledger.ops import ExpertAllToAll
from rooflinecli.price.chip import Chip
from rooflinecli.price.network import PricedCollective

KIND = "exchange"
GATHER = "gather"
MERGING = ("deepep", "nvlink", "nvlink-one-sided")  # backends that send one copy per rank and node
MODES = ("deepep-low-latency", *MERGING, GATHER)


def is_benchmarked(chip: Chip, mode: str) -> bool:
    """Whether the chip's file, or its generation's, has constants of a backend."""
    return chip.has_constants(KIND, mode if mode == GATHER else f"{mode}-dispatch")


def price_exchange(e: ExpertAllToAll, chip: Chip) -> PricedCollective:
    """Floor, expected time and bytes sent per rank. Raises UsageError where the chip's network does not reach so far."""
    if not chip.levels:
        raise UsageError(f"{chip.spec.name}: its file describes no network; add `network:` to it")
    if e.n.__class__ is float and e.n == 1.0:
        return PricedCollective(0.0, 0.0, 0.0, 0.0)
    inner = chip.levels[0]
    inside = f.members_within(inner.size, e.stride, e.n)
    nodes = f.fan_out(e.n, inside)
    several = num.present(nodes - 1) and _reaches(e, chip, nodes)
    wide = chip.levels[1].bandwidth if several else inner.bandwidth
    # when every rank and every node gets one copy of a token at most
    ranks, across = f.destinations_visited(e.n, e.top_k), f.nodes_visited(nodes, e.top_k, e.limit)
    least_in = f.merged_inside(e.tokens, e.d_model, e.bytes_per_value, ranks, inside)
    least_out = f.merged_outside(e.tokens, e.d_model, e.bytes_per_value, across, nodes)
    sent_in, sent_out = _sent(e, inside, nodes, (least_in, least_out))
    floor = roofline.floor_time(least_in / inner.bandwidth, least_out / wide if several else 0.0)
    here = _time(e, chip, "", (sent_in, inner.bandwidth), (0.0, wide), 1.0)
    expected, error = here
    if several:
        there = _time(e, chip, "-nodes", (sent_in, inner.bandwidth), (sent_out, wide), nodes)
        expected, error = (num.where(nodes > 1, far, near) for far, near in zip(there, here, strict=True))
    return PricedCollective(floor, num.maximum(expected, floor), sent_in + sent_out, error)


def _reaches(e: ExpertAllToAll, chip: Chip, nodes: Number) -> bool:
    """Whether the backend works between hosts. Raises UsageError where a scalar needs it and backend or network do not."""
    benchmarked = e.mode == GATHER or chip.has_constants(KIND, f"{e.mode}-{e.phase}-nodes")
    if benchmarked and len(chip.levels) > 1:
        return True
    if num.plain(nodes):
        size = chip.levels[0].size
        raise UsageError(
            f"{num.value(e.n):.0f} ranks: {e.mode} stays inside the {size:.0f} devices of {chip.levels[0].level.name} on "
            f"{chip.spec.name}; use fewer, or another --all2all-backend"
        )
    return False  # a sweep masks the points beyond


def _sent(e: ExpertAllToAll, inside: Number, nodes: Number, merged: tuple[Number, Number]) -> tuple[Number, Number]:
    """Bytes that the backend sends inside and between nodes."""
    if e.mode in MERGING:
        return merged
    if e.mode == GATHER:
        return (
            f.gathered(e.tokens, e.d_model, e.bytes_per_value, e.n),
            f.gathered(e.tokens, e.d_model, e.bytes_per_value, nodes),
        )
    sizes = (e.tokens, e.top_k, e.d_model, e.bytes_per_value, e.n, inside)
    return f.copies_inside(*sizes), f.copies_outside(*sizes)


def _time(
    e: ExpertAllToAll,
    chip: Chip,
    suffix: str,
    inside: tuple[Number, Number],
    outside: tuple[Number, Number],
    nodes: Number,
) -> tuple[Number, Number]:
    """Expected seconds and their relative error with the constants for one domain or for several."""
    name = GATHER if e.mode == GATHER else f"{e.mode}-{e.phase}{suffix}"
    c = chip.constants("kernel", KIND, name, f"{name}@{e.variant}" if e.variant else "")
    t_in = roofline.effective_memory_time(inside[0], inside[1], c.memory)
    t_out = roofline.effective_memory_time(outside[0], outside[1], c.fabric)
    return f.exchange_time(c.overhead, c.per_hop, nodes, t_in, t_out, f.exchanged(e.n)), c.error
