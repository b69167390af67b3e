"""A question: which model, on what, doing what. Everything `roofline estimate` can be asked, with its defaults."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.num import Number

if TYPE_CHECKING:  # a command line knows the phases before it needs a chip
    from rooflinecli.specs.hardware import HardwareSpec
    from rooflinecli.specs.model import ModelSpec

OUTPUT = 256.0  # tokens that a request generates where nothing is said
SEQ = 4096.0  # tokens of a training sequence where nothing is said and the model takes as many
PHASES = ("prefill", "decode", "train")
BOUNDS = ("pessimistic", "expected", "floor")  # ends of an interval: the worse one, the middle, the speed of light
MOST = math.inf  # --concurrency max: as many sequences as memory holds


def kinds_of_work(phases: Iterable[str]) -> set[str]:
    """Which of train and serve the phases are of."""
    return {"train" if phase == "train" else "serve" for phase in phases}


@dataclass(frozen=True, eq=False)
class Request:
    """Plan sizes left at None are chosen; sequences and tokens are plain numbers (or arrays in a sweep)."""

    model: ModelSpec
    hardware: HardwareSpec
    devices: Number | None = None
    tp: Number | None = None
    pp: Number | None = None
    dp: Number | None = None
    cp: Number | None = None
    ep: Number | None = None
    zero: int | None = None
    micro_batch: Number | None = None
    virtual_stages: Number | None = None
    sequence_parallel: bool | None = None
    recompute: str | None = None
    flash: bool = True
    phases: tuple[str, ...] = PHASES
    batch: Number | None = None
    prompt: Number | None = None
    output: Number | None = None
    seq: Number | None = None
    lengths: str | None = None
    dtype: str | None = None
    kv_dtype: str | None = None
    weight_dtype: str | None = None
    state_dtype: str | None = None
    attention_flops: str = "causal"
    efficiency: str = "expected"
    tokens: Number | None = None
    price: Number | str | None = None
    region: str | None = None
    electricity: Number | None = None
    power_cap: Number | None = None
    host_factor: Number | None = None
    pue: Number | None = None
    utilization: Number = 1.0
    gradient_bytes: Number | None = None
    optimizer_bytes: Number | None = None
    optimizer: str | None = None
    engine: str = "python-server"
    memory: Number | None = None
    concurrency: Number | None = None
    qps: Number | None = None
    prompts_per_slot: Number = 10.0
    equal_lengths: bool = False
    token_budget: Number | None = None
    gpu_memory_utilization: Number | None = None
    max_sequences: Number | None = None
    scheduler: str | None = None
    prefix_hit: Number | None = None
    kv_tier: str | None = None
    adapters: Number | None = None
    sessions: Number | None = None
    speculate: str | None = None
    draft_tokens: Number | None = None
    acceptance: Number | None = None
    schedule: str | None = None
    ring: str | None = None
    placement: str | None = None
    shard: Number | None = None
    recompute_layers: Number | None = None
    recompute_modules: str | None = None
    imbalance: Number | None = None
    capacity_factor: Number | None = None
    shared_overlap: bool | None = None
    ep_overlap: bool | None = None
    tp_overlap: bool | None = None
    dropout: bool | None = None
    offload: str | None = None
    loss_chunks: Number | None = None
    mlp_chunks: Number | None = None
    expert_tp: Number | None = None
    stages: str | None = None
    software: str | None = None
    recipe: str | None = None
    lora_rank: Number | None = None
    lora_targets: str | None = None
    redundant_experts: Number | None = None
    exchange: str | None = None
    overlap: str | None = None
    attention_dp: bool = False
    gpu_layers: Number | None = None
    experts_on: str | None = None
    host: HardwareSpec | None = None
    bound: str = BOUNDS[0]
    images: Number | None = None
    image: str | None = None
    steps: Number | None = None
    guidance: bool | None = None
