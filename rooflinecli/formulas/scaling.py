"""Scaling laws: how loss, size, tokens and compute go together, and the optimum each law implies; batch and learning rate by gradient noise:
rows of scaling.yaml.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rooflinecli.core.formula_table import formula_table

if TYPE_CHECKING:
    from rooflinecli.core.formula_table import __getattr__ as __getattr__


TOKENS_PER_PARAM = 20.0  # Hoffmann et al. 2022, approaches 1 and 2

globals().update(formula_table(__file__, __name__))
