"""Cases of a run, by suite, platform and --quick, and the engines besides XLA that take them. The shapes are in shape_grids.yaml.

pallas  jax's own Pallas kernels: Mosaic GPU on Hopper (sm_90a), which imports absl, and Mosaic on TPU
cudnn   cuDNN's fused attention; warm: XLA's kernels on inputs that stay in the last-level cache; torch: torch's kernels
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from importlib.util import find_spec

from rooflinecli.core.record import Json
from rooflinecli.measure import cases, torch_baseline
from rooflinecli.measure.cases import WARM, WIDE, KernelCase, defaults
from rooflinecli.specs.snapshots import packaged

TRAINED = ("fp32", "bf16", "fp16")  # formats of gradients, attention and experts
LONGEST_TRAINED = 16384
Grid = Json  # lists of sizes by name


def _grids(platform: str) -> Json:
    grids: Json = packaged(__file__)["cpu" if platform == "cpu" else "gpu"]
    return grids


def _grid(platform: str, quick: bool) -> Grid:
    grid: Grid = _grids(platform)["quick" if quick else "full"]
    return grid


def _matmul(platform: str, quick: bool, dtype: str) -> Iterator[KernelCase]:
    grid, trained = _grid(platform, quick), dtype in TRAINED
    for n in grid["squares"]:
        yield cases.matmul(n, n, n, dtype)
    for n, k in grid["layers"]:
        yield from (cases.matmul(m, n, k, dtype) for m in grid["rows"])
        if trained:
            yield from (cases.matmul_training(m, n, k, dtype) for m in grid["batches"])
    for n, k, m in grid["lm_heads"]:
        yield cases.matmul(m, n, k, dtype)
        if m > 1 and not quick and trained:
            yield cases.matmul_training(m, n, k, dtype)
    if trained:
        yield from (cases.grouped(tokens, n, k, groups, dtype) for tokens, n, k, groups in grid["grouped"])


def _attention(platform: str, quick: bool, dtype: str) -> Iterator[KernelCase]:
    grid = _grid(platform, quick)
    for h, kv, d in grid["heads"] if dtype in TRAINED else ():
        yield from (cases.prefill(b, s, h, kv, d, dtype) for b, s in grid["prompts"])
        yield from (cases.prefill_training(b, s, h, kv, d, dtype) for b, s in grid["prompts"] if s <= LONGEST_TRAINED)
        yield from (cases.decode(b, t, h, kv, d, dtype) for b, t in grid["caches"])


def _bandwidth(platform: str, quick: bool, dtype: str) -> Iterator[KernelCase]:
    """Streams far larger than any cache. Elements moved: copy 2, triad 3, read 1 per element."""
    for n in _grid(platform, quick)["streams"] if dtype in WIDE else ():
        for op, tensors in (("copy", 2), ("triad", 3), ("read", 1)):
            yield cases.streamed("bandwidth", op, "", dtype, {"rows": n, "width": 1024}, tensors * n * 1024)


def _elementwise(platform: str, quick: bool, dtype: str) -> Iterator[KernelCase]:
    if dtype not in WIDE:
        return
    grid, suite = _grid(platform, quick), "elementwise"
    for rows, width in grid["elementwise"]:
        for op, tensors in grid["ops"].items():
            sizes = {"rows": rows, "width": width}
            yield cases.streamed(suite, op, "elementwise", dtype, sizes, tensors * rows * width)
    yield from (cases.optimizer(rows, 1024) for rows in grid["optimizer"])
    for tokens in grid["tokens"]:
        sizes = {"tokens": tokens, "width": 1024, "table": grid["table"]}
        yield cases.streamed(suite, "gather", "gather", dtype, sizes, 2 * tokens * 1024)


GRIDS: dict[str, Callable[[str, bool, str], Iterator[KernelCase]]] = {
    "bandwidth": _bandwidth, "matmul": _matmul, "attention": _attention, "elementwise": _elementwise,
}  # fmt: skip


def baseline(platform: str, dtype: str) -> Iterator[KernelCase]:
    """The two roofs, which every profile needs whichever suite was selected."""
    yield from _bandwidth(platform, True, dtype if dtype in WIDE else defaults(platform, True)[0])
    for n in _grids(platform)["roofs"]:
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


CaseFilter = Callable[[KernelCase], bool]
MOSAIC_GPU = (0, 8)  # jax version of plgpu.kernel with its present arguments
HOPPER = (9, 0)
CACHED = 16 * 2**20  # bytes that stay in any data center GPU's last-level cache (40 MB on A100, 50 on H100)


def version(text: str) -> tuple[int, int]:
    """(major, minor) of a version such as '0.10.2' or '0.12.0.1'."""
    match = re.match(r"(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def has_pallas(platform: str, capability: tuple[int, int] | None, jax_version: str, has_absl: bool) -> bool:
    """Whether jax's Pallas matmul and attention compile for this device."""
    hopper = platform == "gpu" and capability == HOPPER
    return platform == "tpu" or (hopper and version(jax_version) >= MOSAIC_GPU and has_absl)


def missing(platform: str, capability: tuple[int, int] | None, has_absl: bool) -> str:
    """The install line where a missing package alone disables the Pallas kernels; empty elsewhere."""
    if platform == "gpu" and capability == HOPPER and not has_absl:
        return "Pallas kernels were left out: Mosaic GPU imports absl; install it with: pip install absl-py"
    return ""


def other_engines() -> dict[str, CaseFilter]:
    """Engines besides XLA that are timed on this device -> which cases each takes."""
    import jax

    from rooflinecli.measure.device import PLATFORM_KINDS, compute_capability

    platform = PLATFORM_KINDS.get(jax.default_backend(), jax.default_backend())
    capability = compute_capability()
    result: dict[str, CaseFilter] = {}
    if has_pallas(platform, capability, jax.__version__, find_spec("absl") is not None):
        result["pallas"] = partial(takes_pallas, platform=platform)
    if platform == "gpu" and capability is not None and capability >= (8, 0):
        result["cudnn"] = takes_cudnn
    if platform == "gpu":
        result[WARM] = takes_warm
        if torch_baseline.present():
            result[torch_baseline.ENGINE] = torch_baseline.takes
    return result


def cases_of_other_engines(cases: list[KernelCase]) -> list[KernelCase]:
    """The same shapes by every other engine that takes them on this device."""
    others = other_engines()
    return [
        replace(case, engine=name)
        for case in cases
        if case.engine == "xla"
        for name, takes in others.items()
        if takes(case)
    ]


def takes_pallas(case: KernelCase, platform: str = "gpu") -> bool:
    """Shapes that the tiles of Pallas kernels divide, in 16-bit floats.

    jax's Hopper attention allocates its operands in fp16 whatever the input, so it takes no bf16.
    """
    s, tpu = case.sizes, platform == "tpu"
    if case.regime != "kernel" or case.dtype not in ("bf16", "fp16"):
        return False
    if case.op == "matmul":
        m, n, k = (512, 1024, 256) if tpu else (128, 256, 256)
        return s["m"] % m == 0 and s["n"] % n == 0 and s["k"] % k == 0
    attention = case.op in ("prefill", "prefill_full") and s["s"] % 256 == 0 and s["d"] in (64, 128)
    return attention and (tpu or case.dtype == "fp16")


def takes_warm(case: KernelCase) -> bool:
    """Matmuls and decode attention whose data fit an accelerator's last-level cache with margin."""
    return case.regime == "kernel" and case.op in ("matmul", "decode") and case.bytes <= CACHED


def takes_cudnn(case: KernelCase) -> bool:
    """cuDNN's fused attention: 16-bit floats, head_dim a multiple of 8 up to 128."""
    return (
        case.op in ("prefill", "prefill_full", "decode")
        and case.dtype in ("bf16", "fp16")
        and case.sizes["d"] % 8 == 0
        and case.sizes["d"] <= 128
    )
