"""Every expert table of the wheel as operations: library, format, generation, expert-parallel size and routing.

A table's rows are those of the kernel with most measurements of its format; half of the shapes (a hash) is held out.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from rooflinecli.phases.grouped_gemm import ExpertShape, ExpertStorage, busiest_rank_share, experts_op
from rooflinecli.quantization.formats import FORMATS
from rooflinecli.specs.hardware import load_hardware
from rooflinecli.validate import aiconfigurator_tables
from rooflinecli.validate.kernels import L2, Kernels
from rooflinecli.validate.stats import Array, half

# format of the wheel -> (name here, computed in, bytes per weight, bytes per value read)
WRITTEN = {
    "bfloat16": ("bf16", "bf16", 2.0, 2.0),
    "fp8": ("fp8-tensor", "fp8", 1.0, 1.0),
    "fp8_block": ("fp8", "fp8", 1.0, 1.0),
    "nvfp4": ("nvfp4", "fp4", FORMATS["nvfp4"][0], FORMATS["nvfp4"][0]),
    "int4_wo": ("int4", "bf16", 0.52, 2.0),
    "w4a16_mxfp4": ("mxfp4", "bf16", FORMATS["mxfp4"][0], 2.0),
    "w4a8_mxfp4_mxfp8": ("mxfp4-fp8", "fp8", FORMATS["mxfp4"][0], 1.0),
}


class Source(NamedTuple):
    """A family of tables: file, library folder, what the variant is called, how the busiest rank's share follows."""

    title: str
    library: str
    file: str
    suffix: str


SOURCES = (
    *(Source("experts", library, "moe_perf.parquet", library) for library in ("trtllm", "vllm", "sglang")),
    Source("experts behind DeepEP", "sglang", "wideep_generation_moe_perf.parquet", "deepep-low-latency"),
    Source("experts behind DeepEP", "sglang", "wideep_context_moe_perf.parquet", "deepep"),
    Source("experts over NVLink", "trtllm", "wideep_moe_perf.parquet", "trtllm-wide"),
)
OLDEST = 4  # versions of a file to look through
ADDED = 10  # a version with fewer than a tenth of another's rows only adds to it
UNGATED = (
    (5120, 512, 22),
    (1856, 128, 6),
)  # expert width, experts, top_k of Nemotron: "nongated" kernels, two matrices


def every() -> Iterator[Kernels]:
    """All expert tables: source by source, chip by chip, format by format."""
    for source in SOURCES:
        for chip in aiconfigurator_tables.CHIPS:
            for written in WRITTEN:
                found = load(source, chip, written)
                if found is not None:
                    yield found


@lru_cache(maxsize=256)
def load(source: Source, chip: str, written: str) -> Kernels | None:
    """One table in one format, or None where it has none or the chip's file gives no peak to compute in."""
    name, compute, weight, read = WRITTEN[written]
    table = _newest(source, chip, written) if compute in load_hardware(aiconfigurator_tables.CHIPS[chip]).peak else None
    if table is None:
        return None
    keep = (table["moe_dtype"] == written) & (table["latency"] > 0)
    kernels, counts = np.unique(table["kernel_source"][keep], return_counts=True)
    keep &= table["kernel_source"] == kernels[counts.argmax()]
    balanced = np.char.startswith(table["distribution"].astype(str), "balanced")
    balanced |= np.char.startswith(table["distribution"].astype(str), "uniform")
    balanced |= np.char.endswith(table["distribution"].astype(str), "eplb")
    columns = [table[c][keep] for c in ("num_tokens", "hidden_size", "inter_size", "topk")]
    placed = table.get("num_slots", table["num_experts"])
    columns += [placed[keep], table["moe_tp_size"][keep], table["moe_ep_size"][keep], balanced[keep].astype(int)]
    (t, d, f, k, e, tp, ep, even), seconds = aiconfigurator_tables.median_rows(columns, table["latency"][keep] * 1e-3)
    gated = 3.0 - sum(((f == w) & (e == n) & (k == top)).astype(float) for w, n, top in UNGATED)
    shape = ExpertShape(d, f / tp, gated, e, k)
    share = np.where(even == 1, 1.0, busiest_rank_share(t, shape, ep, balanced=False))
    stored = ExpertStorage(weight, read, 2.0, compute, f"{name}@{source.suffix}")
    skewed = experts_op("experts", t, shape, stored, ep, share)
    full = experts_op("experts", t, shape, stored, ep, share, even=True)
    op = _either(skewed, full, even == 1)
    cold = _from_memory(chip, op.routed.weights)
    return Kernels(
        source.title,
        chip,
        source.library,
        str(table["version"]),
        [op],
        seconds,
        half(t, d, f, k, e, tp, ep),
        np.ones(len(t), dtype=bool),
        cold.astype(float),
        cold,
    )


def _from_memory(chip: str, weights: Array) -> Array:
    """Rows that read weights as a layer of a model does.

    The collector replays one layer, so what fits into L2 stays there. Beside GDDR that L2 is several times as fast as memory and decides the row;
    beside HBM it is not.
    """
    beside_hbm = load_hardware(aiconfigurator_tables.CHIPS[chip]).memory.kind.startswith("HBM")
    return np.asarray(beside_hbm | (weights >= L2[chip]))


def generation(chip: str) -> str:
    """The file of the generation that a chip of the wheel shares its constants with: what it extends."""
    under = load_hardware(aiconfigurator_tables.CHIPS[chip]).document.base_document
    return under.path.stem.lstrip("_") if under is not None else chip


def _newest(source: Source, chip: str, written: str) -> dict[str, Any] | None:
    """The newest file of a library that holds a format in earnest: some versions add a new model or two and nothing else."""
    found = [
        aiconfigurator_tables.columns(chip, "moe", source.library, source.file, behind) for behind in range(OLDEST)
    ]
    rows = [int((t["moe_dtype"] == written).sum()) if t is not None else 0 for t in found]
    most = max(rows)
    return next(t for t, n in zip(found, rows, strict=True) if n * ADDED >= most) if most else None


def _either(skewed: Any, full: Any, even: Array) -> Any:
    """Rows of the one where routing was even, of the other elsewhere."""
    routed = skewed.routed.__class__(
        **{
            name: np.where(even, getattr(full.routed, name), getattr(skewed.routed, name))
            for name in ("rows", "slots", "active", "held", "flops", "weights")
        }
    )
    return skewed._replace(routed=routed)
