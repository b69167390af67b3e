"""Pipeline parallelism (Narayanan et al. 2021): consecutive layers on `pp` stages, activations sent between neighbors.

A schedule is one file of schedules/, on top of the one that it is a `variant_of`, of expressions over formulas and sizes of a layout:
`bubble` is the idle time of a stage per step, from the time of a microbatch on a stage and that of its weight gradients; `first` and `last`
the microbatches (of a whole stage) whose activations the first and the last device hold; `sends` the activations that a device passes on
per microbatch; `copies` the stages whose weights and gradients a device has (one by default); `needs` rows of engine/legality.yaml.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from rooflinecli.core import num
from rooflinecli.core.errors import unknown
from rooflinecli.core.expressions import NOTHING, compiled
from rooflinecli.core.num import Number
from rooflinecli.core.record import Json
from rooflinecli.formulas import constraints, memory, schedule
from rooflinecli.ledger.ops import Collective
from rooflinecli.specs.layout import SCHEDULES, SCHEDULES_IN, Layout
from rooflinecli.specs.snapshots import table

_FORMULAS = {**vars(schedule), **vars(memory), "num": num, "one": num.one, **NOTHING}


@cache
def schedule_named(name: str) -> Json:
    """What the file of a schedule says, and all that it needs. Raises UsageError."""
    if name not in SCHEDULES:
        raise unknown("schedule", name, SCHEDULES)
    own: Json = table(Path(__file__).parents[1] / SCHEDULES_IN / f"{name}.yaml")
    under = schedule_named(own["variant_of"]) if "variant_of" in own else {"copies": "1.0", "needs": []}
    return {**under, **own, "needs": [*under["needs"], *own.get("needs", ())]}


def _of_schedule(layout: Layout, what: str, **names: Any) -> Any:
    sizes = {"pp": layout.pp, "virtual_stages": layout.virtual_stages, **names}
    return eval(compiled(schedule_named(layout.schedule)[what]), _FORMULAS, sizes)


def bubble(layout: Layout, stage_time: Number, weight_gradient_time: Number) -> Number:
    """Idle time of a stage per step."""
    return _of_schedule(layout, "bubble", stage_time=stage_time, weight_gradient_time=weight_gradient_time)


def in_flight(layout: Layout, microbatches: Number) -> tuple[Number, Number]:
    """Microbatches whose activations the first and the last device hold."""
    first = _of_schedule(layout, "first", microbatches=microbatches)
    return first, _of_schedule(layout, "last", first=first)


def copies(layout: Layout) -> Number:
    """Stages whose weights and gradients a device has."""
    return _of_schedule(layout, "copies")


def collectives(
    layout: Layout, tokens: Number, d_model: Number, bytes_per_value: Number, backward: bool
) -> list[Collective]:
    """What one stage sends per micro-batch: outputs forward, input gradients backward, as often as the schedule has it."""
    size = tokens * d_model * bytes_per_value / layout.tp
    times = _of_schedule(layout, "sends", backward=backward)
    return [Collective("pp.permute", "permute", size, "pp", layout.pp, layout.stride["pp"], times)]


def layers_on_fullest_stage(layout: Layout, layers: Number) -> Number:
    """Layers on the fullest stage."""
    return schedule.layers_per_stage(layers, layout.pp) if layout.stages is None else max(layout.stages)


def share(layout: Layout, layers: Number) -> Number:
    """Fraction of the layers on the fullest stage."""
    return layers_on_fullest_stage(layout, layers) / layers


def min_stage_shares(layout: Layout, layers: Number, layers_time: Number, stem: Number, head: Number) -> tuple[Number, Number, Number]:  # fmt: skip
    """Fractions of all layers, embedding and head for the floor of a step: those of the slowest stage whose layers are given, else the least
    that the slowest stage has, whatever their times."""
    single = num.where(layout.pp > 1, 0.0, 1.0)
    if layout.stages is None:
        even = 1.0 / layout.pp  # of the mean stage; the head's, where no other split is made
        return even, single, num.where(constraints.divides(layout.pp, layers), 1.0, even)
    found, slowest_time = (single, single, single), num.value(0.0 * layers_time)
    for count, *ends, time in _stages(layout.stages, layers, layers_time, stem, head):
        later = num.value(time) >= slowest_time
        found = tuple(num.where(later, one, other) for one, other in zip((count / layers, *ends), found, strict=True))
        slowest_time = num.where(later, num.value(time), slowest_time)
    return found


def _stages(stages: tuple[float, ...], layers: Number, layers_time: Number, stem: Number, head: Number) -> Iterator[tuple[Number, Number, Number, Number]]:  # fmt: skip
    """Of each stage whose layers are given: its layers, whether it has the embedding and the head (1 or 0), and its time."""
    for i, count in enumerate(stages):
        first, last = float(i == 0), float(i == len(stages) - 1)
        ends = (stem if first else 0.0) + (head if last else 0.0)
        yield count, first, last, schedule.stage_time(count, layers, layers_time, ends)


def slowest(layout: Layout, layers: Number, layers_time: Number, stem: Number, head: Number) -> Number:
    """Time of a micro-batch on the slowest stage: embedding on the first, head on the last, layers as the layout has them or split best."""
    if layout.stages is None:
        even = schedule.even_stage(layers_time, layout.pp, stem, head)
        if num.plain(layout.pp) and num.value(constraints.divides(layout.pp, layers)):
            return even
        best = _best_split(layout, layers, layers_time, stem, head)
        return num.where(constraints.divides(layout.pp, layers), even, best)
    time: Number = 0.0
    for *_, each in _stages(layout.stages, layers, layers_time, stem, head):
        time = num.maximum(time, each)
    return time


def best_stages(layout: Layout, layers: Number, layers_time: Number, stem: Number, head: Number) -> list[int]:
    """Layers of each stage of a best split into whole layers: stages between the ends of one size where that is as fast."""
    slowest, layer = _best_split(layout, layers, layers_time, stem, head), layers_time / layers
    first, most, last = (int(num.floor((slowest - end) / layer + 1e-9)) for end in (stem, 0.0, head))
    between = int(layout.pp) - 2
    for each in sorted(range(1, most + 1), key=lambda each: abs(each - layers / layout.pp)):
        rest = int(layers) - between * each
        end = max(min(last, rest // 2), rest - first)
        if 0 < end <= last and rest > end:
            return [rest - end, *[each] * between, end]
    stages = [first, *[most] * between, last]
    for _ in range(sum(stages) - int(layers)):
        stages[stages.index(max(stages))] -= 1
    return stages


def _best_split(layout: Layout, layers: Number, layers_time: Number, stem: Number, head: Number) -> Number:
    """Slowest stage of the best split into whole layers.

    A stage's time is whole layers and its end, so only three times at or above the lower bound can be the least; one layer above
    the bound is always enough.
    """
    layer = schedule.stage_time(1.0, layers, layers_time, 0.0)
    bound = schedule.least_stage((layers_time + (stem + head)) / layout.pp, stem, head)
    best = bound + layer
    for end in (0.0, stem, head):
        time = schedule.whole_layers(bound, end, layer)
        enough = schedule.layers_within(time, layer, stem, head, layout.pp) >= layers
        best = num.where(enough, num.minimum(time, best), best)
    return best
