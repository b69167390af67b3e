"""A sweep as a stream of chunks: structure outside, boxes of sizes inside, never more than one chunk in memory.

A box is `estimate`'s own arithmetic on arrays. Each size that varies gets an array dimension of its own, so a term that depends on
few sizes costs few operations and the results broadcast only at the end. The longest axis is laid out last, where numpy is fastest.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import numpy as np

from rooflinecli.core.errors import Infeasible, RooflineError, UsageError, unknown
from rooflinecli.core.num import Number
from rooflinecli.core.parallel_map import Workers
from rooflinecli.core.record import MISSING, Json, at, leaves
from rooflinecli.engine import build_request, legality, option_conflicts
from rooflinecli.engine.choose import ChosenLayout
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.evaluate import answer as engine_answer
from rooflinecli.engine.legality import LegalityRule
from rooflinecli.engine.phase_answer import DecodeAnswer, PhaseAnswer, TrainAnswer
from rooflinecli.engine.serving_load import LEAST, arrivals
from rooflinecli.layers.parameter_counts import parameters
from rooflinecli.price import overrides
from rooflinecli.questions.conditions import condition
from rooflinecli.questions.estimate.answer import choose_layouts, cost, warn_of_foreign
from rooflinecli.questions.estimate.answer_types import Cost
from rooflinecli.questions.goodput.question import with_failures
from rooflinecli.questions.sweep.axes import Axis, Space, space
from rooflinecli.specs.hardware import load_hardware
from rooflinecli.specs.layout import SIZES, Layout
from rooflinecli.specs.model import load_model
from rooflinecli.specs.options import OPTIONS
from rooflinecli.specs.quantities import COST, canonical
from rooflinecli.specs.request import PHASES, Request

if TYPE_CHECKING:
    from rooflinecli.questions.sweep.question import Sweep, SweepAnswer

Box = tuple[tuple[int, int], ...]  # [start, stop) on every axis


def shard(points: int, text: str | None) -> tuple[int, int]:
    """[start, stop) of shard `i/n`, i from 1; all of it without one. Raises UsageError for anything else."""
    if text is None:
        return 0, points
    index, _, count = text.partition("/")
    if not (index.isdigit() and count.isdigit()) or not 1 <= int(index) <= int(count):
        raise UsageError(f"--shard {text}: write i/n with i from 1 to n, for example --shard 3/16")
    i, n = int(index), int(count)
    return points * (i - 1) // n, points * i // n


def boxes(shape: tuple[int, ...], start: int, stop: int, limit: int) -> Iterator[Box]:
    """Cut points [start, stop) of a grid into boxes of at most `limit` points, in order."""
    if not shape:
        yield from [()] if start < stop else []
        return
    inner = math.prod(shape[1:])
    whole = tuple((0, size) for size in shape[1:])
    while start < stop:
        row, offset = divmod(start, inner)
        rows = 0 if offset else min(stop - start, limit) // inner
        if rows:
            yield ((row, row + rows), *whole)
        else:  # a part of a row, or a row beyond the limit
            rows = 1
            for box in boxes(shape[1:], offset, min(stop - row * inner, inner), limit):
                yield ((row, row + 1), *box)
        start = (row + rows) * inner


Fit = tuple[str, Number]  # `decode.memory`, and where it is enough


Choice = dict[str, Number]  # structure axis -> its value


@dataclass
class SweepBlock:
    """What `estimate` says of every point of a box, as numbers and arrays that broadcast to `shape`."""

    phases: dict[str, PhaseAnswer]
    layout: dict[str, Number]
    cost: Cost
    rules: list[LegalityRule]
    fits: list[Fit]
    shape: tuple[int, ...]
    order: tuple[int, ...]
    axes: dict[str, Number]
    roofs: dict[str, Number]

    def flat(self, value: Number) -> np.ndarray:
        """One value per point, in the order of points."""
        return np.broadcast_to(value, self.shape).transpose(self.order).reshape(-1)

    @property
    def points(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))


def request_of(choice: Choice, phases: tuple[str, ...]) -> Request:
    """The question of one choice of structure, sizes left open."""
    words = {OPTIONS[k].field: v for k, v in choice.items() if k not in ("model", "hw")}
    model = load_model(choice["model"])
    if implied := build_request.engine_implied(model, words.get("weight_dtype")):
        words.setdefault("engine", implied)
    return Request(model, load_hardware(choice["hw"]), phases=phases, **words)


def lay_out(
    axes: tuple[Axis, ...], box: Box, request: Request
) -> tuple[dict[str, Number], tuple[int, ...], tuple[int, ...]]:
    """Values of every axis inside the box, the shape they broadcast to, and the transpose back to the order of points."""
    lengths = [stop - start for start, stop in box]
    alone = all(length == 1 for length in lengths)
    places = sorted(range(len(box)), key=lambda i: lengths[i])  # place -> axis
    shape = tuple(lengths[i] for i in places)
    found: dict[str, Number] = {}
    for i, (axis, (start, stop)) in enumerate(zip(axes, box, strict=True)):
        scale = overrides.figure(request.hardware, axis.name).si if axis.relative else 1.0
        if alone or len(axis.values) == 1:
            found[axis.name] = axis.values[start] * scale if axis.relative else axis.values[start]
            continue
        dims = [1] * len(box)
        dims[places.index(i)] = stop - start
        found[axis.name] = np.array(axis.values[start:stop], dtype=np.float64).reshape(dims) * scale
    order = tuple(places.index(i) for i in range(len(box)))
    return found, shape, order


def answer(request: Request, axes: tuple[Axis, ...], box: Box, chooses: bool = False) -> SweepBlock:
    """Evaluate a box, of one point where its layout is chosen. Raises UsageError for a structure that does not exist (a dtype the chip lacks)."""
    sizes, shape, order = lay_out(axes, box, request)
    question, override, fields = question_of(request, axes, sizes)
    with np.errstate(all="ignore"):
        ctx = EstimateContext(question, override=override)
        option_conflicts.check(ctx)
        layouts = layouts_of(ctx, fields, override, chooses)
        results = {phase: engine_answer(ctx, layout, phase) for phase, layout in layouts.items()}
        money = cost(ctx, results, layouts)
        if isinstance(train := results.get("train"), TrainAnswer) and train.run_s is not None:
            with_failures(train, money, layouts["train"].devices, float(parameters(question.model).total))
        rules = [rule for phase, layout in layouts.items() for rule in legality.rules(ctx, layout, phase)]
    fits = [(f"{phase}.memory", found.memory.fits) for phase, found in results.items()]
    if question.qps is not None:
        with np.errstate(all="ignore"):
            for layout in layouts.values():
                rules.append(_rule("prompts leave time to decode", arrivals(ctx, layout)[2] < 1))
            if isinstance(decode := results.get("decode"), DecodeAnswer):
                keeps_up = (decode.batch <= decode.max_batch) | (
                    decode.max_batch < 1
                )  # one that holds none does not fit
                rules.append(_rule("replicas keep up with the rate", keeps_up))
    layout = next(iter(layouts.values()))
    shown = {name: getattr(layout, name) for name in ("devices", *SIZES, "zero")}
    words = {name: np.array(getattr(layout, name), dtype=object) for name in ("recompute", "sequence_parallel")}
    shown |= words if "train" in layouts else {}
    roofs = {"peak": ctx.chip.peak(ctx.formats.compute), "bandwidth": ctx.chip.bandwidth}
    return SweepBlock(results, shown, money, rules, fits, shape, order, sizes, roofs)


def _rule(name: str, holds: Number) -> LegalityRule:
    return LegalityRule(name, (), holds, lambda: name)


def question_of(
    request: Request, axes: tuple[Axis, ...], sizes: dict[str, Number]
) -> tuple[Request, dict[str, Number], dict[str, Number]]:
    """The request with its workload filled in, the hardware figures overridden, and every size by its field."""
    override = {a.name: sizes[a.name] for a in axes if a.kind == "figure"}
    fields = {OPTIONS[a.name].field: sizes[a.name] for a in axes if a.kind == "number"}
    if "train" in request.phases and any(a.name == "batch" and a.tokens for a in axes):
        fields["batch"] = build_request.whole_sequences(fields["batch"], fields.get("seq"), request.model)
    return replace(request, **{k: v for k, v in fields.items() if k not in (*SIZES, "devices")}), override, fields


def missing(request: Request, axes: tuple[Axis, ...], box: Box, why: str) -> SweepBlock:
    """A box of points whose structure does not exist on this chip: every one infeasible, for the reason given."""
    sizes, shape, order = lay_out(axes, box, request)
    return SweepBlock({}, {}, Cost(), [_rule(why, np.bool_(False))], [], shape, order, sizes, {})


def layouts_of(
    ctx: EstimateContext, fields: dict[str, Number], override: dict[str, Number], chooses: bool
) -> dict[str, Layout]:
    """The layout of each phase: as `estimate` chooses it, else, or where it finds none, with sizes left out as 1."""
    phases, choices = option_conflicts.supported_phases(ctx), dict[str, ChosenLayout]()
    if chooses:
        sizes = {name: fields[name] for name in (*SIZES, "devices") if name in fields}
        with suppress(UsageError, Infeasible):
            asked = replace(ctx.request, phases=phases, **sizes)
            choices, _ = choose_layouts(EstimateContext(asked, override=override))
    return {
        phase: choices[phase].layout if phase in choices else layout_of(ctx.request, phase, fields) for phase in phases
    }


def layout_of(request: Request, phase: str, sizes: dict[str, Number]) -> Layout:
    """The layout given: sizes default to 1 (dp to what -n leaves), ZeRO to 1, recomputation to none."""
    given = {name: sizes[name] for name in SIZES if name in sizes}
    if "devices" in sizes and "dp" not in given:
        given["dp"] = sizes["devices"] / (given.get("tp", 1.0) * given.get("pp", 1.0) * given.get("cp", 1.0))
    parallel = request.sequence_parallel
    if phase != "train":
        if request.attention_dp:
            ranks = legality.attention_dp_sizes(request, given.get("tp", 1.0), given.get("dp", 1.0), given.get("ep"))
            given |= dict(zip(("tp", "dp", "ep"), ranks, strict=True))
        return Layout(
            **given,
            zero=0,
            sequence_parallel=bool(parallel),
            flash=request.flash,
            **legality.layout_fields(request, phase),
        )
    if parallel is None:  # at tp = 1 it changes nothing, so a block may decide it once
        parallel = bool(np.any(np.greater(given.get("tp", 1.0), 1)))
    return Layout(
        **given, zero=1 if request.zero is None else request.zero, sequence_parallel=parallel, recompute=request.recompute or "none",
        flash=request.flash, **legality.layout_fields(request, phase),
    )  # fmt: skip


ALWAYS = ("feasible", "violation")  # columns of every sweep
CHOSEN = ("devices", "tp", "pp")  # of the layout, where a sweep chooses it
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
        kept = [
            f"{phase}.{name}"
            for phase, found in answer.phases.items()
            for name in DEFAULT
            if "time_s" in found or name != "time_s"
        ]
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
        named = dict(answer.phases[head].resources_s.entries())
        labels = sorted(named, reverse=True)  # a tie goes to the name that sorts last, as in estimate
        stack = np.stack([np.broadcast_to(named[k], answer.shape) for k in labels])
        if rest == "bottleneck":
            return np.asarray(np.array(labels, dtype=object)[stack.argmax(axis=0)])
        ranked = np.sort(stack, axis=0)
        with np.errstate(all="ignore"):
            return np.asarray(ranked[-1] / ranked[-2])
    value = at({"layout": answer.layout, "cost": answer.cost}.get(head, answer.phases.get(head)), rest)
    return np.nan if value is None or value is MISSING else value


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


def columns(space: Space, wanted: list[str] | None) -> SweepColumns:
    """What the sweep will print. Raises UsageError for an unknown column, or when no structure can run at all."""
    first: RooflineError | None = None
    for choice in choices(space):
        request, sizes = request_of(choice, space.phases), space.sizes
        if request.qps is not None or any(
            axis.name == "qps" for axis in sizes
        ):  # columns are those of a rate that is sustained
            request, sizes = replace(request, qps=LEAST), tuple(axis for axis in sizes if axis.name != "qps")
        try:
            probe = answer(request, sizes, tuple((0, 1) for _ in sizes), space.chooses)
        except (UsageError, Infeasible) as error:
            first = first or error
            continue
        option_conflicts.warn_of_idle(_idle(space))
        swept = [a.name for a in space.swept]
        return SweepColumns(
            [a.name for a in space.structure if a.name in swept],
            [a.name for a in space.sizes if a.name in swept],
            [*(f"layout.{size}" for size in CHOSEN if space.chooses and not wanted), *select(probe, wanted)],
        )
    raise first or UsageError("nothing to sweep")


def _idle(space: Space) -> Iterator[dict[str, str]]:
    """What changes nothing in each structure, at the largest sizes."""
    sizes: Json = {OPTIONS[a.name].field: max(a.values) for a in space.sizes if a.kind == "number"}
    if not space.chooses:
        sizes = dict.fromkeys(SIZES, 1.0) | sizes
    written = {a.name for a in (*space.structure, *space.sizes) if a.kind != "figure"} - option_conflicts.RANKING
    for choice in choices(space):
        ctx = EstimateContext(replace(request_of(choice, space.phases), **sizes))
        warn_of_foreign(ctx)
        yield option_conflicts.idle(ctx, written)


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
    per, chunk = math.prod(shape), 1 if space.chooses else chunk
    for i, choice in enumerate(choices(space)):
        low, high = max(start - i * per, 0), min(stop - i * per, per)
        if low < high:
            yield choice, boxes(shape, low, high, chunk)


def _answer(request: Request, space: Space, box: Box) -> SweepBlock:
    """A box, or why it has none."""
    try:
        return answer(request, space.sizes, box, space.chooses)
    except (UsageError, Infeasible) as error:
        return missing(request, space.sizes, box, str(error))


class SweepStudy:
    """A sweep set up: its space and columns, which rows pass, and the points [start, stop) of its part."""

    def __init__(self, question: Sweep) -> None:
        named = [*(question.wanted or ()), *(condition(text).quantity for text in question.where)]
        self.space = space(question.options(), list(question.figures) or None, map(canonical, named))
        self.shown = columns(self.space, question.wanted)
        self.keep = Filter(self.space, list(question.where), question.feasible_only)
        self.start, self.stop = shard(self.space.points, question.part)

    def about(self) -> Json:
        """What is swept, and the columns: the head of an answer."""
        space = self.space
        return {
            "axes": {a.name: _ends(a.values) for a in (*space.structure, *space.sizes)},
            "phases": list(space.phases),
            "columns": self.shown.names,
            "first": self.start,
            "stop": self.stop,
            "of": space.points,
        }

    def gathered(self) -> SweepAnswer:
        """All points. Raises UsageError for more than fit on a page."""
        from rooflinecli.questions.sweep.question import SweepAnswer

        if self.stop - self.start > MOST_GATHERED:
            many = f"{self.stop - self.start:,} points are more than the {MOST_GATHERED:,} of one answer"
            raise UsageError(f"{many}; give shorter ranges, or stream them: `roofline sweep --format csv --out FILE`")
        answer = SweepAnswer(**self.about(), points=[], space=self.space)
        for found, _ in self.tables(seen=lambda choice, block: answer.blocks.append((choice, block))):
            answer.points += points(found)
        return answer

    def rows(self, choice: Choice, found: SweepBlock) -> tuple[Table, int]:
        """(rows that pass, points they were chosen from) of a box."""
        return self.keep(found, table(self.shown, choice, found)), found.points

    def tables(
        self, workers: Workers | None = None, seen: Callable[[Choice, SweepBlock], None] | None = None
    ) -> Iterator[tuple[Table, int]]:
        """The rows box by box in order, each worked out here and shown to `seen`, or wherever `over` puts it."""
        if workers is not None:
            boxes = [(choice, box) for choice, parts in work(self.space, self.start, self.stop) for box in parts]
            yield from workers(self._elsewhere, boxes)
            return
        for choice, found in answers(self.space, self.start, self.stop):
            yield self.rows(choice, found)
            if seen is not None:
                seen(choice, found)

    def _elsewhere(self, item: tuple[Choice, Box]) -> tuple[Table, int]:
        choice, box = item
        return self.rows(choice, _answer(request_of(choice, self.space.phases), self.space, box))


MOST_GATHERED = 20_000


def points(found: Table) -> list[Json]:
    """A value by column for each row."""
    every = [v.tolist() if isinstance(v, np.ndarray) else [v] * len(found["feasible"]) for v in found.values()]
    return [dict(zip(found, row, strict=True)) for row in zip(*every, strict=True)]


def _ends(values: tuple[Number, ...]) -> list[object]:
    """An axis for the head: all of it, or its ends when it is long."""
    whole = [int(v) if isinstance(v, float) and v.is_integer() else v for v in values]  # infinity is none
    return whole if len(whole) <= 64 else [*whole[:3], f"… {len(whole) - 4} more …", whole[-1]]


def table(shown: SweepColumns, choice: Choice, found: SweepBlock) -> Table:
    """The columns of a box; those of structure are one value for all of it."""
    return {**{name: choice[name] for name in shown.structure}, **flat(found, shown.axes, shown.quantities)}
