"""Shell completion of option values: names of models, chips, engines and formats, and choices.

Nothing is read until a shell asks.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import TYPE_CHECKING

from rooflinecli.interfaces.cli.main import COMPLETING
from rooflinecli.specs.registry import kinds

if TYPE_CHECKING:  # a verb that asks for no estimate needs no table
    from rooflinecli.specs.options import Option

SHELLS = ("bash", "zsh", "fish")
Complete = Callable[[str], list[str]]


def models(incomplete: str) -> list[str]:
    """Names of models, after the last comma."""
    return _registered("models", incomplete)


def chips(incomplete: str) -> list[str]:
    """Names of chips, after the last comma."""
    return _registered("hardware", incomplete)


def on_tab(complete: Complete | None) -> Complete | None:
    """Return the completion function while a shell is completing, else None: Typer inspects its signature at every start."""
    return complete if COMPLETING in os.environ else None


def _frameworks() -> list[str]:
    from rooflinecli.engine.option_conflicts import frameworks_in
    from rooflinecli.specs.hardware import load_defaults

    return frameworks_in([load_defaults(kind).efficiency for kind in ("gpu", "tpu")])


def _attribute(place: str) -> Iterable[str]:
    """The names in `module:attribute` of the package: a collection, or a function that returns one."""
    module, _, name = place.partition(":")
    found = getattr(import_module(f"rooflinecli.{module}"), name)
    return found() if callable(found) else found  # type: ignore[no-any-return]


Names = Callable[[], Iterable[str]] | str | tuple[str, ...]


def listed_names(listed: Names) -> tuple[str, ...]:
    """The names of an entry of _NAMES."""
    return tuple(_attribute(listed) if isinstance(listed, str) else listed if isinstance(listed, tuple) else listed())


# options whose values are names but no table of choices -> the names, or where they are
_NAMES: dict[str, Names] = {
    "engine": "specs.engine:engines",
    "framework": _frameworks,
    "optimizer": "specs.optimizer:optimizers",
    "recompute-modules": "phases.recompute:MODULES",
    "offload": "engine.option_conflicts:OFFLOADS",
    "expert-offload": ("host",),
    "speculative-method": "engine.speculation:HEADS",
    "router": lambda: kinds("simulate/routers"),
    "arrivals": ("poisson", "gamma:", "constant"),
    "emit": "importers.launch.emit:tools",
    "op": lambda: (*_attribute("questions.collective.answer:BUS"), *_attribute("questions.collective.answer:PHASES")),
    "backend": "questions.collective.answer:MODES",
    "library": "specs.engine:EXPERT_KERNELS",
    "activation-quantization": "questions.kernel.question:QUANTIZATION",
    "subject": lambda: (*_attribute("validate.question:SUBJECTS"), "all"),
    "name": "formulas.catalogue:every",
    "sort": lambda: ("order", *_attribute("render.views.ops:SORTS")),
    "plot-kind": ("percentiles", "load", "slo"),
    "fit": lambda: (*_attribute("questions.scaling.question:FITS"), "all"),
    "objective": ("throughput", "latency", "cost", "energy", "devices"),
    "family": lambda: _in_files("models", "family"),
    "vendor": lambda: _in_files("hardware", "vendor"),
    "phase": ("train", "prefill", "decode"),
    **dict.fromkeys(("dtype", "weight-dtype", "quantization", "before", "after"), "quantization.formats:FORMATS"),
}


def _in_files(kind: str, field: str) -> set[str]:
    """Values of a field of the registry's files."""
    from rooflinecli.specs.name_lookup import files

    found = (
        re.search(rf"^{field}: *(\S+)", path.read_text(encoding="utf-8"), re.MULTILINE) for path in files(kind).values()
    )
    return {match[1] for match in found if match}


def words(option: Option) -> Complete | None:
    """The names an option takes, where they are known."""
    if option.name in ("model", "hw") or (option.name in ("host", "extends") and option.kind == "name"):
        return models if option.name == "model" else chips
    listed = _NAMES.get(option.long) if option.kind in ("free", "word", "list") else None
    if not option.choices and option.kind != "dtype" and listed is None:
        return None

    def complete(incomplete: str) -> list[str]:
        known: Iterable[str] = option.choices
        if listed is not None and not option.choices:
            known = listed_names(listed)
        elif option.kind == "dtype":
            from rooflinecli.quantization.formats import FORMATS
            from rooflinecli.quantization.schemes import schemes

            known = (*FORMATS, *(schemes() if option.name == "weight-dtype" else ()))
        return _last(known, incomplete)

    return complete


def _registered(kind: str, incomplete: str) -> list[str]:
    from rooflinecli.specs.name_lookup import aliases, files

    found = files(kind)
    names = _last(found, incomplete)
    return names or _last([alias for path in found.values() for alias in aliases(path)], incomplete)


def _last(names: Iterable[str], incomplete: str) -> list[str]:
    """The names that go on from what stands after the last comma."""
    before, comma, start = incomplete.rpartition(",")
    return [before + comma + name for name in sorted(set(names)) if name.startswith(start.lower())]


def install(show: bool) -> str:
    """Install the script for this shell, or return it. Raises UsageError for a shell that has none."""
    import shellingham
    from typer.completion import get_completion_script
    from typer.completion import install as put

    from rooflinecli.core.errors import UsageError

    try:
        shell = str(shellingham.detect_shell()[0])
    except (shellingham.ShellDetectionFailure, NotImplementedError, OSError):
        shell = ""
    if shell not in SHELLS:  # the one of the account
        shell = os.path.basename(os.environ.get("SHELL", ""))
    if shell not in SHELLS:
        raise UsageError(f"completion is for {', '.join(SHELLS)}; run this from one of them")
    if show:
        return get_completion_script(prog_name="roofline", complete_var=COMPLETING, shell=shell).strip()
    _, path = put(shell=shell, prog_name="roofline", complete_var=COMPLETING)
    return f"{shell} completion installed in {path}; it takes effect in a new terminal"
