"""How full a GPU's multiprocessor or a systolic array is, from the shape of the work alone: rows of occupancy.yaml."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rooflinecli.core import num
from rooflinecli.core.derivation import formula_table

if TYPE_CHECKING:
    from collections.abc import Callable

    def __getattr__(name: str) -> Callable[..., num.Number]: ...


globals().update(formula_table(__file__, __name__, {"num": num}))
