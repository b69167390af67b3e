"""What a fleet's report makes of offers, with offers made up here: which instances fit, whose share is whose, what is named, by hand."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest

from rooflinecli.questions.fleet import answer
from rooflinecli.questions.fleet.answer import report
from rooflinecli.questions.fleet.fleet_question import DeviceGroup, Fleet, FleetService
from rooflinecli.questions.fleet.question import FleetAnswer, RefusedGroup
from rooflinecli.questions.plan.question import ServiceNumbers
from rooflinecli.questions.search.question import InstanceSizes

MODEL = "llama-3-8b"


@dataclass(frozen=True)
class Made:
    """An instance of a number of devices that carries a rate of requests, at two dollars an hour for each device."""

    devices: int
    carries: float
    price: float | None = 2.0
    hardware = "H100"
    command = "roofline estimate"
    found = SimpleNamespace(model=SimpleNamespace(name="Llama"))

    def sustained(self, bound: str) -> float:
        return self.carries

    def times(self, count: int, devices: int, qps: float) -> ServiceNumbers:
        return ServiceNumbers(
            instances=count,
            layout=InstanceSizes(tp=self.devices, pp=1, dp=1, ep=1).at_batch(1.0),
            total_batch=1.0,
            ttft_s=1.0,
            interval_ttft_s=[1.0, 1.0],
            itl_s=1.0,
            interval_itl_s=[1.0, 1.0],
            requests_per_s=1.0,
            requests_per_s_interval=[1.0, 1.0],
            usd_per_million_output_tokens=None,
            usd_per_million_output_tokens_interval=None,
        )


def placed_answer(
    groups: dict[str, int], qps: dict[str, float], found: dict[tuple[str, str], tuple[Made, ...]], domain: int = 8
) -> FleetAnswer:
    """The answer of models with these rates on groups of these devices, a price given for the first."""
    each = tuple(
        DeviceGroup(name, "h100-sxm", devices, None if place else "2")
        for place, (name, devices) in enumerate(groups.items())
    )
    services = tuple(
        FleetService(name, {"model": MODEL}, rate, {}, (), tuple(g for s, g in found if s == name), "fleet.yaml:1")
        for name, rate in qps.items()
    )
    there = {key: answer.InstanceOptions(list(made), "", domain, len(made)) for key, made in found.items()}
    return report(Fleet(each, services, "expected", "cost"), there)


def test_an_instance_takes_its_own_devices_and_stays_inside_a_host():
    """Two instances of five devices take ten, in two hosts of eight: a third host is left, so traffic may grow by half."""
    said = placed_answer({"a": 24}, {"chat": 3.5}, {("chat", "a"): (Made(5, 2.0),)})
    (row,) = said["rows"]
    assert (row["instances"], row["devices"], row["unused"], row["usd_per_hour"]) == (2, 10, 0, 20.0)
    assert said["feasible"] and said["spare"] == 14 and said["growth"] == pytest.approx(6 / 3.5)
    assert said["groups"][0]["price"] == "given" and said["groups"][0]["needed"] is None


def test_of_equal_devices_those_that_carry_more_are_taken_as_plan_and_search_do():
    """Three instances of two devices carry 5.7 requests a second, one of six devices 6.0, and six of a host's eight are free for it."""
    said = placed_answer({"a": 24}, {"chat": 5.0}, {("chat", "a"): (Made(6, 6.0), Made(2, 1.9))})
    (row,) = said["rows"]
    assert (row["instances"], row["devices"], row["unused"]) == (1, 6, 0)


def test_parts_that_do_not_go_in_together_give_way_to_those_that_do():
    """Ten devices in hosts of six: 3 + 3 and 2 + 2 find no room one by one, and 2 + 2 + 2 carry almost as much as 3 + 3."""
    found = {("one", "a"): (Made(3, 3.0), Made(2, 1.9)), ("two", "a"): (Made(2, 1.0),)}
    said = placed_answer({"a": 10}, {"one": 5.5, "two": 2.0}, found, domain=6)
    assert said["feasible"] and {row["name"]: (row["instances"], row["devices"]) for row in said["rows"]} == {
        "one": (3, 6),
        "two": (2, 4),
    }
    alone = placed_answer({"a": 10}, {"one": 5.5}, {("one", "a"): found["one", "a"]}, domain=6)
    assert [(row["instances"], row["devices"]) for row in alone["rows"]] == [(2, 6)]


def test_a_model_on_two_groups_has_its_traffic_by_what_each_carries():
    """Four devices of 0.5 requests a second and four of 0.25: three in all, two thirds of them on the first."""
    said = placed_answer(
        {"a": 4, "b": 4}, {"chat": 2.4}, {("chat", "a"): (Made(1, 0.5),), ("chat", "b"): (Made(1, 0.25),)}
    )
    first, other = said["rows"]
    carried = first["requests_per_s_at_bound"] + other["requests_per_s_at_bound"]
    assert carried == 2.5 and first["share"] == pytest.approx(2 / 2.5)
    assert (first["qps"], other["qps"]) == pytest.approx((2.4 * 2 / 2.5, 2.4 * 0.5 / 2.5))
    assert said["growth"] == pytest.approx(3 / 2.4) and [g["price"] for g in said["groups"]] == ["given", "file"]


def test_what_does_not_fit_names_whom_it_lacks_most_and_how_many_would_do():
    """Two requests of one a device need two of four devices and leave two to the eight of the other; eight leave none to the two. All need ten devices."""
    found = {("small", "a"): (Made(1, 1.0),), ("large", "a"): (Made(1, 1.0),)}
    said = placed_answer({"a": 4}, {"small": 2.0, "large": 8.0}, found)
    assert not said["feasible"] and said["bottleneck"] == "large" and said["groups"][0]["needed"] == 10
    # whole devices: three for the large, one for the small
    assert said["growth"] == pytest.approx(3 / 8) and {row["name"]: row["devices"] for row in said["rows"]} == {
        "small": 1,
        "large": 3,
    }
    assert {m["name"]: (m["load"], m["growth"]) for m in said["models"]} == {"small": (0.5, None), "large": (2.0, 0.25)}
    assert sum(row["qps"] for row in said["rows"]) == pytest.approx(10 * 3 / 8)


def test_a_group_too_small_for_any_instance_says_so():
    said = placed_answer(
        {"a": 4, "b": 8}, {"chat": 1.0}, {("chat", "a"): (Made(8, 1.0),), ("chat", "b"): (Made(8, 1.0),)}
    )
    assert said["models"][0]["refused"] == [
        RefusedGroup(group="a", infeasible_reason="no instance that meets the SLO fits on these devices")
    ]
    assert [row["group"] for row in said["rows"]] == ["b"] and said["groups"][0]["used"] == 0


@pytest.mark.parametrize(
    ("size", "domain"), [(8, 8), (72, 72), (128, 128), (256, 64), (9216, 64), (320, 64), (177, 59)]
)
def test_a_domain_beyond_any_instance_counts_its_largest_part_that_one_may_fill(monkeypatch, size, domain):
    """Instances have 64 devices at most: of a slice of 256 chips four go in, and of 177 three in 59 each."""
    monkeypatch.setattr(answer.extrapolation, "scale_up_domain_sizes", lambda chip: [float(size)])
    assert answer._domain(SimpleNamespace(chip=None)) == domain


def test_the_plainest_of_equal_layouts_is_offered():
    """Among 2 x 1 and 1 x 2 replicas with the same rate the one of fewer replicas, at the first batch that has it; none where none may."""
    layouts = [InstanceSizes(tp=1, pp=1, dp=2, ep=1), InstanceSizes(tp=2, pp=1, dp=1, ep=1)]
    one = InstanceSizes(tp=1, pp=1, dp=1, ep=1)
    rates = np.array([[1.0, 3.0, 3.0], [2.0, 3.0, 3.0], [0.5, 0.0, 0.1]])
    grid = SimpleNamespace(
        layouts=[*layouts, one], batches=np.array([4, 8, 16]), serve={"decode_requests_per_s": rates}
    )
    grid.whole = lambda values: np.broadcast_to(values, rates.shape)
    assert answer._fastest_by_size(grid, rates) == [one.at_batch(4.0), layouts[1].at_batch(8.0)]
    assert answer._fastest_by_size(grid, rates * (1 + 1e-13 * np.arange(3))) == [
        one.at_batch(4.0),
        layouts[1].at_batch(8.0),
    ]
    assert answer._fastest_by_size(grid, rates * [[2], [1], [0]]) == [layouts[0].at_batch(8.0)]
    assert answer._fastest_by_size(grid, np.zeros((3, 3))) == []
