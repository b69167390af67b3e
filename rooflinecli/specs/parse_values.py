"""Numbers as people write them (command line, plan file, sweep axis, Python): counts, tokens, times, sums of money."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable
from numbers import Real

from rooflinecli.core import units
from rooflinecli.core.errors import ImpossibleValue, UsageError
from rooflinecli.specs.options import KINDS, Option, OptionKind
from rooflinecli.specs.request import MOST

LARGEST, MOST_THINGS = 1e18, 1e12  # far beyond what exists; products of several stay numbers, divisors can be listed
_IN_TOKENS = re.compile(r"[-\s]*tok(en)?s?\s*$")


def number(flag: str, written: object, kind: str = "count", option: str = "") -> float:
    """A number as people write it: 512, 4k, 70B, 15T, 2.5 (USD/h), 80%. `kind` is one of options.KINDS. Raises UsageError.

    A batch of 4M-tokens is 4 x 2^20, as sequences of 4k are of 4 x 2^10 and training runs count.
    """
    unit = "length" if option == "batch" and in_tokens(written) else KINDS[kind].unit
    found = _finite(flag, written, option, lambda text: _parsed(text, unit, KINDS[kind].example))
    if KINDS[kind].whole and found != int(found):
        raise UsageError(f"{flag} {written}: expected a whole number", option)
    return found


def as_text(flag: str, written: object, option: str = "") -> str:
    """Text as a command line writes it: a number by its digits, several with commas between. Raises UsageError for what is neither."""
    if isinstance(written, (list, tuple)):
        return ",".join(as_text(flag, one, option) for one in written)
    if isinstance(written, bool) or not isinstance(written, (Real, str)):
        raise UsageError(f"{flag} {written!r}: expected text or a number", option)
    return f"{written:.15g}" if isinstance(written, float) else str(written)


def _finite(flag: str, written: object, option: str, parsed: Callable[[str], float]) -> float:
    """A finite number, text as `parsed` reads it. Raises UsageError."""
    if isinstance(written, bool) or not isinstance(written, (Real, str)):  # numpy's scalars are Real
        raise UsageError(f"{flag} {written!r}: expected a number", option)
    try:
        found = parsed(written) if isinstance(written, str) else float(written)
    except ValueError as error:
        raise UsageError(f"{flag} {written}: {error}", option) from None
    except OverflowError:
        found = math.inf
    if not math.isfinite(found):
        raise UsageError(f"{flag} {written}: expected a finite number", option)
    return found


def _parsed(written: str, unit: str, example: str = "") -> float:
    """Raises ValueError for what is not a number of that unit; dollars and counts need not say theirs."""
    with contextlib.suppress(ValueError):
        return float(written)
    text = _IN_TOKENS.sub("", written).strip() if unit in ("tokens", "length") else written.strip()
    per = unit.removeprefix("USD")
    if per in ("/h", "/kWh"):
        text = re.sub(rf"^\$?([\d.,_]+)\s*(USD)?({per})?$", rf"\1 {unit}", text)
    return units.parse(text, unit, example)


def size(flag: str, written: str | float, kind: str = "amount") -> float:
    """A dimension of an array: a whole number, at least 1. Raises UsageError."""
    found = number(flag, written, kind)
    if found < 1 or found != int(found):
        raise UsageError(f"{flag} {written}: a size is a whole number of at least 1")
    if found > MOST_THINGS:
        raise UsageError(f"{flag} {written}: exceeds the supported maximum of {MOST_THINGS:g}")
    return found


def document_lengths(written: str) -> list[float]:
    """Lengths of documents as written, 512,2k,8k. Raises UsageError for what is none."""
    found = [number("--doc-lengths", part.strip(), "length", "lengths") for part in str(written).split(",")]
    if min(found) < 1:
        raise UsageError(f"--doc-lengths {written}: a document has at least one token", "lengths")
    return found


def dollars(flag: str, written: str | float, option: str = "") -> float:
    """A sum above zero as people write it: 2 M USD, $2M, 2e6. Raises UsageError."""
    text = str(written).strip().removeprefix("$")
    text = re.sub(r"(?<=[\d.])\s+(?=[kMBGT]\b)", "", text)
    amount = re.sub(r"B(?= ?USD)", "G", text if text.endswith("USD") else f"{text}USD")
    try:
        found = units.parse(amount, "USD")
    except (ValueError, OverflowError):
        raise UsageError(f"{flag} {written}: expected a sum; write for example '2 M USD'", option) from None
    if not 0 < found < math.inf:
        raise UsageError(f"{flag} {written}: must be above zero and finite", option)
    if found > LARGEST:
        raise UsageError(f"{flag} {written}: exceeds the supported maximum of {LARGEST:g} USD", option)
    return found


QUANTITIES = (
    "time", "usd", "bytes", "bytes_per_s", "flops_per_s", "hertz", "flop", "tokens_per_s",
    "seconds", "tokens", "usd_per_hour", "params", "positive", "real", "fraction",
)  # fmt: skip
# units whose bare number is SI; a time or a rate of a machine states its unit
_BARE = ("FLOP", "B", "USD", "USD/h", "tokens/s")


def quantity(field: Option, written: object) -> float:
    """A number with its unit in SI; one that is not text is SI already. Raises UsageError with the flag and the bound broken."""
    kind, flag = KINDS[field.kind], field.flag
    bare = kind.unit in _BARE or field.kind == "seconds"
    found = _finite(flag, written, field.name, lambda text: _measured(text, kind, bare))
    least, most = kind.least if field.least is None else field.least, kind.most if field.most is None else field.most
    above = kind.above if field.least is None else None
    if above is not None and found <= above:
        raise UsageError(f"{flag} {written}: must be above zero; give a positive number", field.name)
    if least is not None and found < least:
        raise UsageError(f"{flag} {written}: {below(least, kind.unit)}", field.name)
    if most == 1 and found > most:
        share = f", or {found:g}% for a share in percent" if found <= 100 else ""
        raise ImpossibleValue(
            f"{flag} {written}: impossible, it cannot exceed 1; give a fraction of 0 to 1{share}", field.name
        )
    if most is not None and found > most:
        raise UsageError(f"{flag} {written}: must be at most {most:g}", field.name)
    if found and not 1e-40 < abs(found) < 1e40:
        raise UsageError(f"{flag} {written}: exceeds the supported range of 1e-40 to 1e40", field.name)
    return found


def broken_bound(option: Option, number: float) -> str:
    """Which bound of the option a number breaks; empty where it breaks none."""
    kind = KINDS[option.kind]
    least = kind.least if option.least is None else option.least
    if option.kind == "stage":
        return "" if f"{number:g}" in option.choices else f"expected {', '.join(option.choices)}"
    if kind.most is not None and not ((number > 0 if least is None else number >= least) and number <= kind.most):
        return f"expected a share {'above 0 and' if least is None else f'from {least:g}'} up to 1"
    if kind.above is not None and number <= kind.above:
        return "must be above zero"
    if least is not None and number < least:
        return below(least, kind.unit)
    largest = option.most or (MOST_THINGS if kind.whole else LARGEST)
    return f"exceeds the supported maximum of {largest:g}" if largest < number < MOST else ""


def below(least: float, unit: str) -> str:
    """What is wrong with a number below `least` of its unit."""
    if unit == "B" and least >= 1e6:
        return "a bare number is bytes; write the unit, such as '80 GiB' or 80GB"
    return f"must be at least {least:g}" if least else "must not be negative"


def whole(field: Option, written: object) -> int:
    """A count as people write it: 512, 4k, 1M. Raises UsageError with the flag and the bound broken."""
    found = number(field.flag, written, "count", field.name)
    if violation := broken_bound(field, found):
        raise UsageError(f"{field.flag} {written}: {violation}", field.name)
    return int(found)


def _measured(written: str, kind: OptionKind, bare: bool) -> float:
    unit = kind.unit
    text = written.removeprefix("$") + (" USD" if unit == "USD" and not written.endswith("USD") else "")
    try:
        return units.parse(text, unit, kind.example)
    except ValueError:
        if bare:
            with contextlib.suppress(ValueError):
                return float(written)
        raise


def in_tokens(written: object) -> bool:
    """Whether a batch is written in tokens: 4M-tokens, 4Mtok."""
    return _IN_TOKENS.search(str(written)) is not None
