"""Typed answer of a phase: times, rates, fractions, memory. Numbers are floats, arrays of a sweep, or traced.

Times are in seconds of one pass (a prompt, a token, a step), sizes in bytes per device, rates per second over all devices.
The fields are the keys of the JSON contract, in its order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from operator import attrgetter
from typing import Any

from rooflinecli.core import num
from rooflinecli.core.num import Number
from rooflinecli.core.record import HIDDEN, OPTIONAL, SPREAD, Record, former
from rooflinecli.formulas import roofline
from rooflinecli.specs.layout import AXES, SIZES, Layout

_TRAINED = ("zero", "micro_batch", "virtual_stages", "sequence_parallel", "recompute")


class Resources(Record):
    """Seconds that each resource needs at its peak, all else ignored."""

    compute: float
    memory: float
    communication: float


class Residency(Record):
    """Bytes on the fullest device, and its capacity. reserved_bytes, in the total of a serving phase, is what the engine keeps free of
    weights, activations and cache. slack_bytes, in no total and no verdict, is the median by which the peaks of
    published training runs exceeded the total."""

    weights_bytes: float
    gradients_bytes: float
    optimizer_bytes: float
    activations_bytes: float
    kv_cache_bytes: float
    total_bytes: float
    capacity_bytes: float
    headroom_fraction: float = field(metadata=former("headroom"))
    reserved_bytes: float | None = field(default=None, metadata=OPTIONAL)
    host_bytes: float | None = field(default=None, metadata=OPTIONAL)
    slack_bytes: float | None = field(default=None, metadata=OPTIONAL)

    @property
    def fits(self) -> Number:
        """Whether the total is within capacity; a mask where sizes are arrays."""
        return num.value(self.total_bytes) <= num.value(self.capacity_bytes)


class LayoutAnswer(Record):
    """A layout in the JSON contract: whole sizes, unusual fields only where they differ from the default, and why it was chosen."""

    devices: int
    tp: int
    pp: int
    dp: int
    cp: int
    ep: int
    zero: int
    micro_batch: int
    virtual_stages: int
    sequence_parallel: bool
    recompute: str
    unusual: dict[str, Any] = field(default_factory=dict, metadata=SPREAD)
    chosen: bool
    reason: str

    def options(self, trains: bool) -> dict[str, object]:
        """The options of a question that give this layout again."""
        given: dict[str, object] = {"n": self.devices, **{axis: getattr(self, axis) for axis in AXES}}
        if trains:
            trained = {name: getattr(self, name) for name in _TRAINED} | self.unusual
            for name, value in trained.items():
                if isinstance(value, (tuple, list)):  # as an option writes it: "1,2.5"
                    value = ",".join(f"{v:g}" if isinstance(v, float) else str(v) for v in value)
                given[name.replace("_", "-")] = value
        return given


class PhaseAnswer(Record):
    """Fields of every phase. Layout, bottleneck and measured values are set by an estimate, not by a sweep."""

    time_s: float
    floor_s: float
    interval_s: tuple[float, float]
    tokens_per_s: float
    tokens_per_s_interval: tuple[float, float]
    flops: float
    mfu: float
    resources_s: Resources
    breakdown_s: dict[str, float]
    communication_s: dict[str, float]
    communication_bytes: dict[str, float]
    memory: Residency
    derived: dict[str, float] = field(default_factory=dict, metadata=SPREAD)
    derived_intervals: dict[str, tuple[float, float]] = field(default_factory=dict, metadata=SPREAD)
    bottleneck: str | None = field(default=None, metadata=OPTIONAL | former("bound"))
    bound_ratio: float | None = field(default=None, metadata=OPTIONAL | former("bound_by"))
    layout: LayoutAnswer | None = field(default=None, metadata=OPTIONAL | former("plan"))
    measured_mfu: float | None = field(default=None, metadata=OPTIONAL)
    measured_time_s: float | None = field(default=None, metadata=OPTIONAL)

    @property
    def layout_of_phase(self) -> LayoutAnswer:
        """The layout of an estimate's phase."""
        assert self.layout is not None  # set by every estimate
        return self.layout


class TierAnswer(Record):
    """Sessions in a tier, as a fraction of idle ones, and seconds to reload one's cached prompt."""

    sessions: float
    in_tier_fraction: float = field(metadata=former("found_share"))
    reload_s: float


class TiersAnswer(Record):
    """Idle sessions of a replica: how many, how many on the device, the fractions there and evicted; mean reload time of a TTFT."""

    idle_sessions: float
    device_sessions: float
    on_device_fraction: float = field(metadata=former("resident_share"))
    evicted_fraction: float = field(metadata=former("lost_share"))
    reload_s: float
    tiers: dict[str, TierAnswer]


class PrefillAnswer(PhaseAnswer):
    """time_s is TTFT."""

    bytes_per_device: float
    sessions: TiersAnswer | None = field(default=None, metadata=OPTIONAL)


class SpeculationAnswer(Record):
    """Speculative decoding: accepted tokens per step, seconds of draft and verification, speedup at this batch.

    break_even_batch: the largest batch with a speedup; left out in sweeps and beyond the searched range.
    """

    mean_accepted_length: float = field(metadata=former("tokens_per_step"))
    draft_s: float
    verify_s: float
    speedup: float
    break_even_batch: float | None = field(default=None, metadata=OPTIONAL | former("pays_up_to_batch"))


class DecodeAnswer(PhaseAnswer):
    """time_s is ITL; batch and max_batch are running sequences per replica, of this load and at most. Requests of one token, which the prefill
    writes (`single_token`), have no ITL, and no key for one."""

    time_s: float = field(metadata=OPTIONAL)
    floor_s: float = field(metadata=OPTIONAL)
    interval_s: tuple[float, float] = field(metadata=OPTIONAL)
    bytes_per_device: float
    batch: float
    max_batch: float = field(metadata=former("largest_batch"))
    load_kind: str = field(metadata=former("load"))
    tokens_per_s_per_user: float = field(metadata=OPTIONAL)
    mbu: float
    speculation: SpeculationAnswer | None = field(default=None, metadata=OPTIONAL)
    single_token: bool = field(default=False, metadata=HIDDEN)

    def entries(self, version: int | None = None) -> Iterator[tuple[str, Any]]:
        """As any record's."""
        found = PhaseAnswer.entries(self, version)
        return (row for row in found if row[0] not in _BETWEEN_TOKENS) if self.single_token else found


_BETWEEN_TOKENS = frozenset(("time_s", "floor_s", "interval_s", "tokens_per_s_per_user"))


class TrainAnswer(PhaseAnswer):
    """time_s is one optimizer step; steps and run_s are of a whole run, where its tokens are given, elapsed_s with failures and checkpoints (goodput). communication_s is exposed
    communication by axis, hidden_s hidden. communication_error_fraction is the part of the relative error from the layout's
    communication; extrapolations are what no published run supports, a sentence each."""

    hidden_s: dict[str, float]
    hardware_flops: float
    hfu: float
    microbatches: float
    bubble_fraction: float
    communication_error_fraction: float = field(metadata=former("own_error"))
    steps: float | None = None
    run_s: float | None = None
    goodput: float | None = field(default=None, metadata=OPTIONAL)
    goodput_interval: tuple[float, float] | None = field(default=None, metadata=OPTIONAL)
    elapsed_s: Number | None = field(default=None, metadata=OPTIONAL)
    elapsed_interval_s: tuple[float, float] | None = field(default=None, metadata=OPTIONAL)
    extrapolations: list[str] | None = field(default=None, metadata=OPTIONAL | former("unsupported"))

    @property
    def launched_batch(self) -> int:
        """Sequences of a global batch of whole micro-batches, which is what launchers take: the batch, or above it."""
        return int(num.value(self.microbatches)) * self.layout_of_phase.dp * self.layout_of_phase.micro_batch


def rate_interval(rate: Number, error: Number, time: Number, floor: Number) -> tuple[Number, Number]:
    """80% interval of a rate inverse to a time with this floor."""
    most = rate * time / floor
    return rate / (1 + error), roofline.rate_high(rate, error, most)


def layout_answer(layout: Layout, chosen: bool, reason: str) -> LayoutAnswer:
    """Build the contract's view of a layout."""
    sizes = {name: int(num.value(getattr(layout, name))) for name in ("devices", *SIZES)}
    unusual = _unusual_fields(layout)
    return LayoutAnswer(
        **sizes,
        zero=layout.zero,
        sequence_parallel=layout.sequence_parallel,
        recompute=layout.recompute,
        unusual={n: v for n, v, usual in zip(_UNUSUAL, unusual, _DEFAULTS, strict=True) if v != usual},
        chosen=chosen,
        reason=reason,
    )


_UNUSUAL = (
    "recompute_layers recompute_modules schedule ring placement shard stages imbalance capacity_factor "
    "shared_overlap ep_overlap tp_overlap redundant_experts exchange overlap dropout offload offload_layers loss_chunks "
    "mlp_chunks expert_tp software recipe"
).split()
_unusual_fields = attrgetter(*_UNUSUAL)
_DEFAULTS = _unusual_fields(Layout)
