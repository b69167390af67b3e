"""`estimate --explain plan`: the layouts that were considered, what each needs and takes, and why one was chosen."""

from __future__ import annotations

from typing import Any

from rooflinecli import num
from rooflinecli.answers.estimate import choose_plans
from rooflinecli.engine import choose as planning
from rooflinecli.engine import inference
from rooflinecli.engine.scene import Scene
from rooflinecli.engine.training import train
from rooflinecli.specs.plan import Plan
from rooflinecli.specs.request import Request


def why(request: Request) -> list[dict[str, Any]]:
    """Per kind of work (serving, training): the choice, its reason, and every layout tried on that many devices.

    A layout carries its sizes, bytes per device, whether it fits, and its expected seconds when it does.
    """
    scene = Scene(request)
    planning.check(scene)
    answers, seen = [], set()
    for phase, choice in choose_plans(scene).items():
        work = "training" if phase == "train" else "serving"
        if work not in seen:
            seen.add(work)
            answers.append(_considered(scene, phase, work, choice))
    return answers


def _considered(scene: Scene, phase: str, work: str, choice: planning.Choice) -> dict[str, Any]:
    capacity = float(scene.request.hardware.memory.capacity.si)
    layouts = [
        _layout(scene, phase, plan, capacity)
        for plan in planning.candidates_for(scene, phase, int(choice.plan.devices))
    ]
    layouts.sort(key=lambda row: (not row["fits"], row["time_s"] if row["fits"] else row["bytes_per_device"]))
    return {
        "work": work,
        "reason": choice.reason,
        "chosen": _sizes(choice.plan),
        "capacity_bytes": capacity,
        "considered": layouts,
        "smaller": _smaller(scene, phase, choice, capacity),
    }


def _layout(scene: Scene, phase: str, plan: Plan, capacity: float) -> dict[str, Any]:
    need = planning.training_bytes if phase == "train" else planning.serving_bytes
    held = float(num.value(need(scene, plan)))
    fits = held <= capacity
    answer = (train if phase == "train" else inference.decode)(scene, plan) if fits else None
    return {
        **_sizes(plan),
        "bytes_per_device": held,
        "fits": fits,
        "time_s": answer["time_s"] if answer else None,
        "bound": max(answer["breakdown_s"], key=answer["breakdown_s"].get) if answer else None,
    }


def _smaller(scene: Scene, phase: str, choice: planning.Choice, capacity: float) -> dict[str, Any] | None:
    """The layout on half the devices that comes closest to fitting: why there are not fewer."""
    half = int(choice.plan.devices) // 2
    if not choice.chosen or half < 1:
        return None
    layouts = [_layout(scene, phase, plan, capacity) for plan in planning.candidates_for(scene, phase, half)]
    return (
        {"devices": half, "least_bytes_per_device": min(row["bytes_per_device"] for row in layouts)}
        if layouts
        else None
    )


def _sizes(plan: Plan) -> dict[str, Any]:
    return {
        **{k: int(getattr(plan, k)) for k in ("devices", "tp", "pp", "dp", "cp", "ep")},
        "zero": plan.zero,
        "recompute": plan.recompute,
        "micro_batch": int(plan.micro_batch),
    }
