"""What would change the winner: each hardware figure and constant moved by itself, every contender priced again, layouts kept.

A contender is a plan on a chip; what is compared follows the time of one phase, at the end that ranks. For every figure: the lead over the
best of the others with the figure a tenth lower and a tenth higher, and the nearest value at which another wins.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from rooflinecli.core.errors import UsageError
from rooflinecli.core.num import Number
from rooflinecli.engine import build_request, legality
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.evaluate import PHASES, time_at_bound
from rooflinecli.formulas import scaling
from rooflinecli.price import overrides
from rooflinecli.price.chip import Chip
from rooflinecli.questions import multi_chip
from rooflinecli.questions.conditions import phase_of
from rooflinecli.questions.estimate.answer import choose_layouts, context_of
from rooflinecli.questions.multi_chip import Options
from rooflinecli.questions.search.question import InstanceLayout, SearchAnswer, ServingRow, TrainingLayout, TrainingRow
from rooflinecli.questions.sensitivity import answer_types as types
from rooflinecli.specs.efficiency import CONSTANTS, SETTINGS
from rooflinecli.specs.layout import OPEN, SIZES, Layout
from rooflinecli.specs.quantities import BLENDED, scales_with_time
from rooflinecli.specs.request import Request

STEP = 1e-4
_SILENT = ("memory.capacity", "price", "power", "devices_per_host")  # time does not follow from them, or only in jumps
_NOT_TIMES = ("error", "p", "known", "simple")


class ScaledConstant(dict[str, Number]):
    """Overrides in which one figure, whatever its value, is multiplied by a factor."""

    def __init__(self, base: dict[str, Number], path: str, factor: Number):
        super().__init__({**base, path: factor})
        self.base, self.path, self.factor = base, path, factor

    def get(self, key: str, default: Number = None) -> Number:
        value = self.base.get(key, default)
        return value * self.factor if key == self.path else value


def elasticities(
    request: Request, phase: str, layout: Layout, override: dict[str, Number] | None = None
) -> list[types.Elasticity]:
    """Elasticities of the expected time, strongest first; figures the time does not feel are left out."""
    base = override or {}
    # a chip of its own, so that its constants are only those used here
    ctx = EstimateContext(request, override=ScaledConstant(base, "memory.bandwidth", 1.0))
    PHASES[phase](ctx, layout)
    found = []
    for path, value in figures(ctx.chip).items():
        high, low = (
            float(PHASES[phase](EstimateContext(request, override=ScaledConstant(base, path, factor)), layout).time_s)
            for factor in (1 + STEP, 1 - STEP)
        )
        slope = (math.log(high) - math.log(low)) / (math.log1p(STEP) - math.log1p(-STEP))
        if abs(slope) > 1e-9:
            found.append(types.Elasticity(figure=path, value=value, elasticity=slope))
    return sorted(found, key=lambda row: -abs(row.elasticity))


def figures(chip: Chip) -> dict[str, types.Value]:
    """What a priced chip read: figures by path, and constants by class and name (a list where dtypes or levels differ)."""
    found: dict[str, types.Value] = {
        path: f.si for path, f in overrides.figures(chip.spec).items() if path not in _SILENT
    }
    constants: dict[str, list[float]] = {}
    known = overrides.classes(chip.spec)  # what no file says has nothing to be set
    for (_, kind, *_rest), entry in chip._constants.items():
        for name, value in vars(entry).items() if kind in known else ():
            if name not in _NOT_TIMES and isinstance(value, float) and value and math.isfinite(value):
                constants.setdefault(f"efficiency.{kind}.{name}", []).append(value)
    for path, values in constants.items():
        distinct = list(dict.fromkeys(values))
        if distinct != [1.0]:  # a fraction at one is no constant of this chip
            found[path] = distinct[0] if len(distinct) == 1 else distinct
    return found


def of_point(options: Options, set_: list[str] | None) -> types.SensitivityAnswer:
    """Elasticities of a sweep's single point, for every phase asked for. Raises UsageError for more points than one."""
    from rooflinecli.questions.sweep.axes import space
    from rooflinecli.questions.sweep.run import choices, layouts_of, question_of, request_of

    grid = space(options, set_)
    if grid.points != 1:
        raise UsageError(
            f"--sensitivity requires a single point; these ranges span {grid.points:,}; give one value per option"
        )
    base = request_of(next(iter(choices(grid))), grid.phases)
    request, override, sizes = question_of(base, grid.sizes, {a.name: a.values[0] for a in grid.sizes})
    layouts = layouts_of(EstimateContext(request, override=override), sizes, override, grid.chooses)
    return types.SensitivityAnswer(
        schema="roofline/sensitivity/1",
        model=request.model.name,
        hardware=request.hardware.name,
        phases={phase: elasticities(request, phase, layout, override) for phase, layout in layouts.items()},
    )


def with_layout(options: Options, layout: TrainingLayout | InstanceLayout) -> tuple[Request, str, Layout]:
    """A row of a search as a request, the phase whose time it is ranked by (a serving instance: decode), and its layout."""
    training = isinstance(layout, TrainingLayout)
    chosen = {"n", *OPEN, *(() if training else ("batch",))}  # the layout has them
    request = build_request.request({k: v for k, v in options.items() if k not in chosen})
    given = legality.layout_fields(request, "train" if training else "serve") | {"flash": request.flash}
    given |= {k: float(value) for k in SIZES if (value := layout.get(k)) is not None}
    if isinstance(layout, TrainingLayout):
        given |= {k: layout[k] for k in ("zero", "recompute", "sequence_parallel")}
        return request, "train", Layout(**given)
    return replace(request, concurrency=layout.batch), "decode", Layout(zero=0, **given)


WIDEST, POINTS = math.log(4.0), 161  # how far a figure is moved either way, and in how many steps
TENTH = (math.log(0.9), math.log(1.1))
# of the step that holds a crossing: an estimate of 31 factors costs about what one of a single factor does
REFINEMENTS, PARTS = 8, 32
# class of operation -> what `roofline measure` runs for it
_MEASURED = {
    word: suite
    for suite, words in {
        "matmul": "matmul peak",
        "attention": "attention",
        "elementwise": "elementwise gather optimizer",
        "collectives": "collective all_reduce permute exchange all_to_all network",
        "bandwidth": "memory",
    }.items()
    for word in words.split()
}


@dataclass(eq=False)
class RankedCandidate:
    """A plan for one phase. `weight` times its time is what is compared, less being better; `price` is per device-hour."""

    label: str
    chip: str
    request: Request
    phase: str
    layout: Layout
    weight: float = 1.0
    price: float | None = None
    bound: str = "pessimistic"
    ctx: EstimateContext = field(init=False)
    base: float = field(init=False)

    def __post_init__(self) -> None:
        # a chip of its own, to say what it read
        self.ctx = EstimateContext(self.request, override=ScaledConstant({}, "memory.bandwidth", 1.0))
        self.base = float(self._held(self.ctx))

    def _held(self, ctx: EstimateContext) -> Number:
        return time_at_bound(PHASES[self.phase](ctx, self.layout), self.bound)

    def times(self, path: str, factor: Number) -> Number:
        """What is compared, with one figure of this chip multiplied; arrays give arrays."""
        return self.weight * self._held(EstimateContext(self.request, override=ScaledConstant({}, path, factor)))

    @property
    def score(self) -> float:
        """What is compared, as it is."""
        return self.weight * self.base

    def device_hours(self) -> float:
        """Device-hours of a token, at the end that ranks."""
        found = PHASES[self.phase](self.ctx, self.layout)
        tokens = found.tokens_per_s * found.time_s
        return float(scaling.device_hours(self.ctx.lifted(self.layout).devices, self.base)) / float(tokens)


def tornado(compared: str, candidates: Sequence[RankedCandidate]) -> types.Tornado:
    """The best of the candidates by `compared` against the others: rows by how near a flip is, then by how far the lead moves."""
    contenders = sorted(candidates, key=lambda c: c.score)
    first, others = contenders[0], contenders[1:]
    lead = min(c.score for c in others) / first.score - 1
    rows: list[types.TornadoRow] = []
    for chip in dict.fromkeys(c.chip for c in contenders):
        mine = [c for c in contenders if c.chip == chip]
        known: dict[str, types.Value] = {}
        for contender in mine:
            felt = figures(contender.ctx.chip)
            known = {k: v for k, v in felt.items() if not k.rpartition(".")[2].startswith("error")} | known
        errors = _errors(mine)
        rows += [
            row
            for path, value in known.items()
            if (row := _row(contenders, chip, path, value, errors.get(path), lead)) is not None
        ]
    rows.sort(key=lambda r: (r.distance, -abs(r.lead_at_most - r.lead_at_least)))
    prices = [price for other in others if (price := break_even(first, other)) is not None]
    # the constant whose flip is the smallest part of its error
    doubted = min(
        (r for r in rows if r.within_error), key=lambda r: r.distance / math.log1p(r.error or 0.0), default=None
    )
    resolving = None
    if doubted is not None:
        command = measurement(doubted.figure, doubted.chip, first)
        resolving = {"chip": doubted.chip, "figure": doubted.figure, "command": command}
    return types.Tornado(
        compared=compared, first=first.label, lead=lead, rows=rows, resolving_measurement=resolving,
        break_even=prices[0] if prices else None,
    )  # fmt: skip


def _errors(mine: Sequence[RankedCandidate]) -> dict[str, float]:
    """Path of a constant -> the relative error of its class, 80%; the largest where several entries were read."""
    found: dict[str, float] = {}
    for contender in mine:
        for (_, kind, *_rest), entry in contender.ctx.chip._constants.items():
            error = float(getattr(entry, "error", 0.0) or 0.0)
            for name in vars(entry):
                path = f"efficiency.{kind}.{name}"
                found[path] = max(found.get(path, 0.0), error)
    return found


def _row(
    contenders: Sequence[RankedCandidate], chip: str, path: str, value: types.Value, error: float | None, lead: float
) -> types.TornadoRow | None:
    """One figure of one chip; None where no contender's standing feels it."""
    steps = np.linspace(-WIDEST, WIDEST, POINTS)
    gaps = _gaps(contenders, chip, path, np.exp(steps))
    if float(np.max(gaps) - np.min(gaps)) < 1e-9 and abs(float(gaps[0]) - math.log1p(lead)) < 1e-9:
        return None
    factor = _flip(contenders, chip, path, steps, gaps)
    near = [math.expm1(float(np.interp(x, steps, gaps))) for x in TENTH]
    known = CONSTANTS.get(path.rpartition(".")[2]) if path.startswith("efficiency.") else None
    each = value if isinstance(value, list) else [value]
    if factor is not None and known is not None and known.most is not None and max(each) * factor > known.most:
        factor = None  # no such constant may be: a fraction stays one
    winner = None
    if factor is not None:  # who is first just beyond the flip
        beyond = factor * math.exp(math.copysign(1e-6, math.log(factor) or 1.0))
        scores = {c.label: float(c.times(path, beyond)) if c.chip == chip else c.score for c in contenders}
        winner = min(scores, key=lambda label: scores[label])
    return types.TornadoRow(
        chip=chip, figure=path, value=value, unit=overrides.unit(next(c for c in contenders if c.chip == chip).ctx.chip.spec, path),
        lead_at_least=min(near), lead_at_most=max(near), factor=factor,
        flip_value=None if factor is None else [v * factor for v in value] if isinstance(value, list) else value * factor,
        winner_after_flip=winner, error=error, within_error=bool(factor and error and abs(math.log(factor)) <= math.log1p(error)),
    )  # fmt: skip


def _gaps(contenders: Sequence[RankedCandidate], chip: str, path: str, factors: np.ndarray) -> np.ndarray:
    """ln of the best of the others over the first, for every factor."""

    def log(c: RankedCandidate) -> np.ndarray:
        value = c.times(path, factors) if c.chip == chip else c.score
        return np.broadcast_to(np.log(value), factors.shape)

    return np.asarray(np.minimum.reduce([log(c) for c in contenders[1:]]) - log(contenders[0]))


def _flip(
    contenders: Sequence[RankedCandidate], chip: str, path: str, steps: np.ndarray, gaps: np.ndarray
) -> float | None:
    """The factor nearest to one at which the lead is gone, to the last digits."""
    crossed = np.flatnonzero(gaps < -1e-12)
    if not len(crossed):
        return None
    middle = len(steps) // 2
    up, down = crossed[crossed > middle], crossed[crossed < middle]
    ends = [(steps[i - 1], steps[i]) for i in up[:1]] + [(steps[i + 1], steps[i]) for i in down[-1:]]
    for _ in range(REFINEMENTS if ends else 0):
        near, far = np.array(ends).T
        parts = np.linspace(near, far, PARTS + 1, axis=1)
        lost = _gaps(contenders, chip, path, np.exp(parts.ravel())).reshape(parts.shape) < 0
        lost[:, 0], lost[:, -1] = False, True
        ends = [(row[i - 1], row[i]) for row, i in zip(parts, lost.argmax(axis=1), strict=True)]
    found = [far for _, far in ends]
    return math.exp(min(found, key=abs)) if found else None


def measurement(path: str, chip: str, contender: RankedCandidate) -> str:
    """The command that pins a figure down: kernels by `roofline measure`, what only a whole run shows by `roofline calibrate`."""
    parts = path.split(".")
    kind = parts[1] if parts[0] == "efficiency" and len(parts) > 1 else parts[0]
    named = next((verb for word, verb in _MEASURED.items() if word in kind), None)
    if kind in SETTINGS or named is None:
        log = "training.log" if contender.phase == "train" else "bench.json"
        return f"roofline calibrate {log} --hw {chip}"
    return f"roofline measure {named}"


def break_even(one: RankedCandidate, other: RankedCandidate) -> types.BreakEven | None:
    """The price of the second's devices at which it costs as much as the first; of the first's, where only the second has one.

    None for two layouts of one chip, whose price moves both, and where neither has a price.
    """
    if one.chip == other.chip or (one.price is None and other.price is None):
        return None
    if one.price is None:
        one, other = other, one
    assert one.price is not None  # one of them has one
    return types.BreakEven(
        chip=other.chip,
        against=one.chip,
        usd_per_device_hour=float(one.price * one.device_hours() / other.device_hours()),  # where both bills are equal
        current_value=other.price,
    )


MOST = 5  # rows that are weighed, and the best of every chip


def of_search(answer: SearchAnswer, options: Options) -> types.Tornado | None:
    """The tornado of a search; None where one row is shown, or the rows are a Pareto front. Layouts and batches stay as they are.

    Rows are compared by the first objective that follows a time; where none does (devices, memory), by the cost of a token, else
    by the throughput of a device.
    """
    every: list[TrainingRow | ServingRow] = [*answer.results]
    rows = [row for place, row in enumerate(every) if place < MOST or row.best_of_chip]
    if len(rows) < 2 or answer.pareto:
        return None
    quantity = next((name for name in answer.objective if _direction(name)), None)
    if quantity is None and answer.phase == "train":
        quantity = "train.time_s"
    elif quantity is None:
        priced = all(isinstance(row, ServingRow) and BLENDED in row.serve for row in rows)
        quantity = f"serve.{BLENDED}" if priced else "serve.tokens_per_s_per_device"
    chips, found = multi_chip.each(options), []
    for place, row in enumerate(rows, 1):
        chip = row.chip or next(iter(chips))
        request, phase, layout = with_layout(chips[chip], row.layout)
        if isinstance(row, ServingRow):
            score = row.serve[quantity.partition(".")[2]]
        else:
            score = row.score.get(quantity, row.time_s)
        candidate = RankedCandidate(str(row.rank or place), chip, request, phase, layout, bound=answer.bound)
        found.append(_weighed(candidate, score, _direction(quantity)))
    return tornado(quantity, found)


def of_comparison(
    ranked: Iterable[tuple[int, str, float]], options: dict[str, Options], by: str, bound: str
) -> types.Tornado:
    """The tornado of a comparison: place, chip and value of the ranked rows, by chip the options of its estimate."""
    phase, found = phase_of(by), []
    for place, chip, value in ranked:
        ctx = context_of(build_request.request(options[chip]))
        layout = ctx.lifted(choose_layouts(ctx)[0][phase].layout)
        candidate = RankedCandidate(str(place), chip, ctx.request, phase, layout, bound=bound)
        found.append(_weighed(candidate, value, scales_with_time(by)))
    return tornado(by, found)


def _weighed(candidate: RankedCandidate, score: float, direction: int) -> RankedCandidate:
    """The candidate with its price, and the weight by which its time is its present score; a rate counts by its inverse."""
    seconds = float(PHASES[candidate.phase](candidate.ctx, candidate.layout).time_s)
    candidate.weight = score / seconds if direction > 0 else 1 / (score * seconds)
    candidate.price = None if candidate.ctx.price is None else float(candidate.ctx.price)
    return candidate


def _direction(quantity: str) -> int:
    """1 where a quantity grows with its time, -1 where it falls, 0 where it does not follow."""
    return 1 if quantity == "serve.itl_s" else scales_with_time(quantity)
