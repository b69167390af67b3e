"""A chip as numbers: the hardware file read once, each figure lifted (plain, traced or perturbed) on the way in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from functools import cached_property
from types import SimpleNamespace
from typing import Any

from rooflinecli.core import num
from rooflinecli.core.errors import DataError, UsageError
from rooflinecli.core.lift import PLAIN, PlainLift
from rooflinecli.core.num import Number
from rooflinecli.formulas import roofline, training
from rooflinecli.price import overrides
from rooflinecli.price.overrides import TIMES
from rooflinecli.specs.efficiency import CONSTANTS, SETTINGS, Efficiency
from rooflinecli.specs.engine import ServingEngine
from rooflinecli.specs.hardware import HardwareSpec, Level, load_defaults
from rooflinecli.specs.name_lookup import display_path
from rooflinecli.specs.yaml_loader import Document

IDEAL = Efficiency(source="--efficiency ideal: every kernel reaches the roofline", error=0.0)
NEUTRAL = Efficiency(source="not given: neutral")
STRUCTURAL = (
    "overlap",
    "beyond",
    "early_stop",
    "logit_bytes",
    "pads_heads",
    "norm_bytes",
    "gate_bytes",
    "exchange_bytes",
    "gather_bytes",
    "host_copy",
    "slack",
    "mtp",
)  # constants that say what happens, not how well
UNBOUNDED = 2.0**40  # devices at a level that names no size; finite, so that floor() of it is a number


class Chip:
    """Numbers of one chip. `override` replaces figures by dotted path (sensitivities, sweeps over hardware)."""

    def __init__(
        self,
        spec: HardwareSpec,
        lift: PlainLift = PLAIN,
        *,
        ideal: bool = False,
        override: dict[str, Number] | None = None,
        engine: ServingEngine | None = None,
    ):
        self.spec, self.lift, self.ideal, self.override, self.engine = spec, lift, ideal, override or {}, engine
        overrides.check(spec, self.override)
        _check_calibration(spec)
        self.factors = {} if ideal else _factors(self.override)
        self.bandwidth = self._figure("W", "memory", "bandwidth")
        self.capacity = self._figure("M_cap", "memory", "capacity")
        self._peaks: dict[str, Number] = {}
        self._reachable: dict[str, Number] = {}
        self._constants: dict[tuple[str, ...], SimpleNamespace] = {}
        self.ways: dict[
            tuple[str, ...], Any
        ] = {}  # how each class of operation is priced: price/kernels keeps them here
        self.levels = [_LevelNumbers(self, level, i) for i, level in enumerate(spec.network)]

    def with_factors(self, factors: Mapping[str, Number]) -> Chip:
        """This chip with constants multiplied. Raises UsageError for a path that is none."""
        overrides.check(self.spec, (TIMES + path for path in factors))
        other = copy(self)
        other.factors, other._constants, other.ways = {} if self.ideal else dict(factors), {}, {}
        for path in () if self.ideal else self.factors.keys() & factors.keys():
            other.factors[path] = factors[path] * self.factors[path]
        other.factors |= {path: f for path, f in self.factors.items() if path not in factors}
        other.levels = [_LevelNumbers(other, level, i) for i, level in enumerate(self.spec.network)]
        return other

    def effective_constant(self, path: str, given: Number) -> Number:
        """A constant as it counts: the file's or its override, times the factor that a calibration found for it."""
        value = self.override.get(path, given)
        return overrides.moved(path, value, self.factors[path]) if path in self.factors else value

    def _calibrated(self, path: str) -> str:
        """What an explanation adds to a constant's citation where a factor moved it."""
        if not self.lift.traced or path not in self.factors:
            return ""
        return f"; times {num.value(self.factors[path]):.4g} ({self.spec.document.location('calibration')})"

    def _figure(self, symbol: str, *path: str) -> Number:
        figure: Any = self.spec
        for part in path:
            figure = figure[part] if isinstance(figure, dict) else getattr(figure, part)
        value = self.override.get(".".join(path), figure.si)
        mark = "" if figure.verified else " (unverified)"
        return self.lift(symbol, value, figure.dimension, self._cite(self.spec.document, path, figure.source, mark))

    def _cite(self, document: Document, path: tuple[str | int, ...], source: str, mark: str = "") -> str:
        return f"{document.location(*path)}; {self.spec.citation(source)}{mark}" if self.lift.traced else ""

    def peak(self, dtype: str) -> Number:
        """Dense FLOP/s. Raises UsageError when the chip does not have the dtype."""
        if dtype not in self._peaks:
            if dtype not in self.spec.peak:
                raise UsageError(f"{self.spec.name} has no {dtype} rate; it has {', '.join(sorted(self.spec.peak))}")
            self._peaks[dtype] = self._figure(f"P_{dtype}", "peak", dtype)
        return self._peaks[dtype]

    def power_limited_peak(self, dtype: str) -> Number:
        """The peak that the power limit leaves: below the power at which the file's rates were stated, clocks fall."""
        if dtype not in self._reachable:
            peak, limit, rated = self.peak(dtype), self.power, self.spec.rated_power
            capped = limit is not None and rated is not None and not (num.plain(limit) and num.value(limit) >= rated)
            self._reachable[dtype] = roofline.power_capped_rate(peak, limit, rated) if capped else peak
        return self._reachable[dtype]

    @cached_property
    def backend_names(self) -> tuple[str, ...]:
        """What an engine may call this chip, the nearest name first: its file; vendor with HBM or architecture; vendor; or cpu."""
        spec = self.spec
        if spec.kind == "cpu":
            return (spec.id, "cpu")
        stacked = (f"{spec.vendor}-hbm",) if spec.memory.kind.startswith("HBM") else ()
        return (spec.id, *stacked, f"{spec.vendor}-{spec.architecture}", spec.vendor)

    @cached_property
    def clock(self) -> Number | None:
        """Cycles per second of its units, where the file gives them."""
        return self._figure("f_clk", "units", "clock") if self.spec.units else None

    @cached_property
    def unit_clocks(self) -> Number | None:
        """Cycles per second of all its units together."""
        return None if self.clock is None else self._figure("n_u", "units", "count") * self.clock

    @cached_property
    def price(self) -> Number | None:
        return self._figure("price", "price") if self.spec.price else None

    @cached_property
    def power(self) -> Number | None:
        return self._figure("TDP", "power") if self.spec.power else None

    @cached_property
    def host_link(self) -> Number:
        """Device to host, one way. Raises UsageError when the file does not say."""
        if not self.spec.host_link:
            raise UsageError(
                f"{self.spec.name}: its file gives no host_link, so nothing can be offloaded; add `host_link:` to it"
            )
        return self._figure("N_host", "host_link")

    @cached_property
    def host_memory(self) -> Number:
        """Bytes per second of the host's memory that fall to one device. Raises UsageError when the file gives no host_link either."""
        if self.spec.host_memory:
            return self._figure("W_host", "host_memory")
        return training.host_memory_beside(self.host_link)

    @cached_property
    def devices_per_host(self) -> Number:
        if self.spec.devices_per_host:
            return self._figure("n_host", "devices_per_host")
        return self.spec.network[0].size or 1 if self.spec.network else 1

    def constants(self, regime: str, kind: str, dtype: str = "any", variant: str = "") -> SimpleNamespace:
        """Efficiency constants of an operation class: the chip's own, else its kernel ones, else the defaults of its kind.

        A variant ("int4-weights", "bf16@vllm") has constants of its own where a file gives them, else those of its dtype.
        """
        key = (regime, kind, dtype, variant)
        found = self._constants.get(key)
        if found is None:
            found = self._constants[key] = self._resolve(regime, kind, dtype, variant)
        return found

    def engine_has_constants(self, kind: str) -> bool:
        """Whether the engine brings serving constants of its own for a class."""
        if self.engine is None:
            return False
        return kind in self.engine.efficiency or any(
            kind in table for _, table in self.engine.kernels(self.backend_names)
        )

    def has_constants(self, kind: str, name: str) -> bool:
        """Whether the chip's file or the defaults of its kind give kernel constants of a class under this very name."""
        key = ("knows", kind, name)  # asked of every layer's exchange, and a file does not change
        if key not in self.ways:
            self.ways[key] = any(name in table.get("kernel", {}).get(kind, {}) for table, _ in self._tables(kind))
        return bool(self.ways[key])

    def _resolve(self, regime: str, kind: str, dtype: str, variant: str) -> SimpleNamespace:
        backend = self._backend(regime, kind, dtype, variant)
        if backend is not None:
            return backend
        for table, document in self._tables(kind):
            for place in dict.fromkeys((regime, "kernel")):
                found = table.get(place, {}).get(kind, {})
                # experts have tables of kernels alone, which an engine without such kernels replaces too
                own = self._engine_kernels(place, kind) if found or kind == "routed_experts" else {}
                for name in (*_names(variant), *_names(dtype), "any"):
                    if name in own and self.engine is not None:
                        return self._lifted(own[name], self.engine.document, ("efficiency", kind, name), kind)
                    if name in found:
                        return self._lifted(found[name], document, ("efficiency", place, kind, name), kind)
        if kind in SETTINGS or self.ideal:
            return self._lifted(NEUTRAL, self.spec.document, (), kind)
        raise DataError(
            f"{display_path(self.spec.document.path)}: {self.spec.name} has no efficiency for operations of class {kind} in {dtype}; "
            f"add efficiency.{regime}.{kind}.any to that file or to hardware/defaults/{self.spec.kind}.yaml, or give --efficiency ideal"
        )

    def _backend(self, regime: str, kind: str, dtype: str, variant: str) -> SimpleNamespace | None:
        """What the engine says of its own kernels on this very chip, its generation or its vendor's; an option of a variant (packed+k,
        mxfp4@vllm+decode) may stand alone, for all formats."""
        if regime != "serving" or self.engine is None:
            return None
        for target, table in self.engine.kernels(self.backend_names):
            for name in (*_names(variant), *variant.split("+")[1:], dtype, "any"):
                if name in table.get(kind, {}):
                    path = ("backends", target, kind, name)
                    return self._lifted(table[kind][name], self.engine.document, path, kind)
        return None

    def _engine_kernels(self, place: str, kind: str) -> dict[str, Efficiency]:
        """What the engine says of its kernels of a class: it stands in for the constants that all engines share."""
        return self.engine.efficiency.get(kind, {}) if self.engine is not None and place == "serving" else {}

    def _tables(self, kind: str) -> Iterator[tuple[dict[str, Any], Document]]:
        """Where the constants of a class may stand; a complete profile takes kernels that nobody timed from its kind."""
        yield self.spec.efficiency, self.spec.document
        if kind not in SETTINGS or not self.spec.measured.get("complete"):
            defaults = load_defaults(self.spec.kind)
            yield defaults.efficiency, defaults.document

    def _lifted(self, entry: Efficiency, document: Document, path: tuple[str | int, ...], kind: str) -> SimpleNamespace:
        known = entry is not NEUTRAL and not self.ideal
        if self.ideal:  # what is hidden and what is done stay as they are, only nothing is lost on the way
            entry = IDEAL.model_copy(update={name: getattr(entry, name) for name in STRUCTURAL})
        values: dict[str, Any] = {"p": entry.p, "known": known, "simple": True}
        own = f"efficiency.{kind}.{path[-1]}." if self.override and path else ""
        for name, constant in CONSTANTS.items():
            key, given = f"efficiency.{kind}.{name}", getattr(entry, name)
            if own:  # a variant alone, such as efficiency.matmul.fp8.compute
                given = self.override.get(own + name, given)
            if constant.shaped and (num.present(given) or key in self.override):
                values["simple"] = False
            value = self.effective_constant(key, given)
            if self.lift.traced:
                source = self._cite(document, (*path, name), entry.source) + self._calibrated(key)
                value = self.lift(f"{constant.symbol}[{kind}]", value, constant.unit, source)
            values[name] = value
        return SimpleNamespace(**values)


def _check_calibration(spec: HardwareSpec) -> None:
    """Raises DataError with file:line for a calibrated constant that nothing reads."""
    for phase, table in spec.calibration.items():
        for name, found in table.items():
            for path in found.factors:
                try:
                    overrides.unit(spec, TIMES + path)
                except UsageError as error:
                    where = spec.document.location("calibration", phase, name, "factors", path)
                    raise DataError(f"{where}: {str(error).removeprefix(TIMES)}") from None


def _factors(override: dict[str, Number]) -> dict[str, Number]:
    """What an override multiplies, by the path of the constant."""
    return {key.removeprefix(TIMES): value for key, value in override.items() if key.startswith(TIMES)}


def _names(name: str) -> Iterator[str]:
    """Under which names constants may stand: software with options (torchtitan+async) falls back to all of them in order of the alphabet,
    to each option, then to the plain name."""
    yield name
    plain, *options = name.split("+")
    if options:
        yield "+".join((plain, *sorted(options)))
        yield from (f"{plain}+{option}" for option in options)
        yield plain


class _LevelNumbers:
    """One network level of a chip as numbers."""

    def __init__(self, chip: Chip, level: Level, index: int):
        self.chip, self.level, self.index = chip, level, index
        self.size: float = float(level.size or UNBOUNDED)
        name = f"network.{index}.bandwidth"
        value = chip.override.get(name, level.bandwidth.si)
        path = ("network", index, "bandwidth")
        self.bandwidth = chip.lift(
            f"N_{index}", value, "B/s", chip._cite(chip.spec.document, path, level.bandwidth.source)
        )
        latency = level.latency.si if level.latency and not chip.ideal else 0.0
        source = (
            chip._cite(chip.spec.document, ("network", index, "latency"), level.latency.source) if level.latency else ""
        )
        latency = chip.override.get(f"network.{index}.latency", latency)
        self.latency = chip.lift(f"alpha_{index}", latency, "s", source)

    @property
    def own(self) -> bool:
        """Whether the level's constants hold in every regime: beyond the host and over PCIe, where no shared fit has seen a run."""
        return self.index > 0 or self.level.kind == "pcie"

    def constants(self, regime: str, op: str) -> SimpleNamespace:
        """Collective constants at this level: the level's own in the kernel regime, beyond the host and over PCIe, else the chip's class `collective`."""
        chip, table = self.chip, self.level.efficiency
        key = (regime, "collective", op, str(self.index))
        if key not in chip._constants:
            entry = table.get(op) or table.get("any")
            if (
                entry is not None
                and not chip.ideal
                and (self.own or regime == "kernel" or "collective" not in chip.spec.efficiency.get(regime, {}))
            ):
                place = ("network", self.index, "efficiency", op if op in table else "any")
                chip._constants[key] = chip._lifted(entry, chip.spec.document, place, "collective")
            else:
                found = chip.constants(regime, "collective", op, self.level.kind)
                hop = self.latency if entry is None else found.per_hop
                chip._constants[key] = SimpleNamespace(**{**vars(found), "per_hop": hop})
        return chip._constants[key]
