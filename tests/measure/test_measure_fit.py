"""The fit finds constants it was not given, ignores what disturbed it, says when it is no good, and agrees with the engine."""

import math
import random

import pytest
from measure.fits import constants_of

from rooflinecli.ledger.ops import Op
from rooflinecli.measure import cases, profile, shape_grids
from rooflinecli.measure.fit import Constants, best_records, fit_all, fit_class, predict
from rooflinecli.price.chip import Chip
from rooflinecli.price.kernels import price
from rooflinecli.specs.hardware import load_hardware


def records(truth, kinds=("matmul",), noise=0.0, seed=1, busy=1.0):
    rng = random.Random(seed)
    result = []
    for case in shape_grids.chosen(tuple(shape_grids.GRIDS), "cpu", False, ("fp32",)):
        if case.kind in kinds or case.suite == "bandwidth":
            c = truth
            seconds = predict(c, case.flops, case.bytes, float(case.sizes.get("k", 1)), float(case.launches))
            seconds = (
                case.bytes / 40e9 if case.suite == "bandwidth" else float(seconds) * math.exp(noise * rng.gauss(0, 1))
            )
            result.append({**case.record(), "time_s": seconds, "busy": busy})
    return result


@pytest.mark.sampled(1)
@pytest.mark.parametrize("p", [1.0, 2.0, math.inf])
def test_constants_are_recovered(p):
    truth = Constants(200e9, 30e9, 20e-6, p)
    (fit,) = [f for f in fit_all(records(truth, noise=0.02), {"fp32": 210e9}, 40e9, "cpu") if f.regime == "kernel"]
    assert constants_of(fit).p == p
    assert fit.compute_flops_per_s == pytest.approx(200e9, rel=0.05)
    assert fit.memory_bytes_per_s == pytest.approx(30e9, rel=0.1)
    assert fit.held_out_median < 0.03 and fit.shapes_held_out > 20 and not fit.worse_than_roofline


def test_a_few_disturbed_shapes_do_not_bend_the_fit():
    rows = records(Constants(200e9, 30e9, 20e-6, 1.0), noise=0.02)
    for r in rows[::9]:
        r["time_s"] *= 2
    (fit,) = [f for f in fit_all(rows, {"fp32": 210e9}, 40e9, "cpu") if f.regime == "kernel"]
    assert fit.compute_flops_per_s == pytest.approx(200e9, rel=0.08)


def test_shapes_timed_on_a_busy_machine_are_left_out_while_enough_remain():
    rows = [r for r in records(Constants(200e9, 30e9, 20e-6, 1.0)) if r["kind"]]
    for r in rows[::4]:
        r["busy"] = 2.0
    used = best_records(rows)["kernel", "matmul", "fp32"]
    assert all(r["busy"] == 1.0 for r in used)
    for r in rows:
        r["busy"] = 2.0
    assert len(best_records(rows)["kernel", "matmul", "fp32"]) > 50


def test_held_out_shapes_do_not_move_the_constants():
    rows = [r for r in records(Constants(200e9, 30e9, 20e-6, 1.0), noise=0.05) if r["kind"] and r["regime"] == "kernel"]
    before = fit_class("kernel", "matmul", "fp32", rows, 210e9, 40e9, "cpu")
    for r in rows:
        if r["held_out"]:
            r["time_s"] *= 3
    after = fit_class("kernel", "matmul", "fp32", rows, 210e9, 40e9, "cpu")
    assert constants_of(after) == constants_of(before) and after.held_out_median > 0.5


def test_a_fit_worse_than_the_roofline_says_so_and_is_left_out(env):
    rows = [r for r in records(Constants(200e9, 40e9, 1e-9, math.inf)) if r["kind"]]
    for r in rows:
        if not r["held_out"]:
            r["time_s"] *= 5
    fits = fit_all(rows, {"fp32": 200e9}, 40e9, "cpu")
    assert all(f.worse_than_roofline for f in fits)
    limits = profile.MeasuredPeaks({"fp32": 200e9}, 40e9, None)
    assert profile.document(limits, fits, env, name="x")["efficiency"] == {}
    assert "matmul" in profile.document(limits, fits, env, name="x", force=True)["efficiency"]["kernel"]


def test_the_written_profile_prices_as_the_fit_predicts(tmp_path, env):
    truth = Constants(180e9, 30e9, 25e-6, 1.0)
    rows = records(truth, noise=0.01)
    limits, fits = profile.fit_records(rows, env, None)
    path = tmp_path / "cpu.yaml"
    path.write_text(profile.profile_yaml(profile.document(limits, fits, env, name="test"), path))
    chip = Chip(load_hardware(str(path)))
    for m, n, k in ((1, 768, 768), (64, 3072, 768), (1024, 1024, 1024)):
        case = cases.matmul(m, n, k, "fp32")
        op = Op(name="matmul", kind="matmul", dtype="fp32", flops=case.flops, bytes=case.bytes, k=k, n=n, ramp=1 / k)
        priced = price(op, chip, "kernel")
        fit = next(f for f in fits if f.regime == "kernel")
        assert priced.expected == pytest.approx(
            float(predict(constants_of(fit), case.flops, case.bytes, float(k), 1.0)), rel=2e-3
        )
        assert max(priced.t_compute, priced.t_memory) <= priced.expected
