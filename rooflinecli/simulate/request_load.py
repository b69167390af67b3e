"""A synthetic load: arrival times of an open loop, and distributions of input and output lengths."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rooflinecli.core.errors import UsageError
from rooflinecli.specs import parse_values

if TYPE_CHECKING:
    from numpy.typing import NDArray

EXAMPLES = "2048, uniform:512,4096, lognormal:2048,0.8 (mean, sigma of the logarithm), exponential:256"
LONGEST = 1 << 24  # tokens
_PARAMETERS = {"uniform": 2, "lognormal": 2, "exponential": 1}


def arrival_times(written: str, rate: float, count: int, seed: int) -> list[float]:
    """`count` arrivals at `rate` per second: `poisson`, `gamma:CV` (coefficient of variation of the gaps) or `constant`.

    Raises UsageError for anything else.
    """
    import numpy as np

    rng = np.random.Generator(np.random.PCG64([seed, 1]))
    gaps: NDArray[np.float64]
    if written == "poisson":
        gaps = rng.exponential(1 / rate, count)
    elif written == "constant":
        gaps = np.full(count, 1 / rate)
    else:
        kind, _, text = written.partition(":")
        if kind != "gamma":
            raise UsageError(
                f"--arrivals {written}: expected poisson, constant or gamma:CV, such as gamma:2", "arrivals"
            )
        try:
            cv = float(text)
        except ValueError:
            cv = 0.0
        if not 0 < cv < 100:
            raise UsageError(
                f"--arrivals {written}: give a coefficient of variation above 0, such as gamma:2", "arrivals"
            )
        gaps = rng.gamma(cv**-2, cv**2 / rate, count)
    gaps[0] = 0.0
    return [float(t) for t in np.cumsum(gaps)]


@dataclass(frozen=True)
class Lengths:
    """A distribution of whole numbers of at least one token; each is scaled by a factor drawn uniformly from the range `spread`."""

    kind: str
    values: tuple[float, ...]
    spread: tuple[float, float] = (1.0, 1.0)

    @property
    def mean(self) -> float:
        """Mean in tokens, before rounding."""
        center = sum(self.values) / 2 if self.kind == "uniform" else self.values[0]
        return max(center * sum(self.spread) / 2, 1.0)

    def draw(self, count: int, seed: int, stream: int) -> list[int]:
        """`count` lengths; equal seeds and streams draw equal lengths."""
        import numpy as np

        rng = np.random.Generator(np.random.PCG64([seed, stream]))
        drawn: NDArray[np.float64]
        if self.kind == "fixed":
            drawn = np.full(count, self.values[0])
        elif self.kind == "uniform":
            drawn = rng.uniform(self.values[0], self.values[1], count)
        elif self.kind == "exponential":
            drawn = rng.exponential(self.values[0], count)
        else:
            mean, sigma = self.values
            drawn = rng.lognormal(math.log(mean) - sigma * sigma / 2, sigma, count)
        if self.spread != (1.0, 1.0):
            drawn = drawn * rng.uniform(*self.spread, count)
        return [int(v) for v in np.clip(np.rint(drawn), 1, LONGEST)]


def lengths(option: str, written: object, spread: tuple[float, float] = (1.0, 1.0)) -> Lengths:
    """Parse a length or a distribution of lengths. Raises UsageError that names the option."""
    kind, colon, rest = str(written).partition(":")
    if not colon:
        return Lengths("fixed", (max(parse_values.number(f"--{option}", written, "length", option), 1.0),), spread)
    parts = rest.split(",")
    if kind not in _PARAMETERS or len(parts) != _PARAMETERS[kind]:
        raise UsageError(f"--{option} {written}: not a length or a distribution; write {EXAMPLES}", option)
    values = [
        parse_values.number(f"--{option}", part.strip(), "length" if i == 0 or kind == "uniform" else "number", option)
        for i, part in enumerate(parts)
    ]
    below = kind == "uniform" and values[1] < values[0]
    if values[0] < 1 or below or (kind == "lognormal" and not 0 <= values[1] <= 5):
        raise UsageError(f"--{option} {written}: out of range; write {EXAMPLES}", option)
    return Lengths(kind, tuple(values), spread)


def spread(written: str) -> tuple[float, float]:
    """Parse --length-range `0.8:1`: factors between which every length is scaled. Raises UsageError."""
    low, colon, high = written.partition(":")
    try:
        factors = float(low), float(high)
    except ValueError:
        factors = (0.0, 0.0)
    if not colon or not 0 < factors[0] <= factors[1] <= 100:
        raise UsageError(f"--length-range {written}: write two fractions such as 0.8:1", "length-range")
    return factors
