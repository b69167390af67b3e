"""Constants refitted without a family, so that calibrations can be scored on families that the constants they start from never saw."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

import numpy as np

from rooflinecli.price.settable import TIMES
from rooflinecli.specs import ask
from rooflinecli.validate import serving_fit, training_fit
from rooflinecli.validate.inference import Run
from rooflinecli.validate.published import family, timed
from rooflinecli.validate.training_fit import UNSEEN
from rooflinecli.validate.training_free import FREE, Row
from rooflinecli.validate.training_response import Response, names_of, tabulate

FITTED = ("collected", "fitted")  # what of a serving run's history means that the shipped constants saw it


@lru_cache(maxsize=1)
def _response() -> tuple[list[Row], Response]:
    """The rows that a fit of training may see, and how they answer to its constants around the fit to all."""
    seen = [row for row in timed() if family(row) not in UNSEEN]
    return seen, tabulate(seen, training_fit.fit(seen))


@cache
def _training(name: str) -> dict[str, float]:
    seen, response = _response()
    return training_fit.settle(response, seen, np.array([family(row) != name for row in seen]))


def training(row: Row) -> dict[str, float]:
    """Overrides of a training row: each constant that moves it, from a fit without its family. Empty where no fit saw the family."""
    name = family(row)
    if name in UNSEEN:
        return {}
    constants = _training(name)
    return {FREE[free].override: constants[free] for free in names_of(row)}


@lru_cache(maxsize=1)
def _serving() -> serving_fit.Linear:
    return serving_fit.gather()


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
    asked = serving_fit.answered(run)
    moved: dict[str, float] = {}
    for free, x in zip(serving_fit.FREE, _point(run.options["model"]), strict=True):
        moved[free.path] = moved.get(free.path, 0.0) + float(x) * free.share(asked)
    hardware = ask.request(run.options).hardware
    return {TIMES + p: float(np.exp(x)) for p, x in moved.items() if x and serving_fit.known(hardware, p)}
