"""`roofline goodput`: what failures, checkpoints and restarts leave of a long run."""

from __future__ import annotations

from rooflinecli.interfaces.cli.from_question import Explained, command
from rooflinecli.interfaces.cli.show import calculator
from rooflinecli.questions.goodput.question import TrainingGoodput

app = command(TrainingGoodput, calculator("goodput"), Explained)
