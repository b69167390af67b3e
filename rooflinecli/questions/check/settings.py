"""The two settings of a check that the command line and the plan file share; free of anything slow to import."""

from __future__ import annotations

from enum import StrEnum


class Bound(StrEnum):
    """Which end of an estimate is held to a limit."""

    floor = "floor"
    expected = "expected"
    pessimistic = "pessimistic"


class InconclusivePolicy(StrEnum):
    """What a limit inside the interval amounts to."""

    fail = "fail"
    warn = "warn"
