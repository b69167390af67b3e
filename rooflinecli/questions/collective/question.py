"""`roofline collective OP BYTES --hw HW -n N` as a record."""

from __future__ import annotations

from dataclasses import field as key
from math import prod

from rooflinecli.core.errors import UsageError, unknown
from rooflinecli.core.lift import PLAIN, PlainLift
from rooflinecli.core.num import Number as Quantity
from rooflinecli.core.record import Record, former
from rooflinecli.questions.question import Question
from rooflinecli.specs.options import Number, OptNumber, OptText, Text, field


class ChipName(Record):
    """A chip by the name people know and by its name in the registry."""

    name: str
    id: str


class CollectiveLevel(Record):
    """What a network level contributes."""

    name: str
    kind: str
    volume_bytes: Quantity
    bandwidth_bytes_per_s: Quantity
    latency_s: Quantity
    floor_s: Quantity
    expected_s: Quantity
    algorithm: str


class CollectiveAnswer(Record):
    """Bytes that each device sends (the root of a scatter; what the root of a gather receives), times with their 80% interval, and bus bandwidth as nccl-tests define it."""

    op: str
    hardware: ChipName
    bytes: Quantity
    devices: Quantity
    volume_bytes: Quantity
    floor_s: Quantity
    expected_s: Quantity
    time_s: Quantity
    interval_s: tuple[Quantity, Quantity]
    bus_bandwidth_bytes_per_s: Quantity
    latency_s: Quantity
    bottleneck: str = key(metadata=former("bound"))
    algorithm: str
    levels: list[CollectiveLevel]  # from the inside out


class Collective(Question[CollectiveAnswer]):
    """What a collective costs over N devices: bytes sent, floor, expected time, bus bandwidth."""

    verb = "collective"
    examples = (
        "roofline collective all-reduce 128MiB --hw h100 -n 16",
        "roofline collective dispatch 2MB --hw h100 -n 64 --backend deepep-low-latency",
    )
    # fmt: off
    op: Text = field("free", "all-reduce, all-gather, reduce-scatter, all-to-all, permute, broadcast, reduce, scatter or gather; with --backend dispatch or combine.", positional=True, kw_only=False)
    size: Number = field("bytes", "The whole tensor, such as 128MiB; a bare number is bytes.", positional=True, kw_only=False)
    hw: Text = field("name", "A chip or system (`roofline hardware`).", kw_only=False)
    n: OptNumber = field("count", "Devices in the group; or --mesh.", default=None, most=1e7, short="-n", also=("devices",))
    mesh: OptText = field("free", "Members per torus axis, such as x=4,y=1, instead of -n.", default=None, metavar="AXES")
    backend: Text = field("free", "nccl; deepep-low-latency, deepep, nvlink, gather (dispatch, combine); one-shot, two-shot, custom (all-reduce).", default="nccl", metavar="CHOICE", former=("mode",))
    top_k: Number = field("count", "Experts of a token: with dispatch and combine, SIZE is that of one rank's tokens.", default=8.0)
    max_nodes_per_token: OptNumber = field("count", "Largest number of nodes with experts of one token (node-limited routing).", default=None, former=("node-limit",))
    concurrent: Number = field("count", "Equal collectives at once over the same links.", default=1.0)
    library: OptText = field("free", "Whose kernels: vllm, sglang, trtllm.", default=None, metavar="CHOICE")
    # fmt: on

    def answer(self, lift: PlainLift = PLAIN) -> CollectiveAnswer:
        from rooflinecli.core.num import INF
        from rooflinecli.questions.collective.answer import BUS, MODES, PHASES, along_axes, collective, with_mode
        from rooflinecli.questions.shard.answer import mesh
        from rooflinecli.specs.hardware import load_hardware

        chip, axes = load_hardware(self.hw), None if self.mesh is None else mesh(self.mesh)
        devices = self.n if axes is None else prod(axes.values())
        if self.op not in (*BUS, *PHASES):
            raise unknown("collective", self.op, (*BUS, *PHASES), option="op")
        if self.backend == "nccl":
            if self.op in PHASES:
                raise UsageError(
                    f"{self.op} is an operation of MoE kernels, not of NCCL; add --backend deepep-low-latency, deepep, nvlink or gather",
                    "backend",
                )
            along = None if axes is None else along_axes(chip, axes)
            return collective(
                self.op, self.size, chip, devices, lift=lift, mesh=along, whole=True, concurrent=self.concurrent
            )
        if self.backend not in MODES:
            raise unknown("backend", self.backend, MODES, option="backend")
        if self.concurrent != 1:
            raise UsageError("--concurrent shares links as NCCL does; leave --backend out", "concurrent")
        if axes is not None:
            raise UsageError(
                f"--mesh places a group on a torus, which --backend {self.backend} does not support; give -n"
            )
        limit = INF if self.max_nodes_per_token is None else self.max_nodes_per_token
        return with_mode(
            self.op, self.size, chip, devices, self.backend,
            lift=lift, top_k=self.top_k, library=self.library or "", limit=limit,
        )  # fmt: skip
