"""A sweep as a stream of chunks: structure outside, boxes of sizes inside, never more than one chunk in memory."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial

import numpy as np

from rooflinecli.core.errors import Infeasible, RooflineError, UsageError, unknown
from rooflinecli.core.num import Number
from rooflinecli.core.parallel_map import Spread
from rooflinecli.core.record import MISSING, at, leaves
from rooflinecli.engine import legality
from rooflinecli.engine.phase_answer import Resources
from rooflinecli.questions.conditions import condition
from rooflinecli.questions.sweep.axes import Space
from rooflinecli.questions.sweep.evaluate_block import Box, Choice, SweepBlock, answer, boxes, missing, request_of
from rooflinecli.specs.quantities import COST, canonical
from rooflinecli.specs.request import PHASES, Request

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


class Filter:
    """Raises UsageError for a condition on a phase that is not swept."""

    def __init__(self, space: Space, conditions: list[str], feasible_only: bool):
        self.conditions = [condition(text) for text in conditions]
        self.feasible_only, self.known = feasible_only, False
        for c in self.conditions:
            head = canonical(c.quantity).partition(".")[0]
            if head not in (*PHASES, "layout", "cost"):
                raise unknown("quantity", c.quantity, [*(f"{p}.time_s" for p in space.phases), "layout.devices"])
            if head not in (*space.phases, "layout", "cost"):
                raise UsageError(
                    f"--where {c.written!r}: this sweep has {', '.join(space.phases)}, layout and cost; add --phase to it"
                )

    def __call__(self, answer: SweepBlock, table: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The rows of `table` that pass."""
        if not self.conditions and not self.feasible_only:
            return table
        if answer.phases and not self.known:  # refuses a condition on a quantity that no answer has
            select(answer, [c.quantity for c in self.conditions])
            self.known = True
        keep = answer.flat(legality.all_hold(answer.rules))  # a layout that does not exist meets no condition
        for c in self.conditions:
            with np.errstate(invalid="ignore"):
                keep = keep & answer.flat(c.holds(pick(answer, c.quantity)))
        if self.feasible_only:
            keep = keep & table["feasible"]
        return {name: column[keep] if hasattr(column, "dtype") else column for name, column in table.items()}


Table = dict[str, np.ndarray]  # column -> its values
CHUNK = 65536


@dataclass(frozen=True)
class SweepColumns:
    """The columns of a sweep: structure that varies, sizes that vary, quantities."""

    structure: list[str]
    axes: list[str]
    quantities: list[str]

    @property
    def names(self) -> list[str]:
        return [*self.structure, *self.axes, *self.quantities, "feasible", "violation"]


def layout(space: Space, wanted: list[str] | None) -> SweepColumns:
    """What the sweep will print. Raises UsageError for an unknown column, or when no structure can run at all."""
    first: RooflineError | None = None
    for choice in choices(space):
        try:
            probe = answer(request_of(choice, space.phases), space.sizes, tuple((0, 1) for _ in space.sizes))
        except (UsageError, Infeasible) as error:
            first = first or error
            continue
        swept = [a.name for a in space.swept]
        return SweepColumns(
            [a.name for a in space.structure if a.name in swept],
            [a.name for a in space.sizes if a.name in swept],
            select(probe, wanted),
        )
    raise first or UsageError("nothing to sweep")


def choices(space: Space) -> Iterator[Choice]:
    """Every choice of structure, the last axis fastest."""
    for values in itertools.product(*(a.values for a in space.structure)):
        yield {a.name: v for a, v in zip(space.structure, values, strict=True)}


def answers(space: Space, start: int, stop: int, chunk: int = CHUNK) -> Iterator[tuple[Choice, SweepBlock]]:
    """(structure, answer) box by box for points [start, stop), in order."""
    for choice, parts in work(space, start, stop, chunk):
        request = request_of(choice, space.phases)
        for box in parts:
            yield choice, _answer(request, space, box)


def work(space: Space, start: int, stop: int, chunk: int = CHUNK) -> Iterator[tuple[Choice, Iterator[Box]]]:
    """(structure, its boxes) of points [start, stop), in order."""
    shape = tuple(len(a.values) for a in space.sizes)
    per = math.prod(shape)
    for i, choice in enumerate(choices(space)):
        low, high = max(start - i * per, 0), min(stop - i * per, per)
        if low < high:
            yield choice, boxes(shape, low, high, chunk)


def _answer(request: Request, space: Space, box: Box) -> SweepBlock:
    """A box, or why it has none."""
    try:
        return answer(request, space.sizes, box)
    except (UsageError, Infeasible) as error:
        return missing(request, space.sizes, box, str(error))


def spread(
    space: Space, shown: SweepColumns, keep: Filter, start: int, stop: int, over: Spread, chunk: int = CHUNK
) -> Iterator[tuple[Table, int]]:
    """(rows that pass, points) of the same boxes as `answers`, each worked out wherever `over` puts it."""
    items = [(choice, box) for choice, parts in work(space, start, stop, chunk) for box in parts]
    yield from over(partial(_elsewhere, space, shown, keep), items)


def _elsewhere(space: Space, shown: SweepColumns, keep: Filter, item: tuple[Choice, Box]) -> tuple[Table, int]:
    choice, box = item
    found = _answer(request_of(choice, space.phases), space, box)
    return keep(found, table(shown, choice, found)), found.points


def table(shown: SweepColumns, choice: Choice, found: SweepBlock) -> Table:
    """The columns of a box; those of structure are one value for all of it."""
    return {**{name: choice[name] for name in shown.structure}, **flat(found, shown.axes, shown.quantities)}
