"""Quantities of answers: name, label and unit of every number, a row of quantities.yaml each."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from rooflinecli.core.num import Number
from rooflinecli.core.record import Json
from rooflinecli.formulas import energy, serving
from rooflinecli.specs.snapshots import packaged

LESS, MORE = "less", "more"


class Quantity(NamedTuple):
    """One number of an answer.

    unit: SI, `fraction` or `count`. better: `less`, `more` or neither. time: 1 where it grows in proportion to its phase's
    time, -1 where it falls, 0 where it does not follow. rate: whether it follows the tokens per second, whose interval is
    then its own. phase: the only phase it speaks of. group: whether it stands for
    everything under its name. distance: a fraction that may be above one, since it is no part of a whole. detail: not
    printed by an estimate. errors: arguments that are 80% relative errors of its own, joined with that of its time.
    """

    name: str
    unit: str
    label: str
    better: str = ""
    time: int = 0
    phase: str = ""
    group: bool = False
    rate: bool = False
    distance: bool = False
    detail: bool = False
    errors: tuple[str, ...] = ()
    formula: Callable[..., Number] | None = None
    of: tuple[str, ...] = ()


_FORMULAS = {"energy": energy, "serving": serving}


def _row(entry: tuple[str, Json]) -> Quantity:
    """The quantity of a row of quantities.yaml."""
    name, given = entry
    module, _, function = given.get("formula", "").partition(".")
    formula = getattr(_FORMULAS[module], function) if module else None
    of, errors = (tuple(given.get(key, "").split()) for key in ("of", "errors"))
    return Quantity(**{**given, "name": name, "formula": formula, "of": of, "errors": errors})


_TABLES = packaged(__file__)
DERIVED = tuple(map(_row, _TABLES["derived"].items()))
_INTERVALS = (
    Quantity(f"{row.name}_interval", row.unit, f"80% interval, {row.label}", row.better)
    for row in DERIVED
    if row.errors and not row.detail
)
_LATENCIES = (
    Quantity(f"{name}_{point}_s", "s", f"{label} {point}", LESS)
    for name, label in _TABLES["latencies"].items()
    for point in ("mean", "p50", "p90", "p95", "p99", "max")
)
_ROWS = (
    *map(_row, _TABLES["answers"].items()),
    *DERIVED,
    *_INTERVALS,
    *_LATENCIES,
    *map(_row, _TABLES["simulated"].items()),
)
QUANTITIES = {row.name: row for row in _ROWS}
# of a served token or request
PER_TOKEN = tuple(row.name for row in DERIVED if row.rate and row.phase in ("", "decode"))
COST = {  # phase -> the price of its tokens
    "prefill": "usd_per_million_input_tokens",
    "decode": "usd_per_million_output_tokens",
    "train": "usd_per_million_training_tokens",
}
AT_QPS = "usd_per_million_tokens_at_qps"  # of the requests that come, not of those that the instances could carry
BLENDED = "usd_per_million_tokens"  # of input and output: in proportion to what a request costs

OBJECTIVES: dict[str, dict[str, str]] = _TABLES["objectives"]  # of training and of serving: short name -> path
COMPARED: dict[str, list[str]] = _TABLES["compared"]
FORMER: dict[str, str] = _TABLES["former"]  # names of earlier schema versions -> those of today


def canonical(path: str) -> str:
    """A dotted path in the names of today, without `phases.`."""
    return ".".join(FORMER.get(part, part) for part in path.removeprefix("phases.").split("."))


def first_release(path: str) -> str:
    """A dotted path in the names of the first release."""
    old = {new: name for name, new in FORMER.items()}
    return ".".join(old.get(part, part) for part in path.split("."))


def find(path: str) -> Quantity | None:
    """The row of a dotted path (`decode.breakdown_s.matmul`), None for a name that has none."""
    parts = _named(canonical(path))
    for name in reversed(parts[:-1]):
        if name in QUANTITIES and QUANTITIES[name].group:
            return QUANTITIES[name]
    return QUANTITIES.get(parts[-1]) if parts else None


def describe_path(path: str) -> str:
    """A dotted path in words: `prefill.interval_s.1` is 'the high end of the prefill time', `serve.itl_s` ITL."""
    row, parts = find(path), path.split(".")
    if parts[0] == "serve" and row is not None:
        return {"ttft_s": "TTFT", "itl_s": "ITL"}.get(row.name, row.label)
    if not parts[-1].isdigit() or row is None or row.name != "interval_s":
        return path
    return " ".join(["the", "low" if parts[-1] == "0" else "high", "end of the", *_named(path)[:-1], "time"])


def unit_of(path: str) -> str:
    """The unit of a quantity: its row's, else what its name or its group's ends in, else `count`."""
    row = find(path)
    if row is not None:
        return row.unit
    for part in reversed(_named(path)[-2:]):
        for pattern, unit in _TABLES["suffixes"].items():
            if re.search(pattern, part):
                return str(unit)
    return "count"


def higher_is_better(path: str) -> bool:
    """Whether a larger value is the better one; less is, of what no row knows."""
    row = find(path)
    return row is not None and row.better == MORE


def scales_with_time(path: str) -> int:
    """1 where a quantity grows with its phase's time, -1 where it falls, 0 where it does not follow."""
    row = find(path)
    return row.time if row is not None else 0


def _named(path: str) -> list[str]:
    """The parts of a path without places in lists."""
    return [part for part in path.split(".") if not part.isdigit()]
