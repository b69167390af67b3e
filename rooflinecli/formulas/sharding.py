"""Sharded arrays on a mesh: what a device holds, what it sends, and when sharding pays (Scaling Book, chapters 3 and 5);
layouts of a feed-forward and a cache in inference (Pope et al. 2022): rows of sharding.yaml.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rooflinecli.core.formula_table import formula_table

if TYPE_CHECKING:
    from rooflinecli.core.formula_table import __getattr__ as __getattr__


globals().update(formula_table(__file__, __name__))
