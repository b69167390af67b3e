"""Offers of a plan: what a run costs at each provider, spot over what preemptions leave of it."""

from __future__ import annotations

import pytest

from rooflinecli.questions.goodput.question import MTBF, TrainingGoodput
from rooflinecli.questions.plan.training import newest, planned_offers
from rooflinecli.specs.hardware import load_hardware

H100 = load_hardware("h100")
DAY = 86400.0


def test_each_provider_has_the_cheapest_row_of_its_newest_day_and_ownership_is_no_offer():
    found = newest(H100)
    assert len({(o.provider, o.kind) for o in found}) == len(found)
    assert {o.usd for o in found if o.provider == "latitude"} == {4.025}
    assert all(o.kind != "ownership" for o in found)


def test_spot_counts_with_its_preemptions_and_only_where_they_are_known():
    asked = (H100, 8, 8e9, (10 * DAY, 12 * DAY), 0.99, 20 * DAY)
    assert all(o["kind"] != "spot" for o in planned_offers(*asked, None))
    spot = next(o for o in planned_offers(*asked, 12 * 3600.0) if (o["provider"], o["kind"]) == ("verda", "spot"))
    mtbf = 1 / (1 / MTBF + 1 / (12 * 3600.0))  # verda's instance has one device
    share = TrainingGoodput(n=8, params=8e9, mtbf=mtbf).answer().goodput
    assert spot["goodput"] == pytest.approx(share) and 0.3 < share < 0.95
    assert spot["elapsed_usd"] == pytest.approx(10 * 24 / share * 8 * 0.8015)
    assert planned_offers(*asked, 48 * 3600.0)[0]["goodput"] > share


def test_offers_that_miss_the_deadline_come_last():
    found = planned_offers(H100, 8, 8e9, (10 * DAY, 12 * DAY), 0.99, 12.5 * DAY, 12 * 3600.0)
    states = [o["meets_deadline"] for o in found]
    assert True in states and False in states and states == sorted(states, reverse=True)
    assert all(o["meets_deadline"] == (12 * DAY / o["goodput"] <= 12.5 * DAY) for o in found)


def test_contracts_of_years_are_offered_for_runs_as_long():
    """A run of 10 days does not pay for three years; one of four years may."""
    short, long = (planned_offers(H100, 8, 8e9, (days * DAY, days * DAY), 0.99, None, None) for days in (10, 1461))
    assert short and not any(o["kind"].startswith("reserved") for o in short)
    assert {o["kind"] for o in long} > {o["kind"] for o in short}
