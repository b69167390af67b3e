"""A roofline calculator for transformers. `import rooflinecli as rl; rl.estimate("llama70b", hw="h100")`.

Importing this module costs nothing; what it offers is that of `rooflinecli.api`, loaded when it is first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rooflinecli.api import Answer, compare, emit, estimate, explain, parameters, plan, search, sweep

__all__ = ["Answer", "compare", "emit", "estimate", "explain", "parameters", "plan", "search", "sweep"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'rooflinecli' has no attribute {name!r}; it offers {', '.join(__all__)}")
    from importlib import import_module

    return getattr(import_module("rooflinecli.api"), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
