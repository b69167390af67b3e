"""The layout of a model over devices: parallel sizes and schedule."""

from __future__ import annotations

from operator import attrgetter

from rooflinecli.core import num
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.num import Number
from rooflinecli.formulas import constraints
from rooflinecli.specs.registry import kinds

AXES = ("tp", "pp", "dp", "cp", "ep")  # the parallel axes
SIZES = (*AXES, "micro_batch", "virtual_stages")  # everything about a layout that is a whole number
LEFT_OPEN = {  # an estimate chooses a layout where a question leaves one of these out
    "serve": ("tp", "pp", "dp"),
    "train": ("tp", "pp", "dp", "micro_batch", "zero", "recompute"),
}

RECOMPUTE = ("none", "selective", "full", "op")
# to a search
OPEN = tuple("tp pp cp dp ep micro-batch virtual-stages zero recompute sequence-parallel placement".split())
OpenValues = dict[str, tuple[Number, ...]]  # option -> what it may be: numbers or words
CHOSEN = RECOMPUTE[:3]  # what a search tries; `op` belongs to one framework and is asked for
SCHEDULES_IN = "parallel/schedules"  # one file is one schedule
SCHEDULES = kinds(SCHEDULES_IN)
# the order of the axes over the devices, innermost first
PLACEMENTS = ("tp-cp-dp-pp", "tp-cp-pp-dp", "tp-pp-cp-dp", "tp-dp-cp-pp", "tp-dp-pp-cp", "tp-pp-dp-cp")
RINGS = ("zigzag", "striped", "naive", "ulysses")
OFFLOADS = ("none", "optimizer", "activations", "optimizer+activations")
LORA_TARGETS = ("all", "attention", "qkv")
EXCHANGES = ("auto", "deepep-low-latency", "deepep", "nvlink", "gather", "nccl")
# variants of the class `routed_experts`
EXPERT_KERNELS = ("vllm", "sglang", "trtllm", "trtllm-wide", "deepep", "deepep-low-latency")
OVERLAPS = ("none", "two-batch")
RECIPES = ("full", "lora", "qlora", "dpo")

_HASHED = frozenset((float, int, str, bool, tuple, type(None)))  # classes of a layout's fields where none is an array


@dataclass(frozen=True)
class Layout:
    """Sizes of the parallel axes; devices = tp x cp x dp x pp. placement: their order over the devices, innermost first, EP inside DP.

    ep splits the experts over ep of the dp replicas, and the busiest holds `imbalance` times its share of tokens,
    or every expert works on `capacity_factor` times it: tokens above are dropped, room below is padded. shared_overlap overlaps shared experts with
    the all-to-all of the routed ones' tokens, ep_overlap says whether other microbatches hide that all-to-all, tp_overlap whether matmuls hide the collectives of tensor parallelism
    (None: as the training stack does). zero is
    the ZeRO stage: 0 replicate, 1 optimizer, 2 + gradients, 3 + weights (FSDP), over `shard` replicas (all by default;
    fewer is HSDP). micro_batch is sequences per replica and pipeline slot. stages lists the layers of each pipeline
    stage when they are uneven. recompute selective repeats recompute_modules (attention scores, when they are materialized); recompute_layers of the model's layers compute again, all by default. offload names what waits on the host: optimizer state, or the activations of
    offload_layers of the model's layers (all by default). expert_tp is over how many of the tp ranks the matrices of an expert are
    split: all of them where ep fits into the replicas, else none, and every rank of a tensor group holds experts of its own (Megatron-LM's
    --expert-tensor-parallel-size). The loss is taken loss_chunks parts of the logits at a time, a recomputed feed-forward mlp_chunks parts of the tokens. ring is how context parallelism splits the sequence. software names a row of the training efficiency tables
    (hardware/defaults), recipe what is trained. In serving ep may also be tp x dp, with redundant_experts further copies in all;
    exchange names the kernels that move tokens, overlap whether halves of a batch hide them.
    """

    tp: Number = 1.0
    pp: Number = 1.0
    dp: Number = 1.0
    cp: Number = 1.0
    ep: Number = 1.0
    zero: int = 1
    micro_batch: Number = 1.0
    virtual_stages: Number = 1.0
    sequence_parallel: bool = False
    recompute: str = "none"
    recompute_layers: Number | None = None
    recompute_modules: tuple[str, ...] = ("core_attn",)
    flash: bool = True
    schedule: str = "1f1b"
    ring: str = "zigzag"
    placement: str = PLACEMENTS[0]
    shard: Number | None = None
    imbalance: Number = 1.0
    capacity_factor: Number | None = None
    shared_overlap: bool = False
    ep_overlap: bool | None = None
    tp_overlap: bool | None = None
    dropout: bool = False
    offload: str = "none"
    offload_layers: Number | None = None
    loss_chunks: Number = 1.0
    mlp_chunks: Number = 1.0
    expert_tp: Number | None = None
    stages: tuple[Number, ...] | None = None
    software: str = "any"
    recipe: str = "full"
    lora_rank: Number = 16.0
    lora_targets: str = "all"
    redundant_experts: Number = 0.0
    exchange: str = "auto"
    overlap: str = "none"

    def with_changes(self, **changes: object) -> Layout:
        """This plan with some fields replaced: dataclasses.replace at a fifth of its time, since a chooser makes thousands."""
        other, fields = object.__new__(Layout), self.__dict__.copy()
        fields.update(changes)
        object.__setattr__(other, "__dict__", fields)
        return other

    @property
    def within_stage(self) -> tuple[object, ...] | None:
        """What of the layout the layers of a pipeline stage depend on, strides of their groups aside; None where it cannot be hashed."""
        found = _within_stage(self)
        return (*found, self.ep_within_tp) if _HASHED.issuperset(map(type, (*found, self.pp, self.dp))) else None

    @property
    def optimizer_on_host(self) -> bool:
        return self.offload.startswith("optimizer")

    @property
    def activations_on_host(self) -> bool:
        return self.offload.endswith("activations")

    @property
    def devices(self) -> Number:
        return self.tp * self.cp * self.dp * self.pp

    @property
    def expert_load(self) -> Number:
        """Tokens that the busiest expert device works on, over an even share."""
        return self.imbalance if self.capacity_factor is None else self.capacity_factor

    @property
    def expert_replicas(self) -> Number:
        """Replicas whose tokens meet in one expert group: ep of them, all where ep includes tp too."""
        return num.minimum(self.ep, self.dp) if self.expert_tp is None else self.ep / self.ep_within_tp

    @property
    def replicas(self) -> Number:
        """Devices that hold the same weights, and share gradients: data and context parallel together."""
        return self.dp * self.cp

    @property
    def partition(self) -> Number:
        """Devices over which ZeRO splits what it splits."""
        return self.replicas if self.shard is None else self.shard * self.cp

    @property
    def ep_within_tp(self) -> Number:
        """Expert-parallel ranks inside a tensor group, which hold different experts: tp over expert_tp."""
        if self.ep.__class__ is float and self.ep == 1.0 and self.expert_tp is None:  # nearly always
            return 1.0
        if num.one(self.tp):
            return 1.0
        if self.expert_tp is not None:
            return self.tp / self.expert_tp
        if num.one(self.ep):
            return 1.0
        return num.where(constraints.divides(self.ep, self.replicas), 1.0, self.tp)

    @property
    def stride(self) -> dict[str, Number]:
        """Devices between neighbors of each axis's group."""
        strides: dict[str, Number] = {}
        inner: Number = 1.0
        for axis in self.placement.split("-"):
            strides[axis] = inner
            inner = inner * getattr(self, axis)
        # Experts of their own on every tensor rank fill the host first; so do those that context shards hold.
        strides["ep"] = strides["dp"]
        if not num.one(self.ep):
            shared = self.ep_within_tp
            folded = num.where(constraints.divides(self.ep, self.dp), strides["dp"], self.replica_stride)
            strides["ep"] = num.where(shared > 1, self.tp / shared, folded)
        return strides

    @property
    def replica_stride(self) -> Number:
        """Devices between neighbors of the group of data and context parallel ranks, in the mean where stages lie between the two."""
        order = self.placement
        outer = max(order.index("cp"), order.index("dp"))
        return self.tp * self.pp if order.index("pp") < outer else self.tp


WHOLE = Layout()  # one device
_BETWEEN_STAGES = {"pp", "dp", "zero", "virtual_stages", "shard", "stages", "placement", "expert_tp"}
_within_stage = attrgetter(*(name for name in Layout.__dataclass_fields__ if name not in _BETWEEN_STAGES))
