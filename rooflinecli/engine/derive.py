"""Quantities that are computed from others: the rows of specs/quantities that name a formula."""

from __future__ import annotations

from rooflinecli.engine.phase_answer import PhaseAnswer
from rooflinecli.engine.scene import Scene
from rooflinecli.num import Number
from rooflinecli.specs.plan import Plan
from rooflinecli.specs.quantities import DERIVED


def derive(scene: Scene, plan: Plan, phase: str, answer: PhaseAnswer) -> dict[str, Number]:
    """Name -> value of every derived quantity of a phase; left out where the chip's file lacks an argument."""
    found: dict[str, Number] = {}
    for row in DERIVED:
        if row.formula is None or row.phase not in ("", phase):
            continue
        given = [_argument(name, scene, plan, answer) for name in row.of]
        if all(value is not None for value in given):
            found[row.name] = row.formula(*given)
    return found


def _argument(name: str, scene: Scene, plan: Plan, answer: PhaseAnswer) -> Number | None:
    if name == "devices":
        return plan.devices
    if name == "image_tokens":  # of an image that is made, not read
        return scene.given if scene.spec.denoising is not None else None
    return scene.chip.power if name == "power" else getattr(answer, name, None)
