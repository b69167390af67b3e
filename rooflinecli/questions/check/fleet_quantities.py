"""Quantities of a whole fleet as a check holds them: of all of it, of a model, of a group of devices."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rooflinecli.core.errors import DataError, UsageError, unknown
from rooflinecli.core.record import MISSING, at, leaves
from rooflinecli.questions.check.interval_bounds import IntervalBounds
from rooflinecli.questions.check.requirement import Requirement

if TYPE_CHECKING:
    from rooflinecli.questions.check.cases import CheckCase

FLEET = "fleet."
FITS = f"{FLEET}feasible"
_SHOWN = ("feasible", "growth", "bottleneck", "devices", "spare", "usd_per_hour")


def ends(case: CheckCase, quantity: str) -> IntervalBounds:
    """A number of the fleet, placed at the end that the check holds. Raises UsageError for one that is not there."""
    found = _placed(case.fleet, case.hold) if case.fleet is not None else {}
    name = quantity.removeprefix(FLEET)
    value = at(found, name)
    if value is MISSING or isinstance(value, (dict, list)):
        raise unknown("quantity of a fleet", name, [path for path, _ in leaves(found)])
    if value is None:
        raise UsageError(
            f"{quantity}: has no value here; of a bill every group needs its `price`, of growth what else there is has to fit"
        )
    note = f"the whole fleet placed at the {case.hold} end; {found['bottleneck']} is the bottleneck"
    return IntervalBounds(value, note=note)


def with_feasible(case: CheckCase) -> list[Requirement]:
    """The requirements, and that everything fits, which no check of a fleet passes without."""
    said = any(r.quantity == FITS for r in case.requirements)
    implied = [] if said else [Requirement(FITS, "==", True, "", "true", case.where, implied=True)]
    return [*implied, *case.requirements]


@lru_cache(maxsize=64)
def _placed(path: Path, hold: str) -> dict[str, Any]:
    """The numbers of a fleet's file, models and groups by their names."""
    from rooflinecli.questions.fleet.answer import fleet

    try:
        found = fleet(path, hold)
    except UsageError as error:
        raise DataError(f"{path}: {error}") from None
    named = {kind: {row["name"]: _numbers(row) for row in found[kind]} for kind in ("models", "groups")}
    return {**{key: found[key] for key in _SHOWN}, **named}


def _numbers(row: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if value is None or isinstance(value, (bool, int, float))}
