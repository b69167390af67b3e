"""Pipeline parallelism (Narayanan et al. 2021): consecutive layers on `pp` stages, activations sent between neighbors.

A schedule is one file of schedules/: the bubble of a step, micro-batches in flight, sends per micro-batch, and constraints on a layout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from rooflinecli.core import num
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.num import Number
from rooflinecli.formulas import constraints, schedule
from rooflinecli.ledger.ops import Collective
from rooflinecli.specs import registry
from rooflinecli.specs.layout import SCHEDULES_IN, Layout


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ScheduleConstraint:
    """A constraint of a schedule on a layout: a name, where it holds, and the sentence with the remedy where it does not."""

    name: str
    holds: Number
    say: Callable[[], str]


def schedule_of(layout: Layout) -> Any:
    """The schedule of a layout, a module of schedules/: `bubble` is the idle time of a stage per step, `in_flight` the microbatches that the
    first and the last stage hold, `sends` what a stage passes on, `needs` its constraints."""
    return registry.load(SCHEDULES_IN, layout.schedule)


def collectives(
    layout: Layout, tokens: Number, d_model: Number, bytes_per_value: Number, backward: bool
) -> list[Collective]:
    """What one stage sends per micro-batch: outputs forward, input gradients backward, as often as the schedule has it."""
    size = tokens * d_model * bytes_per_value / layout.tp
    times = schedule_of(layout).sends(layout, backward)
    return [Collective("pp.permute", "permute", size, "pp", layout.pp, layout.stride["pp"], times)]


def copies(layout: Layout) -> Number:
    """Stages whose weights and gradients a device has: one by default."""
    hook = getattr(schedule_of(layout), "copies", None)
    return 1.0 if hook is None else hook(layout)


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
        time = schedule.slowest_stage(time, each)
    return time


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
