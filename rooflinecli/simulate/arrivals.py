"""When requests of an open loop come: instants in seconds, from a rate and how unevenly it comes."""

from __future__ import annotations

from typing import Any

from rooflinecli.core.errors import UsageError

KINDS = ("poisson", "gamma", "constant")


def arrival_times(written: str, rate: float, count: int, seed: int) -> list[float]:
    """`count` arrivals at `rate` per second: `poisson`, `gamma:CV` (coefficient of variation of the gaps) or `constant`.

    Raises UsageError for anything else.
    """
    import numpy as np

    draw = np.random.Generator(np.random.PCG64([seed, 1]))
    kind, _, given = written.partition(":")
    gaps: Any
    if kind == "poisson" and not given:
        gaps = draw.exponential(1 / rate, count)
    elif kind == "constant" and not given:
        gaps = np.full(count, 1 / rate)
    elif kind == "gamma":
        cv = _positive(written, given)
        gaps = draw.gamma(cv**-2, cv**2 / rate, count)
    else:
        raise UsageError(f"--arrivals {written}: expected poisson, constant or gamma:CV, such as gamma:2", "arrivals")
    gaps[0] = 0.0
    return [float(t) for t in np.cumsum(gaps)]


def _positive(written: str, text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found < 100:
        raise UsageError(f"--arrivals {written}: give a coefficient of variation above 0, such as gamma:2", "arrivals")
    return found
