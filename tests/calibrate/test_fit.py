"""The fit against rows made by moving the engine's own constants: what was moved is found, what no row tells of stays."""

from __future__ import annotations

import numpy as np
import pytest

from rooflinecli.calibrate.phase_fit import fit, solve_all
from rooflinecli.calibrate.posterior import BLOCKS, SETTINGS, PriorSettings, log_likelihood, merged, student, weights
from rooflinecli.calibrate.predicted_row import PredictedRow, RowPredictor, seconds
from rooflinecli.calibrate.resolve_rows import outlier_z
from rooflinecli.core.errors import UsageError
from rooflinecli.engine import build_request
from rooflinecli.engine.context import EstimateContext
from rooflinecli.price import overrides
from rooflinecli.price.chip import Chip
from rooflinecli.specs.engine import load_engine
from rooflinecli.specs.hardware import load_hardware
from rooflinecli.specs.layout import Layout

SIZES = [(1, 512), (4, 2048), (16, 1024), (64, 4096), (128, 512), (32, 8192)]


def solve(predictor, measured, setting):
    """The posterior of one draw, which takes every row."""
    return solve_all(predictor, measured[None], setting, np.ones((1, len(measured)), dtype=bool))[0]


def decode_rows(factors, noise=None):
    rows = []
    for i, (batch, prompt) in enumerate(SIZES):
        options = {
            "model": "llama-3.1-8b",
            "hw": "h100-sxm",
            "batch": batch,
            "prompt": prompt,
            "output": 128,
            "phase": ["decode"],
        }
        ctx, plan = EstimateContext(build_request.request(options)), Layout(zero=0)
        wobble = 1.0 if noise is None else noise[i]
        rows.append(
            PredictedRow(
                ctx,
                plan,
                "itl",
                float(seconds(ctx.with_factors(factors), plan, "itl")) * wobble,
                f"log:{i}",
                options=options,
            )
        )
    return rows


@pytest.mark.parametrize("phase", BLOCKS)
def test_every_constant_of_a_block_exists(phase):
    spec = load_hardware("h100-sxm")
    for path in merged(phase, np.zeros(len(BLOCKS[phase]))):
        assert overrides.unit(spec, overrides.TIMES + path) == "1"


def test_what_was_moved_is_found():
    """Weights stream at 0.75 of the shipped rate: the block moves by 1/0.75, others hardly."""
    moved = {
        path: 0.75
        for path in merged("decode", np.zeros(7))
        if path.endswith("matmul.memory") or path.startswith("efficiency.elementwise")
    }
    found = fit(decode_rows(moved), PriorSettings(2.0, 0.02, 0.02, 0.9))
    names = [b.name for b in found.blocks]
    assert np.expm1(found.x[names.index("stream")]) == pytest.approx(1 / 0.75 - 1, abs=0.08)
    assert abs(found.x[names.index("collective")]) < 1e-6  # one device: nothing is exchanged
    assert found.contraction[names.index("collective")] == pytest.approx(0, abs=1e-9)
    assert found.contraction[names.index("stream")] > 0.75
    assert found.supported
    assert abs(found.residuals).max() < 0.02 < abs(found.before).max()


def test_rows_that_agree_with_the_shipped_constants_move_nothing():
    found = fit(decode_rows({}, noise=[1.01, 0.99, 1.0, 1.01, 0.99, 1.0]))
    assert not found.supported
    assert abs(found.x).max() < 0.05


def test_one_corrupted_row_loses_its_pull():
    moved = {"efficiency.matmul.memory": 0.8}
    clean = fit(decode_rows(moved))
    wrong = fit(decode_rows(moved, noise=[1, 1, 4.0, 1, 1, 1]))
    others = [0, 1, 3, 4, 5]
    assert abs(np.expm1(-wrong.residuals[others])).max() < 0.05 + abs(np.expm1(-clean.residuals[others])).max()
    assert abs(outlier_z(wrong)).argmax() == 2
    assert abs(outlier_z(wrong))[2] > 4


def test_derivatives_are_those_of_single_answers():
    rows = decode_rows({})
    pricer = RowPredictor(rows)
    x = np.full(7, 0.1)
    slopes = pricer.linear(x[:, None])[1][:, 0]
    for k in range(7):
        high, low = x.copy(), x.copy()
        high[k] += 0.01
        low[k] -= 0.01
        each = [
            (np.log(seconds(q.ctx.with_factors({p: float(f) for p, f in merged("decode", high).items()}), q.layout, "itl"))
             - np.log(seconds(q.ctx.with_factors({p: float(f) for p, f in merged("decode", low).items()}), q.layout, "itl"))) / 0.02
            for q in rows
        ]  # fmt: skip
        assert slopes[:, k] == pytest.approx(each, abs=1e-9)


def test_student_quantiles():
    """Two-sided 80% points of the t distribution, Abramowitz and Stegun 1964, table 26.10."""
    assert [student(n) for n in (4, 6, 10, 30)] == pytest.approx([1.533, 1.440, 1.372, 1.310], rel=3e-3)


def test_weights_follow_the_t_likelihood():
    assert weights(np.array([0.0, 0.15, 0.6]), 0.15) == pytest.approx([1.25, 1.0, 0.25])


def test_fractions_never_exceed_one_and_overlap_leaves_zero():
    assert overrides.scaled("efficiency.matmul.compute", 0.8, 2.0) == 1
    assert overrides.scaled("efficiency.tp_collective.overlap", 0.0, 2.0) == 0.5
    assert overrides.scaled("efficiency.tp_collective.overlap", 1.0, 0.5) == 0.5
    assert overrides.scaled("engine.per_step", 1.5e-3, 2.0) == 3e-3
    assert overrides.scaled("engine.kv_fraction", 0.9, 2.0) == 1


@pytest.mark.parametrize(
    "path", ["times.peak.bf16", "times.efficiency.nothing.compute", "engine.nothing", "times.engine.source"]
)
def test_unknown_constants_are_errors(path):
    with pytest.raises(UsageError, match=path.removeprefix("times.").rpartition(".")[2]):
        Chip(load_hardware("h100-sxm"), override={path: 1.0})


def test_engine_constants_can_be_replaced():
    """A step that costs the engine 10 ms more takes 10 ms more."""
    shipped = load_engine("python-server").per_step
    options = {"model": "llama-3.1-8b", "hw": "h100-sxm", "batch": 1, "prompt": 512, "output": 128}
    plain, slower = (
        seconds(EstimateContext(build_request.request(options), override=override), Layout(zero=0), "itl")
        for override in (None, {"engine.per_step": shipped + 10e-3})
    )
    assert slower - plain == pytest.approx(10e-3)


def test_settings_cover_every_phase():
    assert SETTINGS.keys() == BLOCKS.keys()


def test_what_own_rows_buy_is_scored_on_rows_left_out():
    """A family whose machine streams at 0.7 of the shipped rate: shipped is off, calibrated is not, and a corrupted row costs little."""
    from lab.calibration_families import Family
    from lab.calibration_study import Draw, line, scores

    moved = {"efficiency.matmul.memory": 0.7, "efficiency.elementwise.memory": 0.7, "efficiency.gather.memory": 0.7}
    family = Family("family", decode_rows(moved))
    asked = [Draw("4", np.array([0, 2, 3, 5]), np.array([1, 4])), Draw("4", np.array([0, 1, 2, 3]), np.array([4, 5]))]
    found = scores(family, asked, SETTINGS["decode"])
    row = line("all", "4", [found])
    assert row["families"] == 1
    assert row["calibrated"] < 0.5 * row["before"]
    assert row["change"] == pytest.approx(row["calibrated"] / row["before"] - 1)
    assert 0 < row["half_width"] < 0.4
    corrupted = Draw("corrupted", np.array([0, 1, 2, 3, 4]), np.array([5]), wrong=True)
    (bad,) = scores(family, [corrupted], SETTINGS["decode"])
    assert bad.after < bad.before


def test_draws_solved_together_are_those_solved_alone():
    """Masks and numbers of one draw do not leak into another."""
    rows = decode_rows({"efficiency.matmul.memory": 0.7}, noise=[1.1, 0.95, 1, 1.3, 1, 1])
    pricer, logs = RowPredictor(rows), np.log([q.measured for q in rows])
    masks = np.array([[True] * 6, [True, False, True, True, False, True]])
    both = solve_all(pricer, np.stack([logs, logs + 0.2]), SETTINGS["decode"], masks)
    alone = solve(pricer, logs, SETTINGS["decode"])
    few = solve(RowPredictor([rows[i] for i in (0, 2, 3, 5)]), logs[[0, 2, 3, 5]] + 0.2, SETTINGS["decode"])
    for together, single in zip(both, (alone, few), strict=True):
        assert together.x == pytest.approx(single.x, abs=1e-12)
        assert together.evidence == pytest.approx(single.evidence, abs=1e-9)
        assert together.error == pytest.approx(single.error, abs=1e-9)


@pytest.mark.slow
def test_the_fit_is_the_top_of_the_posterior():
    """No small move of any block makes the posterior larger than the few rounds of the fit did."""
    rows, setting = decode_rows({"efficiency.matmul.memory": 0.6}, noise=[1.1, 0.95, 1, 1.3, 1, 1]), SETTINGS["decode"]
    pricer, logs = RowPredictor(rows), np.log([q.measured for q in rows])
    found = solve(pricer, logs, setting)

    def worth(x):
        residuals = logs - pricer.log_seconds(x[:, None])[:, 0]
        return log_likelihood(residuals, setting.sigma) - 0.5 * float(((x / found.prior) ** 2).sum())

    for k in range(len(found.x)):
        for step in (-0.05, 0.05):
            assert worth(found.x + step * np.eye(len(found.x))[k]) < worth(found.x) + 3e-3


def test_a_small_half_predicts_the_larger_rows():
    """Rows are parted by one size: the smaller are fitted, the larger scored."""
    from lab.calibration_families import Family
    from lab.calibration_study import beyond

    family = Family("family", decode_rows({}))
    by = {draw.what: draw for draw in beyond("decode", family)}
    assert "devices" not in by  # all on one
    for name, column in (("batch", 0), ("prompt", 1)):
        sizes = np.array([size[column] for size in SIZES])
        assert max(sizes[by[name].taken]) < min(sizes[by[name].left])


def test_constants_left_out_are_those_of_a_family_never_fitted():
    """A family that no fit sees keeps what ships; the others get constants for what moves them."""
    from lab import leave_one_family_out
    from rooflinecli.validate.published_training import family, timed

    unseen = next(row for row in timed() if family(row) in leave_one_family_out.UNSEEN)
    assert leave_one_family_out.training(unseen) == {}


@pytest.mark.parametrize(("op", "stride"), [("permute", 4.0), ("all-reduce", 1.0)])
def test_a_transfer_between_stages_crosses_their_tensor_groups(op, stride):
    """Stages send to the same rank of the next one, tp devices away."""
    from rooflinecli.calibrate.predicted_row import _collective
    from rooflinecli.importers.source import MeasuredRow

    row = MeasuredRow("log:1", "nccl-tests", "collective", 1e-3, probe={"op": op, "bytes": 1e8, "n": 2.0})
    made, devices = _collective(row, {"tp": "4"})
    assert (made.op, made.size, made.n, made.stride, devices) == (op, 1e8, 2.0, stride, 2.0 * stride)


@pytest.mark.parametrize("quantity", ["static", "throughput", "itl", "prefill"])
def test_the_floor_of_a_row_is_that_of_what_it_measured(quantity):
    """Batches prefilled and decoded together take at least their decode steps at peak rates; a throughput has no floor of its own."""
    from rooflinecli.engine import build_request, evaluate
    from rooflinecli.engine.context import EstimateContext
    from rooflinecli.specs.layout import Layout

    ctx = EstimateContext(
        build_request.request({"model": "llama-3-8b", "hw": "h100", "batch": 8, "prompt": 512, "output": 64})
    )
    row = PredictedRow(ctx, Layout(zero=0), quantity, 1.0)
    step = float(evaluate.SHIPPED["decode"](ctx, row.layout).floor_s)
    least = {"static": 63 * step / (8 * 64), "throughput": 0.0, "itl": step, "prefill": 0.0}[quantity]
    assert least <= row.floor <= row.on(ctx.chip) and (row.floor > 0) == (quantity != "throughput")
    assert quantity != "static" or row.floor < 1.5 * least


def test_what_a_measurement_would_tell_is_the_update_of_a_gaussian():
    """Kalman's: S - S c c' S / (sigma^2 + c' S c), for any covariance, candidates and goals."""
    from types import SimpleNamespace

    from rooflinecli.calibrate.answer import reduced_variance

    rng = np.random.default_rng(3)
    root, candidates, goals, sigma = rng.normal(size=(4, 4)), rng.normal(size=(5, 4)), rng.normal(size=(3, 4)), 0.3
    s = root @ root.T
    before, after = reduced_variance(
        SimpleNamespace(covariance=s, setting=SimpleNamespace(spread=sigma)), candidates, goals
    )

    def deviation(covariance):
        return np.sqrt(np.mean([g @ covariance @ g for g in goals]))

    assert before == pytest.approx(deviation(s))
    updated = [s - np.outer(s @ c, s @ c) / (sigma**2 + c @ s @ c) for c in candidates]
    assert after == pytest.approx([deviation(one) for one in updated])
