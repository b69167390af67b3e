"""Timed cases: one kernel at one shape and dtype, with the FLOPs and bytes that the engine prices it at.

FLOPs and bytes come from formulas/, which also price an estimate, so a constant fitted here means the same there.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

from rooflinecli.core.errors import unknown
from rooflinecli.core.record import Json
from rooflinecli.formulas import attention, counts
from rooflinecli.layers.softmax import FUSED
from rooflinecli.ledger.ops import Gradient, Op
from rooflinecli.phases import backward

Sizes = dict[str, int]
Record = Json  # a line of the log
WARM = "warm"  # the engine of XLA's kernels whose inputs are still in the last-level cache


@dataclass(frozen=True)
class KernelCase:
    """suite: what a user asks for; kind: the engine's operation class ('' where nothing is fitted); engine: who wrote the kernel.

    regime: where the fitted constants go; launches: kernels of the class in one run (forward and both gradients are three).
    """

    suite: str
    op: str
    kind: str
    dtype: str
    sizes: Sizes
    flops: float
    bytes: float
    engine: str = "xla"
    regime: str = "kernel"
    launches: int = 1

    @property
    def key(self) -> str:
        sizes = ",".join(f"{k}={v}" for k, v in self.sizes.items())
        return f"{self.suite}/{self.op}/{self.engine}/{self.dtype}/{sizes}"

    @property
    def label(self) -> str:
        return f"{self.op} {'x'.join(str(v) for v in self.sizes.values())} {self.dtype}{'' if self.engine == 'xla' else ' ' + self.engine}"

    @property
    def held_out(self) -> bool:
        """A third of the shapes, by a hash of operation and sizes: no fit uses them, in any dtype or run."""
        sizes = ",".join(f"{k}={v}" for k, v in sorted(self.sizes.items()))
        digest = hashlib.sha256(f"{self.op}:{sizes}".encode()).digest()
        return int.from_bytes(digest[:8], "big") % 3 == 0

    def record(self) -> Record:
        names = ("suite", "op", "kind", "dtype", "engine", "regime", "launches", "sizes", "flops", "bytes")
        return {"key": self.key, **{name: getattr(self, name) for name in names}, "held_out": self.held_out}


def matmul(m: int, n: int, k: int, dtype: str, engine: str = "xla") -> KernelCase:
    """x[m, k] @ w[k, n]."""
    size, sizes = size_of(dtype), {"m": m, "n": n, "k": k}
    flops, moved = counts.matmul_flops(m, k, n), counts.matmul_bytes(m, k, n, size, size, size)
    return KernelCase("matmul", "matmul", "matmul", dtype, sizes, flops, moved, engine)


def matmul_training(m: int, n: int, k: int, dtype: str) -> KernelCase:
    """x[m, k] @ w[k, n] with the gradients of x and w, priced as the engine prices a matmul and its backward pass."""
    one = matmul(m, n, k, dtype)
    parts = [_op(one, k, n), *backward.input_gradients([_op(one, k, n)]), *backward.weight_gradients([_op(one, k, n)])]
    return _training(one, "matmul_training", parts)


def prefill_training(batch: int, seq: int, heads: int, kv_heads: int, head: int, dtype: str) -> KernelCase:
    """Causal attention with its gradients."""
    one = prefill(batch, seq, heads, kv_heads, head, dtype)
    op = _op(one)._replace(gradient=Gradient(FUSED, one.bytes * 2))
    return _training(one, "prefill_training", [op, *backward.input_gradients([op])])


def _op(case: KernelCase, k: int = 0, n: int = 0) -> Op:
    return Op(name=case.op, kind=case.kind, dtype=case.dtype, flops=case.flops, bytes=case.bytes, k=k, n=n)


def _training(one: KernelCase, op: str, parts: list[Op]) -> KernelCase:
    """A kernel with its gradients, which are further launches."""
    flops, moved = sum(p.flops for p in parts), sum(p.bytes for p in parts)
    return replace(one, op=op, flops=flops, bytes=moved, engine="xla", regime="training", launches=len(parts))


def grouped(tokens: int, n: int, k: int, groups: int, dtype: str) -> KernelCase:
    """Ragged matmul: `tokens` rows split unevenly over `groups` weights of [k, n], all of them visited."""
    size, sizes = size_of(dtype), {"t": tokens, "n": n, "k": k, "g": groups}
    moved = counts.matmul_bytes(tokens, k, n, size, 0, size) + counts.bytes_of(groups * k * n, size)
    return KernelCase("matmul", "grouped", "grouped_matmul", dtype, sizes, counts.matmul_flops(tokens, k, n), moved)


def prefill(
    batch: int, seq: int, heads: int, kv_heads: int, head: int, dtype: str, engine: str = "xla", causal: bool = True
) -> KernelCase:
    """Causal (or full) attention over a whole prompt."""
    size, sizes = size_of(dtype), {"b": batch, "s": seq, "h": heads, "kv": kv_heads, "d": head}
    pairs = attention.causal_pairs(seq, seq) if causal else attention.full_pairs(seq, seq)
    flops = attention.attention_core_flops(batch, heads, pairs, head, head)
    moved = attention.flash_attention_bytes(batch, seq, seq, heads, kv_heads, head, head, size, size)
    op, kind = ("prefill", "prefill_attention") if causal else ("prefill_full", "")
    return KernelCase("attention", op, kind, dtype, sizes, flops, moved, engine)


def decode(
    batch: int, context: int, heads: int, kv_heads: int, head: int, dtype: str, engine: str = "xla"
) -> KernelCase:
    """One query token per sequence against `context` cached keys and values."""
    size, sizes = size_of(dtype), {"b": batch, "t": context, "h": heads, "kv": kv_heads, "d": head}
    flops = attention.attention_core_flops(batch, heads, context, head, head)
    moved = attention.flash_attention_bytes(batch, 1, context, heads, kv_heads, head, head, size, size)
    return KernelCase("attention", "decode", "decode_attention", dtype, sizes, flops, moved, engine)


def streamed(
    suite: str, op: str, kind: str, dtype: str, sizes: Sizes, elements: float, flops: float = 0.0
) -> KernelCase:
    """A kernel without matmuls: `elements` read and written in total."""
    return KernelCase(suite, op, kind, dtype, sizes, flops, counts.bytes_of(elements, size_of(dtype)))


def optimizer(rows: int, width: int) -> KernelCase:
    """AdamW in fp32, with the traffic the engine charges: two moments read and written, gradient read, weight written."""
    moved = rows * width * (2 * 8.0 + 4.0 + 4.0)
    return KernelCase("elementwise", "adamw", "optimizer", "fp32", {"rows": rows, "width": width}, 0.0, moved)


# engine name -> (jax name, bytes per element)
NAMES = {
    "fp64": ("float64", 8), "fp32": ("float32", 4), "tf32": ("float32", 4), "bf16": ("bfloat16", 2), "fp16": ("float16", 2),
    "fp8": ("float8_e4m3fn", 1), "int8": ("int8", 1),
}  # fmt: skip
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
