"""Which roof to raise: how expected time moves with each hardware figure and each efficiency constant, the plan held fixed.

An elasticity of -0.8 says that one per cent more of the figure takes 0.8 % off the time. It is a central difference of the
logarithm, with one factor at a time applied to everything of that name (all dtypes of a class, all levels' collectives).
"""

from __future__ import annotations

import math
from dataclasses import replace

from rooflinecli.core.errors import UsageError
from rooflinecli.core.num import Number
from rooflinecli.engine import build_request, explicit_layout
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.evaluate import PHASES
from rooflinecli.price import overrides
from rooflinecli.price.chip import Chip
from rooflinecli.questions.multi_chip import Options
from rooflinecli.questions.search.answer_types import InstanceLayout, TrainingLayout
from rooflinecli.questions.search.search_request import OPEN
from rooflinecli.questions.sensitivity.answer_types import Elasticity, SensitivityAnswer, Value
from rooflinecli.specs.layout import SIZES, Layout
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
    request: Request, phase: str, plan: Layout, override: dict[str, Number] | None = None
) -> list[Elasticity]:
    """Elasticities of the expected time, strongest first; figures the time does not feel are left out."""
    base = override or {}
    alone = ScaledConstant(
        base, "memory.bandwidth", 1.0
    )  # a chip of its own, so that its constants are only those used here
    ctx = EstimateContext(request, override=alone)
    seconds(ctx, phase, plan)
    found = []
    for path, value in figures(ctx.chip).items():
        high, low = (
            seconds(EstimateContext(request, override=ScaledConstant(base, path, factor)), phase, plan)
            for factor in (1 + STEP, 1 - STEP)
        )
        slope = (math.log(high) - math.log(low)) / (math.log1p(STEP) - math.log1p(-STEP))
        if abs(slope) > 1e-9:
            found.append(Elasticity(figure=path, value=value, elasticity=slope))
    return sorted(found, key=lambda row: -abs(row.elasticity))


def seconds(ctx: EstimateContext, phase: str, plan: Layout) -> float:
    """Expected time of a phase under a plan."""
    return float(PHASES[phase](ctx, plan).time_s)


def figures(chip: Chip) -> dict[str, Value]:
    """What a priced chip read: figures by path, and constants by class and name (a list where dtypes or levels differ)."""
    found: dict[str, Value] = {path: f.si for path, f in overrides.figures(chip.spec).items() if path not in _SILENT}
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


def of_point(options: Options, set_: list[str] | None) -> SensitivityAnswer:
    """Elasticities of a sweep's single point, for every phase asked for. Raises UsageError for more points than one."""
    from rooflinecli.questions.sweep.axes import space
    from rooflinecli.questions.sweep.evaluate_block import plan_of, question_of, request_of
    from rooflinecli.questions.sweep.run import choices

    grid = space(options, set_)
    if grid.points != 1:
        raise UsageError(
            f"--sensitivity requires a single point; these ranges span {grid.points:,}; give one value per option"
        )
    base = request_of(next(iter(choices(grid))), grid.phases)
    request, override, sizes = question_of(base, grid.sizes, {a.name: a.values[0] for a in grid.sizes})
    return SensitivityAnswer(
        schema="roofline/sensitivity/1",
        model=request.model.name,
        hardware=request.hardware.name,
        phases={phase: elasticities(request, phase, plan_of(request, phase, sizes), override) for phase in grid.phases},
    )


def with_layout(options: Options, layout: TrainingLayout | InstanceLayout) -> tuple[Request, str, Layout]:
    """A row of a search as a request, the phase whose time it is ranked by (a serving instance: decode), and its layout."""
    training = isinstance(layout, TrainingLayout)
    chosen = {"n", *OPEN, *(() if training else ("batch",))}  # the layout has them
    request = build_request.request({k: v for k, v in options.items() if k not in chosen})
    given = explicit_layout.layout_fields(request, "train" if training else "serve") | {"flash": request.flash}
    given |= {k: float(value) for k in SIZES if (value := layout.get(k)) is not None}
    if isinstance(layout, TrainingLayout):
        given |= {k: layout[k] for k in ("zero", "recompute", "sequence_parallel")}
        return request, "train", Layout(**given)
    return replace(request, concurrency=layout.batch), "decode", Layout(zero=0, **given)
