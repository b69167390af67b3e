"""Rules that textbooks, papers and calculators go by and no estimate needs: rows of textbook.yaml."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rooflinecli.core.formula_table import formula_table
from rooflinecli.formulas import roofline

if TYPE_CHECKING:
    from rooflinecli.core.formula_table import __getattr__ as __getattr__


globals().update(formula_table(__file__, __name__, vars(roofline)))
