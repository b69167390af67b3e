"""A phase with the constants that the user's own measurements gave (`roofline calibrate`), and the interval that follows from them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

from rooflinecli.core import num
from rooflinecli.core.num import Number
from rooflinecli.engine.context import EstimateContext, whole_model
from rooflinecli.engine.phase_answer import DecodeAnswer, PhaseAnswer, TrainAnswer
from rooflinecli.engine.serving_load import sequences
from rooflinecli.formulas import calibration as f
from rooflinecli.formulas import roofline, training
from rooflinecli.price import overrides
from rooflinecli.specs.hardware import Calibration
from rooflinecli.specs.layout import Layout

SLACK = 1.1  # a size this little beyond the measured rows counts as among them
A = TypeVar("A", bound=PhaseAnswer)


def _kind(ctx: EstimateContext, phase: str) -> str:
    """The phase as calibrations name it: TTFT under load is apart from the prefill of a lone prompt."""
    loaded = ctx.request.concurrency is not None or ctx.request.qps is not None
    return "ttft" if phase == "prefill" and loaded else phase


def software(ctx: EstimateContext, layout: Layout, phase: str) -> str:
    """What runs a phase: the training framework of the layout, or the serving engine by its file's name."""
    return layout.software if phase == "train" else ctx.engine.document.path.stem


def _by_software(ctx: EstimateContext, phase: str) -> dict[str, Calibration]:
    kind = _kind(ctx, phase)
    return next((fits for name, fits in ctx.request.hardware.calibration.items() if name == kind), {})


def calibration(ctx: EstimateContext, layout: Layout, phase: str) -> Calibration | None:
    """The calibration of a phase and the software that runs it, in the chip's file; None where every kernel is to be ideal."""
    if ctx.chip.ideal or not ctx.request.hardware.calibration:
        return None
    return _by_software(ctx, phase).get(software(ctx, layout, phase))


def calibrated(phase: str, shipped: Callable[[EstimateContext, Layout], A]) -> Callable[[EstimateContext, Layout], A]:
    """`shipped` with the constants and the error of the chip's calibration, where it has one."""

    def answer(ctx: EstimateContext, layout: Layout) -> A:
        fit = calibration(ctx, layout, phase)
        if fit is None:
            return shipped(ctx, layout)
        fitted = ctx.with_factors(_factors(ctx, layout, phase, fit))
        result, error = shipped(fitted, layout), cast(Number, fit.error)
        if isinstance(result, TrainAnswer):  # rows say nothing of layouts that no published run is like
            from rooflinecli.engine import extrapolation  # not loaded by an estimate of serving

            beyond = extrapolation.error(fitted, extrapolation.of(fitted, layout, result))
            error = training.step_error(fit.error, 0.0, 0.0, 0.0, beyond)
        low, high = result.interval_s
        time, floor = result.time_s, result.floor_s
        fitted_low, fitted_high = roofline.interval_low(time, error, floor), roofline.interval_high(time, error)
        outside = list(outside_calibrated_range(ctx, layout, phase, fit, result).values())
        inside = not any(outside) if all(isinstance(one, bool) for one in outside) else sum(outside) == 0
        result.interval_s = (
            num.where(inside, fitted_low, num.minimum(fitted_low, low)),
            num.where(inside, fitted_high, num.maximum(fitted_high, high)),
        )
        return result

    return answer


def _factors(ctx: EstimateContext, layout: Layout, phase: str, fit: Calibration) -> dict[str, Number]:
    """Multipliers of constants: the file's factors, and all of them by what measured rows of similar size showed."""
    if not fit.near:
        return {**fit.factors}
    batch = ctx.train_batch if phase == "train" else sequences(ctx, layout)
    sizes = {name: num.value(size) for name, size in question_sizes(ctx, layout, phase, batch).items()}
    slower = f.slower(sum(row.move * similarity(sizes, row.at) for row in fit.near))
    return {path: factor * overrides.factor(path, slower) for path, factor in fit.factors.items()}


def similarity(sizes: dict[str, Number], row: dict[str, float]) -> Number:
    """Weight of a measured row for a question, by the ratios of their sizes."""
    distances = (num.log(sizes[name] / size) for name, size in row.items() if name in sizes)
    return f.similarity(sum(d * d for d in distances))


def question_sizes(ctx: EstimateContext, layout: Layout, phase: str, batch: Number) -> dict[str, Number]:
    """Sizes that place a question among measured rows, of the work and of the replica; `batch` is in sequences."""
    whole = whole_model(ctx.ledger)
    parameters = whole.inner + whole.outer + whole.experts
    if phase == "train":
        return {"devices": layout.devices, "batch": batch, "seq": ctx.seq, "parameters": parameters}
    sizes = {"devices": layout.tp * layout.pp * layout.cp, "prompt": ctx.prompt, "parameters": parameters}
    return sizes if _kind(ctx, phase) == "prefill" else {**sizes, "batch": batch}


def outside_calibrated_range(
    ctx: EstimateContext, layout: Layout, phase: str, fit: Calibration, answer: PhaseAnswer
) -> dict[str, Number]:
    """Whether each size of the question lies outside the measured rows, by name: a bool, or an array of them."""
    batch = ctx.train_batch if isinstance(answer, TrainAnswer) else ctx.batch
    batch = answer.batch if isinstance(answer, DecodeAnswer) else batch
    outside = {}
    for name, size in question_sizes(ctx, layout, phase, batch).items():
        if name in fit.range:
            (low, high), bare = fit.range[name], num.value(size)
            outside[name] = (bare < low / SLACK) | (bare > high * SLACK)
    return outside


def notes(ctx: EstimateContext, layout: Layout, phase: str, answer: PhaseAnswer) -> list[str]:
    """A note where the question lies outside the measured rows, or the file was calibrated with other software."""
    fit = calibration(ctx, layout, phase)
    if fit is not None:
        outside = outside_calibrated_range(ctx, layout, phase, fit, answer)
        far = [f"{n} ({fit.range[n][0]:g} to {fit.range[n][1]:g})" for n, beyond in outside.items() if bool(beyond)]
        text = f"{phase}: outside the rows it was calibrated on in {' and '.join(far)}; the interval is the wider of shipped and calibrated"
        return [text] if far else []
    others = _by_software(ctx, phase)
    if not others or ctx.chip.ideal:
        return []
    flag = "--framework" if phase == "train" else "--engine"
    return [
        f"{phase}: {ctx.request.hardware.name} is calibrated for {flag} {' and '.join(sorted(others))}, not {software(ctx, layout, phase)}; "
        "these are the shipped constants"
    ]
