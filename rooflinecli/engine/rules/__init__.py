"""The rules of a legal layout, by where they hold: `anywhere`, in `training`, in `serving`. `engine/legal` asks them all.

A rule has a name (what must hold, for a sweep's table and a search's count), the sizes it speaks of, a mask (a truth value,
or one per point of an array), and a sentence with the remedy for whoever gave the sizes.
"""

from __future__ import annotations

from collections.abc import Callable

from rooflinecli.core import num
from rooflinecli.core.errors import UsageError
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.num import Number


@dataclass(slots=True, eq=False, repr=False)
class LegalityRule:
    """`holds` where the layout keeps to it; `sizes` are the fields of the plan that decide; `say` is called for a scalar only.

    `option` is the one to change, where it is not the first of `sizes`.
    """

    name: str
    sizes: tuple[str, ...]
    holds: Number
    say: Callable[[], str]
    option: str = ""

    @property
    def refusal(self) -> UsageError:
        """The error for a layout that was asked for, with the option to change."""
        return UsageError(self.say(), self.option or next(iter(self.sizes), "").replace("_", "-"))


def one(size: Number) -> bool:
    """Whether a size is the scalar 1: nothing is split by it, so no rule of it can be broken."""
    return num.plain(size) and bool(num.value(size) == 1)
