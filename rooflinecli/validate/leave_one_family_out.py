"""Constants refitted without a family, so that calibrations can be scored on families that the constants they start from never saw."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

import numpy as np

from rooflinecli.engine import build_request
from rooflinecli.price.overrides import TIMES
from rooflinecli.validate import fit_serving, fit_training
from rooflinecli.validate.fit_training import UNSEEN
from rooflinecli.validate.inference import Run
from rooflinecli.validate.published_training import family, timed
from rooflinecli.validate.training_constants import FREE, Row
from rooflinecli.validate.training_response_tables import ConstantResponse, names_of, tabulate

FITTED = ("collected", "fitted")  # what of a serving run's history means that the shipped constants saw it


@lru_cache(maxsize=1)
def _response() -> tuple[list[Row], ConstantResponse]:
    """The rows that a fit of training may see, and how they answer to its constants around the fit to all."""
    seen = [row for row in timed() if family(row) not in UNSEEN]
    return seen, tabulate(seen, fit_training.fit(seen))


@cache
def _training(name: str) -> dict[str, float]:
    seen, response = _response()
    return fit_training.settle(response, seen, np.array([family(row) != name for row in seen]))


def training(row: Row) -> dict[str, float]:
    """Overrides of a training row: each constant that moves it, from a fit without its family. Empty where no fit saw the family."""
    name = family(row)
    if name in UNSEEN:
        return {}
    constants = _training(name)
    return {FREE[free].override: constants[free] for free in names_of(row)}


@lru_cache(maxsize=1)
def _serving() -> fit_serving.Linear:
    return fit_serving.gather()


@cache
def _point(model: str) -> Any:
    linear = _serving()
    return linear.fit(linear.seen & np.array([a.model != model for a in linear.runs]))


def serving(run: Run) -> dict[str, float]:
    """Overrides of a serving run: factors on the shipped constants of a decode step, from a fit without its model, to first order.

    Empty where no fit saw the run. Queues keep the shipped constants: no refit of them is to first order.
    """
    if run.seen not in FITTED or run.static or not {"itl", "throughput"} & set(run.measured):
        return {}
    asked = fit_serving.answered(run)
    moved: dict[str, float] = {}
    for free, x in zip(fit_serving.FREE, _point(run.options["model"]), strict=True):
        moved[free.path] = moved.get(free.path, 0.0) + float(x) * free.share(asked)
    hardware = build_request.request(run.options).hardware
    return {TIMES + p: float(np.exp(x)) for p, x in moved.items() if x and fit_serving.known(hardware, p)}
