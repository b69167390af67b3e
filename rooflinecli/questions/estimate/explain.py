"""`--explain QUANTITY`: the estimate again with traced inputs, and the one number asked for."""

from __future__ import annotations

from typing import Any

from rooflinecli.core.derivation import Traced, leaf
from rooflinecli.core.errors import UsageError, unknown
from rooflinecli.core.lift import TracedLift as TracedInputs
from rooflinecli.core.num import Number
from rooflinecli.core.record import leaves
from rooflinecli.engine.choose import Candidate, ChosenLayout, evaluate_candidates
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.evaluate import answer, time_at_bound
from rooflinecli.questions.estimate.answer import choose_layouts, context_of, estimate
from rooflinecli.specs.layout import AXES, Layout
from rooflinecli.specs.quantities import canonical
from rooflinecli.specs.request import Request


def quantities(result: Any) -> dict[str, Number]:
    """Dotted path -> number, for every number of a result; `phases.` may be left out."""
    return {
        path.removeprefix("phases."): value
        for path, value in leaves(result)
        if isinstance(value, (int, float, Traced)) and not isinstance(value, bool)
    }


def derivation(request: Request, quantity: str) -> Traced:
    """The traced number behind a quantity of the JSON. Raises UsageError naming what exists."""
    result = estimate(request, TracedInputs())
    found = quantities(result)
    name = canonical(quantity)
    if name not in found:
        shape = "the JSON of the same command shows every quantity"
        if any(path.startswith(name + ".") for path in found):
            inside = ", ".join(p for p in found if p.startswith(name + "."))
            raise UsageError(f"--explain {quantity} is a group; name one of {inside}")
        raise unknown("quantity", name, found, shape)
    value = found[name]
    return (
        value
        if isinstance(value, Traced)
        else leaf(name, value, "", "counted exactly, without arithmetic on hardware or workload")
    )


def why(request: Request) -> list[dict[str, object]]:
    """Per kind of work (serving, training): the choice, its reason, and every layout tried on that many devices.

    A layout carries its sizes, bytes per device, whether it fits, its expected seconds when it does, and those at the end of the interval that ranks it.
    """
    ctx = context_of(request)
    request = ctx.request
    plans, _ = choose_layouts(ctx)
    serving = tuple(phase for phase in plans if phase != "train")
    kinds = [("serving", serving)] * bool(serving) + [("training", ("train",))] * ("train" in plans)
    return [_considered(ctx, phases, work, plans[phases[0]]) for work, phases in kinds]


def _considered(ctx: EstimateContext, phases: tuple[str, ...], work: str, choice: ChosenLayout) -> dict[str, object]:
    tried = evaluate_candidates(ctx, phases, int(choice.layout.devices), [])
    if choice.layout not in [one.layout for one in tried]:  # a training layout is refined from them
        tried.append(Candidate(choice.layout, choice.fits))
    layouts = [_layout(ctx, phases, one) for one in tried]
    half, smaller = int(choice.layout.devices) // 2, None
    if choice.chosen and half:  # the layout on half the devices that comes closest to fitting: why there are not fewer
        needed = [one.needs(ctx, phases) for one in evaluate_candidates(ctx, phases, half, [])]
        smaller = {"devices": half, "least_bytes_per_device": min(needed)} if needed else None
    layouts.sort(key=lambda row: (not row["fits"], row["held_s"] if row["fits"] else row["bytes_per_device"]))
    return {
        "work": work,
        "reason": choice.reason,
        "chosen": _sizes(choice.layout),
        "capacity_bytes": float(ctx.chip.capacity),
        "considered": layouts,
        "smaller": smaller,
    }


def _layout(ctx: EstimateContext, phases: tuple[str, ...], one: Candidate) -> dict[str, object]:
    found = answer(ctx, one.layout, "train" if "train" in phases else "decode") if one.fits else None
    return {
        **_sizes(one.layout),
        "bytes_per_device": one.needs(ctx, phases),
        "fits": one.fits,
        "time_s": found.time_s if found else None,
        "held_s": time_at_bound(found, ctx.request.bound) if found else None,
        "bound": max(found.breakdown_s, key=found.breakdown_s.__getitem__) if found else None,
    }


def _sizes(plan: Layout) -> dict[str, object]:
    return {
        **{k: int(getattr(plan, k)) for k in ("devices", *AXES)},
        "zero": plan.zero,
        "recompute": plan.recompute,
        "micro_batch": int(plan.micro_batch),
        "virtual_stages": int(plan.virtual_stages),
    }
