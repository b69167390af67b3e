"""Physics: pure functions with a symbol, a unit and a source."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rooflinecli.core.derivation import Formula


def all_formulas() -> dict[str, Formula]:
    """name -> Formula of all modules, which are imported then, in module order."""
    import pkgutil
    from importlib import import_module

    from rooflinecli.core.derivation import FORMULAS

    for module in pkgutil.iter_modules(__path__, f"{__name__}."):
        import_module(module.name)
    return dict(sorted(FORMULAS.items(), key=lambda item: (item[1].module, item[0])))
