"""Profiles load through the engine's loader, alone and on top of a known chip, with provenance and no efficiency above one."""

import math
from dataclasses import replace

import pytest
from measure.fits import fit_of

from rooflinecli.core.errors import DataError
from rooflinecli.measure import collectives, profile
from rooflinecli.measure.device import known_chip
from rooflinecli.measure.fit import Constants
from rooflinecli.specs.hardware import load_hardware

FIT = fit_of("fp32", Constants(150e9, 50e9, 3e-6, 1.0))


def written(tmp_path, data):
    path = tmp_path / "chip.yaml"
    path.write_text(profile.profile_yaml(data, path))
    assert [p.name for p in tmp_path.iterdir()] == ["chip.yaml"]
    return load_hardware(str(path))


def test_an_unknown_cpu_stands_alone(tmp_path, env):
    spec = written(
        tmp_path, profile.document(profile.MeasuredPeaks({"fp32": 200e9}, 40e9, None), [FIT], env, name="Test CPU")
    )
    entry = spec.efficiency["kernel"]["matmul"]["fp32"]
    assert spec.kind == "cpu" and spec.peak["fp32"].si == 200e9 and spec.memory.bandwidth.si == 40e9
    assert (
        entry.compute == pytest.approx(0.75)
        and entry.memory == 1.0
        and entry.p == 1
        and entry.overhead == pytest.approx(3e-6)
    )
    assert spec.measured["jax"] == "0.10.2" and spec.measured["complete"] == 1
    assert spec.measured["kernel.matmul.fp32.held_out_median"] == 0.05


def test_a_known_chip_is_extended(tmp_path, env):
    fit = fit_of("bf16", Constants(700e12, 3e12, 4e-6, 3.0, 64, 0.3e-9))
    env = replace(env, platform="gpu", kind="NVIDIA H100 80GB HBM3")
    chip = known_chip(env.kind)
    limits = profile.measured_peaks([], chip)
    spec = written(tmp_path, profile.document(limits, [fit], env, name="H100, measured"))
    base = load_hardware(chip)
    entry = spec.efficiency["kernel"]["matmul"]["bf16"]
    assert spec.peak["bf16"].si == base.peak["bf16"].si and len(spec.network) == len(base.network)
    assert (
        entry.compute == pytest.approx(700e12 / base.peak["bf16"].si, rel=1e-3)
        and entry.k0 == 64
        and entry.tau == pytest.approx(0.3e-9)
    )
    assert "complete" not in spec.measured and spec.measured["device"] == env.kind


@pytest.mark.parametrize(
    ("kind", "named"),
    [
        ("NVIDIA H200", "h200-sxm"), ("NVIDIA H100 PCIe", "h100-pcie"), ("NVIDIA A100-SXM4-80GB", "a100-sxm-80"), ("NVIDIA B300 SXM6 AC", "b300-sxm"),
        ("TPU v5 lite", "tpu-v5e"), ("TPU v5", "tpu-v5p"), ("TPU v6 lite", "tpu-v6e"), ("AMD Instinct MI300X", "mi300x"),
    ],
)  # fmt: skip
def test_devices_are_recognised(kind, named):
    assert known_chip(kind) == named


def test_a_cpu_extends_nothing():
    assert known_chip("AMD EPYC") is None and known_chip("ryzen-9-9950x") is None


def test_no_measurement_is_no_roof():
    with pytest.raises(ValueError):
        profile.measured_peaks([], None)


def test_a_profile_the_engine_refuses_is_not_left_behind(tmp_path, env):
    data = profile.document(profile.MeasuredPeaks({"fp32": 200e9}, 40e9, None), [FIT], env, name="x") | {"nonsense": 1}
    with pytest.raises(DataError):
        profile.profile_yaml(data, tmp_path / "x.yaml")
    assert list(tmp_path.iterdir()) == []


def test_collectives_become_a_network_level(tmp_path, env):
    rows = []
    env = replace(env, devices=8)
    for case in collectives.chosen(env, False):
        record = case.record()
        record["time_s"] = 20e-6 + collectives.bus_bytes(record) / 5e9
        rows.append(record)
    limits = profile.MeasuredPeaks({"fp32": 200e9}, 40e9, None)
    levels = collectives.network(rows, limits, env)
    spec = written(tmp_path, profile.document(limits, [FIT], env, name="x", network=levels))
    level = spec.network[0]
    assert level.size == 8 and level.bandwidth.si == pytest.approx(5e9, rel=0.1)
    assert {"all-reduce", "all-gather", "any"} <= set(level.efficiency)
    assert level.efficiency["all-reduce"].overhead == pytest.approx(20e-6, rel=0.3)
    assert all(math.isfinite(e.error) and e.memory <= 1 for e in level.efficiency.values())
