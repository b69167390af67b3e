"""A phase under the constants that the user's own measurements gave (`roofline calibrate`), with the interval that follows from them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from rooflinecli.core import num
from rooflinecli.core.lift import PLAIN
from rooflinecli.core.num import Number
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.phase_answer import DecodeAnswer, PhaseAnswer, TrainAnswer
from rooflinecli.engine.serving_load import sequences
from rooflinecli.formulas import calibration as calibration_formulas
from rooflinecli.formulas import roofline
from rooflinecli.memory import device_parameters
from rooflinecli.price import overrides
from rooflinecli.specs.calibration import Calibration
from rooflinecli.specs.layout import Layout

SLACK = 1.1  # a size this little beyond the rows is still among them
A = TypeVar("A", bound=PhaseAnswer)


def kind(ctx: EstimateContext, phase: str) -> str:
    """The phase as calibrations name it: a first token under load is not that of a prompt alone."""
    loaded = ctx.request.concurrency is not None or ctx.request.qps is not None
    return "ttft" if phase == "prefill" and loaded else phase


def software(ctx: EstimateContext, layout: Layout, phase: str) -> str:
    """What runs a phase: the training framework of the plan, or the serving engine by its file's name."""
    return layout.software if phase == "train" else ctx.engine.document.path.stem


def entries(ctx: EstimateContext, phase: str) -> dict[str, Calibration]:
    """What the chip's file has for a phase, by software."""
    table: dict[Any, dict[str, Calibration]] = {**ctx.request.hardware.calibration}
    return table.get(kind(ctx, phase), {})


def calibration(ctx: EstimateContext, layout: Layout, phase: str) -> Calibration | None:
    """What the chip's file has for a phase and the software that runs it; nothing where every kernel is to be ideal."""
    if ctx.chip.ideal or not ctx.request.hardware.calibration:
        return None
    return entries(ctx, phase).get(software(ctx, layout, phase))


def calibrated(phase: str, answer: Callable[[EstimateContext, Layout], A]) -> Callable[[EstimateContext, Layout], A]:
    """`answer` with the constants and the error that the chip's file was calibrated to, where it was."""

    def found(ctx: EstimateContext, layout: Layout) -> A:
        own = calibration(ctx, layout, phase)
        if own is None:
            return answer(ctx, layout)
        result = answer(ctx.with_factors(factors(ctx, layout, phase, own)), layout)
        shipped = result.interval_s
        error, t = own.error, result.time_s
        fitted = (roofline.interval_low(t, error, result.floor_s), roofline.interval_high(t, error))
        inside = within(ctx, layout, phase, own, result)
        result.interval_s = (
            num.where(inside, fitted[0], num.minimum(fitted[0], shipped[0])),
            num.where(inside, fitted[1], num.maximum(fitted[1], shipped[1])),
        )
        return result

    return found


def factors(ctx: EstimateContext, layout: Layout, phase: str, own: Calibration) -> dict[str, Number]:
    """What constants are multiplied by for this question: the file's factors, and all of them by what rows near it showed."""
    if not own.near:
        return {**own.factors}
    batch = ctx.train_batch if phase == "train" else sequences(ctx, layout)
    place = {name: num.value(size) for name, size in asked(ctx, layout, phase, batch).items()}
    slower = calibration_formulas.slower(sum(row.move * similarity(place, row.at) for row in own.near))
    return {path: known * overrides.factor(path, slower) for path, known in own.factors.items()}


def similarity(place: dict[str, Number], other: dict[str, float]) -> Number:
    """How far what a row showed holds at a place: by the factors between their sizes."""
    apart = (num.log(place[name] / size) for name, size in other.items() if name in place)
    return calibration_formulas.similarity(sum(d * d for d in apart))


def asked(ctx: EstimateContext, layout: Layout, phase: str, batch: Number) -> dict[str, Number]:
    """What places a question among measured rows: sizes of the work and of the fleet. `batch` is of sequences at once."""
    whole = ctx.memoized(layout, "whole", lambda: device_parameters(ctx.ledger, Layout(), PLAIN))
    parameters = whole.inner + whole.outer + whole.experts
    if phase == "train":
        return {"devices": layout.devices, "batch": batch, "seq": ctx.seq, "parameters": parameters}
    devices = layout.tp * layout.pp * layout.cp
    found = {"devices": devices, "prompt": ctx.prompt, "parameters": parameters}
    return found if kind(ctx, phase) == "prefill" else {**found, "batch": batch}


def outside_calibrated_range(
    ctx: EstimateContext, layout: Layout, phase: str, own: Calibration, answer: PhaseAnswer
) -> dict[str, Number]:
    """What of the question lies outside the rows, by name: true, or an array of truths."""
    batch = ctx.train_batch if isinstance(answer, TrainAnswer) else ctx.batch
    found = {}
    for name, value in asked(ctx, layout, phase, answer.batch if isinstance(answer, DecodeAnswer) else batch).items():
        if name in own.range:
            (low, high), bare = own.range[name], num.value(value)
            found[name] = (bare < low / SLACK) | (bare > high * SLACK)
    return found


def within(ctx: EstimateContext, layout: Layout, phase: str, own: Calibration, answer: PhaseAnswer) -> Number:
    """Whether nothing of the question lies outside the rows: true, or an array of truths."""
    beyond = list(outside_calibrated_range(ctx, layout, phase, own, answer).values())
    plain = all(isinstance(one, bool) for one in beyond)
    return not any(beyond) if plain else sum(beyond) == 0


def notes(ctx: EstimateContext, layout: Layout, phase: str, answer: PhaseAnswer) -> list[str]:
    """What a reader should know: the question leaves the rows, or the file was calibrated with other software."""
    own = calibration(ctx, layout, phase)
    if own is not None:
        beyond = [
            name
            for name, is_outside in outside_calibrated_range(ctx, layout, phase, own, answer).items()
            if bool(is_outside)
        ]
        far = " and ".join(f"{n} ({own.range[n][0]:g} to {own.range[n][1]:g})" for n in beyond)
        return (
            [
                f"{phase}: outside the rows it was calibrated on in {far}; the interval is the wider of shipped and calibrated"
            ]
            if beyond
            else []
        )
    others = entries(ctx, phase)
    if not others or ctx.chip.ideal:
        return []
    flag = "--framework" if phase == "train" else "--engine"
    return [
        f"{phase}: {ctx.request.hardware.name} is calibrated for {flag} {' and '.join(sorted(others))}, not {software(ctx, layout, phase)}; "
        "these are the shipped constants"
    ]
