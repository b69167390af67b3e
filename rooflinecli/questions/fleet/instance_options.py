"""What a group offers a model: for every size of an instance the layout and batch that carry most inside the limits."""

from __future__ import annotations

import numpy as np

from rooflinecli.core.errors import DataError, UsageError
from rooflinecli.core.num import divisors
from rooflinecli.engine import extrapolation
from rooflinecli.engine.context import EstimateContext
from rooflinecli.questions.fleet.fleet_question import DeviceGroup, FleetService
from rooflinecli.questions.plan.instance import ServingInstance, instance
from rooflinecli.questions.search import instances
from rooflinecli.questions.search.answer_types import InstanceLayout, InstanceSizes
from rooflinecli.questions.search.search_request import LARGEST_INSTANCE, asked
from rooflinecli.questions.search.serving import serving_grid

RATE = "decode.tokens_per_s"


class InstanceOptions:
    """Instances of a model on a group by their size; `why` where there are none. `domain`: devices of the group's fast domain."""

    def __init__(self, found: list[ServingInstance], why: str, domain: int, layouts: int):
        self.found, self.why, self.domain, self.layouts = found, why, domain, layouts


def offers(task: tuple[FleetService, DeviceGroup, str]) -> InstanceOptions:
    """The offers of one group to one model, its rate and limits at one bound."""
    service, group, hold = task
    options = service.on(group)
    try:
        question = asked(
            {**options, "n": str(group.devices), "hold": hold},
            "throughput",
            list(service.where),
            service.limits,
        )
        found = serving_grid(question, "a model of a fleet answers requests")
        keep, _, worst = found.weigh()
    except UsageError as error:
        if error.option == "where":  # whatever the chip
            raise DataError(f"{service.line}: {service.name}: where: {error}") from None
        return InstanceOptions([], str(error), 1, 0)
    domain, tried = _domain(found.ctx), int(found.one.legal.sum())
    if not keep.any():
        closest = found.nearest(worst).lacks
        return InstanceOptions([], f"no instance meets the SLO; the closest is short by {closest}", domain, tried)
    rates = np.where(keep, found.at_bound(RATE, less=False), 0.0)
    chosen = (_layout(found.one, rates, rows) for rows in _by_size(found.one.layouts))
    return InstanceOptions([instance(options, layout) for layout in chosen if layout], "", domain, tried)


def _domain(ctx: EstimateContext) -> int:
    """Devices that fast links join; of a slice beyond any instance, the largest part that an instance may fill."""
    size = int(extrapolation.scale_up_domain_sizes(ctx.chip)[0])
    fitting = [part for part in divisors(size) if part <= LARGEST_INSTANCE]
    return size if size <= 2 * LARGEST_INSTANCE else max(fitting)


def _by_size(layouts: list[InstanceSizes]) -> list[list[int]]:
    """Places of the layouts of each number of devices, the smallest first."""
    sizes: dict[int, list[int]] = {}
    for place, layout in enumerate(layouts):
        sizes.setdefault(layout.ranks, []).append(place)
    return [sizes[size] for size in sorted(sizes)]


def _layout(grid: instances.InstanceGrid, rates: np.ndarray, rows: list[int]) -> InstanceLayout | None:
    """The layout and batch with the highest rate among instances of one size; the plainest among equals, None where none keeps to the limits."""
    replicas = np.array([grid.layouts[i].dp for i in rows]).reshape(-1, 1)
    all_of = rates[rows]
    if not all_of.max() > 0:
        return None
    ties = np.flatnonzero(all_of.reshape(-1) >= all_of.max() * (1 - 1e-12))
    width = int(all_of.shape[1])
    pick = min(map(int, ties), key=lambda t: (int(replicas[t // width, 0]), t))
    i, j = rows[pick // width], pick % width
    return grid.layouts[i].at_batch(float(grid.batches[j]))
