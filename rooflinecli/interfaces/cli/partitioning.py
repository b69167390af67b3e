"""`roofline partitioning`: the question, and the view of its answer."""

from __future__ import annotations

from rooflinecli.interfaces.cli.from_question import Explained, command
from rooflinecli.interfaces.cli.show import calculator
from rooflinecli.questions.layouts.question import Partitioning

app = command(Partitioning, calculator("partitioning"), Explained)
