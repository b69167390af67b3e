"""`roofline occupancy`: how full a multiprocessor or a systolic array is."""

from __future__ import annotations

from rooflinecli.interfaces.cli.show import calculators
from rooflinecli.questions.occupancy.question import QUESTIONS

app = calculators(QUESTIONS, "How full a GPU's multiprocessor (sm) or a systolic array (systolic) is.")
