"""Data next to a fit: observed clocks, warm caches, torch kernels, and shipped constants."""

import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
from measure.fits import fit_of

from rooflinecli.measure import cases, device, profile, run, shape_grids, timing, torch_baseline
from rooflinecli.measure.fit import Constants, predict, sizes_of
from rooflinecli.measure.timing import Protocol
from rooflinecli.render import blocks
from rooflinecli.render.views import measure as render
from rooflinecli.specs.hardware import load_hardware

BRIEF = Protocol(budget=0.05, minimum=3, maximum=5)


def smi(monkeypatch, text, code=0):
    done = SimpleNamespace(returncode=code, stdout=text)
    monkeypatch.setattr(subprocess, "run", lambda *a, **k: done)


def test_clocks_power_and_temperature_are_read_and_summed_up(monkeypatch):
    smi(monkeypatch, "1980, 2619, 640.25, 54\n")
    now = device.current_conditions()
    assert now == {"sm_mhz": 1980, "memory_mhz": 2619, "power_w": 640.25, "celsius": 54}
    later = {**now, "sm_mhz": 1410.0}
    stated = device.summary([{"conditions": now}, {"conditions": later}, {"conditions": now}, {}])
    assert "1410 / 1980 / 1980 MHz SM" in stated and "54 / 54 / 54 C" in stated


def test_what_a_device_does_not_report_is_left_out(monkeypatch):
    smi(monkeypatch, "1980, 2619, [N/A], 54\n")
    assert "power_w" not in device.current_conditions() and device.current_conditions()["celsius"] == 54
    smi(monkeypatch, "", 9)
    assert device.current_conditions() == {} and device.summary([{}]) == ""


def test_warm_kernels_are_those_that_fit_a_cache():
    assert shape_grids.takes_warm(cases.matmul(1, 1024, 1024, "bf16"))
    assert not shape_grids.takes_warm(cases.matmul(1, 8192, 8192, "bf16"))
    assert not shape_grids.takes_warm(cases.matmul_training(64, 64, 64, "bf16"))


def test_a_warm_kernel_meets_one_set_of_inputs(env, monkeypatch):
    met = []
    monkeypatch.setattr(timing, "_time", lambda kernel, sets, *rest: met.append(len(sets)))
    for engine in ("xla", cases.WARM):
        timing.timed(cases.matmul(8, 64, 64, "fp32", engine), BRIEF, env, 0.0)
    assert met[0] > 1 and met[1] == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "case", [cases.matmul(8, 64, 32, "bf16", "torch"), cases.prefill(1, 32, 4, 2, 16, "bf16", "torch")]
)
def test_torch_times_the_same_shapes(case, env):
    pytest.importorskip("torch")
    assert torch_baseline.takes(case)
    assert timing.timed(case, BRIEF, env, 0.0).summary.p10 > 0


def test_torch_is_timed_only_where_it_sees_the_device(monkeypatch):
    monkeypatch.setattr(torch_baseline, "find_spec", lambda name: None)
    assert not torch_baseline.present()
    assert not torch_baseline.takes(cases.decode(1, 64, 4, 2, 16, "bf16"))


def test_measured_constants_are_nearer_where_the_timings_are_theirs(env):
    """Timings made from the measured constants themselves: their error is nothing, and that of what ships is not."""
    constants = Constants(300e12, 2e12, 20e-6, 1.0)
    limits = profile.measured_peaks([], "h100-sxm")
    found = fit_of("bf16", constants)
    text = profile.profile_yaml(profile.document(limits, [found], env, name="H100, measured"), Path("chip.yaml"))
    shapes = [cases.matmul(m, 4096, 4096, "bf16") for m in (1, 16, 64, 128, 256, 1024, 4096, 8192)]
    records = [{**c.record(), "busy": 1.0, "held_out": True} for c in shapes]
    for r in records:
        flops, moved, k, launches, _ = sizes_of([{**r, "time_s": 1.0}])
        r["time_s"] = float(predict(constants, flops, moved, k, launches)[0])
    (row,) = run.compared(records, text, Path("chip.yaml"), "h100-sxm")
    assert row["shapes"] == len(shapes) and row["measured_median"] < 0.01 < row["shipped_median"]
    assert row["measured_inside"] == 1.0
    assert blocks.records(render.HELD_OUT, [row]).rows[0][0] == "matmul bf16"


def test_a_pass_beside_the_kernel_is_not_asked_for():
    """fp8 on an H100 is priced with the quantizing of its input, which was not timed with the matmul."""
    from rooflinecli.questions.kernel.question import Matmul

    chip = load_hardware("h100-sxm")
    bare, whole = (
        run.ask(cases.matmul(4096, 4096, 4096, "fp8").record(), chip),
        Matmul(4096, 4096, 4096, dtype="fp8", hw="h100-sxm").answer(),
    )
    assert bare["floor_s"] == whole["floor_s"] and bare["time_s"] < whole["time_s"]


def test_attention_is_asked_as_it_was_timed():
    chip = load_hardware("h100-sxm")
    decode = run.ask(cases.decode(4, 2048, 32, 8, 128, "bf16").record(), chip)
    prefill = run.ask(cases.prefill(1, 2048, 32, 8, 128, "bf16").record(), chip)
    assert decode["bound"] == "memory" and prefill["bound"] == "compute"
    assert prefill["flops"] == pytest.approx(cases.prefill(1, 2048, 32, 8, 128, "bf16").flops)
