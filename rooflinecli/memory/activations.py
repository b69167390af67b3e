"""What a forward pass leaves for the backward pass, and what a pass that nobody differentiates works in."""

from __future__ import annotations

from typing import Any

from rooflinecli.core import num
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.lift import Plain
from rooflinecli.core.num import Number
from rooflinecli.formulas import memory as f
from rooflinecli.ledger.ledger import Ledger, Row, Sizes, Tower, product
from rooflinecli.parallel import pipeline
from rooflinecli.phases import recompute
from rooflinecli.phases.axis_sizes import layer_sizes, outer_sizes, work_sizes
from rooflinecli.quantization.formats import Formats
from rooflinecli.specs.layout import Plan


@dataclass(frozen=True, slots=True)
class Beside:
    """Bytes that a framework keeps beside what a backward pass reads: per logit, per value of a norm's input, and per value of what an
    activation function gave."""

    logit: Number = 0.0
    norm: Number = 0.0
    gate: Number = 0.0


NOTHING = Beside()


def _saved(rows: tuple[Row, ...], sizes: Sizes, formats: Formats, axis: str = "") -> Number:
    """Bytes that rows before and after the layers keep; of tensors with `axis` alone where it is given."""
    kept = (axes for row in rows for axes in row.saves if not axis or axis in axes)
    return sum(product(axes, sizes) for axes in kept) * formats.activation


def _layer_saved(rows: tuple[Row, ...], sizes: Sizes, formats: Formats, gone: dict[str, tuple[int, ...]]) -> Number:
    """Bytes that a layer's rows keep; the saved input of a narrow matmul (the tensor with its contracted axes) is narrow too."""
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
    return wide * formats.activation + narrow * saved_input(formats)


def saved_input(formats: Formats) -> float:
    """Bytes per element of a matmul's saved input: its own width, of four-bit formats 8 bits."""
    return min(max(formats.matmul_input, 1.0), formats.activation)


def layer_activations(
    group: Any, plan: Plan, sizes: Sizes, formats: Formats, layers: Number = 1.0, beside: Beside = NOTHING
) -> Number:
    """Bytes one of `layers` layers keeps for its backward pass, by recomputation kind; the mean where some recompute."""
    boundary = product(("B", "Z", "D"), sizes) * sizes.get("streams", 1) * formats.activation
    if plan.recompute == "full" and plan.recompute_layers is None:
        return boundary
    if plan.recompute == "op":
        return boundary + _kept_outputs(group, sizes) * formats.activation
    kept = working_set(
        group,
        plan,
        sizes,
        formats,
        scores=plan.recompute != "selective" or "core_attn" not in plan.recompute_modules,
        beside=beside,
    )
    if plan.recompute != "full":
        return kept
    again = recompute.share(plan.recompute_layers, layers)
    return f.part_recomputed(boundary, kept, again)


def _kept_beside(rows: tuple[Row, ...], sizes: Sizes, again: set[str], beside: Beside) -> Number:
    """Bytes kept of norms and activation functions that do not run again, beside their input and output."""
    norms: Number = 0.0
    gates: Number = 0.0
    for row in rows:
        if row.name in again:
            continue
        if row.name.startswith("norm."):
            norms = norms + sum(product(axes, sizes) for axes in row.saves)
        elif row.name.endswith("activation"):
            gates = gates + sum(product(axes, sizes) for axes in row.writes)
    return f.autodiff_residuals(norms, beside.norm, gates, beside.gate)


def _kept_outputs(group: Any, sizes: Sizes) -> Number:
    """Values that `op` keeps: what attention gave, and every second matmul, counted as half of each but the last."""
    kept: Number = 0.0
    for row in group.rows:
        if row.name == "attention.out":
            kept = kept + sum(product(axes, sizes) for axes in row.saves)
        if row.contraction is not None and row.name not in recompute.LAST:
            kept = kept + product(row.contraction.y, sizes) / 2
    return kept


def working_set(
    group: Any, plan: Plan, sizes: Sizes, formats: Formats, scores: bool, beside: Beside = NOTHING
) -> Number:
    """Bytes of everything a layer's backward pass reads: saved rows, dropout masks, materialised scores; and what is kept beside."""
    kept = _layer_saved(group.rows, sizes, formats, recompute.dropped(plan))
    if num.present(beside.norm) or num.present(beside.gate):
        kept = kept + _kept_beside(group.rows, sizes, recompute.repeated(plan), beside)
    if plan.dropout:
        kept = kept + sum(product(axes, sizes) for row in group.rows for axes in row.masks)
    if not plan.flash and scores and group.mixer is not None:
        kept = kept + group.mixer.score_bytes(formats, sizes, plan.dropout)
    return kept


def _at_work(group: Any, plan: Plan, sizes: Sizes, formats: Formats) -> Number:
    """Bytes of a layer that runs again, its feed-forward over a part of the tokens where that is tiled."""
    whole = working_set(group, plan, sizes, formats, True)
    if num.plain(plan.mlp_chunks) and num.value(plan.mlp_chunks) == 1:
        return whole
    rows = tuple(row for row in group.rows if row.name.startswith("feedforward."))
    return f.tiled_feedforward(whole, _layer_saved(rows, sizes, formats, {}), plan.mlp_chunks)


def training_activations(
    book: Ledger,
    plan: Plan,
    formats: Formats,
    seq: Number,
    microbatches: Number,
    lift: Plain,
    beside: Beside = NOTHING,
) -> Number:
    """Activations on the fullest stage: microbatches in flight, and where layers compute again or wait on the host one at work.

    The loss is done with its logits before the first layer is at work again. `beside` is what the framework holds besides.
    """
    layers = float(book.n_layers)
    per_stage, transient, stem, head = _stack_activations(book, plan, formats, seq, lift, layers, beside)
    first, last = pipeline.in_flight(plan, microbatches)
    for tower in book.reading:
        own, again, *ends = _stack_activations(
            tower.book, plan, formats, tower.length, lift, layers, beside, tower.inputs(plan.micro_batch)
        )
        per_stage, transient, stem = per_stage + own, num.maximum(transient, again), stem + sum(ends)
    if plan.activations_on_host:
        per_stage = f.kept_on_device(per_stage, recompute.share(plan.offload_layers, layers))
    stage = (f.in_flight_activations(per_stage, first), f.in_flight_activations(per_stage, last))
    return f.fullest_activations(stage[0], stage[1], stem, head, transient, plan.pp)


def offloaded_activations(book: Ledger, plan: Plan, formats: Formats, seq: Number, lift: Plain) -> Number:
    """Bytes that the layers of the fullest stage send to the host per microbatch."""
    layers = float(book.n_layers)
    sent: Number = 0.0
    for stack in (Tower(book, seq), *book.reading):
        kept = _stack_activations(
            stack.book, plan, formats, stack.length, lift, layers, NOTHING, stack.inputs(plan.micro_batch)
        )[0]
        sent = sent + kept
    return f.sent_to_host(sent, recompute.share(plan.offload_layers, layers))


def _stack_activations(
    book: Ledger,
    plan: Plan,
    formats: Formats,
    seq: Number,
    lift: Plain,
    layers: Number,
    beside: Beside,
    inputs: Number | None = None,
) -> tuple[Number, Number, Number, Number]:
    """Bytes per microbatch that a stage's share of a ledger keeps, a layer's working set, and what stem and head keep."""
    queries = seq if num.plain(plan.cp) and num.value(plan.cp) == 1 else seq / plan.cp
    work = work_sizes(plan.micro_batch if inputs is None else inputs, queries, seq, queries, plan)
    kept: Number = 0.0
    transient: Number = 0.0
    for group in book.layers:
        sizes = layer_sizes(group, work, plan, book.document, lift)
        kept = kept + layer_activations(group, plan, sizes, formats, layers, beside) * float(group.repeat)
        if plan.recompute in ("full", "op") or plan.activations_on_host:
            transient = num.maximum(transient, _at_work(group, plan, sizes, formats))
    outer = outer_sizes(book, work, plan, book.document, lift)
    stem, head = _saved(book.stem, outer, formats), _saved(book.head, outer, formats)
    copies: Number = 0.0
    if num.present(beside.logit) and book.spec.lm_head and book.spec.vocab_size:
        copies = f.loss_copies(product(("B", "O", "V"), outer), beside.logit)
        head = head + copies
    if not (num.plain(plan.loss_chunks) and num.value(plan.loss_chunks) == 1):
        head = f.chunked_loss(head, _saved(book.head, outer, formats, "V") + copies, plan.loss_chunks)
    return kept * (pipeline.fullest(plan, float(book.n_layers)) / book.n_layers), transient, stem, head


def inference_activations(
    book: Ledger,
    plan: Plan,
    formats: Formats,
    batch: Number,
    tokens: Number,
    lift: Plain,
    reading: bool = True,
    scored: Number = 1.0,
) -> Number:
    """Working set of one forward pass: the residual stream twice and the widest intermediate, plus the logits of `scored`
    positions; where it is `reading`, no less than a tower's."""
    document, work = book.document, work_sizes(batch, tokens, tokens, scored, plan)
    widest: Number = 0.0
    for group in book.layers:
        sizes = layer_sizes(group, work, plan, document, lift)
        for row in group.rows:
            if row.contraction is not None and (reading or not row.kept):
                widest = num.maximum(widest, product(row.contraction.y, sizes))
    sizes = outer_sizes(book, work, plan, document, lift)
    logits = product(("B", "V"), sizes) if book.spec.vocab_size else 0.0
    if not (num.plain(scored) and num.value(scored) == 1):
        logits = logits * scored
    own = (2 * product(("B", "S", "D"), sizes) + widest + logits) * formats.activation
    for tower in book.reading if reading else ():  # one after the other, in the same memory
        inputs = tower.inputs(batch)
        own = num.maximum(own, inference_activations(tower.book, plan, formats, inputs, tower.length, lift))
    return own
