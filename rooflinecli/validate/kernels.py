"""Kernels that aiconfigurator measured, as operations, priced by the engine: matmuls, attention and grouped matmuls of experts.

A class of kernels is a source (folder, file and column filters) and a builder that makes one operation of its rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import numpy as np

from rooflinecli.core import num
from rooflinecli.core.num import INF
from rooflinecli.formulas import attention, counts, roofline
from rooflinecli.layers.softmax import LATENT_HEADS, TILE
from rooflinecli.ledger.ops import ExpertWorkload, Op, matmul
from rooflinecli.phases.grouped_gemm import ExpertShape, ExpertStorage, busiest_rank_share, experts_op
from rooflinecli.price.chip import Chip
from rooflinecli.price.kernels import price
from rooflinecli.quantization.formats import FORMATS
from rooflinecli.specs.model import load_model
from rooflinecli.validate import aiconfigurator_tables as aiconfigurator
from rooflinecli.validate.stats import Array, Points, Row, Table, error_table, fit_half, joined, notes, summary

LIBRARIES = ("trtllm", "vllm", "sglang")
CLASSES: dict[str, Row] = aiconfigurator.DATA["kernels"]
WARM_L2 = "weights in L2 of a GDDR card"


@dataclass
class Kernels:
    """Measured rows of one class on one chip under one library.

    `core` marks the shapes of models; `scored` the rows of the tables: decode attention on a cache that fits into L2 is left out,
    because the collector replays the same cache and a decode step does not.
    """

    name: str
    chip: str
    library: str
    version: str
    op: Op
    measured: Array
    fitted: Array
    core: Array
    scored: Array

    def points(self, group: str, rows: Array, chip: Chip | None = None) -> Points:
        """Predictions for some rows with the constants of `chip` (the shipped ones when omitted)."""
        chip = chip or aiconfigurator.chip(self.chip)
        variant = self.op.variant or f"{self.op.dtype if self.op.kind == 'matmul' else 'any'}@{self.library}"
        priced = price(self.op._replace(variant=variant), chip, "kernel")
        floor = roofline.floor_time(priced.t_compute, priced.t_memory)
        return Points.timed(group, self.measured, rows, priced.expected, floor, priced.error)


BuiltOp = tuple[Op, Array, Array]  # operation, core and scored of the distinct shapes


def _matmul(columns: list[Array], chip: str, source: Row) -> BuiltOp:
    m, n, k = columns
    size = source["value_bytes"]
    flops, moved = counts.matmul_flops(m, k, n), counts.matmul_bytes(m, k, n, size, size, 2.0)
    return matmul("matmul", source["dtype"], flops, moved, m, k, n, 1 / k), like_models(n, k), m > 0


def _decode(columns: list[Array], chip: str, source: Row) -> BuiltOp:
    batch, context, heads, kv_heads, width, window = columns
    keys = num.minimum(context, np.where(window == 0, INF, window))
    flops = attention.attention_core_flops(batch, heads, keys, width, width)
    moved = counts.bytes_of(batch * keys * 2 * kv_heads * width, 2.0) + counts.bytes_of(batch * heads * 2 * width, 2.0)
    op = Op("attention", "decode_attention", "bf16", flops, moved, k=keys, n=width, items=batch * kv_heads)
    beyond = cached_bytes(op) > 1.5 * l2(chip)
    return op, beyond, beyond


def cached_bytes(op: Op) -> Array:
    """Bytes of keys and values of a decode attention in 16 bits."""
    cached: Array = op.items * op.k * op.n * 4
    return cached


def l2(chip: str) -> float:
    """Bytes of a chip's L2."""
    return float(aiconfigurator.DATA["chips"][chip]["l2"])


def _prefill(columns: list[Array], chip: str, source: Row) -> BuiltOp:
    batch, prompt, heads, kv_heads, width, window = columns
    op = _prefill_op(batch, prompt, heads, (kv_heads, width, width), np.where(window == 0, INF, window), width)
    core = (width == 128) & (window == 0) & (prompt >= 256) & np.isin(kv_heads, [1, 2, 4, 8])
    return op, core & np.isin(heads, [4, 8, 16, 32, 64]), prompt > 0


def _prefill_op(
    batch: Array,
    prompt: Array,
    heads: Array,
    kv: tuple[Array, Array | float, Array | float],
    window: Array | float,
    n: Array,
) -> Op:
    """Causal flash attention in bf16; `kv`: KV heads, their width in scores and in values."""
    kv_heads, width, values = kv
    pairs = attention.causal_pairs(prompt, window)
    flops = attention.attention_core_flops(batch, heads, pairs, width, values)
    moved = attention.flash_attention_bytes(batch, prompt, prompt, heads, kv_heads, width, values, 2.0, 2.0)
    return Op(
        "attention", "prefill_attention", "bf16", flops, moved, k=np.minimum(prompt, window + TILE), n=n,
        quantized=2 * batch * prompt * kv_heads * width, ramp=prompt / pairs, items=batch * heads * prompt / TILE,
    )  # fmt: skip


def _latent_decode(columns: list[Array], chip: str, source: Row) -> BuiltOp:
    """DeepSeek's multi-head latent attention over latents 512 + 64 wide."""
    batch, context, heads = columns
    flops = attention.attention_core_flops(batch, heads, context, 576.0, 512.0)
    moved = counts.bytes_of(batch * context * 576, 2.0) + counts.bytes_of(batch * heads * 1088, 2.0)
    items, mean_width = batch * np.ceil(heads / LATENT_HEADS), 544.0 + 0 * context
    op = Op("attention", "latent_attention", "bf16", flops, moved, k=context, n=mean_width, items=items)
    return op, context > 0, context > 0


def _latent_prefill(columns: list[Array], chip: str, source: Row) -> BuiltOp:
    """The same over whole prompts, expanded to heads 192 wide, values 128."""
    batch, prompt, heads = columns
    op = _prefill_op(batch, prompt, heads, (heads, 192.0, 128.0), INF, 160.0 + 0 * prompt)
    return op._replace(k=prompt, quantized=batch * prompt * 576), prompt > 0, prompt > 0


BUILDERS: dict[str, Callable[[list[Array], str, Row], BuiltOp]] = {
    "matmul": _matmul,
    "prefill": _prefill,
    "decode": _decode,
    "latent decode": _latent_decode,
    "latent prefill": _latent_prefill,
}


def _column(table: aiconfigurator.Columns, name: str) -> Array:
    """A column of a table, or one made of others."""
    if name == "context":
        return table["isl"] + table["step"]
    if name == "kv":
        return np.where(table["num_key_value_heads"] == 0, table["num_heads"], table["num_key_value_heads"])
    return table.get("window_size", 0 * table["isl"]) if name == "window" else table[name]


@lru_cache(maxsize=512)
def load(name: str, chip: str, library: str) -> Kernels | None:
    """Measured rows of a class; None where there are none, or the chip's file has no peak or constants for them."""
    source = CLASSES[name]
    table = aiconfigurator.columns(chip, source["folder"], library, f"{source['file']}.parquet")
    if table is None or ("dtype" in source and source["dtype"] not in aiconfigurator.chip(chip).spec.peak):
        return None
    variant = f"{source['variant']}@{library}" if "variant" in source else ""
    if variant and not aiconfigurator.chip(chip).has_constants("prefill_attention", variant):
        return None
    keep = table["latency"] > 0
    for column, value in source["where"].items():
        keep &= table[column] == value
    for column, value in source.get("least", {}).items():
        keep &= table[column] >= value
    for column, value in source.get("most", {}).items():
        keep &= table[column] <= value
    if not keep.any():
        return None
    shape = [_column(table, key)[keep] for key in source["keys"]]
    columns, seconds = aiconfigurator.median_rows(shape, table["latency"][keep] * 1e-3)
    op, core, scored = BUILDERS[source["form"]](columns, chip, source)
    version = str(table["version"])
    return Kernels(
        name, chip, library, version, op._replace(variant=variant), seconds, fit_half(*columns), core, scored
    )


def all_kernels(names: Iterable[str] = CLASSES) -> Iterator[Kernels]:
    """All measured rows, class by class."""
    for name, chip, library in product(names, aiconfigurator.CHIPS, LIBRARIES):
        usable = [name, chip, library] not in aiconfigurator.DATA["unusable"]
        if usable and (rows := load(name, chip, library)) is not None:
            yield rows


@lru_cache(maxsize=1)
def _model_shapes() -> Array:
    """(n, k) of the four matmuls of common models at TP 1, 2, 4, 8."""
    shapes = set()
    for name in aiconfigurator.DATA["geometries"]:
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


EXPERT_VERSIONS = 4  # versions of a file to look through
ADDED = 10  # a version with fewer than a tenth of another's rows only adds a model or two to it


def experts(title: str, library: str, file: str, suffix: str, chip: str, dtype_name: str) -> Kernels | None:
    """One expert table in one format, by the kernel with most measurements of it; None where it has none."""
    name, compute, weight, read = aiconfigurator.DATA["expert_formats"][dtype_name]
    if compute not in aiconfigurator.chip(chip).spec.peak:
        return None
    versions = [aiconfigurator.columns(chip, "moe", library, file, behind) for behind in range(EXPERT_VERSIONS)]
    rows = [int((t["moe_dtype"] == dtype_name).sum()) if t is not None else 0 for t in versions]
    if not (most := max(rows)):
        return None
    table = next(t for t, n in zip(versions, rows, strict=True) if t is not None and n * ADDED >= most)
    keep = (table["moe_dtype"] == dtype_name) & (table["latency"] > 0)
    kernels, measurements = np.unique(table["kernel_source"][keep], return_counts=True)
    keep &= table["kernel_source"] == kernels[measurements.argmax()]
    routing = table["distribution"].astype(str)
    balanced = np.char.startswith(routing, "balanced") | np.char.startswith(routing, "uniform")
    balanced |= np.char.endswith(routing, "eplb")
    columns = [table[c] for c in ("num_tokens", "hidden_size", "inter_size", "topk")]
    columns += [table.get("num_slots", table["num_experts"]), table["moe_tp_size"], table["moe_ep_size"], balanced]
    shape, seconds = aiconfigurator.median_rows([column[keep] for column in columns], table["latency"][keep] * 1e-3)
    t, d, f, k, e, tp, ep, even = shape
    named = kernels[measurements.argmax()].endswith("nongated")
    ungated = aiconfigurator.DATA["ungated"]
    gates = sum(((d == model) & (f == width) & (e == n)).astype(float) for model, width, n in ungated)
    matrices = 3.0 - np.maximum(gates, float(named))
    experts = ExpertShape(d, f / tp, matrices, e, k)
    share = np.where(even == 1, 1.0, busiest_rank_share(t, experts, ep, balanced=False))
    storage = ExpertStorage(
        weight or FORMATS[name.partition("-")[0]][0], read or FORMATS[name][0], 2.0, compute, f"{name}@{suffix}"
    )
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
    cold = aiconfigurator.chip(chip).spec.memory.kind.startswith("HBM") | (rows_of["weights"] >= l2(chip))
    version, core = str(table["version"]), np.ones(len(t), dtype=bool)
    return Kernels(title, chip, library, version, op, seconds, fit_half(*shape[:7]), core, cold)


def tables() -> list[Table]:
    """A table per class: rows not fitted, by chip and library; then one per family of expert kernels."""
    if not aiconfigurator.installed():
        return [Table("kernels", [], [aiconfigurator.MISSING])]
    found = []
    for name in CLASSES:
        rows: list[Row] = []
        points: list[Points] = []
        for k in all_kernels((name,)):
            held_out = ~k.fitted & k.scored
            points.append(k.points(f"{aiconfigurator.CHIPS[k.chip]} {k.library} {k.version}", held_out))
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
    for (title, library, file, suffix), chip, dtype_name in product(
        aiconfigurator.DATA["expert_sources"], aiconfigurator.CHIPS, aiconfigurator.DATA["expert_formats"]
    ):
        k = experts(title, library, file, suffix, chip, dtype_name)
        if k is None:
            continue
        base = aiconfigurator.chip(chip).spec.document.base_document
        group = f"{base.path.stem.lstrip('_') if base is not None else chip} {k.op.variant}"
        families[k.name][group].append(k.points(group, ~k.fitted & k.scored))
        if (~k.scored).any():
            families[k.name][WARM_L2].append(k.points(WARM_L2, ~k.fitted & ~k.scored))
    found = []
    for name, groups in families.items():
        warm = groups.pop(WARM_L2, None)
        points = [joined(group, parts) for group, parts in sorted(groups.items())]
        totals = ({WARM_L2: warm} if warm else {}) | {"all": points}
        found.append(error_table(f"kernels: {name}", points, notes("experts"), totals))
    return found
