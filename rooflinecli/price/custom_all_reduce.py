"""Custom all-reduces of serving engines: one-shot or two-shot kernels inside one NVLink domain, instead of NCCL."""

from __future__ import annotations

from types import SimpleNamespace

from rooflinecli.core import num
from rooflinecli.core.num import Number
from rooflinecli.formulas import collectives, moe_all2all
from rooflinecli.ledger.ops import Collective
from rooflinecli.price.chip import Chip
from rooflinecli.price.network import PricedCollective

KIND = "custom_all_reduce"
MOST = 8.0  # devices that these kernels serve
SHOTS = ("one-shot", "two-shot")


def is_benchmarked(chip: Chip, library: str) -> bool:
    """Whether a library's kernels were benchmarked on the chip's generation."""
    return chip.has_constants(KIND, f"one-shot@{library}")


def all_reduce(size: Number, n: Number, chip: Chip, library: str, shot: str = "") -> PricedCollective:
    """An all-reduce of `size` bytes over n devices of the innermost level; the faster of both kernels unless one is named.

    The floor is that of in-network reduction: every device sends its bytes once.
    """
    bandwidth = chip.levels[0].bandwidth
    one, two = (_constants(chip, name, library) for name in SHOTS)
    once = moe_all2all.one_shot_all_reduce(one.overhead, size, n, one.memory, bandwidth)
    twice = moe_all2all.two_shot_all_reduce(one.overhead, two.overhead, size, n, two.memory, bandwidth)
    expected = {"one-shot": once, "two-shot": twice}.get(shot, collectives.faster(once, twice))
    least = collectives.collective_floor(collectives.reduced_in_network_volume(size, n), bandwidth)
    sent = {"one-shot": size * (n - 1)}.get(shot, collectives.all_reduce_volume(size, n))
    error = num.maximum(one.error, two.error)
    return PricedCollective(least, num.maximum(expected, least), sent, error)


def _constants(chip: Chip, shot: str, library: str) -> SimpleNamespace:
    return chip.constants("kernel", KIND, shot, f"{shot}@{library}")


def replacement_price(collective: Collective, chip: Chip, priced: PricedCollective) -> PricedCollective:
    """The price of an all-reduce in an engine with custom kernels: NCCL's, or theirs where they reach and are faster."""
    if not chip.levels or chip.ideal or not is_benchmarked(chip, collective.library):
        return priced
    custom = all_reduce(collective.size, collective.n, chip, collective.library)
    reach = num.minimum(MOST, chip.levels[0].size)
    near = (collective.n * collective.stride <= reach) & (collective.n > 1)
    expected = num.where(near, num.minimum(custom.expected, priced.expected), priced.expected)
    return PricedCollective(priced.floor, expected, priced.volume, priced.error)
