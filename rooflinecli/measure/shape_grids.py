"""Cases of a run, by suite, platform and --quick. The shapes are in shape_grids.yaml."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from rooflinecli.measure import cases
from rooflinecli.measure.cases import KernelCase
from rooflinecli.measure.dtypes import WIDE, defaults

SUITES = ("bandwidth", "matmul", "attention", "elementwise", "collectives")
TRAINED = ("fp32", "bf16", "fp16")  # formats of gradients, attention and experts
LONGEST_TRAINED = 16384
Grid = dict[str, Any]  # lists of sizes by name


@cache
def _file() -> dict[str, dict[str, Any]]:
    import yaml

    data: dict[str, dict[str, Any]] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
    return data


def _grid(platform: str, quick: bool) -> Grid:
    grid: Grid = _file()["cpu" if platform == "cpu" else "gpu"]["quick" if quick else "full"]
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
    "bandwidth": _bandwidth,
    "matmul": _matmul,
    "attention": _attention,
    "elementwise": _elementwise,
}


def baseline(platform: str, dtype: str) -> Iterator[KernelCase]:
    """The two roofs, which every profile needs whichever suite was selected."""
    yield from _bandwidth(platform, True, dtype if dtype in WIDE else defaults(platform, True)[0])
    for n in _file()["cpu" if platform == "cpu" else "gpu"]["roofs"]:
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
