"""What no published training run supports of a layout, and how much wider that makes its interval.

A search finds the corner where the model is most wrong, so a layout unlike every published one is known less well, however
good it looks. Each kind of novelty goes from 0 (a published run does so) to 1, and carries an error of its own
(specs/precedent); kinds are taken as independent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from rooflinecli.core import num
from rooflinecli.core.num import Number
from rooflinecli.core.units import duration
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.phase_answer import Residency, TrainAnswer
from rooflinecli.formulas import training
from rooflinecli.parallel import data
from rooflinecli.price.chip import Chip
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.training_envelope import TrainingEnvelope, envelope, widening

FURTHER = 1.25  # of a published size is wholly new
CLAIMS = "claims"  # what a scene keeps of a plan: its error asks for them, and then whoever says them
SLIGHT = 0.05  # of the way beyond published runs: not worth a word


class ExtrapolationTerm(NamedTuple):
    """One kind of novelty: how far beyond published runs (0 to 1, an array in a sweep), and the sentence for a scalar."""

    kind: str
    beyond: Number
    say: Callable[[], str]


def known(ctx: EstimateContext, layout: Layout) -> TrainingEnvelope:
    """What published runs like this one did."""
    spec = ctx.chip.spec
    return envelope(spec.kind, spec.id, layout.software, _mixture(ctx))


def extrapolation_terms(
    ctx: EstimateContext, layout: Layout, hidden: Number, memory: Residency
) -> list[ExtrapolationTerm]:
    """Every kind of novelty a training layout can have. hidden: seconds of hidden communication over those of the step."""
    if ctx.chip.ideal:
        return []
    far = known(ctx, layout)
    found = [
        _combination(ctx, layout, far),
        *_sizes(ctx, layout, far),
        _hidden(far, num.value(hidden)),
        _memory(far, memory),
    ]
    if not far.fitted and not _of_its_own(ctx.chip):
        name = ctx.chip.spec.name
        found.append(ExtrapolationTerm("chip", 1.0, lambda: f"no published training run on {name} was fitted"))
    return found


def _beyond(size: Number, limit: Number, end: Number | None = None) -> Number:
    """How far a size goes beyond published ones, all of the way a quarter further where no end is known; the plain zero where none does, which is nearly always."""
    if not num.present(size > limit):
        return 0.0
    return training.beyond(size, limit, limit * FURTHER if end is None else end)


def _of_its_own(chip: Chip) -> bool:
    """Whether the chip's file says itself how well its training steps are known, or was calibrated with a user's own runs."""
    own = chip.spec.efficiency.get("training", {})
    return "residual" in own or bool(chip.spec.calibration)


def error(ctx: EstimateContext, found: list[ExtrapolationTerm]) -> Number:
    """What they add to the relative error of a step."""
    errors = widening(_mixture(ctx))
    new = [claim for claim in found if num.present(claim.beyond)]
    return training.novelty(*(training.claim_error(errors[claim.kind], claim.beyond) for claim in new))


def own(found: list[ExtrapolationTerm]) -> list[ExtrapolationTerm]:
    """Those that are the layout's own; a chip is shared by all layouts on it."""
    return [claim for claim in found if claim.kind != "chip"]


def of(ctx: EstimateContext, layout: Layout, answer: TrainAnswer) -> list[ExtrapolationTerm]:
    """Every kind of novelty of a layout, or of many, by its answer."""
    return extrapolation_terms(ctx, layout, _hidden_share(answer), answer.memory)


def has_precedent(ctx: EstimateContext, layout: Layout, answer: TrainAnswer) -> Number:
    """Where published runs support a layout, whatever its chip."""
    alike: Number = True
    for claim in own(of(ctx, layout, answer)):
        alike = (num.value(claim.beyond) < SLIGHT) & alike
    return alike


def _hidden_share(answer: TrainAnswer) -> Number:
    """Hidden communication over the step."""
    return sum(num.value(t) for t in answer.hidden_s.values()) / num.value(answer.time_s)


def extrapolation_notes(ctx: EstimateContext, layout: Layout, answer: TrainAnswer) -> list[str]:
    """What of a scalar layout no published run supports, a sentence each."""
    time, share = num.value(answer.time_s), _hidden_share(answer)
    said = []
    for claim in ctx.memoized(layout, CLAIMS, lambda: of(ctx, layout, answer)):
        if num.value(claim.beyond) >= SLIGHT:
            before = f"hides {duration(share * time)} of communication behind a step of {duration(time)}; "
            said.append(f"{before if claim.kind == 'hidden' else ''}{claim.say()}")
    return said


def _mixture(ctx: EstimateContext) -> bool:
    return any(group.moe for group in ctx.ledger.layers)


def parallel_techniques(chip: Chip, layout: Layout) -> dict[str, Any]:
    """Which of specs/precedent's TECHNIQUES a layout uses. Experts whose exchange leaves the fast domain run other kernels, whose
    buffers and time grow with the tokens of a micro-batch."""
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


def _combination(ctx: EstimateContext, layout: Layout, far: TrainingEnvelope) -> ExtrapolationTerm:
    """Techniques that no published run joins."""
    has = {name: used for name, used in parallel_techniques(ctx.chip, layout).items() if num.present(used)}
    new = [(a, b, has[a] & has[b]) for a, b in far.together if a in has and b in has]
    anywhere: Any = False
    for _, _, both in new:
        anywhere = anywhere | both

    def say() -> str:
        named = [a if a == b else f"{a} with {b}" for a, b, both in new if both]
        return f"uses {', '.join(named[:3])}, which no two published runs here do"

    return ExtrapolationTerm("combination", num.where(anywhere, 1.0, 0.0) if num.present(anywhere) else 0.0, say)


def _sizes(ctx: EstimateContext, layout: Layout, far: TrainingEnvelope) -> list[ExtrapolationTerm]:
    """Groups larger than those of published runs, and shares smaller."""
    domain, fast = scale_up_domain_sizes(ctx.chip)
    tp, cp, seq = (num.value(n) for n in (layout.tp, layout.cp, ctx.seq))
    per_rank = seq / cp
    found = [
        ExtrapolationTerm(
            "tensor",
            _beyond(tp / fast, far.tensor),
            lambda: f"tensor parallelism over {tp:g} devices; published runs keep to {far.tensor * fast:g}",
        ),
        ExtrapolationTerm(
            "stages",
            _beyond(num.value(layout.virtual_stages), far.stages),
            lambda: f"{num.value(layout.virtual_stages):g} virtual stages; published runs have up to {far.stages:g}",
        ),
        ExtrapolationTerm(
            "context",
            _split(cp, _beyond(far.context, per_rank)),
            lambda: (
                f"leaves {per_rank:,.0f} tokens of a sequence to a context rank; published runs keep {far.context:,.0f} and more"
            ),
        ),
    ]
    if _mixture(ctx):
        held = max(ctx.ledger.experts) / num.value(layout.ep)
        many = _split(num.value(layout.devices), _beyond(held, far.experts))
        found.append(
            ExtrapolationTerm(
                "experts",
                many,
                lambda: f"keeps {held:g} experts of a layer on each device; published runs keep up to {far.experts:g}",
            )
        )
    if layout.zero == 3:
        group = data.group(layout, False)
        wide = num.value(group.part * group.stride) / domain
        found.append(
            ExtrapolationTerm(
                "sharding",
                _beyond(wide, far.sharding),
                lambda: (
                    f"shards weights over {wide:g} fast domains; published runs{f' of {layout.software}' if layout.software != 'any' else ''} over up to {far.sharding:g}"
                ),
            )
        )
    return found


def _split(size: Number, beyond: Number) -> Number:
    """`beyond` where an axis is split at all."""
    return num.where(size > 1, beyond, 0.0) if num.present(beyond) else 0.0


def scale_up_domain_sizes(chip: Chip) -> tuple[float, float]:
    """Devices of the innermost network, and those that a tensor group is counted in: a torus has no edge within reach, so single ones there."""
    if not chip.levels:
        return 1.0, 1.0
    size = float(num.value(chip.levels[0].size))
    return size, 1.0 if chip.levels[0].level.kind == "torus" else size


def _hidden(far: TrainingEnvelope, share: Number) -> ExtrapolationTerm:
    return ExtrapolationTerm(
        "hidden", _beyond(share, *far.hidden), lambda: f"nine of ten published runs hide up to {far.hidden[0]:.0%}"
    )


def _memory(far: TrainingEnvelope, memory: Residency) -> ExtrapolationTerm:
    full = num.value(memory.total_bytes) / num.value(memory.capacity_bytes)
    return ExtrapolationTerm(
        "memory",
        _beyond(full, *far.memory),
        lambda: (
            f"fills {full:.0%} of memory as counted here; nine of ten published runs fill up to {far.memory[0]:.0%}"
        ),
    )
