"""Every formula by name, for `roofline formula` and the tests: importing this imports all of formulas/."""

from __future__ import annotations

import pkgutil
from importlib import import_module

import rooflinecli.formulas as package
from rooflinecli.core.derivation import FORMULAS, Formula


def every() -> dict[str, Formula]:
    """name -> Formula for all modules of formulas/, in module order."""
    for module in pkgutil.iter_modules(package.__path__):
        if module.name != "catalogue":
            import_module(f"{package.__name__}.{module.name}")
    return dict(sorted(FORMULAS.items(), key=lambda item: (item[1].module, item[0])))
