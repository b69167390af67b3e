"""The program of a fleet against trying everything: what fits, what it weighs, how far traffic may grow, what goes into hosts."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from conftest import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from rooflinecli.questions.fleet.answer import chained_parts, devices_taken, pack
from rooflinecli.questions.fleet.assignment import AllocationProgram, InstanceOption, ServiceDemand, pareto_optimal

SLACK = 1e-9


def every_way(demand: ServiceDemand, devices: tuple[int, ...]) -> dict[tuple[int, ...], float]:
    """Devices of every group -> the highest rate that one layout on each of them gives."""
    each = []
    for offers, most in zip(demand.offers, devices, strict=True):
        found = {0: 0.0}
        for offer in offers:
            for count in range(1, most // offer.size + 1):
                n = count * offer.size
                found[n] = max(found.get(n, 0.0), count * offer.rate)
        each.append(found.items())
    return {tuple(n for n, _ in way): sum(rate for _, rate in way) for way in itertools.product(*each)}


def lightest(asked: AllocationProgram, factors: list[float]) -> float | None:
    """The least weight by trying every way of every model."""
    ways = []
    for demand, factor in zip(asked.demands, factors, strict=True):
        need = demand.rate * factor * (1 - 1e-12)
        ways.append([way for way, rate in every_way(demand, asked.devices).items() if rate >= need])
        if asked.whole:
            ways[-1] = [way for way in ways[-1] if sum(map(bool, way)) <= 1]
    best = None
    for chosen in itertools.product(*ways):
        used = [sum(column) for column in zip(*chosen, strict=True)] or [0] * len(asked.devices)
        if all(n <= most for n, most in zip(used, asked.devices, strict=True)):
            weight = sum(n * w for n, w in zip(used, asked.weights, strict=True))
            best = weight if best is None else min(best, weight)
    return best


@st.composite
def programs(draw: st.DrawFn) -> AllocationProgram:
    groups = draw(st.integers(1, 3))
    most = 6 if groups < 3 else 3
    devices = tuple(draw(st.integers(1, most)) for _ in range(groups))
    rate = st.integers(1, 12).map(lambda n: n / 8)
    offer = st.builds(lambda size, each: InstanceOption(size, size * each), st.sampled_from([1, 2, 4]), rate)
    demand = st.builds(
        ServiceDemand,
        st.integers(1, 24).map(lambda n: n / 8),
        st.tuples(*[st.lists(offer, max_size=2, unique_by=lambda o: o.size).map(tuple)] * groups),
    )
    demands = tuple(draw(st.lists(demand, min_size=1, max_size=3)))
    weights = tuple(draw(st.sampled_from([1.0, 2.0, 3.5])) for _ in range(groups))
    return AllocationProgram(demands, devices, weights, draw(st.booleans()))


@settings(max_examples=examples(150), deadline=None)
@given(programs())
def test_the_lightest_is_that_of_trying_everything(asked: AllocationProgram) -> None:
    found, least = asked.solve(), lightest(asked, [1.0] * len(asked.demands))
    assert (found is None) == (least is None)
    if found is None or least is None:
        return
    assert found.weight == pytest.approx(least, abs=1e-12) and found.bound == found.weight
    assert all(used <= most for used, most in zip(found.used, asked.devices, strict=True))
    for demand, row in zip(asked.demands, found.devices, strict=True):
        assert every_way(demand, asked.devices)[row] >= demand.rate * (1 - 1e-12)


@settings(max_examples=examples(60), deadline=None)
@given(programs())
def test_growth_is_as_far_as_anything_fits(asked: AllocationProgram) -> None:
    growth, models = asked.growth(), len(asked.demands)
    if growth > 0:
        assert lightest(asked, [growth * (1 - SLACK)] * models) is not None
    assert lightest(asked, [max(growth, 1e-3) * (1 + 3e-6)] * models) is None or growth < 1e-3


@settings(max_examples=examples(60), deadline=None)
@given(programs())
def test_a_model_grows_by_itself_as_far_as_the_others_leave_it(drawn: AllocationProgram) -> None:
    asked = replace(drawn, whole=False)
    for place, growth in enumerate(asked.growth_alone()):

        def only(factor: float, place: int = place) -> float | None:
            return lightest(asked, [factor if k == place else 1.0 for k in range(len(asked.demands))])

        assert (growth is None) == (only(0.0) is None)
        if growth is not None:
            assert only(growth * (1 - SLACK)) is not None and only(growth * (1 + SLACK) + 1e-6) is None


@settings(max_examples=examples(60), deadline=None)
@given(programs())
def test_devices_that_would_be_enough(drawn: AllocationProgram) -> None:
    asked = replace(drawn, whole=False, weights=(0.0,) * len(drawn.devices))
    for group in range(len(asked.devices)):
        needed = asked.needed(group)
        larger = 24 if needed is None else needed
        more = replace(asked, devices=tuple(larger if k == group else n for k, n in enumerate(asked.devices)))
        assert (more.solve() is None) == (needed is None)
        if needed:
            fewer = replace(asked, devices=tuple(needed - 1 if k == group else n for k, n in enumerate(asked.devices)))
            assert fewer.solve() is None


@settings(max_examples=examples(80), deadline=None)
@given(programs())
def test_lots_give_an_assignment_and_a_bound_around_the_lightest(asked: AllocationProgram) -> None:
    coarse, least = replace(asked, work=8.0).solve(), lightest(asked, [1.0] * len(asked.demands))
    if coarse is not None:
        assert least is not None and coarse.bound - 1e-12 <= least <= coarse.weight + 1e-12
        assert all(used <= most for used, most in zip(coarse.used, asked.devices, strict=True))


def test_by_hand() -> None:
    """Ten requests a second in instances of 4 devices with 3 each, or of 2 with 1: four of the large, 16 devices; the small ones would take 20."""
    asked = AllocationProgram(
        (ServiceDemand(10.0, ((InstanceOption(4, 3.0), InstanceOption(2, 1.0)),)),), (24,), (2.0,)
    )
    found = asked.solve()
    assert found is not None and found.devices == ((16,),) and found.weight == 32.0
    assert asked.growth() == pytest.approx(18 / 10) and asked.growth_alone() == [pytest.approx(1.8)]
    assert asked.needed(0) == 16 and asked.load(0) == pytest.approx(10 / 18)


def test_of_equal_bundles_the_one_on_fewer_groups_then_on_fewer_of_the_first_is_taken() -> None:
    """Lots of one group, devices of the other; four of the first with one of the other are beaten by three alone."""
    found = {(0,): 5.0, (1,): 3.0, (2,): 1.0, (3,): 0.0, (4,): 1.0}
    assert pareto_optimal(found) == [((0,), 5.0), ((3,), 0.0), ((1,), 3.0), ((2,), 1.0)]


@given(st.integers(1, 200), st.integers(1, 128))
def test_an_instance_takes_a_part_that_divides_its_domain(size: int, domain: int) -> None:
    by_divisors, by_chain = (devices_taken(size, domain, rounding) for rounding in ("divisors", "chain"))
    for part in (by_divisors, by_chain):
        assert part >= size and (part % domain == 0 if size > domain else domain % part == 0)
    assert by_chain >= by_divisors and devices_taken(size, domain, "none") == size
    assert all(b % a == 0 for a, b in itertools.pairwise(chained_parts(domain))) and chained_parts(domain)[-1] == domain


@given(st.data(), st.sampled_from([4, 6, 8, 12, 72]), st.integers(1, 200))
def test_any_mix_of_a_chain_that_is_not_too_many_goes_in(data: st.DataObject, domain: int, devices: int) -> None:
    parts = [p for p in [*chained_parts(domain), 2 * domain] if p <= devices]
    left, mix = devices, []
    for part in sorted(data.draw(st.lists(st.sampled_from(parts), unique=True)), reverse=True):
        if part >= domain:
            left = min(left, devices // domain * domain - sum(p * c for p, c in mix if p >= domain))
        count = data.draw(st.integers(0, max(left, 0) // part))
        mix.append((part, count))
        left = devices - sum(p * c for p, c in mix)
    assert pack(mix, devices, domain)
    assert not pack([*mix, (1, left + 1)], devices, domain)


def test_parts_that_do_not_divide_each_other_may_not_go_in() -> None:
    assert pack([(18, 3), (9, 2)], 72, 72) and not pack([(18, 3), (8, 2), (3, 1)], 72, 72)
    assert not pack([(4, 3)], 8, 8) and pack([(3, 2)], 6, 6) and not pack([(4, 3)], 14, 6)
