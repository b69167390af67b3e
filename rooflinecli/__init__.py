"""A roofline calculator for transformers. `import rooflinecli as rl; rl.estimate("llama70b", hw="h100")`.

Importing this module costs nothing; what it offers is that of `rooflinecli.interfaces.python.api`, loaded when it is first asked for.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rooflinecli.interfaces.python.api import (  # isort: skip
        Answer, Calibration, DataError, ImpossibleValue, Infeasible, RooflineError, RooflineWarning, Simulation,
        UsageError, calibrate, check, collective, compare, emit, estimate, explain, fit, fleet, goodput, ops,
        parameters, partitioning, plan, rl, search, shard, simulate, speculate, sweep,
    )  # fmt: skip

__all__ = [
    "Answer", "Calibration", "DataError", "ImpossibleValue", "Infeasible", "RooflineError", "RooflineWarning",
    "Simulation", "UsageError", "calibrate", "check", "collective", "compare", "emit", "estimate", "explain", "fit",
    "fleet", "goodput", "ops", "parameters", "partitioning", "plan", "rl", "search", "shard", "simulate", "speculate",
    "sweep",
]  # fmt: skip


class _Question(ModuleType):
    """A package whose name is a question of the API as well, so that `rl.calibrate(...)` asks it once the package is loaded too."""

    @property
    def __signature__(self) -> Any:
        import inspect

        return inspect.signature(self._asked())

    def _asked(self) -> Any:
        return getattr(import_module("rooflinecli.interfaces.python.api"), self.__name__.rpartition(".")[2])

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self._asked()(*args, **options)


class _Package(ModuleType):
    """This package: what its import system sets as `simulate` and `calibrate` can be called."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in __all__ and isinstance(value, ModuleType):
            value.__class__ = _Question
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'rooflinecli' has no attribute {name!r}; it offers {', '.join(__all__)}")
    return getattr(import_module("rooflinecli.interfaces.python.api"), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
