"""What rows showed in addition to the blocks: it holds for questions like them, fades with distance, and is in the file as it was in the fit."""

from __future__ import annotations

import numpy as np
import pytest
import yaml
from calibrate.test_fit import decode_rows

from rooflinecli.calibrate.answer import CalibrationAnswer, hardware_yaml, report
from rooflinecli.calibrate.phase_fit import MOST, fit, fit_phase, local, log_evidence, places, with_share
from rooflinecli.calibrate.posterior import SETTINGS
from rooflinecli.calibrate.predicted_row import RowPredictor
from rooflinecli.engine import apply_calibration, build_request
from rooflinecli.formulas.calibration import similarity
from rooflinecli.specs.hardware import Calibration, load_hardware
from rooflinecli.specs.validation import validated

SLOW = {"efficiency.matmul.memory": 0.6, "efficiency.elementwise.memory": 0.6, "efficiency.gather.memory": 0.6}


@pytest.fixture(scope="module")
def rows():
    """Weights stream slowly, and the row of 64 sequences takes a fifth longer than that explains."""
    return decode_rows(SLOW, noise=[1, 1, 1, 1.2, 1, 1])


@pytest.fixture(scope="module")
def found(rows):
    return fit_phase("decode", "python-server", rows, 0.0, 0)


def test_a_row_is_followed_nearby_and_not_far_away(rows, found):
    at = places(rows)
    moves = found.local.shift(at)
    assert moves.argmax() == 3
    assert 0 < moves[3] <= found.posterior.residuals[3] / found.posterior.slopes[3].sum()
    far = at + np.log(1e3)
    assert abs(found.local.shift(far)).max() < 1e-6


def test_it_is_the_mean_of_a_gaussian_process(rows):
    """One row alone: what it leaves over, shrunk by prior against noise, in the time that all blocks move."""
    posterior = fit(rows)
    posterior.residuals = np.array([0.05])
    posterior.slopes = np.full((1, len(posterior.x)), 1 / len(posterior.x))
    alone = local(places(rows[:1]), posterior, [0])
    weight = 5 / (4 + (0.05 / 0.09) ** 2)
    share = 0.15**2 / (0.15**2 + 0.06**2 / weight)
    assert alone.shift(places(rows[:1]))[0] == pytest.approx(0.05 * share)
    twice = places(rows[:1]) + np.log(2) * np.eye(4)[0]
    assert alone.shift(twice)[0] == pytest.approx(0.05 * share * 2 ** (-np.log(2) / 2))


def test_shipped_constants_that_stay_are_not_moved_nearby_either():
    still = decode_rows({}, noise=[1.02, 0.98, 1, 1.02, 0.99, 1])
    assert not fit(still).supported
    assert not len(fit_phase("decode", "python-server", still, 0.0, 0).local.moves)


@pytest.fixture(scope="module")
def still():
    """Rows lie a sixth above and below what the shipped constants say, in an order that no constant explains."""
    return fit_phase("decode", "python-server", decode_rows({}, noise=[1.18, 0.85, 0.85, 1.18, 0.85, 1.18]), 0.0, 0)


def test_first_tokens_differ_more_from_place_to_place_and_are_followed_further(rows):
    posterior, at = fit(rows[:1]), places(rows[:1])
    posterior.residuals, posterior.slopes, posterior.evidence = np.array([0.4]), np.ones((1, 7)) / 7, 1.0
    posterior.setting = SETTINGS["decode"]
    decode = local(at, posterior, [0]).moves[0]
    posterior.setting = SETTINGS["ttft"]
    assert decode < 0.25 < 0.3 < local(at, posterior, [0]).moves[0] < 0.4


def test_rows_may_favour_a_move_near_them_where_they_favour_none_of_the_constants(still):
    assert not still.posterior.supported
    assert not still.posterior.taken.any()
    assert still.moved
    moves = still.local.shift(places(still.rows))
    assert (moves * still.posterior.before > 0).all()
    assert (abs(moves) < abs(still.posterior.before) / still.posterior.slopes.sum(axis=1)).all()


def test_the_report_says_that_constants_stay_and_answers_near_the_rows_move(still):
    found = report(CalibrationAnswer(load_hardware("h100-sxm"), 6, [still]))
    assert [note for note in found["notes"] if "which stay, but near these rows answers follow them" in note]
    assert not [row["block"] for row in found["tables"][1]["rows"] if row["move"] is not None]


@pytest.mark.slow
def test_rows_that_do_not_predict_each_other_move_nothing():
    """A family that is right apart from scatter stays as shipped; one that is off as a whole is followed, nearly in full."""
    scattered = fit_phase(
        "decode", "python-server", decode_rows({}, noise=[1.18, 0.85, 0.85, 0.85, 1.18, 1.18]), 0.0, 0
    )
    assert (scattered.posterior.share, scattered.moved, abs(scattered.posterior.taken).max()) == (0.0, False, 0.0)
    assert not scattered.local.moves.any()
    together = fit_phase("decode", "python-server", decode_rows({}, noise=[1.3] * 6), 0.0, 0)
    assert together.posterior.share > 0.85
    little = fit_phase("decode", "python-server", decode_rows({}, noise=[1.03] * 6), 0.0, 0)
    assert little.posterior.share < 0.35
    assert fit_phase("decode", "python-server", decode_rows({}, noise=[1.3] * 6)[:1], 0.0, 0).posterior.share == 1


def test_the_share_is_that_of_rows_left_out_one_by_one():
    """The closed form against a normal posterior computed without each row."""
    rows = decode_rows({}, noise=[1.05, 1.1, 1.15, 1.1, 1.05, 1.1])
    posterior = fit(rows)
    posterior.residuals = 0 * posterior.residuals  # full trust in every row
    at, setting = places(rows), posterior.setting
    slope = posterior.slopes.sum(axis=1)
    near = setting.amplitude**2 * similarity(((at[:, None] - at[None]) ** 2).sum(axis=-1))
    whole = posterior.slopes @ np.diag(posterior.prior**2) @ posterior.slopes.T + np.outer(slope, slope) * near
    predicted = []
    for i in range(len(rows)):
        others = [j for j in range(len(rows)) if j != i]
        known = whole[np.ix_(others, others)] + setting.spread**2 * np.eye(len(others))
        predicted.append(whole[i, others] @ np.linalg.solve(known, posterior.before[others]))
    mean = np.array(predicted)
    share = posterior.before @ mean / (mean @ mean + setting.caution * setting.spread**2)
    assert 0 < share < 1 and with_share(posterior, at).share == pytest.approx(share)


def test_evidence_for_a_move_nearby_is_that_of_the_normal_density():
    left, noise = np.array([0.1, -0.2]), np.array([0.01, 0.02])
    whole = np.array([[0.03, 0.01], [0.01, 0.05]])

    def density(covariance):
        inverse = np.linalg.inv(covariance)
        return -0.5 * left @ inverse @ left - 0.5 * np.log(np.linalg.det(2 * np.pi * covariance))

    assert log_evidence(left, whole, noise) == pytest.approx(density(whole) - density(np.diag(noise)))


@pytest.mark.parametrize("which", ["found", "still"])
def test_a_file_answers_as_the_fit_did(which, request, tmp_path):
    found = request.getfixturevalue(which)
    rows = found.rows
    text = hardware_yaml(CalibrationAnswer(load_hardware("h100-sxm"), len(rows), [found]))
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    written = yaml.safe_load(text)["calibration"]["decode"]["python-server"]
    assert len(written["near"]) > 1
    shift = found.local.shift(places(rows))
    expected = np.exp(RowPredictor(rows).log_seconds(found.posterior.taken[:, None], shift[:, None])[:, 0])
    from rooflinecli.engine.context import EstimateContext
    from rooflinecli.engine.evaluate import PHASES

    for q, seconds in zip(rows, expected, strict=True):
        ctx = EstimateContext(build_request.request({**q.options, "hw": str(file)}))
        assert float(PHASES["decode"](ctx, q.layout).time_s) == pytest.approx(seconds, rel=2e-3)  # rounded in the file


def test_an_array_of_sizes_gives_what_each_gives():
    near = validated(
        Calibration, {"factors": {}, "error": 0.1, "date": "d", "rows": 1, "before": 0, "after": 0,
         "near": [{"at": {"batch": 8, "prompt": 512}, "move": 0.1}]}
    ).near[0]  # fmt: skip
    batches = np.array([8.0, 8 * np.e, 800.0])
    together = apply_calibration.similarity({"batch": batches, "prompt": 512.0}, near.at)
    assert together == pytest.approx(
        [apply_calibration.similarity({"batch": b, "prompt": 512.0}, near.at) for b in batches]
    )
    assert together[:2] == pytest.approx([1, np.exp(-0.5)])
    assert similarity(0.0) == 1


@pytest.mark.slow
def test_a_file_keeps_so_many_places(rows):
    posterior = fit(rows * 20)
    assert len(local(places(rows * 20), posterior, range(120)).moves) <= MOST
