"""`roofline speculate`: what a draft model saves."""

from __future__ import annotations

from rooflinecli.interfaces.cli.from_question import Explained, command
from rooflinecli.interfaces.cli.show import calculator
from rooflinecli.questions.speculate.question import Speculate

app = command(Speculate, calculator("quantities"), Explained)
