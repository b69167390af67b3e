"""Text that others wrote: what a terminal would obey instead of showing, and how it becomes one harmless line."""

from __future__ import annotations

import re

# C0 and C1 controls but tab and newline, marks that reorder the line, and the two separators that end one
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def one_line(text: str) -> str:
    """`text` without control characters and with single spaces for its line breaks, tabs and runs of spaces."""
    return " ".join(CONTROL.sub("", text).split())


def plural(count: float, what: str) -> str:
    """'1 device', '1,024 devices'."""
    return f"{count:,.12g} {what}{'' if count == 1 else 's'}"


def either(remedies: list[str]) -> str:
    """'do a', 'do a, or do b', 'do a, do b, or do c'."""
    return ", or ".join(filter(None, (", ".join(remedies[:-1]), remedies[-1])))


def times(ratio: float) -> str:
    """'1.25', '2,140': a ratio to three digits, without an exponent."""
    return f"{float(f'{ratio:.3g}'):,.12g}"


def percent(share: float) -> str:
    """'0.34%', '14%', '120%': two digits, and all that stand before the point."""
    percent = 100 * share
    return f"{percent:,.0f}%" if abs(percent) >= 9.95 else f"{percent:.2g}%"
