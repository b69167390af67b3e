"""The engine's dtype names <-> jax's, and which of them a device is worth timing in."""

from __future__ import annotations

from rooflinecli.core.errors import unknown

# engine name -> (jax name, bytes per element)
NAMES = {
    "fp64": ("float64", 8),
    "fp32": ("float32", 4),
    "tf32": ("float32", 4),
    "bf16": ("bfloat16", 2),
    "fp16": ("float16", 2),
    "fp8": ("float8_e4m3fn", 1),
    "int8": ("int8", 1),
}
# formats that activations and streams have; the others are inputs of matrix units alone
WIDE = ("fp64", "fp32", "tf32", "bf16", "fp16")
# what a default run times; more are asked for with --dtype
DEFAULTS = {"cpu": ("fp32",), "gpu": ("bf16",), "tpu": ("bf16",)}
FULL = {"cpu": ("fp32", "bf16"), "gpu": ("bf16", "fp8", "int8", "fp16", "tf32"), "tpu": ("bf16",)}


def size_of(dtype: str) -> int:
    """Bytes per element. Raises UsageError for an unknown dtype."""
    if dtype not in NAMES:
        raise unknown("dtype", dtype, NAMES)
    return NAMES[dtype][1]


def jax_name(dtype: str) -> str:
    size_of(dtype)
    return NAMES[dtype][0]


def defaults(platform: str, quick: bool) -> tuple[str, ...]:
    return (DEFAULTS if quick else FULL).get(platform, ("bf16",))
