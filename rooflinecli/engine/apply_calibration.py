"""A phase under the constants that the user's own measurements gave (`roofline calibrate`), with the interval that follows from them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from rooflinecli.core import num
from rooflinecli.core.lift import PLAIN
from rooflinecli.core.num import Number
from rooflinecli.engine.context import Scene
from rooflinecli.engine.phase_answer import DecodeAnswer, PhaseAnswer, TrainAnswer
from rooflinecli.engine.serving_load import sequences
from rooflinecli.formulas import calibration as calibration_formulas
from rooflinecli.formulas import roofline
from rooflinecli.memory import device_parameters
from rooflinecli.price import overrides
from rooflinecli.specs.calibration import Calibration
from rooflinecli.specs.layout import Plan

SLACK = 1.1  # a size this little beyond the rows is still among them
A = TypeVar("A", bound=PhaseAnswer)


def kind(scene: Scene, phase: str) -> str:
    """The phase as calibrations name it: a first token under load is not that of a prompt alone."""
    loaded = scene.request.concurrency is not None or scene.request.qps is not None
    return "ttft" if phase == "prefill" and loaded else phase


def software(scene: Scene, plan: Plan, phase: str) -> str:
    """What runs a phase: the training framework of the plan, or the serving engine by its file's name."""
    return plan.software if phase == "train" else scene.engine.document.path.stem


def entries(scene: Scene, phase: str) -> dict[str, Calibration]:
    """What the chip's file has for a phase, by software."""
    table: dict[Any, dict[str, Calibration]] = {**scene.request.hardware.calibration}
    return table.get(kind(scene, phase), {})


def calibration(scene: Scene, plan: Plan, phase: str) -> Calibration | None:
    """What the chip's file has for a phase and the software that runs it; nothing where every kernel is to be ideal."""
    if scene.chip.ideal or not scene.request.hardware.calibration:
        return None
    return entries(scene, phase).get(software(scene, plan, phase))


def calibrated(phase: str, answer: Callable[[Scene, Plan], A]) -> Callable[[Scene, Plan], A]:
    """`answer` with the constants and the error that the chip's file was calibrated to, where it was."""

    def found(scene: Scene, plan: Plan) -> A:
        own = calibration(scene, plan, phase)
        if own is None:
            return answer(scene, plan)
        result = answer(scene.times(factors(scene, plan, phase, own)), plan)
        shipped = result.interval_s
        error, t = own.error, result.time_s
        fitted = (roofline.interval_low(t, error, result.floor_s), roofline.interval_high(t, error))
        inside = within(scene, plan, phase, own, result)
        result.interval_s = (
            num.where(inside, fitted[0], num.minimum(fitted[0], shipped[0])),
            num.where(inside, fitted[1], num.maximum(fitted[1], shipped[1])),
        )
        return result

    return found


def factors(scene: Scene, plan: Plan, phase: str, own: Calibration) -> dict[str, Number]:
    """What constants are multiplied by for this question: the file's factors, and all of them by what rows near it showed."""
    if not own.near:
        return {**own.factors}
    batch = scene.train_batch if phase == "train" else sequences(scene, plan)
    place = {name: num.value(size) for name, size in asked(scene, plan, phase, batch).items()}
    slower = calibration_formulas.slower(sum(row.move * nearness(place, row.at) for row in own.near))
    return {path: known * overrides.factor(path, slower) for path, known in own.factors.items()}


def nearness(place: dict[str, Number], other: dict[str, float]) -> Number:
    """How far what a row showed holds at a place: by the factors between their sizes."""
    apart = (num.log(place[name] / size) for name, size in other.items() if name in place)
    return calibration_formulas.nearness(sum(d * d for d in apart))


def asked(scene: Scene, plan: Plan, phase: str, batch: Number) -> dict[str, Number]:
    """What places a question among measured rows: sizes of the work and of the fleet. `batch` is of sequences at once."""
    whole = scene.once(plan, "whole", lambda: device_parameters(scene.book, Plan(), PLAIN))
    parameters = whole.inner + whole.outer + whole.experts
    if phase == "train":
        return {"devices": plan.devices, "batch": batch, "seq": scene.seq, "parameters": parameters}
    devices = plan.tp * plan.pp * plan.cp
    found = {"devices": devices, "prompt": scene.prompt, "parameters": parameters}
    return found if kind(scene, phase) == "prefill" else {**found, "batch": batch}


def outside(scene: Scene, plan: Plan, phase: str, own: Calibration, answer: PhaseAnswer) -> dict[str, Number]:
    """What of the question lies outside the rows, by name: true, or an array of truths."""
    batch = scene.train_batch if isinstance(answer, TrainAnswer) else scene.batch
    found = {}
    for name, value in asked(scene, plan, phase, answer.batch if isinstance(answer, DecodeAnswer) else batch).items():
        if name in own.range:
            (low, high), bare = own.range[name], num.value(value)
            found[name] = (bare < low / SLACK) | (bare > high * SLACK)
    return found


def within(scene: Scene, plan: Plan, phase: str, own: Calibration, answer: PhaseAnswer) -> Number:
    """Whether nothing of the question lies outside the rows: true, or an array of truths."""
    beyond = list(outside(scene, plan, phase, own, answer).values())
    plain = all(isinstance(one, bool) for one in beyond)
    return not any(beyond) if plain else sum(beyond) == 0


def notes(scene: Scene, plan: Plan, phase: str, answer: PhaseAnswer) -> list[str]:
    """What a reader should know: the question leaves the rows, or the file was calibrated with other software."""
    own = calibration(scene, plan, phase)
    if own is not None:
        beyond = [name for name, is_outside in outside(scene, plan, phase, own, answer).items() if bool(is_outside)]
        far = " and ".join(f"{n} ({own.range[n][0]:g} to {own.range[n][1]:g})" for n in beyond)
        return (
            [
                f"{phase}: outside the rows it was calibrated on in {far}; the interval is the wider of shipped and calibrated"
            ]
            if beyond
            else []
        )
    others = entries(scene, phase)
    if not others or scene.chip.ideal:
        return []
    flag = "--software" if phase == "train" else "--engine"
    return [
        f"{phase}: {scene.request.hardware.name} is calibrated for {flag} {' and '.join(sorted(others))}, not {software(scene, plan, phase)}; "
        "these are the shipped constants"
    ]
