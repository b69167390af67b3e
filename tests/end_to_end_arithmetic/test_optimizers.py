"""Optimizers by name: bytes they keep per parameter, and what Muon multiplies."""

from __future__ import annotations

import pytest
from end_to_end_arithmetic.families import EXPERT, MOE_OTHERS, PARAMETERS, step

from rooflinecli.core.errors import UsageError
from rooflinecli.engine import build_request as asking
from rooflinecli.engine.context import EstimateContext
from rooflinecli.memory import orthogonalization_flops, preconditioning_flops
from rooflinecli.specs.optimizer import optimizers


@pytest.mark.parametrize(
    ("name", "bytes"),
    [
        ("adamw", 12),
        ("adamw-bf16", 8),
        ("adamw-8bit", 6.004),
        ("adamw-8bit-pure", 2.004),
        ("adafactor", 4),
        ("muon", 8),
    ],
)
def test_bytes_per_parameter(ask, name, bytes):
    assert step(ask, optimizer=name)["memory"]["optimizer_bytes"] == pytest.approx(bytes * PARAMETERS)


def test_the_usual_one_is_what_stands_without_a_name(ask):
    assert step(ask, optimizer="adamw") == step(ask)
    moe = step(ask, "moe", optimizer="lion")["memory"]["optimizer_bytes"]
    assert moe == pytest.approx(8 * (MOE_OTHERS + 4 * 8 * EXPERT))


def newton_schulz(short: int, long: int) -> int:
    """Three products a step, five steps (Jordan et al. 2024): X X^T, A A, and the polynomial times X."""
    return 5 * (2 * short * short * long + 2 * short**3 + 2 * short * short * long)


def flops_of(model: str) -> float:
    request = asking.request({"model": model, "hw": "h100", "phase": "train"})
    ctx = EstimateContext(request)
    return orthogonalization_flops(ctx.ledger, 5.0, ctx.lift)


def test_muon_multiplies_every_matrix_of_a_layer_once():
    """Llama 3 8B: 4096 wide, queries, keys and values 6144 together, gate and up 28672, down 14336."""
    layer = sum(newton_schulz(4096, n) for n in (6144, 4096, 28672, 14336))
    assert flops_of("llama-3-8b") == pytest.approx(32 * layer)


def test_muon_multiplies_every_expert():
    """Mixtral 8x7B: eight experts of 4096 x 28672 and 14336 x 4096, and the router's 4096 x 8."""
    layer = newton_schulz(4096, 6144) + newton_schulz(4096, 4096) + newton_schulz(8, 4096)
    experts = 8 * (newton_schulz(4096, 28672) + newton_schulz(4096, 14336))
    assert flops_of("mixtral-8x7b") == pytest.approx(32 * (layer + experts))


def test_muon_takes_longer_and_shares_it_over_the_replicas(ask):
    one = step(ask, n=1, optimizer="muon")["breakdown_s"]["optimizer"]
    two = step(ask, n=2, dp=2, zero=1, batch=8, optimizer="muon")["breakdown_s"]["optimizer"]
    assert step(ask, n=1, optimizer="lion")["breakdown_s"]["optimizer"] < two < one


def test_every_file_has_a_source_and_misuse_is_told(ask):
    assert all(spec.source for spec in optimizers().values())
    with pytest.raises(UsageError, match="unknown optimizer 'adamm'; did you mean adamw"):
        step(ask, optimizer="adamm")
    with pytest.raises(UsageError, match="leave --optimizer-bytes out"):
        step(ask, optimizer="muon", optimizer_bytes=3)
    with pytest.raises(UsageError, match="multiplies matrices"):
        step(ask, optimizer="muon", offload="optimizer")


LAYER_8B = (
    (4096, 6144),
    (4096, 4096),
    (4096, 28672),
    (14336, 4096),
)  # queries, keys and values; output; gate and up; down


def held(model: str, name: str) -> float:
    request = asking.request({"model": model, "hw": "h100", "phase": "train", "optimizer": name})
    return EstimateContext(request).optimizer_bytes


def test_soap_keeps_two_factors_on_sides_of_up_to_ten_thousand() -> None:
    """Of 8.03e9 parameters; the sides of 28672 and 14336 have none."""
    squares = sum(side**2 for matrix in LAYER_8B for side in matrix if side <= 10_000)
    assert held("llama-3-8b", "soap") == pytest.approx(12 + 2 * 4 * 32 * squares / 8.03e9, rel=1e-3)


def test_shampoo_cuts_long_sides_into_blocks() -> None:
    """28672 is four blocks of 8192, 14336 two: each has a factor of 4096 and one of 8192 in two copies."""
    parts = {6144: (6144, 1), 4096: (4096, 1), 28672: (8192, 4), 14336: (8192, 2)}
    squares = 0
    for a, b in LAYER_8B:
        (short_a, n_a), (short_b, n_b) = parts[a], parts[b]
        squares += n_a * n_b * (short_a**2 + short_b**2)
    assert held("llama-3-8b", "shampoo") == pytest.approx(12 + 2 * 4 * 32 * squares / 8.03e9, rel=1e-3)


def test_soap_multiplies_four_times_with_every_factor() -> None:
    """G, the momentum and the step turned, and the statistic: 2 s^2 t each; a tenth of 2 n^3 and of 8/3 n^3."""
    request = asking.request({"model": "llama-3-8b", "hw": "h100", "phase": "train", "optimizer": "soap"})
    ctx = EstimateContext(request)
    layer = 0.0
    for a, b in LAYER_8B:
        for side, other in ((a, b), (b, a)):
            if side <= 10_000:
                layer += 4 * 2 * side**2 * other + (2 + 8 / 3) / 10 * side**3
    assert preconditioning_flops(ctx.ledger, ctx.optimizer, ctx.lift) == pytest.approx(32 * layer, rel=1e-3)


def test_preconditioning_takes_longer_and_is_shared_out(ask) -> None:
    adam, soap = step(ask), step(ask, optimizer="soap")
    assert soap["breakdown_s"]["optimizer"] > adam["breakdown_s"]["optimizer"]
    assert soap["memory"]["optimizer_bytes"] > adam["memory"]["optimizer_bytes"]
