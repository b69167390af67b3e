"""Numbers as people write them (command line, plan file, sweep axis, Python): counts, tokens, times, sums of money."""

from __future__ import annotations

import math
import re
from numbers import Real
from typing import Any

from rooflinecli.core import units
from rooflinecli.core.errors import UsageError
from rooflinecli.specs.options import KINDS

LARGEST, MOST_THINGS = 1e18, 1e12  # far beyond what exists; products of several stay numbers, divisors can be listed
_IN_TOKENS = ("-tokens", " tokens")


def number(flag: str, written: Any, kind: str = "count", option: str = "") -> float:
    """A number as people write it: 512, 4k, 70B, 15T, 2.5 (USD/h), 80 %. `kind` is one of options.KINDS. Raises UsageError."""
    if isinstance(written, bool) or not isinstance(written, (Real, str)):  # numpy's scalars are Real
        raise UsageError(f"{flag} {written!r}: expected a number", option)
    try:
        found = _parsed(written if isinstance(written, str) else float(written), KINDS[kind].unit)
    except ValueError as error:
        raise UsageError(f"{flag} {written}: {error}", option) from None
    except OverflowError:
        found = math.inf
    if not math.isfinite(found):
        raise UsageError(f"{flag} {written}: expected a finite number", option)
    if KINDS[kind].whole and found != int(found):
        raise UsageError(f"{flag} {written}: expected a whole number", option)
    return found


def _parsed(written: float | str, unit: str) -> float:
    """Raises ValueError for what is not a number of that unit; dollars and counts need not say theirs."""
    if not isinstance(written, str):
        return float(written)
    try:
        return float(written)
    except ValueError:
        pass
    text = written.strip()
    for ending in _IN_TOKENS if unit == "tokens" else ():
        text = text.removesuffix(ending)
    if unit == "USD/h" and not text.endswith("/h"):
        text = f"{text.removeprefix('$')} USD/h"
    return units.parse(text, unit)


def size(flag: str, written: Any) -> float:
    """A dimension of an array: a whole number, at least 1. Raises UsageError."""
    found = number(flag, written, "amount")
    if found < 1 or found != int(found):
        raise UsageError(f"{flag} {written}: a size is a whole number of at least 1")
    if found > MOST_THINGS:
        raise UsageError(f"{flag} {written}: is more than anything there is; give at most {MOST_THINGS:g}")
    return found


def document_lengths(written: str) -> list[float]:
    """Lengths of documents as written, 512,2k,8k. Raises UsageError for what is none."""
    found = [number("--lengths", part.strip(), "length", "lengths") for part in str(written).split(",")]
    if min(found) < 1:
        raise UsageError(f"--lengths {written}: a document has at least one token", "lengths")
    return found


def seconds(flag: str, written: Any, option: str = "") -> float:
    """A time above zero as people write it: 30d, 30 days, 40 ms. Raises UsageError."""
    return _above_zero(flag, written, "s", option)


def dollars(flag: str, written: Any, option: str = "") -> float:
    """A sum above zero as people write it: 2 M USD, $2M, 2e6. Raises UsageError."""
    text = str(written).strip().removeprefix("$")
    text = re.sub(r"(?<=[\d.])\s+(?=[kMBGT]\b)", "", text)
    said = re.sub(r"B(?= ?USD)", "G", text if text.endswith("USD") else f"{text}USD")
    return _above_zero(flag, said, "USD", option, written, "write for example '2 M USD'")


def _above_zero(flag: str, text: Any, unit: str, option: str, written: Any = None, example: str = "") -> float:
    shown = text if written is None else written
    try:
        found = units.parse(text, unit)
    except (ValueError, OverflowError) as error:
        why = f"expected a sum; {example}" if example else error
        raise UsageError(f"{flag} {shown}: {why}", option) from None
    if not 0 < found < math.inf:
        raise UsageError(f"{flag} {shown}: must be above zero and finite", option)
    if found > LARGEST:
        raise UsageError(f"{flag} {shown}: is more than anything there is; give at most {LARGEST:g} {unit}", option)
    return found


def in_tokens(written: Any) -> bool:
    """Whether a batch is written in tokens: 4M-tokens."""
    return str(written).strip().endswith(_IN_TOKENS)
