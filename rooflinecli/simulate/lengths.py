"""How long prompts and answers are: one number, or a distribution to draw from."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from rooflinecli.core.errors import UsageError
from rooflinecli.specs import parse_values

EXAMPLES = "2048, uniform:512,4096, lognormal:2048,0.8 (mean, sigma of the logarithm), exponential:256"
LONGEST = 1 << 24  # tokens


@dataclass(frozen=True)
class Lengths:
    """A distribution of whole numbers of at least one token; `spread` further draws uniformly between these shares of each."""

    kind: str
    values: tuple[float, ...]
    spread: tuple[float, float] = (1.0, 1.0)

    @property
    def mean(self) -> float:
        """Tokens on average, before rounding."""
        centre = sum(self.values) / 2 if self.kind == "uniform" else self.values[0]
        return max(centre * sum(self.spread) / 2, 1.0)

    def draw(self, count: int, seed: int, stream: int) -> list[int]:
        """`count` lengths; equal seeds and streams draw equal lengths."""
        import numpy as np

        draw = np.random.Generator(np.random.PCG64([seed, stream]))
        found: Any
        if self.kind == "fixed":
            found = np.full(count, self.values[0])
        elif self.kind == "uniform":
            found = draw.uniform(self.values[0], self.values[1], count)
        elif self.kind == "exponential":
            found = draw.exponential(self.values[0], count)
        else:
            mean, sigma = self.values
            found = draw.lognormal(math.log(mean) - sigma * sigma / 2, sigma, count)
        if self.spread != (1.0, 1.0):
            found = found * draw.uniform(*self.spread, count)
        return [int(v) for v in np.clip(np.rint(found), 1, LONGEST)]


_TAKES = {"uniform": 2, "lognormal": 2, "exponential": 1}


def lengths(option: str, written: Any, spread: tuple[float, float] = (1.0, 1.0)) -> Lengths:
    """A length as people write it. Raises UsageError that names the option."""
    kind, colon, given = str(written).partition(":")
    if not colon:
        return Lengths("fixed", (max(parse_values.number(f"--{option}", written, "length", option), 1.0),), spread)
    parts = given.split(",")
    if kind not in _TAKES or len(parts) != _TAKES[kind]:
        raise UsageError(f"--{option} {written}: not a length or a distribution; write {EXAMPLES}", option)
    values = [
        parse_values.number(f"--{option}", part.strip(), "length" if i == 0 or kind == "uniform" else "number", option)
        for i, part in enumerate(parts)
    ]
    if (
        values[0] < 1
        or (kind == "uniform" and values[1] < values[0])
        or (kind == "lognormal" and not 0 <= values[1] <= 5)
    ):
        raise UsageError(f"--{option} {written}: out of range; write {EXAMPLES}", option)
    return Lengths(kind, tuple(values), spread)


def spread(written: str) -> tuple[float, float]:
    """`0.8:1`: every length is drawn uniformly between these shares of it. Raises UsageError."""
    low, colon, high = written.partition(":")
    try:
        found = float(low), float(high)
    except ValueError:
        found = (0.0, 0.0)
    if not colon or not 0 < found[0] <= found[1] <= 100:
        raise UsageError(f"--lengths {written}: write two shares such as 0.8:1", "lengths")
    return found
