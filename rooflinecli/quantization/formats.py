"""Number formats: how many bytes they take, and which of a chip's peaks computes in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rooflinecli.core.errors import UsageError, unknown
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.formulas.counts import quantized_bytes_per_weight
from rooflinecli.specs.model import Quantization

# names of PyTorch and vLLM -> those here
SPELLINGS = {"half": "fp16", "float16": "fp16", "bfloat16": "bf16", "float": "fp32", "float32": "fp32"}
# name -> (bytes per element, scales included; formats a matmul can run in, first one the chip has)
FORMATS: dict[str, tuple[float, tuple[str, ...]]] = {
    "fp32": (4.0, ("fp32", "tf32")),
    "tf32": (4.0, ("tf32",)),
    "bf16": (2.0, ("bf16",)),
    "fp16": (2.0, ("fp16",)),
    "fp8": (1.0, ("fp8",)),
    "int8": (1.0, ("int8",)),
    "int4": (0.5, ("int4",)),
    "fp4": (0.5, ("fp4",)),
    "mxfp4": (4.25 / 8, ("fp4",)),  # one 8-bit scale per 32 values; OCP Microscaling v1.0
    "nvfp4": (4.5 / 8, ("fp4",)),  # one 8-bit scale per 16 values; NVIDIA Blackwell
    "q8_0": (34 / 32, ()),  # ggml blocks, of a cache or of weights alone; no unit computes in them
    "q4_0": (18 / 32, ()),
    "q4_1": (20 / 32, ()),
    "q5_0": (22 / 32, ()),
    "q5_1": (24 / 32, ()),
    "iq4_nl": (18 / 32, ()),
}
BITS = {"fp8": 8, "int8": 8, "int4": 4, "fp4": 4, "mxfp4": 4, "nvfp4": 4}  # without the scales


@dataclass(frozen=True)
class Formats:
    """Bytes per element of weights, activations, cache, and the dtype whose peak counts.

    A quantized format applies to the matmuls of the layers; embedding, head, norms and activations stay in 16 bits.
    """

    weight: float
    outer_weight: float
    matmul_input: float
    activation: float
    kv: float
    compute: str
    outer_compute: str
    attention_compute: str
    expert_weight: float = 0.0  # routed experts alone may be stored narrower (gpt-oss); set by formats()
    state: float = 0.0  # recurrent state if given; 0: each mixer's default
    head_weight: float = 0.0  # the LM head where a file stores it in another format; 0: outer_weight
    variant: str = ""  # kernel class with separate constants: "int4-weights" for weight-only quantization
    expert_format: str = ""  # format of expert kernels: bf16, fp8, nvfp4, int4, mxfp4, mxfp4-fp8
    expert_compute: str = ""  # the rate of routed experts where it is not that of the other matmuls
    ignores_sliding_window: bool = False  # sliding-window layers cache every token, as some engines lay out their cache


def size_of(dtype: str) -> float:
    """Bytes per element. Raises UsageError for an unknown dtype."""
    if dtype not in FORMATS:
        raise unknown("dtype", dtype, FORMATS)
    return FORMATS[dtype][0]


def experts_alone(
    dtype: str | None, weight_dtype: str | None, stored: Quantization | None, training: bool = False
) -> bool:
    """Whether a quantized --dtype means the experts of a checkpoint whose other layers are 16-bit (gpt-oss).

    In training, 8 bits means all matmuls.
    """
    narrow = dtype is not None and FORMATS[dtype][0] < (1 if training else 2)
    return narrow and weight_dtype is None and stored is not None and stored.applies_to == "experts"


def experts_format(
    peaks: Mapping[str, object], chip: str, kv_dtype: str | None, stored: Quantization, state_dtype: str | None = None
) -> Formats:
    """Formats of 16-bit layers with 4-bit experts, whose inputs are fp8 on chips with 4-bit units (Blackwell), else 16-bit (Hopper)."""
    wide = next((d for d in ("bf16", "fp16") if d in peaks), "bf16")
    base = formats(wide, kv_dtype, None, peaks, chip, stored, state_dtype)
    compute = "fp8" if {"fp4", "fp8"} <= set(peaks) else ""
    return replace(base, expert_compute=compute, expert_format=_expert_format(stored.dtype, compute or base.compute))


def formats(
    dtype: str,
    kv_dtype: str | None,
    weight_dtype: str | None,
    peaks: Mapping[str, object],
    chip: str,
    stored: Quantization | None = None,
    state_dtype: str | None = None,
    packed: str | None = None,
) -> Formats:
    """Choose the formats of a run in `dtype` on a chip with these peaks.

    stored: the checkpoint's format, if the run uses it. packed: the compute rate of the engine's kernels over weights below 16 bits;
    K-quants have blocks within blocks to unpack.

    Raises UsageError when the chip cannot compute in it.
    """
    size = size_of(dtype)
    compute = next((d for d in FORMATS[dtype][1] if d in peaks), None)
    if compute is None:
        have = ", ".join(sorted(d for d in peaks if d in FORMATS))
        raise UsageError(
            f"--dtype {dtype}: {chip} has no {dtype} matmul rate; it has {have} (weights alone can be narrower: --weight-dtype {dtype})",
            "dtype",
        )
    quantized = size < 2
    wide = next((d for d in ("bf16", "fp16", "fp32") if d in peaks), compute) if quantized else compute
    activation = 2.0 if quantized else size
    weight = expert = size_of(weight_dtype) if weight_dtype else size
    outer, head = activation, 0.0
    if stored is not None and stored.widths is not None:
        parts = stored.widths
        weight, expert, outer, head = parts.layers, parts.experts, parts.outer, parts.head
    elif stored is not None:
        expert, group = size_of(stored.dtype), stored.group_size
        if group is not None:
            expert = quantized_bytes_per_weight(BITS[stored.dtype], group, stored.scale_bits, stored.zero_bits)
        weight = size if stored.applies_to == "experts" else expert
    stored_as = (stored.experts or stored).dtype if stored is not None else weight_dtype or dtype
    variant = f"{weight_dtype}-weights" if weight_dtype and size_of(weight_dtype) < size else ""
    if stored is not None and stored.weight_only and weight < size:
        variant = f"{stored.dtype}-weights"
    if packed is not None and (weight < 2 or 0 < expert < 2):
        nested = stored is not None and stored.dtype.startswith("gguf") and "_K" in stored.dtype
        compute, variant = packed if packed in peaks else compute, "packed+k" if nested else "packed"
    return Formats(
        weight,
        outer,
        size if quantized else activation,
        activation,
        size_of(kv_dtype) if kv_dtype else activation,
        compute,
        wide,
        wide,
        expert,
        size_of(state_dtype) if state_dtype else 0.0,
        head,
        variant,
        _expert_format(stored_as, compute),
    )


def _expert_format(weights: str, compute: str) -> str:
    """Name of the expert kernels: the format of their weights, and of their compute where it differs."""
    name = {"fp16": "bf16", "fp4": "nvfp4"}.get(weights, weights)
    return f"{name}-{compute}" if name == "mxfp4" and compute == "fp8" else name
