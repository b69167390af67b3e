"""`roofline kernel`: one operation on the roofline."""

from __future__ import annotations

from rooflinecli.interfaces.cli.show import calculators
from rooflinecli.questions.kernel.question import QUESTIONS

app = calculators(QUESTIONS, "One operation on the roofline.", also={"grouped": "grouped-gemm"})
