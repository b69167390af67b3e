"""Elasticities by central differences against differentiation through jax, and against what must hold by dimension."""

from __future__ import annotations

import math
from typing import Any

import pytest

from rooflinecli.core.errors import UsageError
from rooflinecli.engine.context import EstimateContext
from rooflinecli.engine.evaluate import PHASES
from rooflinecli.questions.sensitivity.answer import ScaledConstant, elasticities, of_point
from rooflinecli.specs.hardware import load_hardware
from rooflinecli.specs.layout import Layout
from rooflinecli.specs.model import load_model
from rooflinecli.specs.request import Request

CASES = [
    ("gpt2", "tpu-v5e", "decode", Layout(zero=0)),
    ("llama-3-70b", "h100", "decode", Layout(tp=8.0, zero=0)),
    ("llama-3-70b", "h100", "prefill", Layout(tp=4.0, zero=0)),
    ("llama-3-8b", "a100", "train", Layout(tp=2.0, dp=8.0, zero=3, sequence_parallel=True)),
    ("mixtral-8x7b", "h200", "train", Layout(tp=2.0, pp=2.0, dp=8.0, ep=8.0, zero=1, recompute="full")),
]


def request(model: str, chip: str, phase: str) -> Request:
    return Request(
        load_model(model), load_hardware(chip), phases=(phase,), batch=64.0, prompt=700.0, output=64.0, seq=1024.0
    )


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0]}-{c[1]}-{c[2]}")
def test_central_differences_agree_with_automatic_differentiation(case: tuple[str, str, str, Layout]) -> None:
    jax = pytest.importorskip("jax")
    model, chip, phase, plan = case
    asked = request(model, chip, phase)
    found = {row["figure"]: row["elasticity"] for row in elasticities(asked, phase, plan)}
    rates = [
        name
        for name in found
        if name.startswith(("peak", "memory", "network")) or name.endswith((".compute", ".memory"))
    ]
    assert rates

    def logarithm(path: str, log_factor: Any) -> Any:
        import jax.numpy as jnp

        time = PHASES[phase](
            EstimateContext(asked, override=ScaledConstant({}, path, jnp.exp(log_factor))), plan
        ).time_s
        return jnp.log(time)

    compared = 0
    with jax.enable_x64(True):
        for path in rates:
            slope = float(jax.grad(lambda x, path=path: logarithm(path, x))(0.0))
            if math.isnan(slope):  # the square-root term of a collective without one: 0 times infinity
                assert path.startswith(("network", "efficiency.collective"))
                continue
            compared += 1
            assert slope == pytest.approx(found[path], rel=1e-4, abs=1e-6), path
    assert compared >= 3


@pytest.mark.sampled(1)
@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0]}-{c[1]}-{c[2]}")
def test_faster_rates_never_cost_time_and_together_take_off_what_is_not_latency(
    case: tuple[str, str, str, Layout],
) -> None:
    model, chip, phase, plan = case
    rows = {row["figure"]: row["elasticity"] for row in elasticities(request(model, chip, phase), phase, plan)}
    rates = {k: v for k, v in rows.items() if k.startswith("peak") or k.endswith("bandwidth")}
    assert all(v <= 0 for v in rates.values())
    assert -1 - 1e-6 <= sum(rates.values()) < -0.1


def test_seconds_of_overhead_have_their_share_as_elasticity() -> None:
    """With ideal kernels there is nothing but rates, and they add up to exactly one."""
    from dataclasses import replace

    asked = replace(request("llama-3-70b", "h100", "decode"), efficiency="ideal")
    rows = elasticities(asked, "decode", Layout(tp=1.0, zero=0))
    assert sum(
        row["elasticity"] for row in rows if row["figure"].startswith(("peak", "memory.", "network"))
    ) == pytest.approx(-1, abs=1e-3)


def test_one_point_only() -> None:
    with pytest.raises(UsageError, match="a single point"):
        of_point({"model": "gpt2", "hw": "h100", "batch": "1,2"}, None)
    report = of_point({"model": "gpt2", "hw": "h100", "batch": "8", "phase": "decode"}, ["memory.bandwidth=x2"])
    assert report["phases"]["decode"][0]["figure"]
