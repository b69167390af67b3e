"""LoRA serving: memory of the adapters on a device, and what a step reads, multiplies and launches for them.

All adapters are resident and each sequence uses one of them, drawn evenly. Every adapted dense matmul of a layer gets two more
kernels, which gather the low-rank pair of each sequence (Punica, S-LoRA); experts have none.
"""

from __future__ import annotations

from collections.abc import Iterator

from rooflinecli.core.num import Number
from rooflinecli.engine.context import EstimateContext
from rooflinecli.formulas import fine_tuning, roofline
from rooflinecli.ledger.ledger import Row, Sizes
from rooflinecli.ledger.ops import matmul
from rooflinecli.phases.axis_sizes import layer_sizes, pass_axis_sizes
from rooflinecli.phases.fine_tuning import adapted
from rooflinecli.price.accumulator import StepAccumulator
from rooflinecli.specs.layout import Layout

KIND, RANK, TARGETS = "adapters", 16.0, "all"
WIDTH = 2.0  # bytes per parameter: adapters stay in 16 bits whatever the model is stored in


def adapter_bytes(ctx: EstimateContext, layout: Layout) -> Number:
    """Bytes of all adapters on the fullest device of a replica."""
    if ctx.request.adapters is None:
        return 0.0
    count, work, total = _count(ctx), pass_axis_sizes(1.0, 1.0, 1.0, 1.0, layout), 0.0
    for group in ctx.ledger.layers:
        sizes = layer_sizes(group, work, layout, ctx.ledger.document, ctx.lift)
        parameters: Number = sum(adapter for *_, adapter in _adapted_matmuls(ctx, group.rows, sizes))
        total = total + parameters * float(group.repeat)
    return fine_tuning.adapters_held(count, total, layout.pp, WIDTH)


def add_priced(
    ctx: EstimateContext, costs: StepAccumulator, rows: tuple[Row, ...], sizes: Sizes, times: Number
) -> None:
    """Charge a layer's adapters `times` times: matmuls with one adapter's weights, the traffic of further ones, and launches.

    The floor reads a single adapter, since all sequences may use the same.
    """
    if ctx.request.adapters is None:
        return
    formats, settings = ctx.formats, ctx.chip.constants("serving", KIND)
    used = fine_tuning.adapters_met(_count(ctx), sizes["B"])
    constants = ctx.chip.constants("serving", "matmul", formats.outer_compute)
    for row, m, k, n, adapter in _adapted_matmuls(ctx, rows, sizes):
        flops = fine_tuning.adapter_flops(m, _rank(ctx), k, n)
        moved = fine_tuning.served_adapter_bytes(m, k, n, formats.activation, adapter, WIDTH)
        costs.add([matmul(f"{row.name}.adapter", formats.outer_compute, flops, moved, m, k, n, 1 / n)], times)
        further = roofline.effective_memory_time(
            fine_tuning.further_bytes(used, adapter, WIDTH), ctx.chip.bandwidth, constants.memory
        )
        launches = 2 * settings.overhead  # one kernel down to the rank, one up again
        costs.add_time(KIND, (further + launches) * times, KIND, settings.error)


def _adapted_matmuls(
    ctx: EstimateContext, rows: tuple[Row, ...], sizes: Sizes
) -> Iterator[tuple[Row, Number, Number, Number, Number]]:
    """Adapted rows: tokens, widths in and out, parameters of one adapter."""
    dense = tuple(row for row in rows if not row.routed)
    for row, m, k, n in adapted(dense, sizes, ctx.request.lora_targets or TARGETS):
        yield row, m, k, n, fine_tuning.adapter_parameters(_rank(ctx), k, n)


def _count(ctx: EstimateContext) -> Number:
    return ctx.from_flag("N_ad", ctx.request.adapters, "1", "--num-loras")


def _rank(ctx: EstimateContext) -> Number:
    rank = ctx.request.lora_rank
    return ctx.from_flag("r", RANK if rank is None else rank, "1", "--lora-rank", rank is None)
