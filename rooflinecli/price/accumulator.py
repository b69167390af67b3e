"""Sums priced kernels and collectives of a step: seconds by group, floors per resource, and the error of the sum."""

from __future__ import annotations

from rooflinecli.core import num
from rooflinecli.core.derivation import label
from rooflinecli.core.num import Number
from rooflinecli.ledger.ops import GROUPS, MIXING, Collective, ExpertAllToAll, Op
from rooflinecli.price.chip import Chip
from rooflinecli.price.kernels import FUSIBLE, Priced, price
from rooflinecli.price.moe_all2all import price_exchange
from rooflinecli.price.network import NCCL, PricedCollective, price_collective, replacement_price

_SUMS = ("t_compute", "t_memory", "t_communication", "flops", "bytes")


class StepAccumulator:
    """Seconds by group (matmul, attention, elementwise, communication, ...) with their floors and errors."""

    def __init__(self, chip: Chip, regime: str, devices: Number):
        self.chip, self.regime, self.devices = chip, regime, devices
        self.groups: dict[str, Number] = {}
        self.t_compute: Number = 0.0
        self.t_memory: Number = 0.0
        self.t_communication: Number = 0.0
        self.flops: Number = 0.0
        self.bytes: Number = 0.0
        self.errors: dict[str, Number] = {}
        self.by_axis: dict[str, Number] = {}
        self.hidden: dict[str, Number] = {}
        self.volumes: dict[str, Number] = {}
        self._op_prices: dict[int, tuple[Op, Priced]] = {}
        self._collective_prices: dict[tuple[object, ...], PricedCollective] = {}

    def add(self, ops: list[Op], times: Number) -> None:
        """Charge each kernel `times` times."""
        self.add_priced(ops, self.prices(ops), times)

    def prices(self, ops: list[Op]) -> list[Priced]:
        """Price each kernel."""
        if self.regime == "training":
            return [self._memoized_price(op) for op in ops]
        chip, regime = self.chip, self.regime
        return [price(op, chip, regime) for op in ops]

    def add_priced(self, ops: list[Op], prices: list[Priced], times: Number) -> None:
        """Charge priced kernels `times` times each."""
        groups, errors = self.groups, self.errors
        flops, moved, t_compute, t_memory = self.flops, self.bytes, self.t_compute, self.t_memory
        for op, (least_compute, least_memory, expected, error) in zip(ops, prices, strict=True):
            count, kind = times if op.count == 1 else times * op.count, op.kind
            seconds = (expected if expected.__class__ is float else label(expected, f"t[{op.name}]")) * count
            group = GROUPS.get(kind, MIXING)
            groups[group] = groups.get(group, 0.0) + seconds
            errors[kind] = errors.get(kind, 0.0) + seconds * error
            flops = flops + op.flops * count
            if kind not in FUSIBLE:
                if least_compute.__class__ is not float:
                    least_compute, least_memory = (
                        label(least_compute, f"t_c[{op.name}]"),
                        label(least_memory, f"t_m[{op.name}]"),
                    )
                t_compute = t_compute + least_compute * count
                t_memory = t_memory + least_memory * count
                moved = moved + op.bytes * count
        self.flops, self.bytes, self.t_compute, self.t_memory = flops, moved, t_compute, t_memory

    def _memoized_price(self, op: Op) -> Priced:
        """Price a kernel of a training step once: recomputation and reference passes launch the same ones again."""
        known = self._op_prices.get(id(op))
        if known is not None and known[0] is op:
            return known[1]
        priced = price(op, self.chip, self.regime)
        if priced.expected.__class__ is float:  # arrays of a sweep are too large to keep
            self._op_prices[id(op)] = (op, priced)
        return priced

    def collective(self, collective: Collective | ExpertAllToAll, times: Number = 1.0) -> Number:
        """Price a collective and add its floor and bytes; the caller charges what is exposed of its seconds."""
        if isinstance(collective, ExpertAllToAll):
            priced = price_exchange(collective, self.chip)
        else:
            priced = self._memoized_collective(collective)
        count = collective.count * times
        floor = priced.floor if priced.floor.__class__ is float else label(priced.floor, f"t_floor[{collective.name}]")
        self.t_communication = self.t_communication + floor * count
        self.volumes[collective.axis] = self.volumes.get(collective.axis, 0.0) + priced.volume * count
        self.errors["communication"] = self.errors.get("communication", 0.0) + priced.expected * count * priced.error
        expected = priced.expected
        return (expected if expected.__class__ is float else label(expected, f"t[{collective.name}]")) * count

    def _memoized_collective(self, c: Collective) -> PricedCollective:
        """Price a collective of plain sizes once: a layer sends the same bytes forward, backward and in recomputation."""
        plain = c.size.__class__ is c.n.__class__ is c.stride.__class__ is c.rails.__class__ is float and c.mesh is None
        key = (c.op, c.size, c.n, c.stride, c.rails, c.outer_share, c.library)
        if plain and c.outer_share.__class__ is float and key in self._collective_prices:
            return self._collective_prices[key]
        priced = price_collective(c, self.chip, "kernel" if c.library == NCCL else self.regime, self.devices)
        if c.library and c.op == "all-reduce":
            priced = replacement_price(c, self.chip, priced)
        if plain and c.outer_share.__class__ is priced.expected.__class__ is float:
            self._collective_prices[key] = priced
        return priced

    def add_exposed_comm(self, axis: str, seconds: Number) -> None:
        """Charge exposed communication of an axis."""
        self.groups["communication"] = self.groups.get("communication", 0.0) + seconds
        self.by_axis[axis] = self.by_axis.get(axis, 0.0) + seconds

    def add_hidden_comm(self, axis: str, seconds: Number) -> None:
        """Note communication of an axis that hides behind the work."""
        self.hidden[axis] = self.hidden.get(axis, 0.0) + seconds

    def merge(self, other: StepAccumulator, times: Number, least: Number) -> None:
        """Charge everything of another accumulator `times` times; its floors, which no expected time may move, `least` times."""
        for name in ("groups", "errors", "by_axis", "hidden", "volumes"):
            sums = getattr(self, name)
            for key, amount in getattr(other, name).items():
                sums[key] = sums.get(key, 0.0) + amount * times
        self.t_compute = self.t_compute + other.t_compute * least
        self.t_memory = self.t_memory + other.t_memory * least
        self.t_communication = self.t_communication + other.t_communication * least
        self.flops = self.flops + other.flops * times
        self.bytes = self.bytes + other.bytes * times

    def add_time(self, group: str, seconds: Number, kind: str, error: Number) -> None:
        """Charge `seconds` to a group; errors of one `kind` are correlated."""
        self.groups[group] = self.groups.get(group, 0.0) + seconds
        self.errors[kind] = self.errors.get(kind, 0.0) + seconds * error

    def add_group(self, group: str, other: StepAccumulator, seconds: Number, times: Number) -> None:
        """Charge another accumulator `times` times as one group, with its floors, bytes and errors."""
        self.add_time(group, seconds * times, group, 0.0)
        for kind, error in other.errors.items():
            self.errors[kind] = self.errors.get(kind, 0.0) + error * times
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name) * times)
        for axis, volume in other.volumes.items():
            self.volumes[axis] = self.volumes.get(axis, 0.0) + volume * times

    def set_floor_from(self, other: StepAccumulator) -> None:
        """Take floors, FLOPs and bytes of another accumulator: of the unpadded work, where an engine pads it."""
        for name in _SUMS:
            setattr(self, name, getattr(other, name))

    def divide_by(self, parts: Number) -> None:
        """Divide everything by a number of parts, such as the tokens that a step writes."""
        for name in _SUMS:
            setattr(self, name, getattr(self, name) / parts)
        for sums in (self.groups, self.errors, self.by_axis, self.volumes):
            sums.update({key: value / parts for key, value in sums.items()})

    @property
    def total(self) -> Number:
        total: Number = 0
        for name, seconds in self.groups.items():
            total = total + (seconds if seconds.__class__ is float else label(seconds, f"t_{name}"))
        return total

    def relative_error(self, total: Number) -> Number:
        """80% relative error of `total`: classes independent, operations of one class fully correlated."""
        variance = sum(e * e for e in self.errors.values())
        return num.sqrt(variance) / total
