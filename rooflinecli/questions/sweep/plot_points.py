"""The points of a plot: x, y and a series label each, thinned so that any sweep fits a picture."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rooflinecli.engine import legality
from rooflinecli.questions.sweep.axes import Space
from rooflinecli.questions.sweep.run import Choice, SweepBlock

MOST_POINTS, MOST_SERIES = 20_000, 12


@dataclass
class Picture:
    """series label -> (x, y) points; roofs: label -> (peak FLOP/s, bytes/s) or a capacity; axis titles and scales; names: of points.

    log: both axes are logarithmic; log_up: the upward one alone. curves: points of a series are joined.
    """

    title: str
    x: str
    y: str
    log: bool
    series: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    roofs: dict[str, tuple[float, float]] = field(default_factory=dict)
    limits: dict[str, float] = field(default_factory=dict)
    names: dict[tuple[float, float], str] = field(default_factory=dict)
    log_up: bool = False
    curves: bool = False


class Gathered:
    """Collects what a plot of `kind` (latency, roofline, memory) shows while a sweep streams by."""

    def __init__(self, kind: str, space: Space):
        self.kind, self.space = kind, space
        self.phase = "decode" if "decode" in space.phases else space.phases[0]
        self.every = max(space.points // MOST_POINTS, 1)
        numbers = [a for a in space.sizes if len(a.values) > 1]
        self.along = next(
            (a.name for a in numbers if a.name == "batch"),
            max(numbers, key=lambda a: len(a.values)).name if numbers else "batch",
        )
        self.by = self._series([a.name for a in numbers if a.name != self.along])
        self.picture = self._empty()

    def _series(self, names: list[str]) -> list[str]:
        """The axes whose values name a series: as many of the short ones as stay readable."""
        sizes = {a.name: len(a.values) for a in self.space.sizes}
        kept, count = [], 1
        for a in self.space.structure:
            count *= len(a.values)
        for name in sorted(names, key=lambda n: sizes[n]):
            count *= sizes[name]
            if count <= MOST_SERIES:
                kept.append(name)
        return kept

    def _empty(self) -> Picture:
        if self.kind == "roofline":
            return Picture(f"{self.phase} on the roofline", "FLOP per byte", "FLOP/s per device", True)
        if self.kind == "memory":
            return Picture(f"{self.phase} memory", self.along, "GB per device", False)
        latency = {"decode": "inter-token latency, ms", "prefill": "time to first token, ms"}.get(
            self.phase, "step time, ms"
        )
        return Picture(f"{self.phase}: latency against throughput", latency, "tokens/s per device", False)

    def add(self, choice: Choice, answer: SweepBlock) -> None:
        """Take a thinned part of the feasible points of a box (of all legal ones where memory itself is shown)."""
        if not answer.phases:
            return
        fits = legality.all_hold(answer.rules)
        for _, enough in answer.fits if self.kind != "memory" else ():
            fits = fits & enough
        chosen = np.flatnonzero(answer.flat(fits))[:: self.every]
        x, y = (answer.flat(v)[chosen] for v in self._values(answer))
        names = [answer.flat(answer.axes[n])[chosen] for n in self.by]
        fixed = " ".join(str(choice[a.name]) for a in self.space.structure if len(a.values) > 1)
        for i in range(len(chosen)):
            label = " ".join([fixed, *(f"{n}={column[i]:g}" for n, column in zip(self.by, names, strict=True))]).strip()
            self.picture.series.setdefault(label, []).append((float(x[i]), float(y[i])))
        # Roofs, or the capacity, of the chip
        if self.kind == "memory":
            self.picture.limits[f"{choice['hw']} capacity"] = (
                float(np.max(answer.phases[self.phase].memory.capacity_bytes)) / 1e9
            )
        elif self.kind == "roofline":
            peak, bandwidth = (float(np.max(answer.roofs[k])) for k in ("peak", "bandwidth"))
            self.picture.roofs[f"{choice['hw']} {choice.get('dtype', '')}".strip()] = peak, bandwidth

    def _values(self, answer: SweepBlock) -> tuple[Any, Any]:
        result = answer.phases[self.phase]
        if self.kind == "memory":
            return answer.axes.get(self.along, np.nan), result.memory.total_bytes / 1e9
        if self.kind == "roofline":
            parts, roofs = result.resources_s, answer.roofs
            intensity = parts.compute * roofs["peak"] / (parts.memory * roofs["bandwidth"])
            return intensity, result.mfu * roofs["peak"]
        return result.time_s * 1e3, result.tokens_per_s / answer.layout["devices"]
