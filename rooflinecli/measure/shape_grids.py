"""Which shapes a run times: per suite, sized to the device, a short list for --quick.

CPU shapes keep every run under about 0.2 s; accelerator shapes reach the sizes where kernels are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rooflinecli.measure import cases
from rooflinecli.measure.cases import KernelCase
from rooflinecli.measure.dtypes import WIDE, defaults

SUITES = ("bandwidth", "matmul", "attention", "elementwise", "collectives")
Grid = Callable[[str, bool, str], Iterator[KernelCase]]

Shapes = tuple[tuple[int, ...], ...]
_CPU_SQUARES: tuple[int, ...] = (256, 384, 512, 640, 768, 1024, 1280, 1536)
_CPU_LAYERS: Shapes = (
    (768, 768),
    (2304, 768),
    (3072, 768),
    (768, 3072),
    (1024, 1024),
    (4096, 1024),
    (1024, 4096),
    (2048, 512),
    (512, 2048),
    (8192, 768),
)
_GPU_SQUARES: tuple[int, ...] = (512, 1024, 2048, 3072, 4096, 6144, 8192, 12288, 16384)
_GPU_LAYERS: Shapes = (
    (4096, 4096),
    (6144, 4096),
    (28672, 4096),
    (4096, 14336),
    (8192, 8192),
    (10240, 8192),
    (57344, 8192),
    (8192, 28672),
)
_QUICK_LAYERS: Shapes = ((768, 768), (2304, 768), (3072, 768), (768, 3072), (1024, 1024))


def _matmul(platform: str, quick: bool, dtype: str) -> Iterator[KernelCase]:
    cpu = platform == "cpu"
    squares = _CPU_SQUARES if cpu else _GPU_SQUARES
    if quick:
        squares = (256, 512, 768) if cpu else (1024, 2048, 4096, 8192)
    for n in squares:
        yield cases.matmul(n, n, n, dtype)
    layers = _CPU_LAYERS if cpu else _GPU_LAYERS
    if quick:
        layers = _QUICK_LAYERS if cpu else _GPU_LAYERS[:4]
    for n, k in layers:
        for m in _rows(cpu, quick):
            yield cases.matmul(m, n, k, dtype)
        if dtype in ("fp32", "bf16", "fp16"):
            for m in _batches(cpu, quick):
                yield cases.matmul_training(m, n, k, dtype)
    for n, k, m in _heads(cpu, quick):
        yield cases.matmul(m, n, k, dtype)
        if m > 1 and not quick and dtype in ("fp32", "bf16", "fp16"):
            yield cases.matmul_training(m, n, k, dtype)
    yield from _grouped(cpu, quick, dtype)


def _batches(cpu: bool, quick: bool) -> tuple[int, ...]:
    """Rows of a training step's matmuls: whole microbatches, never the few of decode."""
    if quick:
        return (256,) if cpu else (4096,)
    return (64, 128, 256, 512) if cpu else (1024, 2048, 4096, 8192)


def _heads(cpu: bool, quick: bool) -> Shapes:
    """(n, k, m) of language-model heads: far wider than a layer."""
    if cpu:
        return (
            ((32000, 512, 64),)
            if quick
            else ((32000, 512, 1), (32000, 512, 64), (50257, 768, 1), (50257, 768, 64), (50257, 768, 256))
        )
    return ((128256, 4096, 1024),) if quick else ((128256, 4096, 1), (128256, 4096, 64), (128256, 4096, 4096))


def _rows(cpu: bool, quick: bool) -> tuple[int, ...]:
    if quick:
        return (1, 8, 64, 256) if cpu else (1, 16, 64, 512, 4096)
    return (1, 2, 4, 8, 16, 32, 64, 128, 256, 512) if cpu else (1, 4, 8, 16, 32, 64, 128, 256, 1024, 4096, 8192)


def _grouped(cpu: bool, quick: bool, dtype: str) -> Iterator[KernelCase]:
    if dtype not in ("fp32", "bf16", "fp16"):
        return
    shapes: Shapes
    if cpu:
        shapes = (
            ((64, 512, 512, 4), (256, 512, 512, 4))
            if quick
            else tuple((t, n, 512, g) for t in (32, 64, 128, 256) for n in (512, 1024) for g in (4, 8))
        )
    else:
        shapes = tuple((t, n, 4096, 8) for t in (64, 512, 4096) for n in (4096, 14336))
    for t, n, k, g in shapes:
        yield cases.grouped(t, n, k, g, dtype)


def _attention(platform: str, quick: bool, dtype: str) -> Iterator[KernelCase]:
    if dtype not in ("fp32", "bf16", "fp16"):
        return
    heads: Shapes
    prompts: Shapes
    caches: Shapes
    if platform == "cpu":
        heads = ((12, 12, 64),) if quick else ((12, 12, 64), (8, 2, 64), (16, 4, 128), (4, 4, 32))
        prompts = (
            ((1, 128), (1, 256), (2, 256), (1, 512))
            if quick
            else ((1, 64), (1, 128), (4, 128), (1, 256), (2, 256), (1, 512), (2, 512), (1, 1024))
        )
        caches = (
            ((1, 64), (1, 256), (1, 1024), (8, 512))
            if quick
            else tuple((b, t) for b in (1, 4, 16) for t in (64, 128, 256, 512, 1024, 2048))
        )
    else:
        heads = ((32, 8, 128),) if quick else ((32, 8, 128), (64, 8, 128), (16, 16, 64))
        prompts = (
            ((1, 2048), (1, 4096), (1, 8192))
            if quick
            else ((8, 512), (4, 1024), (1, 2048), (4, 2048), (1, 4096), (1, 8192), (1, 16384), (1, 32768))
        )
        caches = (
            ((1, 8192), (16, 4096), (64, 2048))
            if quick
            else tuple((b, t) for b in (1, 8, 32, 128) for t in (2048, 4096, 8192, 32768) if b * t <= 2**20)
        )
    for h, kv, d in heads:
        yield from (cases.prefill(b, s, h, kv, d, dtype) for b, s in prompts)
        yield from (cases.prefill_training(b, s, h, kv, d, dtype) for b, s in prompts if s <= 16384)
        yield from (cases.decode(b, t, h, kv, d, dtype) for b, t in caches)


def _bandwidth(platform: str, quick: bool, dtype: str) -> Iterator[KernelCase]:
    """Streams far larger than any cache. Elements moved: copy 2, triad 3, read 1 per element."""
    if dtype not in WIDE:
        return
    rows = (
        ((16384,) if quick else (8192, 16384, 32768))
        if platform == "cpu"
        else ((131072,) if quick else (65536, 262144, 524288))
    )
    for n in rows:
        for op, tensors in (("copy", 2), ("triad", 3), ("read", 1)):
            yield cases.streamed("bandwidth", op, "", dtype, {"rows": n, "width": 1024}, tensors * n * 1024)


def _elementwise(platform: str, quick: bool, dtype: str) -> Iterator[KernelCase]:
    if dtype not in WIDE:
        return
    ops = (
        (("layernorm", 2), ("gelu", 2), ("residual", 3))
        if quick
        else (("layernorm", 2), ("rmsnorm", 2), ("gelu", 2), ("swiglu", 3), ("residual", 3), ("softmax", 2))
    )
    shapes: Shapes
    if platform == "cpu":
        shapes = (
            ((1, 768), (256, 768), (512, 3072))
            if quick
            else (
                (1, 768),
                (16, 768),
                (64, 768),
                (256, 768),
                (256, 3072),
                (512, 1024),
                (1024, 1024),
                (512, 4096),
                (2048, 2048),
            )
        )
    else:
        shapes = (
            ((4096, 4096), (8192, 8192))
            if quick
            else ((256, 4096), (1024, 4096), (4096, 4096), (8192, 4096), (4096, 14336), (8192, 8192))
        )
    for rows, width in shapes:
        for op, tensors in ops:
            yield cases.streamed(
                "elementwise", op, "elementwise", dtype, {"rows": rows, "width": width}, tensors * rows * width
            )
    for rows in (2048, 4096, 8192) if quick else (1024, 2048, 3072, 4096, 6144, 8192, 12288):
        yield cases.optimizer(rows, 1024)
    table = 50257 if platform == "cpu" else 128256
    for tokens in (16, 256, 1024) if quick else (1, 16, 64, 128, 256, 512, 1024, 2048, 4096):
        yield cases.streamed(
            "elementwise",
            "gather",
            "gather",
            dtype,
            {"tokens": tokens, "width": 1024, "table": table},
            2 * tokens * 1024,
        )


GRIDS: dict[str, Grid] = {
    "bandwidth": _bandwidth,
    "matmul": _matmul,
    "attention": _attention,
    "elementwise": _elementwise,
}


def baseline(platform: str, dtype: str) -> Iterator[KernelCase]:
    """What every profile needs whichever suite was asked for: the two roofs."""
    yield from _bandwidth(platform, True, dtype if dtype in WIDE else defaults(platform, True)[0])
    for n in (512, 768) if platform == "cpu" else (4096, 8192):
        yield cases.matmul(n, n, n, dtype)


def chosen(suites: tuple[str, ...], platform: str, quick: bool, dtypes: tuple[str, ...] = ()) -> list[KernelCase]:
    """The cases of a run, the roofs first, without repeats. Collectives are listed by `collectives.chosen`."""
    result: dict[str, KernelCase] = {}
    for dtype in dtypes or defaults(platform, quick):
        wanted = list(baseline(platform, dtype))
        for suite in suites:
            if suite in GRIDS:
                wanted += GRIDS[suite](platform, quick, dtype)
        result.update((case.key, case) for case in wanted)
    return list(result.values())
