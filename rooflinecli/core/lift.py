"""Lifts of inputs into the arithmetic: plain numbers, or traced leaves that remember their source."""

from __future__ import annotations

from rooflinecli.core.num import Number


class PlainLift:
    traced = False

    def __call__(self, symbol: str, value: Number, unit: str, source: str) -> Number:
        return value


class TracedLift(PlainLift):
    traced = True

    def __call__(self, symbol: str, value: Number, unit: str, source: str) -> Number:
        from rooflinecli.core.derivation import leaf

        return leaf(symbol, value, unit, source)


PLAIN = PlainLift()
