"""What a group offers a model: for every size of an instance the layout and batch that carry most inside the limits."""

from __future__ import annotations

from typing import Any

import numpy as np

from rooflinecli.core.errors import DataError, UsageError
from rooflinecli.core.num import divisors
from rooflinecli.engine import extrapolation, legality, option_conflicts
from rooflinecli.engine.context import EstimateContext
from rooflinecli.questions.fleet.fleet_question import DeviceGroup, FleetService
from rooflinecli.questions.plan.instance import ServingInstance, conditions, instance
from rooflinecli.questions.search import instances, serving
from rooflinecli.questions.search.objective import objective
from rooflinecli.questions.search.serving_question import asked

RATE = objective("decode.tokens_per_s", ("decode",))


class InstanceOptions:
    """Instances of a model on a group by their size; `why` where there are none. `domain`: devices of the group's fast domain."""

    def __init__(self, found: list[ServingInstance], why: str, domain: int, layouts: int):
        self.found, self.why, self.domain, self.layouts = found, why, domain, layouts


def offers(task: tuple[FleetService, DeviceGroup, str]) -> InstanceOptions:
    """The offers of one group to one model, its rate and limits held at one end."""
    service, group, hold = task
    options = service.on(group)
    where = [*service.where, *conditions(service.limits, hold)]
    try:
        question = asked(
            {**options, "n": str(group.devices), "hold": hold},
            "throughput",
            where,
            {"qps": None, "ttft": None, "itl": None},
        )
        ctx = EstimateContext(question.request)
        option_conflicts.require_decode(ctx, "a model of a fleet answers requests")
        option_conflicts.check(ctx)
        legality.check(ctx)
        layouts = instances.layouts(ctx, question.open, min(group.devices, instances.LARGEST_INSTANCE))
        if not layouts:
            return InstanceOptions([], "no instance has the sizes given; free tp, pp or ep", 1, 0)
        grid = instances.evaluate(question.request, layouts, np.array(question.batches, dtype=np.float64), apart=False)
        fleet = serving.fleet(ctx, question, grid)
        keep, _, worst = serving.weigh(question, grid, fleet)
    except UsageError as error:
        if error.option == "where":  # whatever the chip
            raise DataError(f"{service.line}: {service.name}: where: {error}") from None
        return InstanceOptions([], str(error), 1, 0)
    domain, tried = _domain(ctx), int(grid.legal.sum())
    if not keep.any():
        miss = serving.nearest(question, grid, fleet, worst)
        return InstanceOptions(
            [], f"nothing keeps to the limits; the nearest lacks {miss['lacks'] if miss else 'room'}", domain, tried
        )
    rates = np.where(keep, serving.held_of(question, grid, fleet, RATE), 0.0)
    chosen = [_layout(grid, rates, rows) for rows in _by_size(layouts)]
    return InstanceOptions(
        [instance(options, layout, serving.command(layout)) for layout in chosen if layout], "", domain, tried
    )


def _domain(ctx: EstimateContext) -> int:
    """Devices that fast links join; of a slice beyond any instance, the largest part that an instance may fill."""
    size = int(extrapolation.scale_up_domain_sizes(ctx.chip)[0])
    fitting = [part for part in divisors(size) if part <= instances.LARGEST_INSTANCE]
    return size if size <= 2 * instances.LARGEST_INSTANCE else max(fitting)


def _by_size(layouts: list[dict[str, int]]) -> list[list[int]]:
    """Places of the layouts of each number of devices, the smallest first."""
    sizes: dict[int, list[int]] = {}
    for place, layout in enumerate(layouts):
        sizes.setdefault(layout["tp"] * layout["pp"] * layout["dp"], []).append(place)
    return [sizes[size] for size in sorted(sizes)]


def _layout(grid: instances.InstanceGrid, rates: np.ndarray, rows: list[int]) -> dict[str, Any] | None:
    """The layout and batch with the highest rate among instances of one size; the plainest among equals, None where none keeps to the limits."""
    replicas = np.array([grid.layouts[i]["dp"] for i in rows]).reshape(-1, 1)
    all_of = rates[rows]
    if not all_of.max() > 0:
        return None
    ties = np.flatnonzero(all_of.reshape(-1) >= all_of.max() * (1 - 1e-12))
    pick = min(ties, key=lambda t: (int(replicas[t // all_of.shape[1], 0]), t))
    i, j = rows[int(pick) // all_of.shape[1]], int(pick) % all_of.shape[1]
    sizes = grid.layouts[i]
    return {**sizes, "devices": sizes["tp"] * sizes["pp"] * sizes["dp"], "batch": float(grid.batches[j])}
