"""Refits of lab/: known constants come back, and published steps give constants near those that ship."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lab import fit_local_machines, fit_scheduler_delays, fit_training, training_response_tables
from lab.fit import Constant, fit
from lab.training_constants import FREE
from rooflinecli.core.errors import UsageError
from rooflinecli.price.chip import Chip
from rooflinecli.specs.hardware import load_hardware


def test_waits_come_back_from_made_up_runs() -> None:
    rng = np.random.default_rng(0)
    n = 400
    runs = fit_scheduler_delays.SchedulerDelays(
        np.full(n, "m"),
        np.ones(n, dtype=bool),
        np.zeros(n),
        rng.uniform(0.02, 0.5, n),
        np.ones(n),
        rng.uniform(0.02, 0.3, n),
        rng.uniform(0, 0.8, n),
        rng.integers(1, 256, n).astype(float),
        rng.uniform(0.005, 0.1, n),
        rng.uniform(0, 15, n),
        rng.uniform(0, 0.2, n),
        np.ones(n),
    )
    truth = {"hold": 3.0, "o_f": 0.03, "o_c": 5e-4}
    runs.measured = runs.expected(truth)
    assert runs.fit(runs.seen) == pytest.approx(truth, rel=0.05)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("family", "names", "shipped"),
    [("torchtitan_2024", ("flash_2",), {"flash_2": 0.21}), ("nemo", ("nemo_traffic",), {"nemo_traffic": 1.75})],
)
def test_a_family_gives_back_what_ships(family, names, shipped) -> None:
    rows = [row for row in fit_training.rows() if fit_training.family(row) == family]
    found = fit_training.fit_to(rows, names)  # the others are those that ship
    assert found == pytest.approx(shipped, rel=0.25)
    before = np.mean([abs(fit_training.error(row, {})) for row in rows])
    assert np.mean([abs(fit_training.error(row, found)) for row in rows]) < before + 0.01


def test_a_constant_that_no_row_tells_takes_the_unknown_value() -> None:
    rows = [row for row in fit_training.rows() if fit_training.family(row) == "maxtext_v4"]
    assert fit_training.fit_to(rows, ("nemo_traffic",)) == {"nemo_traffic": 1}


def test_korthikanti_is_never_fitted_and_every_constant_moves_some_row() -> None:
    assert all(any(free.moves(row) for row in fit_training.rows()) for free in FREE.values())
    held_out = [row for row in fit_training.rows() if fit_training.family(row) in fit_training.UNSEEN]
    assert len(held_out) == 4 + 6 + 2  # Korthikanti Table 5, torchtune, two whole runs
    assert fit_training.fit_to(held_out, ("eager_traffic",)) == {"eager_traffic": 1}


def test_halves_are_stable_and_even() -> None:
    seen = [fit_training.fitted(row) for row in fit_training.rows()]
    assert 0.4 < sum(seen) / len(seen) < 0.6


def test_tables_say_what_the_engine_says() -> None:
    rows = [row for row in fit_training.rows() if fit_training.family(row) == "torchtitan_2024"]
    around = {"flash_2": 0.237, "accumulation_bytes": 33.0, "hopper_matmul": 0.58}
    response = training_response_tables.tabulate(rows, around)
    for moved in ({}, {"flash_2": 0.3}, {"hopper_matmul": 0.5, "flash_2": 0.2}, {"accumulation_bytes": 60.0}):
        given = {**around, **moved}
        engine = [training_response_tables.answered(row, given).time_s for row in rows]
        assert response.total(given) == pytest.approx(engine, rel=0.01)


def test_a_family_left_out_moves_no_constant() -> None:
    rows = [row for row in fit_training.rows() if fit_training.family(row) in ("torchtitan_2024", "nemo")]
    around = {"flash_2": 0.237, "nemo_traffic": 1.4}
    response = training_response_tables.tabulate(rows, around)
    others = np.array([fit_training.family(row) != "torchtitan_2024" for row in rows])
    found = fit_training.solve(response, rows, others)
    assert found["flash_2"] == FREE["flash_2"].unknown and found["nemo_traffic"] != 1.4


def test_a_constant_of_one_format_moves_that_format_alone() -> None:
    """efficiency.matmul.fp8.compute: what other formats reach stays as it is."""
    hardware = load_hardware("h100")
    chip, own = Chip(hardware), Chip(hardware, override={"efficiency.matmul.fp8.compute": 0.111})
    assert own.constants("training", "matmul", "fp8").compute == 0.111
    assert own.constants("training", "matmul", "bf16").compute == chip.constants("training", "matmul", "bf16").compute
    both = Chip(hardware, override={"efficiency.matmul.compute": 0.222})
    assert {both.constants("training", "matmul", dtype).compute for dtype in ("bf16", "fp8")} == {0.222}
    with pytest.raises(UsageError, match=r"no variant 'fp9' of matmul; use one of .*fp8"):
        Chip(hardware, override={"efficiency.matmul.fp9.compute": 0.5})


def test_a_fit_is_robust_and_its_prior_decides_what_no_row_determines() -> None:
    """A line through nine exact rows and one off by e^3: the slope comes back; a constant that moves no row goes to its prior."""
    sizes = np.linspace(1, 2, 10)
    measured = 3.0 * sizes
    measured[4] *= np.exp(3)
    free = {"slope": Constant(0.1, 100.0), "idle": Constant(0.1, 100.0, 7.0, 1.0)}
    found = fit(free, lambda v: np.log(v["slope"] * sizes / measured))
    assert found == pytest.approx({"slope": 3.0, "idle": 7.0}, rel=0.05)
    weighted = fit(free, lambda v: np.log(v["slope"] * sizes / measured), np.where(measured > 10, 1.0, 0.0))
    assert weighted["slope"] == pytest.approx(3.0 * np.exp(3), rel=1e-3)
    assert fit({"slope": Constant(0.1, 2.0)}, lambda v: np.log(v["slope"] / 3.0) * np.ones(2))[
        "slope"
    ] == pytest.approx(2.0)


def test_desk_factors_come_back_and_a_chip_has_no_part_in_its_own() -> None:
    """Times made of two parts at known factors; a chip that is twice as slow as its rows say moves others and not its own prediction."""
    rng = np.random.default_rng(19)
    parts, rest = rng.uniform(1.0, 3.0, (12, 2)), rng.uniform(0.0, 0.5, 12)
    chips = np.repeat(["a", "b", "c", "d"], 3)
    rows = fit_local_machines.TimedRows(chips, parts @ np.array([1.1, 0.7]) + rest, parts, rest)
    assert rows.fit(np.ones(12, dtype=bool)) == pytest.approx([1.1, 0.7])
    assert rows.left_out() == pytest.approx(rows.measured)
    slow = replace(rows, measured=np.where(chips == "b", 2 * rows.measured, rows.measured))
    assert slow.left_out()[chips == "b"] == pytest.approx(rows.measured[chips == "b"])
    assert np.all(slow.left_out()[chips != "b"] > 1.01 * rows.measured[chips != "b"])


def test_no_desk_part_takes_a_negative_time() -> None:
    """What falls as its part grows is fitted without that part."""
    parts = np.array([[1.0, 1.0], [1.0, 2.0], [1.0, 3.0]])
    rows = fit_local_machines.TimedRows(np.array(["a", "b", "c"]), np.array([3.0, 2.0, 1.0]), parts, np.zeros(3))
    found = rows.fit(np.ones(3, dtype=bool))
    assert found[1] == 0.0 and found[0] > 0
