"""Parameters on the fullest device, and their state: weights, gradients, optimizer."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from rooflinecli.core import num
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.lift import PLAIN, PlainLift
from rooflinecli.core.num import Number
from rooflinecli.formulas import fine_tuning
from rooflinecli.formulas import memory as f
from rooflinecli.ledger.ledger import Layer, Ledger, Row, product, row_parameters
from rooflinecli.parallel import data, pipeline
from rooflinecli.phases.axis_sizes import layer_sizes, pass_axis_sizes, stem_head_axis_sizes
from rooflinecli.phases.fine_tuning import NF4, RECIPE, adapter_parameters
from rooflinecli.quantization.formats import Formats
from rooflinecli.specs.layout import WHOLE, Layout


@dataclass(frozen=True)
class DeviceParameters:
    """Parameters on the fullest device of a replica: in layers, outside them (embedding, head), and in routed experts.

    has_experts: a dense model has no expert group to all-reduce gradients in.
    """

    inner: Number
    outer: Number
    experts: Number = 0.0
    has_experts: bool = False

    @property
    def total(self) -> Number:
        return self.inner + self.outer + self.experts


def device_parameters(ledger: Ledger, layout: Layout, lift: PlainLift) -> DeviceParameters:
    """Parameters per device of a replica. With a pipeline the fullest stage has the larger of embedding and head."""
    sizes = layout.tp, layout.pp, layout.dp, layout.cp, layout.ep, layout.redundant_experts, layout.expert_tp
    plain = not lift.traced and not ledger.towers  # inputs of an encoder may be arrays, too large to keep
    if plain and all(size.__class__ is float or size is None for size in sizes):
        return _plain_parameters(ledger, layout.stages and tuple(layout.stages), *sizes)
    return _count_parameters(ledger, layout, lift)


@lru_cache(maxsize=1024)
def _plain_parameters(
    ledger: Ledger,
    stages: tuple[float, ...] | None,
    tp: float,
    pp: float,
    dp: float,
    cp: float,
    ep: float,
    copies: float,
    expert_tp: float | None,
) -> DeviceParameters:
    """Memoized for plain sizes: every candidate, phase and check needs the same ones."""
    sizes = {"tp": tp, "pp": pp, "dp": dp, "cp": cp, "ep": ep, "redundant_experts": copies, "expert_tp": expert_tp}
    return _count_parameters(ledger, WHOLE.with_changes(stages=stages, **sizes), PLAIN)


def _count_parameters(ledger: Ledger, layout: Layout, lift: PlainLift) -> DeviceParameters:
    document, work = ledger.document, pass_axis_sizes(1.0, 1.0, 1.0, 1.0, layout)
    share = pipeline.layers_on_fullest_stage(layout, float(ledger.n_layers)) / ledger.n_layers
    inner: Number = 0.0
    experts: Number = 0.0
    for g in ledger.layers:
        layer = layer_sizes(g, work, layout, document, lift)
        dense, routed = _dense_and_routed(g)
        inner = inner + row_parameters(dense, layer) * (float(g.repeat) * share)
        if g.moe:
            experts = experts + row_parameters(routed, layer) * (float(g.repeat) * share)
    sizes = stem_head_axis_sizes(ledger, work, layout, document, lift)
    stem, head = row_parameters(ledger.stem, sizes), row_parameters(ledger.head, sizes)
    # A tied table is copied to the last stage, where it is the head.
    copied = head + product(("V", "D"), sizes) if ledger.spec.tied_embeddings else head
    for tower in ledger.towers:
        stem = stem + device_parameters(tower.ledger, layout, lift).total
    outer = num.where(layout.pp > 1, num.maximum(stem, copied), stem + head)
    return DeviceParameters(inner, outer, experts, any(g.moe for g in ledger.layers))


def with_mtp_layers(
    params: DeviceParameters, ledger: Ledger, layout: Layout, depth: float, lift: PlainLift
) -> DeviceParameters:
    """`params` with `depth` MTP modules on the stage of the head, whose embedding and head they share: the ledger's mtp_block, a
    projection of 2 D to D and three norms (DeepSeek-V3, section 2.2)."""
    inner, experts = params.inner, params.experts
    for layer in ledger.mtp_block:
        sizes = layer_sizes(layer, pass_axis_sizes(1.0, 1.0, 1.0, 1.0, layout), layout, ledger.document, lift)
        dense, routed = _dense_and_routed(layer)
        inner = inner + row_parameters(dense, sizes) * depth
        experts = experts + row_parameters(routed, sizes) * depth
    projection = f.prediction_parameters(sizes["D"], layout.tp)
    return replace(params, inner=inner + projection * depth, experts=experts)


def _dense_and_routed(layer: Layer) -> tuple[tuple[Row, ...], tuple[Row, ...]]:
    """Rows outside and inside the routed experts of a layer."""
    routed = tuple(row for row in layer.rows if row.kind == "grouped_matmul")
    return (tuple(row for row in layer.rows if row.kind != "grouped_matmul") if routed else layer.rows), routed


def weights(params: DeviceParameters, formats: Formats, shards: Number) -> Number:
    """Bytes of the working copy of the weights."""
    return (
        f.partitioned_bytes(params.inner, formats.weight, shards)
        + f.partitioned_bytes(params.experts, formats.expert_weight, shards)
        + f.partitioned_bytes(params.outer, formats.outer_weight, shards)
    )


def resident_weight_bytes(formats: Formats) -> float:
    """Bytes per weight of a layer in training: narrow matmuls keep 16 bits, or 8 along rows and 8 along columns."""
    narrow = formats.matmul_input < formats.activation
    return max(formats.weight, formats.activation) if narrow else formats.weight


@lru_cache(maxsize=256)
def _as_trained(formats: Formats, quantized: bool) -> Formats:
    """Formats with the bytes of weights that stay on a device while training."""
    if quantized:
        return replace(formats, weight=fine_tuning.nf4_bytes(*NF4))
    return replace(formats, weight=resident_weight_bytes(formats), expert_weight=resident_weight_bytes(formats))


def trainable_parameters(ledger: Ledger, layout: Layout, params: DeviceParameters, lift: PlainLift) -> DeviceParameters:
    """Parameters that get gradients: all, or the adapters of frozen ones."""
    if not RECIPE[layout.recipe].frozen:
        return params
    work = pass_axis_sizes(1.0, 1.0, 1.0, 1.0, layout)
    share = pipeline.layers_on_fullest_stage(layout, float(ledger.n_layers)) / ledger.n_layers
    inner: Number = 0.0
    for g in ledger.layers:
        sizes = layer_sizes(g, work, layout, ledger.document, lift)
        inner = inner + adapter_parameters(g.rows, sizes, layout.lora_rank, layout.lora_targets) * (
            float(g.repeat) * share
        )
    return DeviceParameters(
        inner, sum((trainable_parameters(tower.ledger, layout, params, lift).total for tower in ledger.towers), 0.0)
    )


def training_state_bytes(
    params: DeviceParameters,
    trained: DeviceParameters,
    layout: Layout,
    formats: Formats,
    gradient_bytes: Number,
    optimizer_bytes: Number,
) -> dict[str, Number]:
    """Weights, gradients and optimizer state after ZeRO partitioning; adapters and a reference are weights too."""
    recipe = RECIPE[layout.recipe]
    if recipe.quantized or not recipe.frozen:
        formats = _as_trained(formats, recipe.quantized)
    over = data.shards(layout)
    experts = f.partitioned_bytes(params.experts, formats.expert_weight, data.shards(layout, True)["weights"])
    optimizer = 0.0 if layout.optimizer_on_host else optimizer_bytes
    whole = weights(DeviceParameters(params.inner, params.outer), formats, over["weights"]) + experts
    if recipe.reference:
        whole = whole + whole
    if recipe.frozen:
        whole = whole + partitioned(trained, layout, "weights") * formats.activation
    state = {
        "weights_bytes": whole,
        "gradients_bytes": partitioned(trained, layout, "gradients") * gradient_bytes,
        "optimizer_bytes": partitioned(trained, layout, "optimizer") * optimizer,
    }
    copies = pipeline.copies(layout)
    if num.plain(copies) and num.value(copies) == 1:
        return state
    # Of two copies ZeRO splits the optimizer over twice the devices, so a device's part is the same.
    shared = "optimizer_bytes" if layout.zero >= 1 else ""
    return {name: size if name == shared else size * copies for name, size in state.items()}


def host_copy(params: DeviceParameters, layout: Layout, formats: Formats, per_host: Number) -> Number:
    """Bytes of a device's part of the copy of the weights that its host keeps for the backward pass, at the width of activations; 0 where
    the shard group does not reach beyond the host, or a pipeline keeps weights whole anyway."""
    total: Number = 0.0
    for count, experts in ((params.inner + params.outer, False), (params.experts, True)):
        if not experts or params.has_experts:
            shards, members = data.shards(layout, experts)["weights"], data.members_in_host(layout, per_host, experts)
            total = total + f.second_copy(count, formats.activation, shards, members)
    return total


def partitioned(params: DeviceParameters, layout: Layout, state: str) -> Number:
    """Parameters whose weights, gradients or optimizer state one device keeps; experts are split over their own copies."""
    dense = f.partitioned_parameters(params.inner + params.outer, data.shards(layout)[state])
    if not params.has_experts:
        return dense
    return dense + f.partitioned_parameters(params.experts, data.shards(layout, True)[state])
