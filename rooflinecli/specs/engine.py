"""An inference engine as YAML describes it: what its scheduler costs per step, and how requests wait. engines/*.yaml ship in the package."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import Literal

from rooflinecli.core import units
from rooflinecli.core.errors import unknown
from rooflinecli.specs.efficiency import Constant, Efficiency
from rooflinecli.specs.figure import REQUIRED, Field, FileSpec, Scalar, Time, Whole
from rooflinecli.specs.scheduler import FLAG, MEANS, Scheduler, changed, written
from rooflinecli.specs.snapshots import load

DEFAULT = "python-server"
_FOLDER = Path(__file__).resolve().parent.parent / "engines"


class ServingEngine(FileSpec):
    """Every time is added to what the roofline expects; none is part of a floor."""

    name: str
    aliases: list[str] = Field(list)
    per_step: Time = Field(REQUIRED, "seconds of scheduling and sampling per engine step")
    per_layer: Time = Field(0.0, "seconds per layer: kernel starts, where the chip's file gives none of its own")
    # fmt: off
    per_moe_layer: Time = Field(0.0, "seconds more per mixture-of-experts layer, where the chip's file gives none of its own")
    routing_inside: Time = Field(0.0, ge=0, description="seconds less per mixture-of-experts layer of a decode step where the kernel of its experts takes the router's logits and sums the experts' outputs")
    routing_inside_formats: tuple[str, ...] = Field((), description="formats of experts whose kernels do so: weights, and activations where they differ")
    prompt_per_layer: Time = Field(0.0, "seconds more per layer of a pass over one prompt, for which no graph is replayed")
    prompt_per_moe_layer: Time = Field(0.0, "seconds more per mixture-of-experts layer of such a pass: its kernels are started one by one")
    per_sequence: Time = Field(REQUIRED, "seconds per sequence and engine step")
    per_sequence_moe: Time | None = Field(None, "the same where layers have experts, when it is another era of the engine that ran them")
    splits_layers: bool = Field(False, "several devices share out the layers, one after the other, unless a layout is given")
    looks_up_on_host: bool = Field(False, "an embedding that is not the head stays in the host's memory, of which a token needs one row")
    pixel_flops: Scalar = Field(0.0, "FLOPs at the peak of matmuls that the autoencoder takes for a pixel of a made image or frame", ge=0)
    host_per_matmul: Time = Field(0.0, "seconds in which the host starts a matmul and the small kernels around it, while the device runs others")
    host_per_exchange: Time = Field(0.0, "the same of a step of ring attention")
    per_split: Time = Field(0.0, "seconds more per step where layers are shared out over devices")
    split_efficiency: Scalar = Field(1.0, "of the gain that micro-batches of a prompt passing from device to device could bring", gt=0, le=1)
    pads_heads: bool = Field(False, "heads that the tensor-parallel size does not divide are padded up to the next multiple")
    ranks: Scalar = Field(1.0, "tensor-parallel ranks of a device, such as its cores: heads are padded to a multiple of all ranks", ge=1)
    copies_heads: Literal["", "queries", "ranks"] = Field("", "cached heads that the ranks do not divide are copied, weights and cache: one for each query head, or for each rank " "where they divide the ranks")
    whole_head: bool = Field(False, "every device of a tensor-parallel group holds the embedding and the head whole")
    prompt_bucket: Scalar = Field(0.0, "prompts are padded to the next power of two, of at least this many tokens; 0: no padding", ge=0)
    routing_skew: Scalar = Field(1.5, "how even the routing of its tokens is: the shape r of experts_with_work in formulas/grouped_gemm.py, smaller where few experts get most", ge=0.45)
    whole_cache: bool = Field(False, "layers whose attention has a window keep every token in the cache all the same")
    kv_dtype_fp8: bool = Field(False, "the cache is kept in fp8 where matmuls run in fp8")
    cache_dtype: str = Field("", "number format of the cache where none is given; empty: that of the activations")
    narrower: dict[str, str] = Field(dict, "options of `estimate` -> the narrower format that it has, which is offered; empty: none")
    prompts_first: bool = Field(False, "prompts are read before any token is written, so that requests of equal length run in lockstep")
    ttft_error: Scalar = Field(1.0, "relative error (80%) of a time to first token under load: schedulers and harnesses differ", ge=0)
    ttft_error_with_flags: Scalar | None = Field(None, ge=0, description="the same where the flags of its scheduler are given")
    kv_fraction: Scalar = Field(1.0, "share of the memory left after weights and reserve that becomes cache", gt=0, le=1)
    reserve: str = Field("0 B", "memory kept back per device for the runtime")
    reserve_experts: str = Field("0 B", "additional memory kept back where experts stand on several replicas: their gathered tokens")
    max_sequences: Whole = Field(2048, "most sequences the scheduler takes at once")
    backends: dict[str, dict[str, dict[str, Efficiency]]] = Field(dict, "its kernels by machine: chip, vendor-architecture or vendor -> operation class -> dtype, variant or 'any'")
    compute: dict[str, str] = Field(dict, "vendor -> the rate at which matmuls of quantized weights run, such as int8")
    library: str = Field("vllm", "library whose kernels of experts, exchanges and all-reduces it runs")
    all_reduces: str = Field("", "nccl where those of tensor parallelism are NCCL's, at the chip's measured rates")
    efficiency: dict[str, dict[str, Efficiency]] = Field(dict, "kernels of its own by class and dtype, in place of the serving constants that GPUs share")
    scheduler: Scheduler = Field(Scheduler, "how it forms its steps: for `roofline simulate`, and for the formulas of a first token")
    known_on: list[str] = Field(list, "makers and kinds of chips that its constants or its makers know, such as 'nvidia gpu'; empty: any")
    on: dict[str, str] = Field(dict, "vendor -> the engine file that has the constants of its build for that vendor's chips")
    # fmt: on
    note: str = ""
    source: str
    _overridden: frozenset[str] = frozenset()  # entries of its scheduler that an option gave

    def written(self, name: str) -> str:
        """Where a constant stands, by file and line, and what it rests on."""
        key = _IN_SCHEDULER.get(name, name)
        if key in self._overridden:
            return FLAG
        if key in Scheduler.__dataclass_fields__:
            return f"{self.document.location('scheduler', key)}; {self.scheduler.source}"
        return f"{self.document.location(key.removesuffix('_bytes'))}; {self.source}"

    def kernels(self, targets: tuple[str, ...]) -> list[tuple[str, dict[str, dict[str, Efficiency]]]]:
        """Its kernels' constants for a chip, the nearest first: each with the name it stands under."""
        return [(target, self.backends[target]) for target in targets if target in self.backends]

    def constant(self, name: str) -> float:
        """The value of a constant by its name in CONSTANTS; a count of the scheduler as the formulas of TTFT need it."""
        own = self.scheduler
        if name == "skipped_looks":  # steps that begin without a look at what has arrived, between two that do
            return own.poll_steps - 1.0
        if name == "late_tokens":  # tokens that the message with the first one still waits for
            return own.stream_steps - 1.0
        if name == "prompt_factor_moe" and own.prompt_factor_moe is None:
            return own.prompt_factor
        if name.endswith("_bytes"):
            return _bytes(getattr(self, name.removesuffix("_bytes")))
        value: float = getattr(self, name) if name in self.__dataclass_fields__ else float(getattr(own, name))
        return value


@lru_cache(maxsize=64)
def _bytes(written: str) -> float:
    return units.parse(written, "B")


_IN_SCHEDULER = {"skipped_looks": "poll_steps", "late_tokens": "stream_steps"}

# unit -> what can be replaced by its path (engine.NAME), or multiplied by a calibration
_SETTABLE = {
    "s": "host_per_matmul host_per_exchange per_split per_step per_layer per_moe_layer routing_inside prompt_per_layer prompt_per_moe_layer per_sequence per_sequence_moe front per_stream per_token launch",
    "1": "split_efficiency look_ahead skipped_looks late_tokens kv_fraction memory_share reserve_share max_sequences",
    "tokens": "token_budget prompt_bucket",
    "FLOP": "pixel_flops",
    "B": "reserve_bytes reserve_experts_bytes",
}
_MAXIMUM = {"kv_fraction": 1.0, "memory_share": 1.0, "reserve_share": 1.0, "split_efficiency": 1.0}
CONSTANTS: dict[str, Constant] = {
    name: Constant(unit, name, most=_MAXIMUM.get(name)) for unit, names in _SETTABLE.items() for name in names.split()
}


@lru_cache(maxsize=1)
def _stems() -> tuple[str, ...]:
    return tuple(sorted(name.removesuffix(".yaml") for name in os.listdir(_FOLDER) if name.endswith(".yaml")))


@lru_cache(maxsize=64)
def _read(stem: str) -> ServingEngine:
    """One file, read where it is asked for: a start needs one engine, and most others lie over a long file of llama.cpp's."""
    return load(ServingEngine, _FOLDER / f"{stem}.yaml", "engines")


def engines() -> dict[str, ServingEngine]:
    """All engines by file name."""
    return {stem: _read(stem) for stem in _stems()}


@lru_cache(maxsize=64)
def with_scheduler_overrides(name: str, settings: str) -> ServingEngine:
    """Return an engine with scheduler settings from an option.

    Raises UsageError for a setting that no formula follows, or a value that it cannot take.
    """
    engine, given = load_engine(name), written((settings,), MEANS)
    found = engine.with_changes(scheduler=changed(engine.scheduler.to_dict(), given))
    found._overridden = frozenset(given)
    return found


@lru_cache(maxsize=64)
def load_engine(name: str) -> ServingEngine:
    """The engine called `name` or an alias of it. Raises UsageError."""
    wanted = name.lower()
    if wanted in _stems():
        return _read(wanted)
    for spec in engines().values():
        if wanted in spec.aliases:
            return spec
    raise unknown("engine", name, engines(), option="engine")
