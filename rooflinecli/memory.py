"""Bytes on the fullest device: parameters and their state, whole matrices of an optimizer, activations, KV cache."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from operator import attrgetter
from typing import Any, NamedTuple

from rooflinecli.core import num
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.identity_cache import cached_by_identity
from rooflinecli.core.lift import PLAIN, PlainLift
from rooflinecli.core.num import Number
from rooflinecli.formulas import fine_tuning, schedule, training
from rooflinecli.formulas import memory as f
from rooflinecli.ledger.ledger import Encoder, Layer, Ledger, Row, Sizes, product, row_parameters
from rooflinecli.parallel import data, pipeline
from rooflinecli.phases import recompute
from rooflinecli.phases.axis_sizes import layer_sizes, pass_axis_sizes, stem_head_axis_sizes
from rooflinecli.phases.fine_tuning import NF4, RECIPE, adapter_parameters
from rooflinecli.quantization.formats import Formats
from rooflinecli.specs.layout import WHOLE, Layout
from rooflinecli.specs.optimizer import Optimizer


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


_SPLIT = ("tp", "pp", "dp", "cp", "ep", "redundant_experts", "expert_tp")  # what splits parameters over devices
_SIZES = attrgetter(*_SPLIT)


def device_parameters(ledger: Ledger, layout: Layout, lift: PlainLift) -> DeviceParameters:
    """Parameters per device of a replica. With a pipeline the fullest stage has the larger of embedding and head."""
    sizes = _SIZES(layout)
    plain = not lift.traced and not ledger.towers  # inputs of an encoder may be arrays, too large to keep
    if plain and _PLAIN.issuperset(map(type, sizes)):
        return _plain_parameters(ledger, layout.stages and tuple(layout.stages), sizes)
    return _count_parameters(ledger, layout, lift)


@lru_cache(maxsize=1024)
def _plain_parameters(
    ledger: Ledger, stages: tuple[float, ...] | None, sizes: tuple[float | None, ...]
) -> DeviceParameters:
    """Memoized for plain sizes: every candidate, phase and check needs the same ones."""
    split = dict(zip(_SPLIT, sizes, strict=True))
    return _count_parameters(ledger, WHOLE.with_changes(stages=stages, **split), PLAIN)


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


@cached_by_identity
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
    experts = f.partitioned_bytes(params.experts, formats.expert_weight, data.shards(layout, "weights", True))
    optimizer = 0.0 if layout.optimizer_on_host else optimizer_bytes
    whole = weights(DeviceParameters(params.inner, params.outer), formats, data.shards(layout, "weights")) + experts
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
    if num.one(copies):
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
            shards, members = data.shards(layout, "weights", experts), data.members_in_host(layout, per_host, experts)
            total = total + f.second_copy(count, formats.activation, shards, members)
    return total


def partitioned(params: DeviceParameters, layout: Layout, state: str) -> Number:
    """Parameters whose weights, gradients or optimizer state one device keeps; experts are split over their own copies."""
    dense = (params.inner + params.outer) / data.shards(layout, state)
    return dense + params.experts / data.shards(layout, state, True) if params.has_experts else dense


def matrices(ledger: Ledger, lift: PlainLift) -> Iterator[tuple[Number, Number, Number]]:
    """Height and width of the matrices in the layers, and how many of each there are."""
    work = pass_axis_sizes(1.0, 1.0, 1.0, 1.0, WHOLE)
    for group in ledger.layers:
        sizes = layer_sizes(group, work, WHOLE, ledger.document, lift)
        for row in group.rows:
            c = row.contraction
            if c is not None and c.weight:
                copies = product(tuple(axis for axis in c.g if axis in c.w), sizes) * float(group.repeat)
                yield product(c.k, sizes), product(c.n, sizes), copies


def orthogonalization_flops(ledger: Ledger, steps: float, lift: PlainLift) -> Number:
    """FLOPs of Newton-Schulz steps over the momentum of every matrix in the layers, each once."""
    total: Number = 0.0
    for a, b, copies in matrices(ledger, lift):
        total = total + training.newton_schulz_flops(num.minimum(a, b), num.maximum(a, b), steps) * copies
    return total


def preconditioner_bytes(ledger: Ledger, optimizer: Optimizer, lift: PlainLift) -> Number:
    """Bytes per parameter of the model that an optimizer keeps in square factors on the sides of every matrix in the layers, in fp32."""
    total: Number = 0.0
    for a, b, copies in matrices(ledger, lift):
        for side, other in ((a, b), (b, a)):
            size = f.factor_bytes(side, other, optimizer.widest, optimizer.factors, float(optimizer.blocked))
            total = total + size * copies
    return total / device_parameters(ledger, WHOLE, lift).total


def preconditioning_flops(ledger: Ledger, optimizer: Optimizer, lift: PlainLift) -> Number:
    """FLOPs of one step over every matrix in the layers: products with their factors, and the roots or bases renewed now and then."""
    total: Number = 0.0
    for a, b, copies in matrices(ledger, lift):
        for side, other in ((a, b), (b, a)):
            blocked = float(optimizer.blocked)
            flops = training.preconditioning_flops(
                side, other, optimizer.widest, optimizer.products, optimizer.roots, blocked
            )
            total = total + flops * copies
    return total


class FrameworkSavedTensors(NamedTuple):
    """Bytes that a framework saves besides the inputs of operations: per logit, per value of a norm's input, and per output value of
    an activation function; and those that it keeps of one's input value where they are fewer than an activation's."""

    logit: Number = 0.0
    norm: Number = 0.0
    gate: Number = 0.0
    gate_input: Number = 0.0


NOTHING = FrameworkSavedTensors()
_PLAIN = frozenset((float, type(None)))


def _saved(rows: tuple[Row, ...], sizes: Sizes, formats: Formats, axis: str = "") -> Number:
    """Bytes that rows of stem and head save; only of tensors with `axis` where it is given."""
    kept = (axes for row in rows for axes in row.saves if not axis or axis in axes)
    return sum(product(axes, sizes) for axes in kept) * formats.activation


def _layer_saved(rows: tuple[Row, ...], sizes: Sizes, formats: Formats, gone: dict[str, tuple[int, ...]]) -> Number:
    """Bytes that a layer's rows save; the saved input of a narrow matmul (the tensor with its contracted axes) is narrow too."""
    wide: Number = 0.0
    narrow: Number = 0.0
    for row in rows:
        for place, axes in enumerate(row.saves):
            if place in gone.get(row.name, ()):
                continue
            if row.contraction is not None and set(row.contraction.k) <= set(axes):
                narrow = narrow + product(axes, sizes)
            else:
                wide = wide + product(axes, sizes)
    own = min(max(formats.matmul_input, 1.0), formats.activation)  # its own width, of four-bit formats 8 bits
    return wide * formats.activation + narrow * own


def layer_activations(
    group: Any,
    layout: Layout,
    sizes: Sizes,
    formats: Formats,
    layers: Number = 1.0,
    framework: FrameworkSavedTensors = NOTHING,
) -> Number:
    """Bytes that one of `layers` layers saves for its backward pass, by recomputation kind; the mean where some recompute."""
    boundary = product(("B", "Z", "D"), sizes) * sizes.get("streams", 1) * formats.activation
    if layout.recompute == "full" and layout.recompute_layers is None:
        return boundary
    if layout.recompute == "op":
        return boundary + _kept_outputs(group, sizes) * formats.activation
    kept = backward_working_set(
        group,
        layout,
        sizes,
        formats,
        scores=layout.recompute != "selective" or "core_attn" not in layout.recompute_modules,
        framework=framework,
    )
    if layout.recompute != "full":
        return kept
    again = recompute.share(layout.recompute_layers, layers)
    return f.part_recomputed(boundary, kept, again)


def _framework_saved(
    rows: tuple[Row, ...], sizes: Sizes, recomputed: set[str], framework: FrameworkSavedTensors
) -> Number:
    """Bytes that a framework saves of norms and activation functions that are not recomputed."""
    norms: Number = 0.0
    gates: Number = 0.0
    for row in rows:
        if row.name in recomputed:
            continue
        if row.name.startswith("norm."):
            norms = norms + sum(product(axes, sizes) for axes in row.saves)
        elif row.name.endswith("activation"):
            gates = gates + sum(product(axes, sizes) for axes in row.writes)
    return f.autodiff_residuals(norms, framework.norm, gates, framework.gate)


def _kept_outputs(group: Any, sizes: Sizes) -> Number:
    """Values that `op` saves: the output of attention, and of every second matmul, counted as half of each but the last."""
    kept: Number = 0.0
    for row in group.rows:
        if row.name == "attention.out":
            kept = kept + sum(product(axes, sizes) for axes in row.saves)
        if row.contraction is not None and row.name not in recompute.LAST:
            kept = kept + product(row.contraction.y, sizes) / 2
    return kept


def backward_working_set(
    group: Any, layout: Layout, sizes: Sizes, formats: Formats, scores: bool, framework: FrameworkSavedTensors = NOTHING
) -> Number:
    """Bytes of everything a layer's backward pass reads: saved rows, dropout masks, materialized scores, and the tensors of the framework."""
    kept = _layer_saved(group.rows, sizes, formats, recompute.dropped_tensors(layout))
    if num.present(framework.norm) or num.present(framework.gate):
        kept = kept + _framework_saved(group.rows, sizes, recompute.recomputed_rows(layout), framework)
    if num.present(framework.gate_input):
        outputs = [row for row in group.rows if row.contraction and row.name.startswith(("moe.", "feedforward."))]
        inputs = sum(product(y, sizes) for row in outputs for y in row.saves if not set(row.contraction.k) <= set(y))
        kept = kept - inputs * (formats.activation - framework.gate_input)
    if layout.dropout:
        kept = kept + sum(product(axes, sizes) for row in group.rows for axes in row.masks)
    if not layout.flash and scores and group.mixer is not None:
        kept = kept + group.mixer.attention_score_bytes(formats, sizes, layout.dropout)
    return kept


def _at_work(group: Any, layout: Layout, sizes: Sizes, formats: Formats) -> Number:
    """Bytes of a layer while it is recomputed, its feed-forward over a part of the tokens where that is tiled."""
    whole = backward_working_set(group, layout, sizes, formats, True)
    if num.one(layout.mlp_chunks):
        return whole
    rows = tuple(row for row in group.rows if row.name.startswith("feedforward."))
    return f.tiled_feedforward(whole, _layer_saved(rows, sizes, formats, {}), layout.mlp_chunks)


def training_activations(
    ledger: Ledger,
    layout: Layout,
    formats: Formats,
    seq: Number,
    microbatches: Number,
    lift: PlainLift,
    framework: FrameworkSavedTensors = NOTHING,
    known: dict[tuple[object, ...], tuple[Number, Number, Number, Number]] | None = None,
) -> Number:
    """Activations on the fullest stage: micro-batches in flight, and the working set of a layer where layers are recomputed or offloaded.

    The logits are freed before the first layer is recomputed. `known` keeps what splits of the layers over stages share.
    """
    layers = float(ledger.n_layers)
    within = None if known is None else layout.within_stage
    found = None if known is None or within is None else known.get((*framework, *within))
    if found is None:
        found = _stack_activations(ledger, layout, formats, seq, lift, layers, framework)
        if known is not None and within is not None:
            known[*framework, *within] = found
    kept, transient, stem, head = found
    per_stage = kept * pipeline.share(layout, layers)
    first, last = pipeline.in_flight(layout, microbatches)
    for tower in ledger.reading:
        kept, working_set, *ends = _stack_activations(
            tower.ledger, layout, formats, tower.length, lift, layers, framework, tower.inputs(layout.micro_batch)
        )
        per_stage = per_stage + kept * pipeline.share(layout, float(tower.ledger.n_layers))
        transient, stem = num.maximum(transient, working_set), stem + sum(ends)
    if layout.activations_on_host:
        per_stage = per_stage * (1 - recompute.share(layout.offload_layers, layers))
    return f.fullest_activations(per_stage * first, per_stage * last, stem, head, transient, layout.pp)


def offloaded_activations(ledger: Ledger, layout: Layout, formats: Formats, seq: Number, lift: PlainLift) -> Number:
    """Bytes that the layers of the fullest stage send to the host per micro-batch."""
    layers = float(ledger.n_layers)
    sent: Number = 0.0
    for stack in (Encoder(ledger, seq), *ledger.reading):
        kept = _stack_activations(
            stack.ledger, layout, formats, stack.length, lift, layers, NOTHING, stack.inputs(layout.micro_batch)
        )[0]
        sent = sent + kept * pipeline.share(layout, float(stack.ledger.n_layers))
    return sent * recompute.share(layout.offload_layers, layers)


def _stack_activations(
    ledger: Ledger,
    layout: Layout,
    formats: Formats,
    seq: Number,
    lift: PlainLift,
    layers: Number,
    framework: FrameworkSavedTensors,
    inputs: Number | None = None,
) -> tuple[Number, Number, Number, Number]:
    """Bytes per micro-batch that the layers of a ledger save, a layer's working set, and what stem and head save."""
    queries = seq if num.one(layout.cp) else seq / layout.cp
    work = pass_axis_sizes(layout.micro_batch if inputs is None else inputs, queries, seq, queries, layout)
    kept: Number = 0.0
    transient: Number = 0.0
    for group in ledger.layers:
        sizes = layer_sizes(group, work, layout, ledger.document, lift)
        kept = kept + layer_activations(group, layout, sizes, formats, layers, framework) * float(group.repeat)
        if layout.recompute in ("full", "op") or layout.activations_on_host:
            transient = num.maximum(transient, _at_work(group, layout, sizes, formats))
    outer = stem_head_axis_sizes(ledger, work, layout, ledger.document, lift)
    stem, head = _saved(ledger.stem, outer, formats), _saved(ledger.head, outer, formats)
    copies: Number = 0.0
    if num.present(framework.logit) and ledger.spec.lm_head and ledger.spec.vocab_size:
        copies = product(("B", "O", "V"), outer) * framework.logit
        head = head + copies
    if not num.one(layout.loss_chunks):
        head = f.chunked_loss(head, _saved(ledger.head, outer, formats, "V") + copies, layout.loss_chunks)
    return kept, transient, stem, head


def inference_activations(
    ledger: Ledger,
    layout: Layout,
    formats: Formats,
    batch: Number,
    tokens: Number,
    lift: PlainLift,
    reading: bool = True,
    scored: Number = 1.0,
) -> Number:
    """Working set of one forward pass: the residual stream twice and the widest intermediate, plus the logits of `scored`
    positions; in prefill (`reading`) no less than an encoder's."""
    document, work = ledger.document, pass_axis_sizes(batch, tokens, tokens, scored, layout)
    widest: Number = 0.0
    for group in ledger.layers:
        sizes = layer_sizes(group, work, layout, document, lift)
        for row in group.rows:
            if row.contraction is not None and (reading or not row.is_saved):
                widest = num.maximum(widest, product(row.contraction.y, sizes))
    sizes = stem_head_axis_sizes(ledger, work, layout, document, lift)
    logits = product(("B", "V"), sizes) if ledger.spec.vocab_size else 0.0
    if not num.one(scored):
        logits = logits * scored
    own = (2 * product(("B", "S", "D"), sizes) + widest + logits) * formats.activation
    for tower in ledger.reading if reading else ():  # one after the other, in the same memory
        inputs = tower.inputs(batch)
        own = num.maximum(own, inference_activations(tower.ledger, layout, formats, inputs, tower.length, lift))
    return own


def kv_cache(
    ledger: Ledger, layout: Layout, formats: Formats, batch: Number, tokens: Number, lift: PlainLift
) -> Number:
    """Bytes per device of the cache of `batch` sequences of `tokens` tokens, as the mixer of each layer keeps it."""
    document, work = ledger.document, pass_axis_sizes(1.0, 1.0, 1.0, 1.0, layout)
    total: Number = 0.0
    for group in ledger.layers:
        if group.mixer is not None:
            sizes = layer_sizes(group, work, layout, document, lift)
            total = total + group.mixer.cache_bytes(formats, sizes, batch, tokens) * float(group.repeat)
    return total * (schedule.layers_per_stage(float(ledger.n_layers), layout.pp) / ledger.n_layers)
