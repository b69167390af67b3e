"""Measured kernels of the wheel as operations, priced by the engine: matmuls, attention and grouped matmuls of experts.

A class of kernels is a source (folder, file and column filters) and a builder that makes one operation of its rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import product
from typing import NamedTuple

import numpy as np

from rooflinecli.core import num
from rooflinecli.core.num import INF
from rooflinecli.formulas import attention, counts, roofline
from rooflinecli.layers.attention.mla import HEADS as LATENT_HEADS
from rooflinecli.layers.softmax import TILE
from rooflinecli.ledger.ops import ExpertWorkload, Op
from rooflinecli.phases.grouped_gemm import ExpertShape, ExpertStorage, busiest_rank_share, experts_op
from rooflinecli.price.chip import Chip
from rooflinecli.price.kernels import price
from rooflinecli.quantization.formats import FORMATS
from rooflinecli.specs.model import load_model
from rooflinecli.validate import aiconfigurator_tables as wheel
from rooflinecli.validate.stats import Array, Points, Row, Table, error_table, half, joined, notes, summary

LIBRARIES = ("trtllm", "vllm", "sglang")
# rows whose times no form here explains, with the reason given in the notes of the table
UNUSABLE = {
    ("decode attention", "a100_sxm", "trtllm"),
    ("latent attention", "a100_sxm", "trtllm"),
    ("latent attention", "l40s", "trtllm"),
    ("latent attention", "rtx_pro_6000_server", "trtllm"),
}
L2 = {
    "a100_sxm": 40e6,
    "h100_sxm": 50e6,
    "h200_sxm": 50e6,
    "b200_sxm": 126e6,
    "gb200": 126e6,
    "b300_sxm": 126e6,
    "gb300": 126e6,
    "l40s": 96e6,
    "rtx_pro_6000_server": 128e6,
}  # bytes
WARM = "weights in L2 of a GDDR card"


@dataclass
class Kernels:
    """Measured rows of one class on one chip under one library.

    `core` marks the shapes of models; `scored` the rows of the tables: decode attention on a cache that fits into L2 is left out,
    because the collector replays the same cache and a decode step does not. `weight` counts rows in a fit.
    """

    name: str
    chip: str
    library: str
    version: str
    op: Op
    measured: Array
    fitted: Array
    core: Array
    weight: Array
    scored: Array

    def points(self, group: str, rows: Array, chip: Chip | None = None) -> Points:
        """Predictions for some rows with the constants of `chip` (the shipped ones when omitted)."""
        chip = chip or wheel.chip(self.chip)
        variant = self.op.variant or f"{self.op.dtype if self.op.kind == 'matmul' else 'any'}@{self.library}"
        priced = price(self.op._replace(variant=variant), chip, "kernel")
        floor = roofline.floor_time(priced.t_compute, priced.t_memory)
        return Points.timed(group, self.measured, rows, priced.expected, floor, priced.error)


Made = tuple[Op, Array, Array, Array]  # operation, core, weight and scored of the distinct shapes


class Source(NamedTuple):
    """Rows of one class: folder, file, required column values, key columns, further conditions, and what makes an operation of them.

    `build` gets the key columns (after the median of repetitions), the chip and the library. dtype: the chip must have a peak for it.
    """

    folder: str
    file: str
    where: dict[str, str]
    columns: Callable[[wheel.Columns], list[Array]]
    keep: Callable[[wheel.Columns], Array]
    build: Callable[[list[Array], str, str], Made]
    dtype: str | None = None


def _matmul(dtype: str, value_bytes: float, columns: list[Array], chip: str, library: str) -> Made:
    m, n, k = columns
    op = Op(
        name="matmul",
        kind="matmul",
        dtype=dtype,
        flops=counts.matmul_flops(m, k, n),
        bytes=counts.matmul_bytes(m, k, n, value_bytes, value_bytes, 2.0),
        k=k,
        n=n,
        quantized=m * k,
        ramp=1 / k,
    )
    like = like_models(n, k)
    # short, middle and long inputs count the same in a fit, model-like shapes twice
    band = np.where(m <= 64, 0, np.where(m <= 1024, 1, 2))
    weight = np.where(like, 2.0, 1.0) / np.maximum(np.bincount(band, minlength=3)[band], 1)
    return op, like, weight, m > 0


def _decode(columns: list[Array], chip: str, library: str) -> Made:
    b, s, h, g, d, w = columns
    window = np.where(w == 0, INF, w)
    keys = num.minimum(s, window)
    op = Op(
        name="attention",
        kind="decode_attention",
        dtype="bf16",
        flops=attention.attention_core_flops(b, h, keys, d, d),
        bytes=counts.bytes_of(b * keys * 2 * g * d, 2.0) + counts.bytes_of(b * h * 2 * d, 2.0),
        k=keys,
        n=d,
        items=b * g,
    )
    cached, l2 = b * np.minimum(s, window) * g * d * 4, L2[chip]
    beyond = cached > 1.5 * l2
    return op, beyond, np.where(beyond, 3.0, np.where(cached < 0.1 * l2, 1.0, 0.0)), beyond


def _prefill(columns: list[Array], chip: str, library: str) -> Made:
    b, s, h, g, d, w = columns
    op = _prefill_op(b, s, h, (g, d, d), np.where(w == 0, INF, w), d)
    core = (d == 128) & (w == 0) & (s >= 256) & np.isin(h, [4, 8, 16, 32, 64]) & np.isin(g, [1, 2, 4, 8])
    return op, core, np.where(core, 2.0, 1.0), s > 0


def _prefill_op(
    b: Array, s: Array, h: Array, heads: tuple[Array, Array | float, Array | float], window: Array | float, n: Array
) -> Op:
    """Causal flash attention in bf16; `heads`: KV heads, their width in scores and in values."""
    g, d, values = heads
    pairs = attention.causal_pairs(s, window)
    return Op(
        name="attention",
        kind="prefill_attention",
        dtype="bf16",
        flops=attention.attention_core_flops(b, h, pairs, d, values),
        bytes=attention.flash_attention_bytes(b, s, s, h, g, d, values, 2.0, 2.0),
        k=np.minimum(s, window + TILE),
        n=n,
        quantized=2 * b * s * g * d,
        ramp=s / pairs,
        items=b * h * s / TILE,
    )


def _latent_decode(columns: list[Array], chip: str, library: str) -> Made:
    """DeepSeek's multi-head latent attention over latents 512 + 64 wide."""
    b, s, h = columns
    op = Op(
        name="attention",
        kind="latent_attention",
        dtype="bf16",
        flops=attention.attention_core_flops(b, h, s, 576.0, 512.0),
        bytes=counts.bytes_of(b * s * 576, 2.0) + counts.bytes_of(b * h * 1088, 2.0),
        k=s,
        n=544.0 + 0 * s,
        items=b * np.ceil(h / LATENT_HEADS),
    )
    return op, s > 0, np.ones(len(s)), s > 0


def _latent_prefill(columns: list[Array], chip: str, library: str) -> Made:
    """The same over whole prompts, expanded to heads 192 wide, values 128."""
    b, s, h = columns
    op = _prefill_op(b, s, h, (h, 192.0, 128.0), INF, 160.0 + 0 * s)
    op = op._replace(k=s, quantized=b * s * 576, variant=f"latent@{library}")
    return op, s > 0, np.ones(len(s)), s > 0


def _gqa_columns(table: wheel.Columns, length: Array) -> list[Array]:
    kv = np.where(table["num_key_value_heads"] == 0, table["num_heads"], table["num_key_value_heads"])
    window = table.get("window_size", 0 * length)
    return [table["batch_size"], length, table["num_heads"], kv, table["head_dim"], window]


BF16_CACHE = {"kv_cache_dtype": "bfloat16"}
GQA = {"attn_dtype": "bfloat16", **BF16_CACHE}
MLA = {"mla_dtype": "bfloat16", **BF16_CACHE}


def _gemm(written: str, dtype: str, value_bytes: float) -> Source:
    return Source(
        "gemm",
        "gemm_perf.parquet",
        {"gemm_dtype": written},
        lambda t: [t["m"], t["n"], t["k"]],
        lambda t: (t["n"] >= 512) & (t["k"] >= 512),
        partial(_matmul, dtype, value_bytes),
        dtype,
    )


CLASSES: dict[str, Source] = {
    "matmul bf16": _gemm("bfloat16", "bf16", 2.0),
    "matmul fp8": _gemm("fp8", "fp8", 1.0),
    "matmul fp4": _gemm("nvfp4", "fp4", 4.5 / 8),
    "prefill attention": Source(
        "attention",
        "context_attention_perf.parquet",
        GQA,
        lambda t: _gqa_columns(t, t["isl"]),
        lambda t: (t["head_dim"] <= 128) & (t["step"] == 0) & (t["isl"] >= 64),
        _prefill,
    ),
    "decode attention": Source(
        "attention",
        "generation_attention_perf.parquet",
        GQA,
        lambda t: _gqa_columns(t, t["isl"] + t["step"]),
        lambda t: t["head_dim"] <= 128,
        _decode,
    ),
    "latent attention": Source(
        "mla",
        "generation_mla_perf.parquet",
        MLA,
        lambda t: [t["batch_size"], t["isl"] + t["step"], t["num_heads"]],
        lambda t: t["isl"] >= 0,
        _latent_decode,
    ),
    "latent attention of prompts": Source(
        "mla",
        "context_mla_perf.parquet",
        MLA,
        lambda t: [t["batch_size"], t["isl"], t["num_heads"]],
        lambda t: (t["step"] == 0) & (t["isl"] >= 64),
        _latent_prefill,
    ),
}


@lru_cache(maxsize=512)
def load(name: str, chip: str, library: str) -> Kernels | None:
    """Measured rows of a class; None where there are none, or the chip's file has no peak or constants for them."""
    source = CLASSES[name]
    table = wheel.columns(chip, source.folder, library, source.file)
    if table is None or (source.dtype and source.dtype not in wheel.chip(chip).spec.peak):
        return None
    if name == "latent attention of prompts" and not wheel.chip(chip).has_constants(
        "prefill_attention", f"latent@{library}"
    ):
        return None
    keep = (table["latency"] > 0) & source.keep(table)
    for column, value in source.where.items():
        keep &= table[column] == value
    if not keep.any():
        return None
    columns, seconds = wheel.median_rows(
        [column[keep] for column in source.columns(table)], table["latency"][keep] * 1e-3
    )
    op, core, weight, scored = source.build(columns, chip, library)
    version = str(table["version"])
    return Kernels(name, chip, library, version, op, seconds, half(*columns), core, weight, scored)


def every(names: tuple[str, ...] = tuple(CLASSES)) -> Iterator[Kernels]:
    """All measured rows, class by class."""
    for name, chip, library in product(names, wheel.CHIPS, LIBRARIES):
        if (name, chip, library) not in UNUSABLE and (rows := load(name, chip, library)) is not None:
            yield rows


GEOMETRIES = (
    "llama-3-8b llama-3-70b llama-3.1-405b llama-2-7b llama-2-13b mistral-7b qwen2.5-7b qwen2.5-14b qwen2.5-32b qwen2.5-72b "
    "phi-4 gemma-2-9b gemma-2-27b qwen3-32b"
).split()


@lru_cache(maxsize=1)
def _model_shapes() -> Array:
    """(n, k) of the four matmuls of common models at TP 1, 2, 4, 8."""
    shapes = set()
    for name in GEOMETRIES:
        spec = load_model(name)
        a, f = spec.layers[0].attention, spec.layers[0].feedforward
        assert a is not None
        heads, kv, width, d, hidden = a.n_heads, a.n_kv_heads or a.n_heads, a.head_dim or 0, spec.d_model, f.d_ff or 0
        for tp in (1, 2, 4, 8):
            shapes |= {
                ((heads + 2 * kv) * width / tp, d),
                (d, heads * width / tp),
                (2 * hidden / tp, d),
                (d, hidden / tp),
            }
    return np.array(sorted(shapes))


def like_models(n: Array, k: Array) -> Array:
    """Shapes within 20% of a model's, in n and in k."""
    pairs, where = np.unique(np.stack([n, k], axis=1), axis=0, return_inverse=True)
    off: Array = np.abs(pairs[:, None, :] / _model_shapes()[None, :, :] - 1)
    near: Array = np.any(np.all(off <= 0.2, axis=2), axis=1)
    return near[where.ravel()]


# format of the wheel -> (name here, computed in, bytes per weight, bytes per value read)
EXPERT_FORMATS = {
    "bfloat16": ("bf16", "bf16", 2.0, 2.0),
    "fp8": ("fp8-tensor", "fp8", 1.0, 1.0),
    "fp8_block": ("fp8", "fp8", 1.0, 1.0),
    "nvfp4": ("nvfp4", "fp4", FORMATS["nvfp4"][0], FORMATS["nvfp4"][0]),
    "int4_wo": ("int4", "bf16", 0.52, 2.0),
    "w4a16_mxfp4": ("mxfp4", "bf16", FORMATS["mxfp4"][0], 2.0),
    "w4a8_mxfp4_mxfp8": ("mxfp4-fp8", "fp8", FORMATS["mxfp4"][0], 1.0),
}
# title of a family, library folder, file, suffix of the kernels' variant
EXPERT_SOURCES = (
    *(("experts", library, "moe_perf.parquet", library) for library in LIBRARIES),
    ("experts behind DeepEP", "sglang", "wideep_generation_moe_perf.parquet", "deepep-low-latency"),
    ("experts behind DeepEP", "sglang", "wideep_context_moe_perf.parquet", "deepep"),
    ("experts over NVLink", "trtllm", "wideep_moe_perf.parquet", "trtllm-wide"),
)
EXPERT_VERSIONS = 4  # versions of a file to look through
ADDED = 10  # a version with fewer than a tenth of another's rows only adds a model or two to it
UNGATED = (
    (5120, 512, 22),
    (1856, 128, 6),
)  # expert width, experts, top_k of Nemotron: "nongated" kernels, two matrices


def experts(title: str, library: str, file: str, suffix: str, chip: str, written: str) -> Kernels | None:
    """One expert table in one format, by the kernel with most measurements of it; None where it has none."""
    name, compute, weight, read = EXPERT_FORMATS[written]
    if compute not in wheel.chip(chip).spec.peak:
        return None
    versions = [wheel.columns(chip, "moe", library, file, behind) for behind in range(EXPERT_VERSIONS)]
    rows = [int((t["moe_dtype"] == written).sum()) if t is not None else 0 for t in versions]
    if not (most := max(rows)):
        return None
    table = next(t for t, n in zip(versions, rows, strict=True) if t is not None and n * ADDED >= most)
    keep = (table["moe_dtype"] == written) & (table["latency"] > 0)
    kernels, measurements = np.unique(table["kernel_source"][keep], return_counts=True)
    keep &= table["kernel_source"] == kernels[measurements.argmax()]
    routing = table["distribution"].astype(str)
    balanced = np.char.startswith(routing, "balanced") | np.char.startswith(routing, "uniform")
    balanced |= np.char.endswith(routing, "eplb")
    columns = [table[c] for c in ("num_tokens", "hidden_size", "inter_size", "topk")]
    columns += [table.get("num_slots", table["num_experts"]), table["moe_tp_size"], table["moe_ep_size"], balanced]
    shape, seconds = wheel.median_rows([column[keep] for column in columns], table["latency"][keep] * 1e-3)
    t, d, f, k, e, tp, ep, even = shape
    matrices = 3.0 - sum(((f == w) & (e == n) & (k == top)).astype(float) for w, n, top in UNGATED)
    experts = ExpertShape(d, f / tp, matrices, e, k)
    share = np.where(even == 1, 1.0, busiest_rank_share(t, experts, ep, balanced=False))
    storage = ExpertStorage(weight, read, 2.0, compute, f"{name}@{suffix}")
    routed = {}
    for flag in (True, False):  # the operation itself is that of uneven routing
        op = experts_op("experts", t, experts, storage, ep, share, even=flag)
        assert op.routed is not None
        routed[flag] = op.routed
    keys = ("rows", "slots", "active", "held", "flops", "weights")
    rows_of = {key: np.where(even == 1, getattr(routed[True], key), getattr(routed[False], key)) for key in keys}
    op = op._replace(routed=ExpertWorkload(**rows_of))
    # The collector replays one layer, so weights that fit stay in L2. With GDDR that L2 is several times as fast as memory and decides the
    # row; with HBM it is not.
    cold = wheel.chip(chip).spec.memory.kind.startswith("HBM") | (rows_of["weights"] >= L2[chip])
    version, core = str(table["version"]), np.ones(len(t), dtype=bool)
    return Kernels(title, chip, library, version, op, seconds, half(*shape[:7]), core, cold.astype(float), cold)


def tables() -> list[Table]:
    """A table per class: rows not fitted, by chip and library; then one per family of expert kernels."""
    if not wheel.installed():
        return [Table("kernels", [], [wheel.MISSING])]
    found = []
    for name in CLASSES:
        rows: list[Row] = []
        points: list[Points] = []
        for k in every((name,)):
            held_out = ~k.fitted & k.scored
            points.append(k.points(f"{wheel.CHIPS[k.chip]} {k.library} {k.version}", held_out))
            core = k.core[held_out]
            model_like = core.any() and not core.all()
            likes = {"model_like": summary(k.points("", held_out & k.core))["mean"]} if model_like else {}
            rows.append(summary(points[-1]) | likes)
        rows.append(summary(joined("all", points)))
        found.append(Table(f"kernels: {name}", rows, notes(name), points))
    return [*found, *expert_tables()]


def expert_tables() -> list[Table]:
    """A table per family of expert kernels: rows not fitted, by generation (the file that a chip extends), format and library."""
    families: dict[str, dict[str, list[Points]]] = defaultdict(lambda: defaultdict(list))
    for source, chip, written in product(EXPERT_SOURCES, wheel.CHIPS, EXPERT_FORMATS):
        k = experts(*source, chip, written)
        if k is None:
            continue
        base = wheel.chip(chip).spec.document.base_document
        group = f"{base.path.stem.lstrip('_') if base is not None else chip} {k.op.variant}"
        families[k.name][group].append(k.points(group, ~k.fitted & k.scored))
        if (~k.scored).any():
            families[k.name][WARM].append(k.points(WARM, ~k.fitted & ~k.scored))
    found = []
    for name, groups in families.items():
        warm = groups.pop(WARM, None)
        points = [joined(group, parts) for group, parts in sorted(groups.items())]
        totals = ({WARM: warm} if warm else {}) | {"all": points}
        found.append(error_table(f"kernels: {name}", points, notes("experts"), totals))
    return found
