"""A power limit below the one at which a chip's rates were stated slows compute in every phase, and leaves the floor alone."""

from __future__ import annotations

import pytest

from rooflinecli.interfaces.python import api
from rooflinecli.specs.hardware import load_hardware

CAPPED = 'extends: h100-sxm\nname: H100 at 350 W\npower: {value: 350 W, source: "a rack"}\n'
OWN = CAPPED + f'peak: {{bf16: {{value: {load_hardware("h100").peak["bf16"].value}, source: "at 350 W"}}}}\n'
ASK = {"n": 8, "tp": 8, "prompt": 8000, "output": 100}


@pytest.fixture
def chips(tmp_path, monkeypatch):
    (tmp_path / "hardware").mkdir()
    for name, text in (("capped", CAPPED), ("own", OWN), ("below", "extends: capped\nname: Under an overlay\n")):
        (tmp_path / "hardware" / f"{name}.yaml").write_text(text)
    monkeypatch.setenv("ROOFLINE_PATH", str(tmp_path))


def test_the_rated_power_is_that_of_the_file_that_states_the_rates(chips):
    assert [load_hardware(name).rated_power for name in ("h100", "capped", "below", "own")] == [700, 700, 700, 350]


def test_compute_follows_the_cube_root_of_the_power(chips):
    full, half = (
        api.estimate("llama-3-70b", hw, phase="prefill", **ASK)["phases"]["prefill"] for hw in ("h100", "capped")
    )
    matmul = [answer["breakdown_s"]["matmul"] for answer in (full, half)]
    assert 1.15 < matmul[1] / matmul[0] <= 2 ** (1 / 3) + 1e-9  # most of it is compute, a little is not
    assert half["floor_s"] == full["floor_s"]


@pytest.mark.parametrize("phase", ["prefill", "decode", "train"])
def test_every_phase_feels_it(chips, phase):
    big = {"batch": 512, "seq": 4096} if phase == "train" else {"batch": 512, "prompt": 512}
    full, half = (
        api.estimate("llama-3-8b", hw, phase=phase, n=8, tp=8, pp=1, dp=1, **big)["phases"][phase]["time_s"]
        for hw in ("h100", "capped")
    )
    assert half > full * 1.005


def test_a_file_with_rates_of_its_own_is_taken_at_its_word(chips):
    own, full = (
        api.estimate("llama-3-8b", hw, phase="prefill")["phases"]["prefill"]["time_s"] for hw in ("own", "h100")
    )
    assert own == full


def test_a_sweep_over_the_limit(cli):
    ran = cli(
        "sweep",
        "llama-3-8b",
        "--hw",
        "h100",
        "--phase",
        "prefill",
        "--set",
        "power=350 W,700 W,900 W",
        "--columns",
        "prefill.time_s",
        "--format",
        "json",
    )
    slow, rated, more = (point["prefill.time_s"] for point in ran.json["points"])
    assert slow > rated == more
