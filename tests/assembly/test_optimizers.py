"""Optimizers by name: bytes they keep per parameter, and what Muon multiplies."""

from __future__ import annotations

import pytest
from assembly.families import EXPERT, MOE_OTHERS, PARAMETERS, step

from rooflinecli.engine.scene import Scene
from rooflinecli.errors import UsageError
from rooflinecli.memory import orthogonalised_flops
from rooflinecli.specs import ask as asking
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
    scene = Scene(request)
    return orthogonalised_flops(scene.book, 5.0, scene.lift)


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
