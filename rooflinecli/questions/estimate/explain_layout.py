"""`estimate --explain plan`: the layouts that were considered, what each needs and takes, and why one was chosen."""

from __future__ import annotations

from typing import Any

from rooflinecli.engine.choose import Choice, Weighed, weigh
from rooflinecli.engine.context import Scene
from rooflinecli.engine.evaluate import answer
from rooflinecli.engine.phase_answer import time_held
from rooflinecli.questions.estimate.answer import choose_plans, scene_of
from rooflinecli.specs.layout import AXES, Plan
from rooflinecli.specs.request import Request


def why(request: Request) -> list[dict[str, Any]]:
    """Per kind of work (serving, training): the choice, its reason, and every layout tried on that many devices.

    A layout carries its sizes, bytes per device, whether it fits, its expected seconds when it does, and those at the end of the interval that ranks it.
    """
    scene = scene_of(request)
    request = scene.request
    plans, _ = choose_plans(scene)
    serving = tuple(phase for phase in plans if phase != "train")
    kinds = [("serving", serving)] * bool(serving) + [("training", ("train",))] * ("train" in plans)
    return [_considered(scene, phases, work, plans[phases[0]]) for work, phases in kinds]


def _considered(scene: Scene, phases: tuple[str, ...], work: str, choice: Choice) -> dict[str, Any]:
    layouts = [_layout(scene, phases, one) for one in weigh(scene, phases, int(choice.plan.devices), [], [])]
    layouts.sort(key=lambda row: (not row["fits"], row["held_s"] if row["fits"] else row["bytes_per_device"]))
    return {
        "work": work,
        "reason": choice.reason,
        "chosen": _sizes(choice.plan),
        "capacity_bytes": float(scene.chip.capacity),
        "considered": layouts,
        "smaller": _smaller(scene, phases, choice),
    }


def _layout(scene: Scene, phases: tuple[str, ...], one: Weighed) -> dict[str, Any]:
    found = answer(scene, one.plan, "train" if "train" in phases else "decode") if one.fits else None
    return {
        **_sizes(one.plan),
        "bytes_per_device": one.needs(scene, phases),
        "fits": one.fits,
        "time_s": found.time_s if found else None,
        "held_s": time_held(found, scene.request.hold) if found else None,
        "bound": max(found.breakdown_s, key=found.breakdown_s.__getitem__) if found else None,
    }


def _smaller(scene: Scene, phases: tuple[str, ...], choice: Choice) -> dict[str, Any] | None:
    """The layout on half the devices that comes closest to fitting: why there are not fewer."""
    half = int(choice.plan.devices) // 2
    if not choice.chosen or half < 1:
        return None
    needed = [one.needs(scene, phases) for one in weigh(scene, phases, half, [], [])]
    return {"devices": half, "least_bytes_per_device": min(needed)} if needed else None


def _sizes(plan: Plan) -> dict[str, Any]:
    return {
        **{k: int(getattr(plan, k)) for k in ("devices", *AXES)},
        "zero": plan.zero,
        "recompute": plan.recompute,
        "micro_batch": int(plan.micro_batch),
    }
