"""What a phase answers, typed: times, rates, shares, memory. Numbers are floats, arrays of a sweep, or traced.

Times are in seconds of one pass (a prompt, a token, a step), sizes in bytes per device, rates per second over all devices.
The fields are the keys of the JSON contract, in its order.
"""

from __future__ import annotations

from dataclasses import field
from operator import attrgetter
from typing import Any

from rooflinecli.core import num
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.num import Number
from rooflinecli.core.record import OPTIONAL, SPREAD, Record, former
from rooflinecli.formulas import roofline
from rooflinecli.specs.layout import SIZES, Layout


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class Resources(Record):
    """Seconds that each resource needs at its peak, all else ignored."""

    compute: Number
    memory: Number
    communication: Number


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class Residency(Record):
    """Bytes on the fullest device, and what it can hold; headroom is the share of capacity left. slack_bytes, in no total and in no
    verdict, is what peaks of published training runs had beside these, in the median."""

    weights_bytes: Number
    gradients_bytes: Number
    optimizer_bytes: Number
    activations_bytes: Number
    kv_cache_bytes: Number
    total_bytes: Number
    capacity_bytes: Number
    headroom_fraction: Number = field(metadata=former("headroom"))
    host_bytes: Number | None = field(default=None, metadata=OPTIONAL)
    slack_bytes: Number | None = field(default=None, metadata=OPTIONAL)

    @property
    def fits(self) -> Number:
        """Whether it does; a mask where sizes are arrays."""
        return num.value(self.total_bytes) <= num.value(self.capacity_bytes)


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class LayoutAnswer(Record):
    """A plan as the contract shows it: whole sizes, what is seldom given only where it was, and why it was taken."""

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


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class PhaseAnswer(Record):
    """What every phase answers. `plan`, `bound` and what was measured are noted by an estimate, not by a sweep."""

    time_s: Number
    floor_s: Number
    interval_s: tuple[Number, Number]
    tokens_per_s: Number
    tokens_per_s_interval: tuple[Number, Number]
    flops: Number
    mfu: Number
    resources_s: Resources
    breakdown_s: dict[str, Number]
    communication_s: dict[str, Number]
    communication_bytes: dict[str, Number]
    memory: Residency
    derived: dict[str, Number] = field(default_factory=dict, metadata=SPREAD)
    bottleneck: str | None = field(default=None, metadata=OPTIONAL | former("bound"))
    bound_ratio: float | None = field(default=None, metadata=OPTIONAL | former("bound_by"))
    layout: LayoutAnswer | None = field(default=None, metadata=OPTIONAL | former("plan"))
    measured_mfu: float | None = field(default=None, metadata=OPTIONAL)
    measured_time_s: float | None = field(default=None, metadata=OPTIONAL)

    @property
    def layout_of_phase(self) -> LayoutAnswer:
        """The plan of an estimate's phase."""
        assert self.layout is not None  # an estimate notes it before anyone reads it
        return self.layout


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class TierAnswer(Record):
    """Sessions that a tier keeps, the share of idle ones found there, seconds until one's cached prompt is back."""

    sessions: Number
    in_tier_fraction: Number = field(metadata=former("found_share"))
    reload_s: Number


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class TiersAnswer(Record):
    """Sessions between two turns on a replica: how many, how many stay on the device, the shares there and nowhere; mean wait of a first token."""

    idle_sessions: Number
    device_sessions: Number
    on_device_fraction: Number = field(metadata=former("resident_share"))
    evicted_fraction: Number = field(metadata=former("lost_share"))
    reload_s: Number
    tiers: dict[str, TierAnswer]


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class PrefillAnswer(PhaseAnswer):
    """time_s is the time to first token."""

    bytes_per_device: Number
    sessions: TiersAnswer | None = field(default=None, metadata=OPTIONAL)


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class SpeculationAnswer(Record):
    """A round of speculation: tokens it writes, seconds of draft and verification, gain over plain decoding at this batch.

    pays_up_to_batch: the most sequences at which a token comes sooner than without; left out where that is never looked for
    or beyond what was searched.
    """

    mean_accepted_length: Number = field(metadata=former("tokens_per_step"))
    draft_s: Number
    verify_s: Number
    speedup: Number
    break_even_batch: float | None = field(default=None, metadata=OPTIONAL | former("pays_up_to_batch"))


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class DecodeAnswer(PhaseAnswer):
    """time_s is the inter-token latency; batch the sequences under way per replica, largest_batch what its memory takes."""

    bytes_per_device: Number
    batch: Number
    max_batch: Number = field(metadata=former("largest_batch"))
    load_kind: str = field(metadata=former("load"))
    tokens_per_s_per_user: Number
    mbu: Number
    speculation: SpeculationAnswer | None = field(default=None, metadata=OPTIONAL)


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class TrainAnswer(PhaseAnswer):
    """time_s is one optimizer step; steps and run_s are those of a whole run, where its tokens are given. communication_s is
    what an axis leaves exposed, hidden_s what of it runs beside other work. own_error is the part of the relative error that
    comes of a layout's communication, unsupported what of the layout no published run does, a sentence each."""

    hidden_s: dict[str, Number]
    hardware_flops: Number
    hfu: Number
    microbatches: Number
    bubble_fraction: Number
    communication_error_fraction: Number = field(metadata=former("own_error"))
    steps: Number | None = None
    run_s: Number | None = None
    extrapolations: list[str] | None = field(default=None, metadata=OPTIONAL | former("unsupported"))


def rate_interval(rate: Number, error: Number, time: Number, floor: Number) -> tuple[Number, Number]:
    """80% interval of a rate that goes against a time with this floor."""
    most = roofline.rate_at_floor(rate, time, floor)
    return roofline.rate_low(rate, error), roofline.rate_high(rate, error, most)


def layout_answer(layout: Layout, chosen: bool, reason: str) -> LayoutAnswer:
    """A plan as the contract shows it."""
    sizes = {name: int(num.value(getattr(layout, name))) for name in ("devices", *SIZES)}
    seldom = _seldom(layout)
    return LayoutAnswer(
        **sizes,
        zero=layout.zero,
        sequence_parallel=layout.sequence_parallel,
        recompute=layout.recompute,
        unusual={}
        if seldom == _USUAL
        else {n: v for n, v, usual in zip(_SELDOM, seldom, _USUAL, strict=True) if v != usual},
        chosen=chosen,
        reason=reason,
    )


_SELDOM = (
    "recompute_layers",
    "recompute_modules",
    "schedule",
    "ring",
    "shard",
    "stages",
    "imbalance",
    "capacity_factor",
    "shared_overlap",
    "redundant_experts",
    "exchange",
    "overlap",
    "dropout",
    "offload",
    "offload_layers",
    "loss_chunks",
    "mlp_chunks",
    "expert_tp",
    "software",
    "recipe",
)
_seldom = attrgetter(*_SELDOM)
_USUAL = _seldom(Layout)
