"""An answer as named columns: the JSON paths of `estimate` (decode.time_s), by name or by pattern (decode.memory.*)."""

from __future__ import annotations

from fnmatch import fnmatchcase

import numpy as np

from rooflinecli.core.errors import unknown
from rooflinecli.core.num import Number
from rooflinecli.core.record import MISSING, at, leaves
from rooflinecli.engine import legality
from rooflinecli.engine.phase_answer import Resources
from rooflinecli.questions.sweep.evaluate_block import SweepBlock
from rooflinecli.specs.quantities import COST, canonical

ALWAYS = ("feasible", "violation")  # columns of every sweep
DEFAULT = ("time_s", "tokens_per_s", "mfu", "bottleneck", "memory.total_bytes")


def names(answer: SweepBlock) -> list[str]:
    """Every quantity the answer holds, in the order of the JSON."""
    found = [f"layout.{name}" for name in answer.layout]
    for phase, result in answer.phases.items():
        found += [
            f"{phase}.{path}" for path, value in leaves(result) if value is not None and not isinstance(value, str)
        ]
        found += [f"{phase}.bottleneck", f"{phase}.bound_ratio"]
    return [*found, *(f"cost.{name}" for name, value in answer.cost.entries() if value is not None)]


def select(answer: SweepBlock, wanted: list[str] | None) -> list[str]:
    """The columns asked for: exact names, groups (decode.memory) or patterns (decode.*). Raises UsageError naming near misses."""
    known = names(answer)
    if not wanted:
        kept = [f"{phase}.{name}" for phase in answer.phases for name in DEFAULT]
        return [*kept, *(f"cost.{COST[phase]}" for phase in answer.phases if f"cost.{COST[phase]}" in known)]
    chosen: list[str] = []
    for text in wanted:
        name = canonical(text)
        matched = [k for k in known if k == name or k.startswith(name + ".") or fnmatchcase(k, name)]
        if not matched and (name in answer.axes or name in ALWAYS):
            continue  # it is printed anyway
        if not matched:
            raise unknown("column", name, known, "any number of `roofline estimate --format json` can be a column")
        chosen += matched
    return list(dict.fromkeys(chosen))


def pick(answer: SweepBlock, name: str) -> Number:
    """The value of one quantity, unbroadcast; not-a-number where this structure has none (a chip without a price)."""
    head, _, rest = canonical(name).partition(".")
    if rest in ("bottleneck", "bound_ratio") and head in answer.phases:
        return _bottleneck(answer.phases[head].resources_s, rest, answer.shape)
    value = at({"layout": answer.layout, "cost": answer.cost}.get(head, answer.phases.get(head)), rest)
    return np.nan if value is None or value is MISSING else value


def _bottleneck(resources: Resources, what: str, shape: tuple[int, ...]) -> np.ndarray:
    """Which resource sets the floor, or how many times longer it takes than the next (as `estimate` ranks them)."""
    named = dict(resources.entries())
    labels = sorted(named, reverse=True)  # a tie goes to the name that sorts last, as in estimate
    stack = np.stack([np.broadcast_to(named[k], shape) for k in labels])
    if what == "bottleneck":
        return np.asarray(np.array(labels, dtype=object)[stack.argmax(axis=0)])
    ranked = np.sort(stack, axis=0)
    with np.errstate(all="ignore"):
        return np.asarray(ranked[-1] / ranked[-2])


def flat(answer: SweepBlock, axes: list[str], quantities: list[str]) -> dict[str, np.ndarray]:
    """One array per column: axes, quantities (nothing where the layout does not exist), feasible, violation."""
    ok = answer.flat(legality.all_hold(answer.rules))
    whole = bool(ok.all())
    table = {name: answer.flat(answer.axes[name]) for name in axes}
    for name in quantities:
        column = answer.flat(pick(answer, name))
        if not whole:
            nothing: Number = None if column.dtype == object else np.nan
            column = np.where(ok, column, nothing)
        table[name] = column
    feasible = ok
    for _, fits in answer.fits:
        feasible = feasible & answer.flat(fits)
    table["feasible"] = feasible
    table["violation"] = _violations(answer, feasible)
    return table


def _violations(answer: SweepBlock, feasible: np.ndarray) -> np.ndarray:
    """The first condition each point fails; empty where it fails none."""
    if feasible.all():
        return np.full(len(feasible), "", dtype=object)
    named = [*((rule.name, rule.holds) for rule in answer.rules), *answer.fits]
    codes = np.zeros(len(feasible), dtype=np.int16)
    for code, (_, mask) in reversed(list(enumerate(named, 1))):
        if not np.all(mask):
            codes = np.where(answer.flat(mask), codes, np.int16(code))
    return np.array(["", *(name for name, _ in named)], dtype=object)[codes]
