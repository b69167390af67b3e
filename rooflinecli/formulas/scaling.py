"""Scaling laws: how loss, size, tokens and compute go together, and the optimum each law implies; batch and learning rate by gradient noise:
rows of scaling.yaml.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rooflinecli.core import num
from rooflinecli.core.derivation import formula_table

if TYPE_CHECKING:
    from collections.abc import Callable

    def __getattr__(name: str) -> Callable[..., num.Number]: ...


TOKENS_PER_PARAM = 20.0  # Hoffmann et al. 2022, approaches 1 and 2

globals().update(formula_table(__file__, __name__, {"num": num}))
