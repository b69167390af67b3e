"""Tensor parallelism gathers what a narrow matmul reads in the format of that matmul, where the stack quantizes before it gathers."""

from __future__ import annotations

import pytest

from rooflinecli.engine import build_request
from rooflinecli.questions.estimate.answer import estimate


def sent(**options) -> float:
    """Bytes that tensor parallelism sends in a step."""
    asked = {
        "model": "llama-3-8b",
        "hw": "h100",
        "n": 8,
        "tp": 8,
        "phase": "train",
        "batch": 8,
        "zero": 1,
        "recompute": "none",
    }
    return float(estimate(build_request.request({**asked, **options})).phases["train"].communication_bytes["tp"])


@pytest.mark.parametrize(
    ("framework", "expected"),
    [("megatron-2025", (6 * 1 + 4 * 2) / (10 * 2)), ("torchtitan", 1.0)],  # six gathers and four scatters of a layer
)
def test_gathers_in_eight_bits(framework, expected):
    narrow, wide = (sent(dtype=dtype, framework=framework, micro_batch=1) for dtype in ("fp8", "bf16"))
    assert narrow / wide == pytest.approx(expected, rel=1e-6)


def test_tokens_of_experts_are_dispatched_in_sixteen():
    asked = {"model": "mixtral-8x7b", "hw": "b200", "framework": "megatron-2025", "micro_batch": 1}
    assert sent(**asked, dtype="fp8") / sent(**asked, dtype="bf16") == pytest.approx(
        (3 * 1 + 7 * 2) / (10 * 2), rel=1e-6
    )
