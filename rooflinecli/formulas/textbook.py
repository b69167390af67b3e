"""Rules that textbooks, papers and calculators go by and no estimate needs: rows of textbook.yaml."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rooflinecli.core.derivation import formula_table
from rooflinecli.formulas import roofline

if TYPE_CHECKING:
    from collections.abc import Callable

    from rooflinecli.core.num import Number

    def __getattr__(name: str) -> Callable[..., Number]: ...


globals().update(formula_table(__file__, __name__, vars(roofline)))
