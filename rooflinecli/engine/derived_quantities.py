"""Quantities that are computed from others: the rows of specs/quantities that name a formula."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from rooflinecli.core.num import Number
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.phase_answer import PhaseAnswer
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.quantities import DERIVED


def derive(ctx: EstimateContext, layout: Layout, phase: str, answer: PhaseAnswer) -> dict[str, Number]:
    """Name -> value of every derived quantity of a phase; left out where the chip's file lacks an argument."""
    found: dict[str, Number] = {}
    for name, formula, of in _rows(phase):
        given = [_argument(argument, ctx, layout, answer) for argument in of]
        if not any(value is None for value in given):
            found[name] = formula(*given)
    return found


@cache
def _rows(phase: str) -> tuple[tuple[str, Callable[..., Any], tuple[str, ...]], ...]:
    """Name, formula and arguments of the rows that a phase has."""
    rows = (row for row in DERIVED if row.phase in ("", phase))
    return tuple((row.name, row.formula, row.of) for row in rows if row.formula is not None)


def _argument(name: str, ctx: EstimateContext, layout: Layout, answer: PhaseAnswer) -> Number | None:
    if name == "devices":
        return layout.devices
    if name == "image_tokens":  # of an image that is made, not read
        return ctx.given if ctx.spec.denoising is not None else None
    return ctx.chip.power if name == "power" else getattr(answer, name, None)
