"""Quantities of a fleet in requirements: of all of it, of a model, of a group of devices."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from rooflinecli.core.errors import DataError, UsageError, unknown
from rooflinecli.core.record import MISSING, at, entries, leaves
from rooflinecli.questions.check.interval_bounds import IntervalBounds

if TYPE_CHECKING:
    from rooflinecli.questions.check.cases import CheckCase

FLEET = "fleet."
FITS = f"{FLEET}feasible"
_OF_ALL = ("feasible", "growth", "bottleneck", "devices", "spare", "usd_per_hour")


def ends(case: CheckCase, quantity: str) -> IntervalBounds:
    """A number of the fleet, placed at the bound of the check. Raises UsageError for one that is not there."""
    found = _placed(case.fleet, case.hold) if case.fleet is not None else {}
    name = quantity.removeprefix(FLEET)
    value = at(found, name)
    if value is MISSING or entries(value) is not None:
        raise unknown("quantity of a fleet", name, [path for path, _ in leaves(found)])
    if value is None:
        raise UsageError(
            f"{quantity}: not available; costs need a `price` in every group, and growth needs a feasible fleet"
        )
    note = f"the whole fleet placed at the {case.hold} bound; {found['bottleneck']} is the bottleneck"
    return IntervalBounds(value, note=note)


@lru_cache(maxsize=64)
def _placed(path: Path, hold: str) -> dict[str, object]:
    """The numbers of a fleet's file, models and groups by their names."""
    from rooflinecli.questions.fleet.answer import fleet

    try:
        found = fleet(path, hold)
    except UsageError as error:
        raise DataError(f"{path}: {error}") from None
    named = {
        kind: {
            row["name"]: {k: v for k, v in entries(row) or () if v is None or isinstance(v, (bool, int, float))}
            for row in found[kind]
        }
        for kind in ("models", "groups")
    }
    return {**{key: found[key] for key in _OF_ALL}, **named}
