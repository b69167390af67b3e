"""Figures and constants of a chip that a sweep, a sensitivity or a fit can replace, by dotted path."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rooflinecli.core.errors import UsageError, unknown
from rooflinecli.core.num import Number
from rooflinecli.formulas import calibration
from rooflinecli.specs.efficiency import CONSTANTS
from rooflinecli.specs.engine import CONSTANTS as ENGINE_CONSTANTS
from rooflinecli.specs.hardware import HardwareSpec, load_defaults

EFFICIENCY, ENGINE = "efficiency", "engine"
RATES = ("compute", "memory", "overlap", "quant_memory")  # constants of which more is faster
TIMES = "times."  # prefix of the path of a constant: a factor on its value


def check(spec: HardwareSpec, paths: Iterable[str]) -> None:
    """Raises UsageError, listing what exists, for an unknown path."""
    for path in paths:
        unit(spec, path)


def unit(spec: HardwareSpec, path: str) -> str:
    """The unit of a path. Raises UsageError, listing what exists, for an unknown one."""
    if path.startswith(TIMES):
        inner = path.removeprefix(TIMES)
        if inner.partition(".")[0] not in (EFFICIENCY, ENGINE):
            raise UsageError(
                f"{path}: factors are of constants; expected {TIMES}efficiency.CLASS.NAME or {TIMES}engine.NAME"
            )
        unit(spec, inner)
        return "1"
    head, _, name = path.partition(".")
    if head == ENGINE:
        if name not in ENGINE_CONSTANTS:
            raise _no(path, f"constant '{name}' of an engine", ENGINE_CONSTANTS)
        return ENGINE_CONSTANTS[name].unit
    return constant_unit(spec, path) if head == EFFICIENCY else str(figure(spec, path).dimension)


def factor(path: str, slower: Number) -> Number:
    """Factor on a constant that makes its times `slower` times as long. `path` is without TIMES."""
    return 1 / slower if path.rpartition(".")[2] in RATES else slower


def scaled(path: str, value: Number, factor: Number) -> Number:
    """A constant times a factor, within its bounds. `path` is without TIMES."""
    name = path.rpartition(".")[2]
    if name == "overlap":
        return calibration.calibrated_overlap(value, factor)
    constant = (ENGINE_CONSTANTS if path.startswith(ENGINE) else CONSTANTS)[name]
    form = calibration.calibrated if constant.most is None else calibration.calibrated_fraction
    return form(value, factor)


def constant_unit(spec: HardwareSpec, path: str) -> str:
    """The unit of efficiency.CLASS.NAME, or of one variant's efficiency.CLASS.VARIANT.NAME. Raises UsageError for an unknown class,
    variant or name."""
    parts = path.split(".")
    if len(parts) == 4 and parts[1] in classes(spec):
        if parts[2] not in variants(spec, parts[1]):
            raise _no(path, f"variant '{parts[2]}' of {parts[1]}", variants(spec, parts[1]))
        del parts[2]
    if len(parts) != 3:
        raise UsageError(
            f"{path}: expected efficiency.CLASS.NAME, such as efficiency.matmul.compute; "
            f"classes are {', '.join(sorted(classes(spec)))}; names are {', '.join(sorted(CONSTANTS))}"
        )
    _, kind, name = parts
    if kind not in classes(spec):
        raise _no(path, f"class of operation '{kind}'", classes(spec))
    if name not in CONSTANTS:
        raise _no(path, f"constant '{name}'", CONSTANTS)
    return CONSTANTS[name].unit


def most(path: str) -> float | None:
    """Upper bound of a path: 1 of a fraction of a peak, None without one."""
    head, name = path.partition(".")[0], path.rpartition(".")[2]
    constant = {ENGINE: ENGINE_CONSTANTS, EFFICIENCY: CONSTANTS}.get(head, {}).get(name)
    return constant.most if constant else None


def _no(path: str, what: str, known: Iterable[str]) -> UsageError:
    return UsageError(f"{path}: there is no {what}; use one of {', '.join(sorted(known))}")


def classes(spec: HardwareSpec) -> set[str]:
    """Classes of operation with constants in the chip's file or the defaults of its kind."""
    tables = (spec.efficiency, load_defaults(spec.kind).efficiency)
    return {kind for table in tables for kinds in table.values() for kind in kinds}


def variants(spec: HardwareSpec, kind: str) -> set[str]:
    """Names of the constants of a class in the chip's file or the defaults of its kind."""
    tables = (spec.efficiency, load_defaults(spec.kind).efficiency)
    return {name for table in tables for kinds in table.values() for name in kinds.get(kind, {})}


def figure(spec: HardwareSpec, path: str) -> Any:
    """The Figure at a dotted path of a hardware file. Raises UsageError listing what can be set."""
    known = figures(spec)
    if path not in known:
        raise unknown("figure", path, known, "efficiency.CLASS.NAME works too")
    return known[path]


def figures(spec: HardwareSpec) -> dict[str, Any]:
    """Every figure of a hardware file that the engine reads, by dotted path."""
    known: dict[str, object] = {f"peak.{dtype}": rate for dtype, rate in spec.peak.items()}
    known |= {"memory.bandwidth": spec.memory.bandwidth, "memory.capacity": spec.memory.capacity}
    for i, level in enumerate(spec.network):
        known[f"network.{i}.bandwidth"] = level.bandwidth
        if level.latency is not None:
            known[f"network.{i}.latency"] = level.latency
    single = ("price", "power", "host_link", "host_memory", "devices_per_host")
    return known | {name: getattr(spec, name) for name in single if getattr(spec, name) is not None}
