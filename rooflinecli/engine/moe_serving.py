"""Routed experts of a layer in serving: the grouped GEMM on the busiest rank, and the MoE all-to-all that feeds it."""

from __future__ import annotations

from dataclasses import replace

from rooflinecli.core import num
from rooflinecli.core.errors import UsageError
from rooflinecli.core.num import INF, Number
from rooflinecli.engine.context import EstimateContext
from rooflinecli.formulas import grouped_gemm as f
from rooflinecli.ledger.ledger import Layer, Sizes
from rooflinecli.ledger.ops import Collective, ExpertAllToAll, Op
from rooflinecli.parallel import expert
from rooflinecli.phases.grouped_gemm import ExpertShape, ExpertStorage, experts_op
from rooflinecli.price import moe_all2all
from rooflinecli.specs.layout import Layout

WIDE = {"deepep": "deepep", "deepep-low-latency": "deepep-low-latency", "nvlink": "trtllm-wide"}
DEEPEP_SMS = 20.0  # of DeepEP's normal kernels, as in its tables and SGLang
ONE_HOST = 8.0  # ranks up to which engines all-gather tokens instead of sending them


def all2all_backends(ctx: EstimateContext, layout: Layout, decode: bool) -> list[tuple[str, Number]]:
    """All-to-all backends, each with where a layout uses it (1 or 0; arrays in a sweep of sizes).

    As asked for; else inside a host tokens are all-gathered, in an NVLink domain beyond it they go over NVLink, and over hosts by
    DeepEP, its low-latency kernels in decode and its normal ones in prefill, or NCCL where those were not benchmarked. Raises
    UsageError for a backend that was not benchmarked on the chip.
    """
    chip = ctx.chip
    if layout.exchange != "auto":
        if layout.exchange != "nccl" and not moe_all2all.is_benchmarked(chip, layout.exchange):
            raise UsageError(
                f"--all2all-backend {layout.exchange}: these kernels were not benchmarked on {chip.spec.name}; use nccl, or auto",
                "exchange",
            )
        return [(layout.exchange, 1.0)]
    if not moe_all2all.is_benchmarked(chip, moe_all2all.GATHER):
        return [("nccl", 1.0)]
    reach = num.value(layout.expert_replicas * layout.tp * layout.cp)
    domain = chip.levels[0].size if moe_all2all.is_benchmarked(chip, "nvlink") else ONE_HOST
    sent = "deepep-low-latency" if decode else "deepep"
    sent = sent if moe_all2all.is_benchmarked(chip, sent) else "nccl"
    used = (
        (moe_all2all.GATHER, f.uses(reach, 0.0, ONE_HOST)),
        ("nvlink", f.uses(reach, ONE_HOST, domain)),
        (sent, f.uses(reach, domain, INF)),
    )
    return [(mode, fraction) for mode, fraction in used if num.present(fraction)]


def comm_sm_fraction(ctx: EstimateContext, layout: Layout, decode: bool) -> Number:
    """Fraction of the chip's SMs that DeepEP's normal kernels occupy while they send; other backends take none."""
    units = ctx.chip.spec.units
    if units is None:
        return 0.0
    used = sum(share for mode, share in all2all_backends(ctx, layout, decode) if mode == "deepep")
    return DEEPEP_SMS / units.count.si * used if num.present(used) else 0.0


def grouped_gemm_op(
    ctx: EstimateContext, layout: Layout, layer: Layer, sizes: Sizes, tokens: Number, mode: str, decode: bool
) -> Op:
    """The layer's experts on the busiest rank of the group."""
    formats, ledger = ctx.formats, ctx.ledger
    copies = layout.redundant_experts
    count = sizes["E"] + copies if num.present(copies) else sizes["E"]
    gated = ledger.spec.layers[layer.index].feedforward.gated
    shape = ExpertShape(sizes["D"], sizes["F"], 3.0 if gated else 2.0, count, sizes["top_k"])
    group_tokens = tokens * layout.expert_replicas
    stored = ExpertStorage(
        formats.expert_weight,
        1.0 if formats.expert_compute == "fp8" else formats.matmul_input,
        formats.activation,
        formats.expert_compute or formats.compute,
        f"{_variant(ctx, mode)}+decode" if decode else _variant(ctx, mode),
    )
    load = _busiest_rank_load(ctx, layout, group_tokens, shape)
    op = experts_op("moe.experts", group_tokens, shape, stored, layout.ep, load, skew=ctx.engine.routing_skew)
    assert op.routed is not None
    return op._replace(routed=replace(op.routed, crowded=f.crowded(tokens))) if decode else op


def _busiest_rank_load(ctx: EstimateContext, layout: Layout, tokens: Number, shape: ExpertShape) -> Number:
    """Slots of the busiest rank over the mean: as given, by chance alone where redundant experts balance, else by skew."""
    if ctx.request.imbalance is not None:
        return num.minimum(layout.ep, ctx.from_flag("I", ctx.request.imbalance, "1", "--expert-imbalance"))
    copies = layout.redundant_experts
    skewed = f.busiest_rank_load(layout.ep, shape.experts, f.SERVED_SPREAD)
    if not num.present(copies):
        return skewed
    balanced = f.busiest_rank_balanced(layout.ep, tokens * shape.top_k)
    return balanced if num.plain(copies) else num.where(copies > 0, balanced, skewed)


def _variant(ctx: EstimateContext, mode: str) -> str:
    """Constants of the expert kernels behind a backend where they were benchmarked, else of the engine's library."""
    wide = f"{ctx.formats.expert_format}@{WIDE.get(mode, '')}"
    return (
        wide if ctx.chip.has_constants("routed_experts", wide) else f"{ctx.formats.expert_format}@{ctx.engine.library}"
    )


def exchanges(
    ctx: EstimateContext, layout: Layout, sizes: Sizes, tokens: Number, mode: str, layers: Number
) -> list[ExpertAllToAll | Collective]:
    """Dispatch and combine of `layers` layers."""
    top_k, d = sizes["top_k"], expert.token_width(sizes)
    narrow = (ctx.formats.expert_compute or ctx.formats.compute) in ("fp8", "fp4")
    if mode == "nccl":
        moves = expert.collectives(layout, tokens, top_k, d, ctx.formats.activation, layers, False)
        for c in moves:  # in 16 bits, a copy for every chosen expert: nothing is merged
            c.outer_share, c.n = 1.0, layout.expert_replicas
        return list(moves)
    # fp8 experts get their tokens in fp8; an engine that gathers quantized inputs sends what its matmul reads
    read = 1.0 if ctx.formats.expert_compute == "fp8" else ctx.formats.matmul_input
    size = read if mode == moe_all2all.GATHER else expert.SCALED_FP8
    variant = "vllm" if ctx.engine.library == "vllm" and ctx.request.engine.startswith("vllm") else ""
    return list(expert.exchanges(layout, mode, tokens, top_k, d, size if narrow else 2.0, layers, variant))
