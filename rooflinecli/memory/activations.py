"""Activations: what a forward pass saves for the backward pass, and the working set of inference."""

from __future__ import annotations

from typing import Any

from rooflinecli.core import num
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.lift import PlainLift
from rooflinecli.core.num import Number
from rooflinecli.formulas import memory as f
from rooflinecli.ledger.ledger import Encoder, Ledger, Row, Sizes, product
from rooflinecli.parallel import pipeline
from rooflinecli.phases import recompute
from rooflinecli.phases.axis_sizes import layer_sizes, pass_axis_sizes, stem_head_axis_sizes
from rooflinecli.quantization.formats import Formats
from rooflinecli.specs.layout import Layout


@dataclass(frozen=True, slots=True)
class FrameworkSavedTensors:
    """Bytes that a framework saves besides the inputs of operations: per logit, per value of a norm's input, and per output value of
    an activation function."""

    logit: Number = 0.0
    norm: Number = 0.0
    gate: Number = 0.0


NOTHING = FrameworkSavedTensors()


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
    return wide * formats.activation + narrow * saved_input_bytes(formats)


def saved_input_bytes(formats: Formats) -> float:
    """Bytes per element of a matmul's saved input: its own width, of four-bit formats 8 bits."""
    return min(max(formats.matmul_input, 1.0), formats.activation)


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
    if layout.dropout:
        kept = kept + sum(product(axes, sizes) for row in group.rows for axes in row.masks)
    if not layout.flash and scores and group.mixer is not None:
        kept = kept + group.mixer.attention_score_bytes(formats, sizes, layout.dropout)
    return kept


def _at_work(group: Any, layout: Layout, sizes: Sizes, formats: Formats) -> Number:
    """Bytes of a layer while it is recomputed, its feed-forward over a part of the tokens where that is tiled."""
    whole = backward_working_set(group, layout, sizes, formats, True)
    if num.plain(layout.mlp_chunks) and num.value(layout.mlp_chunks) == 1:
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
) -> Number:
    """Activations on the fullest stage: micro-batches in flight, and the working set of a layer where layers are recomputed or offloaded.

    The logits are freed before the first layer is recomputed.
    """
    layers = float(ledger.n_layers)
    per_stage, transient, stem, head = _stack_activations(ledger, layout, formats, seq, lift, layers, framework)
    first, last = pipeline.in_flight(layout, microbatches)
    for tower in ledger.reading:
        encoder, working_set, *ends = _stack_activations(
            tower.ledger, layout, formats, tower.length, lift, layers, framework, tower.inputs(layout.micro_batch)
        )
        per_stage, transient, stem = per_stage + encoder, num.maximum(transient, working_set), stem + sum(ends)
    if layout.activations_on_host:
        per_stage = per_stage * (1 - recompute.share(layout.offload_layers, layers))
    stage = (f.in_flight_activations(per_stage, first), f.in_flight_activations(per_stage, last))
    return f.fullest_activations(stage[0], stage[1], stem, head, transient, layout.pp)


def offloaded_activations(ledger: Ledger, layout: Layout, formats: Formats, seq: Number, lift: PlainLift) -> Number:
    """Bytes that the layers of the fullest stage send to the host per micro-batch."""
    layers = float(ledger.n_layers)
    sent: Number = 0.0
    for stack in (Encoder(ledger, seq), *ledger.reading):
        kept = _stack_activations(
            stack.ledger, layout, formats, stack.length, lift, layers, NOTHING, stack.inputs(layout.micro_batch)
        )[0]
        sent = sent + kept
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
    """Bytes per micro-batch that a stage's share of a ledger saves, a layer's working set, and what stem and head save."""
    queries = seq if num.plain(layout.cp) and num.value(layout.cp) == 1 else seq / layout.cp
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
    if not (num.plain(layout.loss_chunks) and num.value(layout.loss_chunks) == 1):
        head = f.chunked_loss(head, _saved(ledger.head, outer, formats, "V") + copies, layout.loss_chunks)
    return (
        kept * (pipeline.layers_on_fullest_stage(layout, float(ledger.n_layers)) / ledger.n_layers),
        transient,
        stem,
        head,
    )


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
    if not (num.plain(scored) and num.value(scored) == 1):
        logits = logits * scored
    own = (2 * product(("B", "S", "D"), sizes) + widest + logits) * formats.activation
    for tower in ledger.reading if reading else ():  # one after the other, in the same memory
        inputs = tower.inputs(batch)
        own = num.maximum(own, inference_activations(tower.ledger, layout, formats, inputs, tower.length, lift))
    return own
