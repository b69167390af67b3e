"""A chip as numbers: the hardware file read once, each figure lifted (plain, traced or perturbed) on the way in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from functools import cached_property
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from rooflinecli.core import num
from rooflinecli.core.errors import DataError, UsageError
from rooflinecli.core.lift import PLAIN, PlainLift
from rooflinecli.core.num import Number
from rooflinecli.formulas import roofline, training
from rooflinecli.price import overrides
from rooflinecli.price.overrides import TIMES
from rooflinecli.specs.document import Document
from rooflinecli.specs.efficiency import CONSTANTS, SETTINGS, Efficiency
from rooflinecli.specs.engine import ServingEngine
from rooflinecli.specs.hardware import HardwareSpec, Level, PowerDraw, load_defaults
from rooflinecli.specs.name_lookup import display_path

if TYPE_CHECKING:
    from rooflinecli.price.kernels import PricingRule

SHAPED = tuple(name for name, constant in CONSTANTS.items() if constant.shaped)
IDEAL = Efficiency(source="--efficiency ideal: every kernel reaches the roofline", error=0.0)
NEUTRAL = Efficiency(source="not given: neutral")
STRUCTURAL = tuple(name for name, constant in CONSTANTS.items() if constant.structural)
COLLISIONS = 1.4  # of unplanned flows, behind another tier: C4, arXiv 2406.04594
UNBOUNDED = 2.0**40  # devices at a level without a size; finite, so that floor() of it is a number


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
        scaled = {key.removeprefix(TIMES): value for key, value in self.override.items() if key.startswith(TIMES)}
        self.factors = {} if ideal else scaled
        self.bandwidth = self._figure("W", "memory", "bandwidth")
        self.capacity = self._figure("M_cap", "memory", "capacity")
        self._peaks: dict[str, Number] = {}
        self._power_limited: dict[str, Number] = {}
        self._constants: dict[tuple[str, ...], SimpleNamespace] = {}
        self.pricing_rules: dict[tuple[str, ...], PricingRule] = {}  # memo of price/kernels
        self._known_names: dict[tuple[str, str], bool] = {}
        self.levels = self._levels()

    def with_factors(self, factors: Mapping[str, Number]) -> Chip:
        """This chip with constants multiplied. Raises UsageError for an unknown path."""
        overrides.check(self.spec, (TIMES + path for path in factors))
        other = copy(self)
        other.factors, other._constants, other.pricing_rules = {} if self.ideal else dict(factors), {}, {}
        for path in () if self.ideal else self.factors.keys() & factors.keys():
            other.factors[path] = factors[path] * self.factors[path]
        other.factors |= {path: f for path, f in self.factors.items() if path not in factors}
        other.levels = other._levels()
        return other

    def _levels(self) -> list[LevelNumbers]:
        """The levels from the inside out."""
        levels: list[LevelNumbers] = []
        for i, level in enumerate(self.spec.network):
            levels.append(LevelNumbers(self, level, i, levels[-1] if levels else None))
        return levels

    def effective_constant(self, path: str, given: Number) -> Number:
        """A constant with its override, times its calibration factor."""
        value = self.override.get(path, given)
        return overrides.scaled(path, value, self.factors[path]) if path in self.factors else value

    def _calibrated(self, path: str) -> str:
        """Note for a constant's citation where a calibration factor changes it."""
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
        """The peak within the power limit: below the power at which the file's rates were stated, clocks fall."""
        if dtype not in self._power_limited:
            peak, limit, rated = self.peak(dtype), self.power, self.spec.rated_power
            capped = limit is not None and rated is not None and not (num.plain(limit) and num.value(limit) >= rated)
            self._power_limited[dtype] = roofline.power_capped_rate(peak, limit, rated) if capped else peak
        return self._power_limited[dtype]

    @cached_property
    def backend_names(self) -> tuple[str, ...]:
        """Names under which an engine may have a backend for this chip, the most specific first: its file; vendor with HBM or architecture;
        vendor; or cpu."""
        spec = self.spec
        if spec.kind == "cpu":
            return (spec.id, "cpu")
        stacked = (f"{spec.vendor}-hbm",) if spec.memory.kind.startswith("HBM") else ()
        return (spec.id, *stacked, f"{spec.vendor}-{spec.architecture}", spec.vendor)

    @cached_property
    def clock(self) -> Number | None:
        """Cycles per second of its SMs or cores, where the file has them."""
        return self._figure("f_clk", "units", "clock") if self.spec.units else None

    @cached_property
    def unit_clocks(self) -> Number | None:
        """Cycles per second of all its SMs or cores together."""
        return None if self.clock is None else self._figure("n_u", "units", "count") * self.clock

    @cached_property
    def price(self) -> Number | None:
        own = self.spec.price
        if own is None:
            return None
        words = ""
        if self.lift.traced:
            said = (f"{own.provider or ''} {own.date or ''}".strip(), own.basis, self.spec.citation(own.source))
            mark = "" if own.verified else " (unverified)"
            words = f"{self.spec.document.location('price')}; {', '.join(word for word in said if word)}{mark}"
        return self.lift("price", self.override.get("price", own.si), own.dimension, words)

    @cached_property
    def power(self) -> Number | None:
        return self._figure("TDP", "power") if self.spec.power else None

    @cached_property
    def rated_power(self) -> Number:
        """Watts at which the file's rates were stated. Only of a chip with a power."""
        document = self.spec.document
        return self.lift("TDP", self.spec.rated_power, "W", document.location("power") if self.lift.traced else "")

    @cached_property
    def draw(self) -> SimpleNamespace:
        """Constants of the power draw: the chip's own, those of its kind, else all of TDP; `basis` says which."""
        defaults = load_defaults(self.spec.kind)
        found, document, basis = self.spec.draw, self.spec.document, "measured"
        if found is None:
            found, document, basis = defaults.draw, defaults.document, "never measured"
        if found is None:
            found, basis = PowerDraw(static=1.0, error=0.0, source="TDP as an upper bound"), "TDP"
        values: dict[str, Any] = {"basis": basis}
        moe = found.error if found.error_moe is None else found.error_moe
        values["has_moe"] = found.moe is not None
        for name, value in (("static", found.static), ("moe", found.moe or 0.0), ("memory", found.memory), ("compute", found.compute), ("error", found.error), ("error_moe", moe)):  # fmt: skip
            cited = "" if basis == "TDP" or not self.lift.traced else document.location("draw")
            values[name] = self.lift(f"draw.{name}", value, "1", f"{cited}; {found.source}".removeprefix("; "))
        return SimpleNamespace(**values)

    @cached_property
    def host_link(self) -> Number:
        """Bytes per second between device and host, one way. Raises UsageError when the file has no host_link."""
        if not self.spec.host_link:
            raise UsageError(
                f"{self.spec.name}: its file gives no host_link, so nothing can be offloaded; add `host_link:` to it"
            )
        return self._figure("N_host", "host_link")

    @cached_property
    def host_memory(self) -> Number:
        """Bytes per second of host memory per device. Raises UsageError when the file has no host_link either."""
        if self.spec.host_memory:
            return self._figure("W_host", "host_memory")
        return training.default_host_memory_bandwidth(self.host_link)

    @cached_property
    def devices_per_host(self) -> Number:
        if self.spec.devices_per_host:
            return self._figure("n_host", "devices_per_host")
        return self.spec.network[0].size or 1 if self.spec.network else 1

    def constants(self, regime: str, kind: str, dtype: str = "any", variant: str = "") -> SimpleNamespace:
        """Efficiency constants of an operation class: the chip's own, else its kernel ones, else the defaults of its kind.

        A variant ("int4-weights", "bf16@vllm") has its own constants where a file has them, else those of its dtype.
        """
        key = (regime, kind, dtype, variant)
        constants = self._constants.get(key)
        if constants is None:
            constants = self._constants[key] = self._resolve(regime, kind, dtype, variant)
        return constants

    def engine_has_constants(self, kind: str) -> bool:
        """Whether the engine has its own serving constants for a class."""
        if self.engine is None:
            return False
        return kind in self.engine.efficiency or any(
            kind in table for _, table in self.engine.kernels(self.backend_names)
        )

    def has_constants(self, kind: str, name: str) -> bool:
        """Whether the chip's file or the defaults of its kind have kernel constants of a class under this very name."""
        key = (kind, name)
        if key not in self._known_names:
            tables = (table.get("kernel", {}).get(kind, {}) for table, _ in self._tables(kind))
            self._known_names[key] = any(name in table for table in tables)
        return self._known_names[key]

    def _resolve(self, regime: str, kind: str, dtype: str, variant: str) -> SimpleNamespace:
        backend = self._backend(regime, kind, dtype, variant)
        if backend is not None:
            return backend
        for table, document in self._tables(kind):
            for place in dict.fromkeys((regime, "kernel")):
                entries = table.get(place, {}).get(kind, {})
                engine: dict[
                    str, Efficiency
                ] = {}  # constants of an engine's kernels replace those that all engines share
                if self.engine is not None and place == "serving" and (entries or kind == "routed_experts"):
                    engine = self.engine.efficiency.get(kind, {})
                for name in (*_names(variant), *_names(dtype), "any"):
                    if name in engine and self.engine is not None:
                        return self._lifted(engine[name], self.engine.document, ("efficiency", kind, name), kind)
                    if name in entries:
                        return self._lifted(entries[name], document, ("efficiency", place, kind, name), kind)
        if kind in SETTINGS or self.ideal:
            return self._lifted(NEUTRAL, self.spec.document, (), kind)
        raise DataError(
            f"{display_path(self.spec.document.path)}: {self.spec.name} has no efficiency for operations of class {kind} in {dtype}; "
            f"add efficiency.{regime}.{kind}.any to that file or to hardware/defaults/{self.spec.kind}.yaml, or give --efficiency ideal"
        )

    def _backend(self, regime: str, kind: str, dtype: str, variant: str) -> SimpleNamespace | None:
        """Constants of the engine's kernels on this chip, its generation or its vendor's chips; an option of a variant (packed+k,
        mxfp4@vllm+decode) may have constants for all formats."""
        if regime != "serving" or self.engine is None:
            return None
        for target, table in self.engine.kernels(self.backend_names):
            for name in (*_names(variant), *variant.split("+")[1:], dtype, "any"):
                if name in table.get(kind, {}):
                    path = ("backends", target, kind, name)
                    return self._lifted(table[kind][name], self.engine.document, path, kind)
        return None

    def _tables(self, kind: str) -> Iterator[tuple[dict[str, Any], Document]]:
        """Tables that may have the constants of a class; a complete profile takes kernels that were not benchmarked from its kind."""
        yield self.spec.efficiency, self.spec.document
        if kind not in SETTINGS or not self.spec.measured.get("complete"):
            defaults = load_defaults(self.spec.kind)
            yield defaults.efficiency, defaults.document

    def _lifted(self, entry: Efficiency, document: Document, path: tuple[str | int, ...], kind: str) -> SimpleNamespace:
        known = entry is not NEUTRAL and not self.ideal
        if self.ideal:  # overlap and behavior of the framework stay as they are
            entry = IDEAL.with_changes(**{name: getattr(entry, name) for name in STRUCTURAL})
        values: dict[str, object] = {"p": entry.p, "known": known, "simple": True}
        if not (self.lift.traced or self.override or self.factors):  # nearly always
            values |= {name: getattr(entry, name) for name in CONSTANTS}
            values["simple"] = not any(num.present(getattr(entry, name)) for name in SHAPED)
            return SimpleNamespace(**values)
        of_variant = f"efficiency.{kind}.{path[-1]}." if self.override and path else ""
        for name, constant in CONSTANTS.items():
            key, given = f"efficiency.{kind}.{name}", getattr(entry, name)
            if of_variant:  # such as efficiency.matmul.fp8.compute
                given = self.override.get(of_variant + name, given)
            if constant.shaped and (num.present(given) or key in self.override):
                values["simple"] = False
            value = self.effective_constant(key, given)
            if self.lift.traced:
                source = self._cite(document, (*path, name), entry.source) + self._calibrated(key)
                value = self.lift(f"{constant.symbol}[{kind}]", value, constant.unit, source)
            values[name] = value
        return SimpleNamespace(**values)


def _check_calibration(spec: HardwareSpec) -> None:
    """Raises DataError with file:line for a calibrated constant that does not exist."""
    for phase, table in spec.calibration.items():
        for name, fit in table.items():
            for path in fit.factors:
                try:
                    overrides.unit(spec, TIMES + path)
                except UsageError as error:
                    where = spec.document.location("calibration", phase, name, "factors", path)
                    raise DataError(f"{where}: {str(error).removeprefix(TIMES)}") from None


def _names(name: str) -> Iterator[str]:
    """Names to look a constant up by: software with options (torchtitan+async) falls back to all options in alphabetical order, to each
    option, then to the plain name."""
    yield name
    plain, *options = name.split("+")
    if options:
        yield "+".join((plain, *sorted(options)))
        yield from (f"{plain}+{option}" for option in options)
        yield plain


class LevelNumbers:
    """One network level of a chip as numbers."""

    def __init__(self, chip: Chip, level: Level, index: int, inner: LevelNumbers | None):
        self.chip, self.level, self.index = chip, level, index
        self.size: float = float(level.size or UNBOUNDED)
        name = f"network.{index}.bandwidth"
        value = chip.override.get(name, level.bandwidth.si)
        path = ("network", index, "bandwidth")
        self.bandwidth = chip.lift(
            f"N_{index}", value, "B/s", chip._cite(chip.spec.document, path, level.bandwidth.source)
        )
        self.port: Number | None = None  # of a device in B/s, where the NIC hangs on its PCIe switch
        if inner is not None and level.kind == "fabric" and inner.level.kind == "pcie":
            self.port = inner.bandwidth
            self.bandwidth = num.minimum(self.bandwidth, self.port)  # NVIDIA-Certified Systems Configuration Guide
        self.tier = level.kind == "fabric" and index > 0 and chip.spec.network[index - 1].kind == "fabric"
        given, unknown = level.collisions, COLLISIONS if self.tier else 1.0
        cited = chip.spec.document.location("network", index) if chip.lift.traced else ""
        self.oversubscription = chip.lift(f"r_{index}", level.oversubscription, "1", cited)
        self.collisions = chip.lift(f"h_{index}", unknown if given is None else given, "1", cited)
        latency = level.latency.si if level.latency and not chip.ideal else 0.0
        source = (
            chip._cite(chip.spec.document, ("network", index, "latency"), level.latency.source) if level.latency else ""
        )
        latency = chip.override.get(f"network.{index}.latency", latency)
        self.latency = chip.lift(f"alpha_{index}", latency, "s", source)

    def constants(self, regime: str, op: str) -> SimpleNamespace:
        """Collective constants at this level: the level's own in the kernel regime, and beyond the host and over PCIe, where no shared fit
        has seen a run; else the chip's class `collective`."""
        chip, table = self.chip, self.level.efficiency
        key = (regime, "collective", op, str(self.index))
        if key not in chip._constants:
            entry = table.get(op) or table.get("any")
            own = self.index > 0 or self.level.kind == "pcie" or regime == "kernel"
            own = own or "collective" not in chip.spec.efficiency.get(regime, {})
            if entry is not None and not chip.ideal and own:
                place = ("network", self.index, "efficiency", op if op in table else "any")
                chip._constants[key] = chip._lifted(entry, chip.spec.document, place, "collective")
            else:
                shared = chip.constants(regime, "collective", op, self.level.kind)
                hop = self.latency if entry is None else shared.per_hop
                chip._constants[key] = SimpleNamespace(**{**vars(shared), "per_hop": hop})
        return chip._constants[key]
