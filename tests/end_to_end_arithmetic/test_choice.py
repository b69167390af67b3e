"""The chooser against every layout asked for one by one, and the fewest devices by what they hold."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
from end_to_end_arithmetic.conftest import HAND
from end_to_end_arithmetic.families import GIVEN

from rooflinecli.core.errors import Infeasible, UsageError

OPEN = {"batch": 16, "seq": 512}


def layouts(devices: int) -> list[dict]:
    return [
        {"tp": tp, "pp": pp, "dp": devices // (tp * pp)}
        for tp, pp in product((1, 2, 4), (1, 2, 4, 8))
        if devices % (tp * pp) == 0
    ]


def every(ask, phase: str, devices: int, layouts: list[dict], **options) -> list[dict]:
    """Estimates of all layouts that are legal."""
    found = []
    for layout in layouts:
        try:
            found.append(ask("dense", phase, whole=True, n=devices, **layout, **options))
        except (UsageError, Infeasible):
            continue
    return found


@pytest.mark.slow
def test_training_takes_the_fastest_of_what_is_tried(ask):
    """Splits into tp, pp and dp; ZeRO 1 or 3 where there are replicas; no recomputation or all; microbatches of 1, 2, 4."""
    tried = [
        {**split, "zero": zero, "recompute": recompute, "micro_batch": micro}
        for split, recompute, micro in product(layouts(8), ("none", "full"), (1, 2, 4))
        for zero in ((1, 3) if split["dp"] > 1 else (0,))
    ]
    answers = every(ask, "train", 8, tried, **OPEN)
    best = min(answer["phases"]["train"]["time_s"] for answer in answers)
    assert len(answers) > 20
    assert ask("dense", "train", n=8, **OPEN)["time_s"] == best


@pytest.mark.sampled(1)
@pytest.mark.parametrize("given", [{"tp": 2}, {"pp": 2}, {"dp": 4}, {"tp": 1, "pp": 2}])
def test_sizes_given_stay(ask, given):
    plan = ask("dense", "train", n=8, **given, **OPEN)["layout"]
    assert {axis: plan[axis] for axis in given} == given
    assert plan["tp"] * plan["pp"] * plan["dp"] == plan["devices"] == 8


def test_serving_takes_stages_only_where_it_must_then_the_fastest(ask):
    load = {"batch": 4, "prompt": 200, "output": 100}
    whole = every(ask, "decode", 4, [layout for layout in layouts(4) if layout["pp"] == 1], **load)
    best = min(answer["phases"]["decode"]["time_s"] for answer in whole)
    chosen = ask("dense", "decode", n=4, **load)
    assert chosen["time_s"] == best and chosen["layout"]["pp"] == 1


def test_the_fewest_devices_that_hold_it(ask):
    """Sequences whose cache needs more than the nine tenths of a device's 50 GB that a server fills, in powers of two."""
    cache = 6 * 100_000 * 2 * 2 * 32 * 2  # bytes of a sequence
    for sequences, devices in ((270, 1), (350, 2), (540, 2)):
        assert sequences * cache < devices * 44e9 and (devices == 1 or sequences * cache > devices / 2 * 45e9)
        answer = ask("dense", "decode", n=None, batch=sequences, prompt=99_900, output=100)
        assert answer["layout"]["devices"] == devices and answer["layout"]["chosen"]
        assert answer["memory"]["total_bytes"] <= 50e9


def test_what_fits_nowhere_says_so(ask):
    answer = ask("dense", "train", whole=True, **{**GIVEN, "seq": 4_000_000})
    held = answer["phases"]["train"]["memory"]
    assert held["total_bytes"] > 50e9 and not answer["feasible"]
    (violation,) = answer["violations"]
    assert violation["needed"] == held["total_bytes"] and violation["available"] == 50e9


LONG = {"prompt": 99_900, "output": 100}  # a cache of 153.6 MB a sequence on one device, 76.8 on two and on four


def test_sequences_too_many_for_one_replica_fit_as_two(ask):
    """901 of them are 69.2 GB on each of four devices, since two key/value heads split no further; 451 are 34.6 on two."""
    answer = ask("dense", "decode", whole=True, n=4, tp=4, batch=901, **LONG)
    (violation,) = answer["violations"]
    near = violation["nearest"]
    assert (near["devices"], near["dp"], near["tp"]) == (4, 2, 2)
    assert "2 replicas of 451" in near["reason"]
    assert ask("dense", "decode", whole=True, n=4, dp=2, tp=2, batch=451, **LONG)["feasible"]


def test_what_was_tried_is_told(ask):
    """Three splits of four devices into replicas and heads; one where it was given."""
    some, one = (ask("dense", "decode", batch=3000, n=4, **LONG, **given) for given in ({}, {"tp": 4, "pp": 1}))
    assert some["layout"]["reason"].startswith("none of the 3 layouts tried fits on 4")
    assert one["layout"]["reason"] == "it does not fit on 4"
    assert not some["layout"]["chosen"] and not one["layout"]["chosen"]  # the devices were given


def test_sizes_that_do_not_multiply_to_the_devices_are_refused(ask):
    with pytest.raises(UsageError, match="takes 3 devices, which does not divide -n 8"):
        ask("dense", "train", n=8, pp=3, **OPEN)


def test_a_plan_stays_inside_the_network(ask, tmp_path):
    """A chip whose file ends at four devices."""
    lines = Path(HAND).read_text(encoding="utf-8").splitlines()
    outside = next(i for i, line in enumerate(lines) if "outside" in line)
    alone = tmp_path / "alone.yaml"
    alone.write_text("\n".join([*lines[:outside], *lines[outside + 5 :]]), encoding="utf-8")
    assert ask("dense", "train", chip=str(alone), n=4, dp=4, **OPEN)["layout"]["devices"] == 4
    with pytest.raises(UsageError, match="describes a network of 4"):
        ask("dense", "train", chip=str(alone), n=8, dp=8, **OPEN)
