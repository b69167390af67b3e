"""Overrides of the shipped constants by those refitted without a row's family, so that a study starts from constants that never saw it."""

from __future__ import annotations

from functools import cache, lru_cache

import numpy as np

from lab import fit_serving, fit_training
from lab.fit import Array, Values
from lab.fit_training import UNSEEN
from lab.training_constants import FREE, Row
from lab.training_response_tables import ConstantResponse, names_of, tabulate
from rooflinecli.engine import build_request
from rooflinecli.price.overrides import TIMES
from rooflinecli.validate.inference import Run
from rooflinecli.validate.published_training import family, timed

FITTED = ("collected", "fitted")  # histories of a serving run that the shipped constants saw


@lru_cache(maxsize=1)
def _response() -> tuple[list[Row], ConstantResponse]:
    """The training rows that a fit may see, and their response around the fit to all of them."""
    seen = [row for row in timed() if family(row) not in UNSEEN]
    return seen, tabulate(seen, fit_training.fit_to(seen))


@cache
def _training(name: str) -> Values:
    seen, response = _response()
    return fit_training.solve(response, seen, np.array([family(row) != name for row in seen]))


def training(row: Row) -> Values:
    """Overrides of a training row: each constant that moves it, from a fit without its family. Empty where no fit saw the family."""
    if family(row) in UNSEEN:
        return {}
    constants = _training(family(row))
    return {FREE[name].override: constants[name] for name in names_of(row)}


@lru_cache(maxsize=1)
def _serving() -> tuple[fit_serving.Linear, list[fit_serving.FitRow]]:
    rows = fit_serving.gather()
    return fit_serving.linear_of(rows), rows


@cache
def _point(model: str) -> Array:
    linear, rows = _serving()
    return linear.fit(np.array([row.seen and row.model != model for row in rows]))


def serving(run: Run) -> Values:
    """Overrides of a serving run: factors on the shipped constants of a decode step, from a fit without its model, to first order.

    Empty where no fit saw the run. Queues keep the shipped constants: no refit of them is to first order.
    """
    if run.seen not in FITTED or run.static or not {"itl", "throughput"} & set(run.measured):
        return {}
    row, moved = fit_serving.fit_row(run), dict[str, float]()
    for free, x in zip(fit_serving.FREE, _point(run.options["model"]), strict=True):
        moved[free.path] = moved.get(free.path, 0.0) + float(x) * free.share(row)
    hardware = build_request.request(run.options).hardware
    return {TIMES + p: float(np.exp(x)) for p, x in moved.items() if x and fit_serving.has_class(hardware, p)}
