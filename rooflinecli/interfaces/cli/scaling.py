"""`roofline scaling`: scaling laws and training runs."""

from __future__ import annotations

from rooflinecli.interfaces.cli.show import calculators
from rooflinecli.questions.scaling.question import QUESTIONS

app = calculators(QUESTIONS, "Scaling laws and training runs: how large, how long, what batch, what it costs.")
