"""Power, energy and their intervals: the form, its fit, caps, and published statements inside the interval."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from conftest import examples, run_cli
from hypothesis import given, settings
from hypothesis import strategies as st

from lab import fit_images
from lab.left_out import power_constants
from rooflinecli.core.errors import RooflineWarning, UsageError
from rooflinecli.engine import build_request
from rooflinecli.engine.phase_answer import PhaseAnswer
from rooflinecli.formulas import energy
from rooflinecli.questions.estimate.answer import estimate
from rooflinecli.render.numbers import label
from rooflinecli.specs.hardware import load_hardware
from rooflinecli.specs.quantities import DERIVED, LESS, MORE
from rooflinecli.specs.snapshots import published
from rooflinecli.validate import energy as validated
from rooflinecli.validate.stats import Points, errors, joined, np

SERVED = {"model": "llama-3-8b", "hw": "h100", "tp": 1, "prompt": 512, "output": 256, "engine": "vllm"}


def phase(name: str = "decode", **options: object) -> PhaseAnswer:
    return estimate(build_request.request({**SERVED, "phase": name, **options})).phases[name]


@given(
    static=st.floats(0.05, 0.9), m=st.floats(0, 2), c=st.floats(0, 2), u=st.floats(0, 1), f=st.floats(0, 1), dt=st.floats(1, 20)
)  # fmt: skip
@settings(max_examples=examples(60), deadline=None)
def test_more_work_per_second_never_draws_less_and_a_slower_pass_never_needs_less_energy(
    static: float, m: float, c: float, u: float, f: float, dt: float
) -> None:
    fast, slow = energy.power_fraction(static, m, c, u, f), energy.power_fraction(static, m, c, u / dt, f / dt)
    assert static * 0.999 <= slow <= fast <= 1.0
    assert slow * dt >= fast * 0.999999


@pytest.mark.slow
def test_the_constants_of_a_chip_are_the_fit_to_its_rows() -> None:
    for hw in ("h100-sxm", "b200-sxm"):
        draw = load_hardware(hw).draw
        assert draw is not None
        fitted = power_constants([row for row in validated.rows() if row.hw == hw])
        assert (draw.static, draw.memory, draw.compute) == pytest.approx(fitted, abs=0.002)
        share = power_constants([row for row in validated.rows() if row.hw == hw], constant=True)[0]
        assert draw.moe == pytest.approx(share, abs=0.002)


@pytest.mark.slow
def test_measured_power_is_predicted_for_models_that_the_fit_never_saw() -> None:
    found = [row for row in validated.rows() if row.kind == "dense"]
    points = validated.points("joules per output token", "", found)
    off = errors(points.expected / points.measured)
    inside = np.mean((points.low <= points.measured) & (points.measured <= points.high))
    assert off["mean"] < 0.15 and off["median"] < 0.10 and 0.75 <= inside <= 0.88
    at_measured = validated.points("power at the measured throughput", "", list(validated.rows()))
    assert errors(at_measured.expected / at_measured.measured)["mean"] < 0.18
    assert len(joined("all", [at_measured]).measured) == 262


@pytest.mark.slow
def test_the_power_of_models_with_experts_is_within_the_bar_of_their_energy_and_h100_s_energy_too() -> None:
    experts = [row for row in validated.rows() if row.kind == "MoE"]
    for quantity, found in (
        ("power at the estimated throughput", experts),
        ("joules per output token", [row for row in experts if row.hw == "h100-sxm"]),
    ):
        points = validated.points(quantity, "", found)
        off = errors(points.expected / points.measured)
        assert off["mean"] < 0.20 and off["median"] < 0.15
    points = validated.points("joules per output token", "", experts)
    inside = np.mean((points.low <= points.measured) & (points.measured <= points.high))
    off = errors(points.expected / points.measured)
    assert off["mean"] < 0.20 and off["median"] < 0.15 and 0.75 <= inside <= 0.88


@pytest.mark.parametrize("name", ["prefill", "decode", "train"])
def test_energy_adds_up_and_its_interval_joins_rate_and_power(name: str) -> None:
    more = {"concurrency": 16} if name == "decode" else {}
    options = {k: v for k, v in SERVED.items() if name != "train" or k in ("model", "hw")}
    found = estimate(build_request.request({**options, **more, "phase": name})).phases[name]
    d = found.derived
    devices = found.layout_of_phase.devices
    assert d["joules_per_token"] == pytest.approx(devices * d["power_w"] / found.tokens_per_s)
    assert d["tokens_per_joule"] == pytest.approx(1 / d["joules_per_token"])
    assert d["facility_joules_per_token"] == pytest.approx(d["joules_per_token"] * 1.6 * 1.09)
    low, high = found.derived_intervals["joules_per_token_interval"]
    rate = found.tokens_per_s / found.tokens_per_s_interval[0] - 1
    together = 0.5 * 2 * rate * 0.14 if name == "decode" else 0.0  # errors of power and rate that go together
    assert high / d["joules_per_token"] - 1 == pytest.approx((rate**2 + 0.14**2 - together) ** 0.5)
    assert low < d["joules_per_token"] < high


def test_a_request_under_load_takes_the_energy_of_its_output_tokens() -> None:
    d = phase(concurrency=16).derived
    assert d["joules_per_request"] == pytest.approx(256 * d["joules_per_token"])


def test_a_cap_lowers_rate_and_power_together() -> None:
    free, capped = phase("prefill"), phase("prefill", **{"power-cap": "400W"})
    assert capped.derived["power_w"] == 400 < free.derived["power_w"]
    assert capped.tokens_per_s < free.tokens_per_s
    assert capped.derived["joules_per_token"] < free.derived["joules_per_token"]


def test_basis_of_the_power() -> None:
    def basis(hw: str) -> tuple[str | None, float]:
        answer = estimate(build_request.request({**SERVED, "hw": hw, "phase": "decode"}))
        return answer.hardware.power_basis, float(answer.phases["decode"].derived["power_fraction"])

    assert basis("h200") == ("never measured", 0.685)
    assert basis("epyc-9654") == ("TDP", 1.0)
    assert basis("h100")[0] == "measured"


def test_eight_h200_under_mlperf_at_the_wall() -> None:
    """MLPerf inference v4.1, Llama 2 70B offline on 8 x H200 in MaxQ: 6153 W of the whole system."""
    row = next(s for s in published("energy")["statements"] if s["id"] == "h200-maxq-llama2-70b")
    d = phase(hw="h200", model="llama-2-70b", tp=8, concurrency=512, dtype="fp8").derived
    wall, error = 8 * d["power_w"] * 1.6, energy.quotient_error(d["power_error"], d["host_error"], 0.0)
    assert wall / (1 + error) <= row["system_w"] <= wall * (1 + error)


@pytest.mark.parametrize(
    ("model", "mean_prompt", "mean_output"), [("llama-2-70b", 294, 294), ("mixtral-8x7b", 345, 145)]
)
def test_joules_at_the_wall_of_capped_h200_under_mlperf_are_inside_the_interval(
    model: str, mean_prompt: int, mean_output: int
) -> None:
    """Offline in MaxQ, TensorRT-LLM in fp8: 0.244 and 0.126 J per token of the whole system; data sets' mean lengths by MLCommons' task pages."""
    name = model.replace("llama-2", "llama2")
    row = next(s for s in published("energy")["statements"] if s["id"] == f"h200-maxq-{name}")
    options = {"hw": "h200", "model": model, "dtype": "fp8", "engine": "trtllm", "tp": 2, "dp": 4, "prompt": mean_prompt, "output": mean_output, "concurrency": 1024, "requests-per-client": "inf"}  # fmt: skip
    free, capped = phase(**options), phase(**options, **{"power-cap": "500W"})
    low, high = capped.derived_intervals["server_joules_per_token_interval"]
    assert low <= row["system_w"] / row["tokens_per_s"] <= high
    assert capped.tokens_per_s < free.tokens_per_s and capped.derived["power_w"] <= 500


def test_a_cap_and_factors_are_read_as_people_write_them(tmp_path: Path) -> None:
    d = phase(concurrency=16, **{"power-cap": "0.5 kW", "pue": 1.0, "host-factor": 1.4}).derived
    assert d["power_w"] <= 500
    assert d["facility_joules_per_token"] == pytest.approx(d["joules_per_token"] * 1.4)


def test_decode_of_a_model_with_experts_draws_its_share_of_tdp_whatever_the_batch_and_its_prefill_does_not() -> None:
    def watts(name: str, batch: int) -> float:
        options = {"model": "qwen3-30b-a3b", "hw": "h100", "prompt": 512, "output": 256, "batch": batch, "phase": name}
        return float(estimate(build_request.request(options)).phases[name].derived["power_w"])

    assert watts("decode", 8) == watts("decode", 128) == pytest.approx(0.698 * 700)
    assert watts("prefill", 8) != pytest.approx(0.698 * 700, rel=1e-3)


@pytest.mark.slow
def test_joules_of_images_and_video_are_within_their_bar() -> None:
    points = Points.of("all", [validated.image_values("joules per image", row) for row in validated.image_rows()])
    off = errors(points.expected / points.measured)
    assert len(points.measured) == 343 and off["mean"] < 0.25 and off["median"] < 0.18
    assert (points.floor <= points.expected).all()
    assert 0.75 <= np.mean((points.low <= points.measured) & (points.measured <= points.high)) <= 0.88


@pytest.mark.slow
def test_joules_of_images_and_video_are_within_their_bar_with_each_model_left_out_of_the_fit_of_its_engine() -> None:
    seconds, joules, _ = fit_images.tables()
    assert seconds.rows[-1]["mean"] < 0.15
    assert joules.rows[-1]["mean"] < 0.25 and joules.rows[-1]["median"] < 0.18


def test_more_devices_on_an_image_wait_for_the_host_that_starts_their_kernels_and_rings() -> None:
    """Stable Diffusion 3.5 Medium on B200 (ML.ENERGY): 2.47 s on one device, 1.86 s on eight by heads and 3.21 s in a ring."""
    rows = [r for r in validated.image_rows() if r.model == "sd3.5-medium" and r.hw == "b200-sxm" and r.batch == 1]
    ring = next(r for r in rows if r.devices == 8 and r.layout.ring == "zigzag")
    heads = next(r for r in rows if r.devices == 8 and r.layout.ring == "ulysses")
    alone = next(r for r in rows if r.devices == 1)
    assert heads.answer.time_s < alone.answer.time_s < ring.answer.time_s
    for row in (alone, ring):
        assert row.answer.time_s == pytest.approx(row.seconds, rel=0.1)
    matmuls = (
        13 * 12 + 10 * 10 + 7
    )  # two streams, 13 layers with an attention of the image alone, a last one without the prompt
    assert heads.answer.breakdown_s["launch_wait"] < matmuls * 28 * 0.22e-3 < heads.answer.time_s


def test_a_cap_below_idle_is_refused_and_one_above_tdp_noted() -> None:
    with pytest.raises(UsageError, match="idle"):
        phase("prefill", **{"power-cap": "100W"})
    with pytest.warns(RooflineWarning, match="exceeds the 700 W"):
        phase("prefill", **{"power-cap": "5kW"})


def test_details_print_joules_of_chips_servers_and_the_data_center_with_floors_and_intervals() -> None:
    d = phase(concurrency=16)
    shown = " ".join(run_cli(*"estimate llama-3-8b --hw h100 --prompt 512 --output 256 --engine vllm --phase decode --concurrency 16 --details".split()).out.split())  # fmt: skip
    assert re.search(r"J per token \([\d.]+–[\d.]+ J, floor [\d.]+ J\)", shown)
    for where, factor in (("servers", 1.6), ("data center", 1.6 * 1.09)):
        found = re.search(rf"([\d.]+) J per token, {where} \(([\d.]+)–([\d.]+) J, floor ([\d.]+) J\)", shown)
        assert found is not None
        value, low, high, floor = map(float, found.groups())
        assert value == pytest.approx(d.derived["joules_per_token"] * factor, rel=5e-3) and floor < low < value < high
        assert floor / value == pytest.approx(d.floor_s / d.time_s, rel=2e-2)


def test_a_column_of_joules_says_what_they_are_per() -> None:
    heads = {key: label(f"decode.{key}") for key in ("joules_per_token", "power_w", "tokens_per_s_per_megawatt")}
    assert list(heads.values()) == ["J per token", "W per device", "tok/s per MW of the data center"]


def test_dollars_of_a_reserved_offer_name_it() -> None:
    shown = {
        hw: run_cli(*f"estimate llama-3-8b --hw {hw} --phase decode".split()).out for hw in ("gb200-nvl72", "h100")
    }
    assert "(reserved-3y)" in shown["gb200-nvl72"].replace("\n ", "") and "(on-demand)" not in shown["h100"]
    assert "/h (reserved-3y)" in " ".join(run_cli("hardware", "nvl72").out.split())


def test_rows_of_quantities_say_what_their_formulas_do() -> None:
    """Every figure made of others: how it grows with the time of its phase, whose interval and errors it has, and which phase it is of."""
    grows = {"tokens_per_s": -1, "busy_s": 1, "run_s": 1, "prompt_joules": 1}
    made_of: dict[str, set[str]] = {}
    for row in DERIVED:
        assert row.formula is not None
        values = [3.0 + i for i in range(len(row.of))]
        longer = [v * 2.0 ** grows.get(name, 0) for v, name in zip(values, row.of, strict=True)]
        assert row.formula(*longer) / row.formula(*values) == pytest.approx(2.0**row.time), row.name
        grows[row.name] = row.time
        parts = made_of[row.name] = set(row.of).union(*(made_of.get(name, ()) for name in row.of))
        assert row.rate == ("tokens_per_s" in parts), row.name
        assert not row.time or row.better == (LESS if row.time > 0 else MORE), row.name
        watts = "power_w" in {row.name, *parts}
        servers = bool(parts & {"host_factor", "wall_factor"})
        assert row.errors == ("power_error",) * watts + ("host_error",) * servers, row.name
        if "run_s" in parts or row.name.endswith("_per_request"):
            assert row.phase == ("train" if "run_s" in parts else "decode"), row.name
