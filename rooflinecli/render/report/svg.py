"""Scales, axes and marks of an inline SVG chart, drawn for a wide page and for a phone."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from rooflinecli.render.report.html import EscapedHtml, tag

LETTER = 6.3  # width of a letter of a label, in units of the drawing
SIZES = {"wide": (760, 420), "narrow": (340, 360)}


@dataclass(frozen=True)
class Scale:
    """Data -> drawing: [low, high] onto [start, stop], by value or by its logarithm."""

    low: float
    high: float
    start: float
    stop: float
    log: bool = False

    def __call__(self, value: float) -> float:
        low, high, v = (
            (math.log10(x) for x in (self.low, self.high, value)) if self.log else (self.low, self.high, value)
        )
        return self.start + (v - low) / (high - low) * (self.stop - self.start)

    def ticks(self, most: int) -> list[float]:
        """Round values inside: powers of ten where logarithmic (with 2 and 5 when they are few), else steps of 1, 2 or 5."""
        if self.log:
            first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
            for steps in ((1, 2, 5), (1, 3), (1,)):
                inside = [
                    m * 10.0**e for e in range(first, last + 1) for m in steps if self.low <= m * 10.0**e <= self.high
                ]
                if len(inside) <= most:
                    return inside
            return inside[:: -(-len(inside) // most)]
        step = next(
            m * 10.0**e for e in range(-12, 18) for m in (1, 2, 5) if (self.high - self.low) / (m * 10.0**e) <= most
        )
        return [step * i for i in range(math.ceil(self.low / step), math.floor(self.high / step) + 1)]


class Chart:
    """One drawing: a frame with axes, then whatever is put into it."""

    def __init__(self, kind: str, x: tuple[float, float, bool], y: tuple[float, float, bool]):
        self.kind, (self.width, self.height) = kind, SIZES[kind]
        self.left, self.right, self.top, self.bottom = 62, self.width - 14, 24, self.height - 46
        self.x = Scale(x[0], x[1], self.left, self.right, x[2])
        self.y = Scale(y[0], y[1], self.bottom, self.top, y[2])
        self.parts: list[EscapedHtml] = []
        self.taken: list[tuple[float, float, float, float]] = []

    def axes(self, x_title: str, y_title: str, x_text: Callable[[float], str], y_text: Callable[[float], str]) -> None:
        """Grid lines, tick labels, titles."""
        for value in self.x.ticks(8 if self.kind == "wide" else 5):
            at = round(self.x(value), 1)
            self.put("line", x1=at, x2=at, y1=self.top, y2=self.bottom, class_="grid")
            self.text(at, self.bottom + 16, x_text(value), "tick", "middle")
        for value in self.y.ticks(7):
            at = round(self.y(value), 1)
            self.put("line", x1=self.left, x2=self.right, y1=at, y2=at, class_="grid")
            self.text(self.left - 6, at + 4, y_text(value), "tick", "end")
        self.text((self.left + self.right) / 2, self.height - 8, x_title, "axis", "middle")
        self.text(4, 13, y_title, "axis", "start")

    def put(self, name: str, /, *children: object, **attributes: object) -> None:
        self.parts.append(tag(name, *children, **attributes))

    def text(self, x: float, y: float, words: str, class_: str, anchor: str) -> None:
        self.put("text", words, x=round(x, 1), y=round(y, 1), class_=class_, text_anchor=anchor)

    def line(self, points: list[tuple[float, float]], class_: str) -> None:
        """A polyline through data points, which labels stay clear of."""
        drawn = [(self.x(a), self.y(b)) for a, b in points]
        for (a, b), (c, d) in pairwise(drawn):
            steps = max(int(max(abs(c - a), abs(d - b)) / 5), 1)
            centres = [(a + (c - a) * i / steps, b + (d - b) * i / steps) for i in range(steps + 1)]
            self.taken += [(x - 1, y - 1, x + 1, y + 1) for x, y in centres]
        self.put("polyline", points=" ".join(f"{a:.1f},{b:.1f}" for a, b in drawn), class_=class_)

    def area(self, points: list[tuple[float, float]], class_: str) -> None:
        self.put("polygon", points=" ".join(f"{self.x(a):.1f},{self.y(b):.1f}" for a, b in points), class_=class_)

    def mark(self, x: float, y: float, size: float, shape: str, class_: str, words: str, **data: object) -> None:
        """A point with a title that shows on hover: round, or a diamond."""
        a, b = round(self.x(x), 1), round(self.y(y), 1)
        inside = tag("title", words)
        self.taken.append((a - size, b - size, a + size, b + size))
        if shape == "round":
            self.put("circle", inside, cx=a, cy=b, r=round(size, 1), class_=class_, **data)
        else:
            s = round(size * 1.25, 1)
            self.put("path", inside, d=f"M{a} {b - s}L{a + s} {b}L{a} {b + s}L{a - s} {b}Z", class_=class_, **data)

    def label(self, x: float, y: float, gap: float, words: str, class_: str = "label", above: bool = False) -> bool:
        """A label next to a data point where nothing is yet: right, left, above or below; False when there is no room."""
        a, b, wide = self.x(x), self.y(y), len(words) * LETTER
        sideways = [(a + gap, b + 4, "start"), (a - gap, b + 4, "end")]
        over = [
            (a, b - gap - 3, "middle"),
            (a, b + gap + 11, "middle"),
            (a + gap, b + gap + 11, "start"),
            (a - gap, b - gap - 3, "end"),
        ]
        for at, baseline, anchor in [*over, *sideways] if above else [*sideways, *over]:
            start = at - {"start": 0.0, "end": wide, "middle": wide / 2}[anchor]
            box = (start, baseline - 10, start + wide, baseline + 3)
            inside = box[0] >= self.left and box[2] <= self.right and box[1] >= self.top and box[3] <= self.bottom
            if inside and not any(_overlap(box, other) for other in self.taken):
                self.taken.append(box)
                self.text(at, baseline, words, class_, anchor)
                return True
        return False

    def name_line(self, left: float, y: float, words: str, class_: str) -> None:
        """The name of a level line that runs from `left` to the right edge: over it or under it, where nothing is yet."""
        wide, b = len(words) * LETTER, self.y(y)
        ends = [self.right - 4 - step * (self.right - left - wide) / 6 for step in range(7)]
        places = [(end, baseline) for baseline in (b - 7, b + 15) for end in ends]
        free = [
            (end, at)
            for end, at in places
            if not any(_overlap((end - wide, at - 9, end, at + 2), other) for other in self.taken)
        ]
        end, at = (free or places)[0]
        self.taken.append((end - wide, at - 10, end, at + 3))
        self.text(end, at, words, class_, "end")

    def svg(self, title: str, description: str, ident: str) -> EscapedHtml:
        """The drawing, named for those who do not see it."""
        name = f"{ident}-{self.kind}"
        return tag(
            "svg",
            tag("title", title, id=f"{name}-t"),
            tag("desc", description, id=f"{name}-d"),
            self.parts,
            class_=f"chart {self.kind}",
            viewBox=f"0 0 {self.width} {self.height}",
            role="img",
            aria_labelledby=f"{name}-t {name}-d",
        )


def _overlap(a: tuple[float, float, float, float], b: tuple[float, float, float, float]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
