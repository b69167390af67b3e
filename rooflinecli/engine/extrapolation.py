"""How far a training layout goes beyond every published run, and how much wider that makes its interval.

A search finds the corner where the model is most wrong, so a layout unlike every published one is known less well, however
good it looks. Each kind of extrapolation goes from 0 (a published run does so) to 1, and has an error of its own
(specs/training_envelope); kinds are taken as independent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from rooflinecli.core import num
from rooflinecli.core.num import Number
from rooflinecli.core.units import duration
from rooflinecli.engine.context import UNNAMED, EstimateContext
from rooflinecli.engine.phase_answer import Residency, TrainAnswer
from rooflinecli.formulas import training
from rooflinecli.parallel import data
from rooflinecli.price.chip import Chip
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.training_envelope import OF_THE_QUESTION, TrainingEnvelope, envelope, most_devices, widening

FURTHER = 1.25  # times a published size is a full extrapolation
TERMS = "extrapolation"  # under which a context memoizes the terms of a layout
UNNOTED = ("stack", "family", "format")  # seldom published together
SLIGHT = 0.05  # of the way beyond published runs: not worth a note


class ExtrapolationTerm(NamedTuple):
    """One kind of extrapolation: how far beyond published runs (0 to 1, an array in a sweep), and the sentence for a scalar."""

    kind: str
    beyond: Number
    say: Callable[[], str]


def known(ctx: EstimateContext, layout: Layout) -> TrainingEnvelope:
    """Envelope of the published runs on such a chip, with such a framework and kind of model."""
    spec = ctx.chip.spec
    return envelope(spec.kind, spec.id, ctx.training_stack(layout), ctx.is_moe)


def extrapolation_terms(
    ctx: EstimateContext, layout: Layout, hidden: Number, memory: Residency
) -> list[ExtrapolationTerm]:
    """Every kind of extrapolation of a layout. hidden: seconds of hidden communication over those of the step."""
    if ctx.chip.ideal:
        return []
    runs, hidden = known(ctx, layout), num.value(hidden)
    full = num.value(memory.total_bytes) / num.value(memory.capacity_bytes)
    # fmt: off
    terms = [
        _combination(ctx, layout, runs),
        *_sizes(ctx, layout, runs),
        ExtrapolationTerm("hidden", _beyond(hidden, *runs.hidden), lambda: f"nine of ten published runs hide up to {runs.hidden[0]:.0%}"),
        ExtrapolationTerm("memory", _beyond(full, *runs.memory),
            lambda: f"fills {full:.0%} of device memory; nine of ten published runs fill up to {runs.memory[0]:.0%}"),
    ]
    # fmt: on
    return terms if has_own_error(ctx) else terms + _configuration(ctx, layout, runs)


def has_own_error(ctx: EstimateContext) -> bool:
    """Whether the chip's file or a calibration says how far off a step is, so that no published run has to."""
    return "residual" in ctx.chip.spec.efficiency.get("training", {}) or bool(ctx.chip.spec.calibration)


def _configuration(ctx: EstimateContext, layout: Layout, runs: TrainingEnvelope) -> list[ExtrapolationTerm]:
    """What decides the time of a step besides its layout: the stack, the model's family in this format, its mixers. Runs of one and the
    same configuration tell their own error."""
    stack, spec, terms = ctx.training_stack(layout), ctx.chip.spec, []
    if layout.software == UNNAMED and stack != UNNAMED:
        terms.append(ExtrapolationTerm("stack", 1.0, lambda: f"no --framework: priced as {stack}"))
    if configuration(ctx, layout) in runs.measured:
        return terms
    terms.append(ExtrapolationTerm("family", 1.0, lambda: f"no published run trains {configuration(ctx, layout)}"))
    if not runs.fitted:
        terms.append(ExtrapolationTerm("chip", 1.0, lambda: f"no published training run on {spec.name} was fitted"))
    if "fp4" in ctx.formats.compute:
        terms.append(
            ExtrapolationTerm(
                "format", 1.0, lambda: "recipes of four bits keep modules in 16 that one format does not say"
            )
        )
    new = sorted(mixers(ctx) - runs.mixers)
    if new:
        terms.append(
            ExtrapolationTerm("mixer", 1.0, lambda: f"no constant was fitted to a run with {' or '.join(new)} layers")
        )
    return terms


def configuration(ctx: EstimateContext, layout: Layout) -> str:
    """Stack, format and family of a question, as published_runs/precedent.yaml lists them."""
    family = f"{ctx.spec.family or 'unnamed'}{' experts' if ctx.is_moe else ''}"
    return f"{ctx.training_stack(layout)} {ctx.formats.compute} {family}"


def mixers(ctx: EstimateContext) -> set[str]:
    """Kinds of sequence mixer in the model; attention with one or with all heads cached counts as grouped attention."""
    kinds = {layer.attention.kind for layer in ctx.spec.layers if layer.attention is not None}
    return {"gqa" if kind in ("mha", "mqa") else kind for kind in kinds}


def of(ctx: EstimateContext, layout: Layout, answer: TrainAnswer) -> list[ExtrapolationTerm]:
    """Every kind of extrapolation of a layout, or of many, by its answer."""
    return extrapolation_terms(ctx, layout, _hidden_fraction(answer), answer.memory)


def error(ctx: EstimateContext, terms: list[ExtrapolationTerm]) -> Number:
    """Their part of the relative error of a step."""
    errors = widening(ctx.is_moe)
    return training.extrapolation_error(
        *(errors[term.kind] * term.beyond for term in terms if num.present(term.beyond))
    )


def own(terms: list[ExtrapolationTerm]) -> list[ExtrapolationTerm]:
    """Those of the layout itself; the chip, the stack and the model are shared by all layouts of a question."""
    return [term for term in terms if term.kind not in OF_THE_QUESTION]


def has_precedent(ctx: EstimateContext, layout: Layout, answer: TrainAnswer) -> Number:
    """Where published runs support a layout, whatever its chip."""
    precedent: Number = num.value(layout.devices) <= most_devices(ctx.chip.spec.kind)
    for term in own(of(ctx, layout, answer)):
        precedent = (num.value(term.beyond) < SLIGHT) & precedent
    return precedent


def size_notes(kind: str, devices: float) -> list[str]:
    """A note where every published run on this kind of chip has fewer devices; the error of that is not known and widens no interval."""
    most = most_devices(kind)
    return [f"{devices:,.0f} devices; published training runs have up to {most:,.0f}"] if devices > most else []


def extrapolation_notes(ctx: EstimateContext, layout: Layout, answer: TrainAnswer) -> list[str]:
    """What of a scalar layout no published run supports, a sentence each."""
    time, fraction = num.value(answer.time_s), _hidden_fraction(answer)
    notes = []
    for term in ctx.memoized(layout, TERMS, lambda: of(ctx, layout, answer)):
        if num.value(term.beyond) >= SLIGHT and term.kind not in UNNOTED:
            hides = f"hides {duration(fraction * time)} of communication, {fraction:.0%} of the step; "
            notes.append(f"{hides if term.kind == 'hidden' else ''}{term.say()}")
    return notes


def parallel_techniques(chip: Chip, layout: Layout) -> dict[str, Number]:
    """Which TECHNIQUES of specs/training_envelope a layout uses. Experts whose all-to-all leaves the scale-up domain run other
    kernels, whose buffers and time grow with the tokens of a micro-batch."""
    ep = num.value(layout.ep)
    return {
        "tp": num.value(layout.tp) > 1,
        "pp": num.value(layout.pp) > 1,
        "virtual stages": num.value(layout.virtual_stages) > 1,
        "cp": num.value(layout.cp) > 1,
        "ep": ep > 1,
        "ep across fast domains": (ep > 1)
        & (num.value(layout.ep * layout.stride["ep"]) > scale_up_domain_sizes(chip)[0]),
        "larger micro-batches": num.value(layout.micro_batch) > 1,
        "ZeRO-2": layout.zero == 2,
        "ZeRO-3": layout.zero == 3,
    }


def scale_up_domain_sizes(chip: Chip) -> tuple[float, float]:
    """Devices of the innermost network, and the unit in which tensor-parallel groups count: a torus has no edge within reach, so 1
    there."""
    if not chip.levels:
        return 1.0, 1.0
    size = float(num.value(chip.levels[0].size))
    return size, 1.0 if chip.levels[0].level.kind == "torus" else size


def _combination(ctx: EstimateContext, layout: Layout, runs: TrainingEnvelope) -> ExtrapolationTerm:
    """Techniques that no published run combines."""
    used = {name: uses for name, uses in parallel_techniques(ctx.chip, layout).items() if num.present(uses)}
    new = [(a, b, used[a] & used[b]) for a, b in runs.together if a in used and b in used]
    any_new: Number = False
    for _, _, both in new:
        any_new = any_new | both

    def say() -> str:
        names = [a if a == b else f"{a} with {b}" for a, b, both in new if both]
        return f"uses {', '.join(names[:3])}, which no two published runs here do"

    return ExtrapolationTerm("combination", num.where(any_new, 1.0, 0.0) if num.present(any_new) else 0.0, say)


def _sizes(ctx: EstimateContext, layout: Layout, runs: TrainingEnvelope) -> list[ExtrapolationTerm]:
    """Groups larger than those of published runs, and shards smaller."""
    domain, unit = scale_up_domain_sizes(ctx.chip)
    tp, cp, virtual_stages = (num.value(n) for n in (layout.tp, layout.cp, layout.virtual_stages))
    per_rank = num.value(ctx.seq) / cp
    # fmt: off
    terms = [
        ExtrapolationTerm("tensor", _beyond(tp / unit, runs.tensor),
            lambda: f"tensor parallelism over {tp:g} devices; published runs keep to {runs.tensor * unit:g}"),
        ExtrapolationTerm("stages", _beyond(virtual_stages, runs.stages),
            lambda: f"{virtual_stages:g} virtual stages; published runs have up to {runs.stages:g}"),
        ExtrapolationTerm("context", _if_split(cp, _beyond(runs.context, per_rank)),
            lambda: f"leaves {per_rank:,.0f} tokens of a sequence to a context rank; published runs keep {runs.context:,.0f} and more"),
    ]
    # fmt: on
    if ctx.is_moe:
        per_device = max(ctx.ledger.experts) / num.value(layout.ep)
        terms.append(
            ExtrapolationTerm(
                "experts",
                _if_split(num.value(layout.devices), _beyond(per_device, runs.experts)),
                lambda: (
                    f"keeps {per_device:g} experts of a layer on each device; published runs keep up to {runs.experts:g}"
                ),
            )
        )
    if layout.zero == 3:
        group = data.group(layout, False)
        domains = num.value(group.part * group.stride) / domain
        of_framework = f" of {layout.software}" if layout.software != "any" else ""
        terms.append(
            ExtrapolationTerm(
                "sharding",
                _beyond(domains, runs.sharding),
                lambda: (
                    f"shards weights over {domains:g} fast domains; published runs{of_framework} over up to {runs.sharding:g}"
                ),
            )
        )
    return terms


def _beyond(size: Number, limit: Number, end: Number | None = None) -> Number:
    """How far a size goes beyond published ones: 0 at the limit, 1 at the end, which is FURTHER times the limit where unknown; the
    plain zero where no size does, which is nearly always."""
    if not num.present(size > limit):
        return 0.0
    return training.beyond(size, limit, limit * FURTHER if end is None else end)


def _if_split(size: Number, beyond: Number) -> Number:
    """`beyond` where an axis is split at all."""
    return num.where(size > 1, beyond, 0.0) if num.present(beyond) else 0.0


def _hidden_fraction(answer: TrainAnswer) -> Number:
    """Hidden communication over the step."""
    return sum(num.value(t) for t in answer.hidden_s.values()) / num.value(answer.time_s)
