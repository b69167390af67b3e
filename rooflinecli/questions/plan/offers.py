"""Offers that a planned run could be paid by: provider, kind and day, spot over what preemptions leave of it."""

from __future__ import annotations

from rooflinecli.core.errors import Infeasible
from rooflinecli.formulas import cost
from rooflinecli.formulas.training_goodput import joined_mtbf
from rooflinecli.questions.goodput.question import MTBF, TrainingGoodput
from rooflinecli.questions.plan.question import PlannedOffer
from rooflinecli.specs import prices
from rooflinecli.specs.hardware import HardwareSpec


def newest(spec: HardwareSpec) -> list[prices.Offer]:
    """The cheapest row of the newest day of each provider and kind; what owning costs is no offer."""
    found: dict[tuple[str, str], prices.Offer] = {}
    for offer in prices.offers(spec):
        key = (offer.provider, offer.kind)
        known = found.get(key)
        if offer.kind != "ownership" and (known is None or (offer.date, -offer.usd) > (known.date, -known.usd)):
            found[key] = offer
    return list(found.values())


def goodput(offer: prices.Offer, devices: int, params: float, preempted_s: float) -> float:
    """Goodput on spot instances that are each taken away every `preempted_s` on average; 0 without progress."""
    mtbf = joined_mtbf(MTBF, preempted_s * offer.devices)
    try:
        return float(TrainingGoodput(n=devices, params=params, mtbf=mtbf).answer().goodput)
    except Infeasible:
        return 0.0


def planned_offers(
    spec: HardwareSpec,
    devices: int,
    params: float,
    run_s: tuple[float, float],
    usual: float,
    deadline_s: float | None,
    preempted_s: float | None,
) -> list[PlannedOffer]:
    """Offers of a chip for a run, those that meet the deadline first, the cheapest first. `run_s`: the run without failures, expected and at
    the bound that the deadline is held to; `usual`: its goodput where nothing is preempted. Spot only where `preempted_s` is known."""
    found = []
    for offer in newest(spec):
        if offer.kind == "spot" and preempted_s is None:
            continue
        share = usual if offer.kind != "spot" else goodput(offer, devices, params, preempted_s or 0.0)
        if not share:
            continue
        found.append(
            PlannedOffer(
                hardware=spec.name,
                provider=offer.provider,
                kind=offer.kind,
                date=offer.date,
                usd_per_device_hour=offer.usd,
                goodput=share,
                elapsed_s=run_s[0] / share,
                elapsed_usd=float(cost.run_cost(run_s[0] / share, cost.fleet_price(devices, offer.usd))),
                in_time=deadline_s is None or run_s[1] / share <= deadline_s,
                source=f"{offer.where}; {offer.source}",
            )
        )
    return sorted(found, key=lambda row: (not row.in_time, row.elapsed_usd))
