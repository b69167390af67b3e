"""FLOPs, parameters and bytes that follow from sizes alone: rows of counts.yaml."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rooflinecli.core.formula_table import formula_table

if TYPE_CHECKING:
    from rooflinecli.core.formula_table import __getattr__ as __getattr__

globals().update(formula_table(__file__, __name__))
