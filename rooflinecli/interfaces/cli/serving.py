"""`roofline serving`: what a token costs, and what batching, beams, caches, pools and formats save."""

from __future__ import annotations

from rooflinecli.interfaces.cli.show import calculators
from rooflinecli.questions.serving.question import QUESTIONS

app = calculators(
    QUESTIONS,
    "Serving arithmetic: cost per token, break-even, batching, beams, prefix caches, prefill and decode pools, quantization.",
    also={"quantise": "quantize"},
)
