"""A chip as YAML describes it: peaks per dtype, memory, network levels, price, power, efficiency constants."""

from __future__ import annotations

import os
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from rooflinecli.core import units
from rooflinecli.core.errors import unknown
from rooflinecli.specs.document import Document
from rooflinecli.specs.efficiency import Efficiency
from rooflinecli.specs.figure import (
    REQUIRED,
    ByteRate,
    Bytes,
    Count,
    Field,
    Figure,
    FileSpec,
    FlopRate,
    Hertz,
    OneLine,
    Price,
    Seconds,
    Spec,
    Through,
    Watts,
    Whole,
)
from rooflinecli.specs.name_lookup import find, first_file
from rooflinecli.specs.snapshots import load

Calibrated = Literal["train", "prefill", "ttft", "decode"]  # ttft: a first token under load; prefill: a prompt alone


class LocalResidual(Spec):
    """The residual of one row after the factors are applied."""

    at: dict[str, float] = Field(REQUIRED, "sizes of the row: devices, lengths, batch, parameters")
    move: float = Field(REQUIRED, "logarithm of what times there are multiplied by, fading with distance")


class Calibration(Spec):
    """One fit to a user's rows: of one phase, on this chip, with one engine or framework."""

    # fmt: off
    factors: dict[str, float] = Field(REQUIRED, "efficiency.CLASS.NAME or engine.NAME -> what the constant is multiplied by")
    error: float = Field(REQUIRED, "relative error (80%) of this phase within the range of the rows", gt=0)
    date: OneLine
    rows: Whole
    sources: list[OneLine] = Field(list, "the files that the rows were read from")
    before: float = Field(REQUIRED, "median |error| of the shipped constants on the rows held out, or on all", ge=0)
    after: float = Field(REQUIRED, "median |error| of these constants on the same rows", ge=0)
    range: dict[str, tuple[float, float]] = Field(dict, "least and most of each quantity among the rows; outside it, the error is wider")
    near: list[LocalResidual] = Field(list, "rows whose own deviation holds for questions like them: it fades as sizes differ by factors of e")
    # fmt: on
    note: str = ""


DTYPES = ("fp64", "fp64_matrix", "fp32", "tf32", "bf16", "fp16", "fp8", "fp6", "fp4", "int8", "int4", "vector_fp32")
REGIMES = ("kernel", "serving", "training")


class Memory(Spec):
    capacity: Bytes
    bandwidth: ByteRate
    kind: str = ""


class Units(Spec):
    """The matrix units whose count x clock x width is the peak: SMs or MXUs."""

    kind: str
    count: Count
    clock: Hertz
    flops_per_clock: dict[str, Count] = Field(dict, "per unit and dtype, multiply and add as two")
    shape: list[int] | None = Field(None, "rows x columns of a systolic array")


class Level(Spec):
    """One network level, from the inside out. `bandwidth` is per device, one way."""

    name: OneLine
    kind: Literal["switch", "mesh", "torus", "pcie", "fabric"]
    size: Whole | None = Field(None, "devices in one domain of this level; omitted: as many as asked for")
    bandwidth: ByteRate
    latency: Seconds | None = None
    # fmt: off
    oversubscription: float = Field(1.0, "bandwidth of the devices of an inner domain over that of its uplinks to this level", ge=1)
    collisions: float | None = Field(None, "fabric: how much longer flows take that share uplinks by hash (ECMP); 1 with adaptive or planned routes. " "Omitted: 1, and 1.4 (1 to 1.8) behind another fabric level", ge=1)
    rails: bool = Field(False, "fabric: ports of equal number in all hosts share a leaf switch; only all-to-alls leave it")
    in_network_reduction: bool = Field(False, "the switch sums for an all-reduce (SHARP): half the bytes")
    axes: int | None = Field(None, "torus: number of axes")
    wrap: Literal["always", "never", "axis-16", "cubes-4x4x4"] = Field("always", "torus: when an axis closes into a ring")
    shape: list[int] | None = Field(None, "torus: the whole pod")
    slice: list[int] | None = Field(None, "torus: axes of the slice in use, where optical switches join cubes otherwise than nearest to a cube")
    # fmt: on
    twisted: bool = Field(False, "torus: slices of k x k x 2k and k x 2k x 2k are twisted")
    efficiency: dict[str, Efficiency] = Field(dict, "per collective, or 'any'")


class Slices(Spec):
    """Counts of chips that a cloud rents as one slice, and several equal slices beyond the largest."""

    chips: list[int] = Field(REQUIRED, "chips of the slices that are no whole cubes")
    cubes: list[int] | None = Field(None, "largest slice of whole cubes of 4x4x4 chips, in cubes along each axis")
    cores_in_name: int = Field(1, "what a name such as v5p-4096 counts of each chip: 2 TensorCores, or 1")
    source: str

    @cached_property
    def single(self) -> list[int]:
        """Counts of one slice, rising."""
        a, b, c = self.cubes or (0, 0, 0)
        whole = {64 * i * j * k for i in range(1, a + 1) for j in range(1, b + 1) for k in range(1, c + 1)}
        return sorted({*self.chips, *whole})

    def up_to(self, most: int) -> list[int]:
        """Counts up to `most`, rising: one slice, then numbers of equal ones of at least half the largest."""
        largest = self.single[-1]
        several = {
            n * size
            for size in self.single
            if 2 * size >= largest
            for n in range(largest // size + 1, most // size + 1)
        }
        return sorted({n for n in (*self.single, *several) if n <= most})

    def nearest(self, count: int) -> list[int]:
        """The count itself where it is rented, else the next below and above."""
        found = self.up_to(count + self.single[-1])
        if count in found:
            return [count]
        below = [n for n in found if n < count]
        return [*below[-1:], found[len(below)]]


class PowerDraw(Spec):
    """Constants of formulas/energy.power_fraction with their 80% error; `error_moe` is that of models with experts."""

    static: float = Field(REQUIRED, "share of TDP that any load draws", ge=0, le=1)
    memory: float = Field(0.0, "share of TDP at full memory bandwidth, in proportion to it", ge=0)
    compute: float = Field(0.0, "share of TDP at peak FLOP/s, with the root of FLOP/s over peak", ge=0)
    moe: float | None = Field(
        None, "share of TDP in the decode steps of models with experts, where no use explains it", ge=0, le=1
    )
    error: float = Field(REQUIRED, "80% relative error of the power, each model left out", ge=0)
    error_moe: float | None = Field(None, "the same of models with experts", ge=0)
    source: str


def _on_chip_units(value: object) -> object:
    """Capacities and rates, as their units say."""
    from rooflinecli.specs.validation import validated

    if not isinstance(value, dict):
        return value
    rates = {k: str(v.get("value", "")).rstrip().endswith("/s") for k, v in value.items() if isinstance(v, dict)}
    return {k: validated(ByteRate if rates[k] else Bytes, v) if k in rates else v for k, v in value.items()}


def _known_dtypes(value: dict[str, FlopRate]) -> dict[str, FlopRate]:
    for dtype in value:
        if dtype not in DTYPES:
            raise ValueError(f"unknown dtype '{dtype}'; expected one of {', '.join(DTYPES)}")
    if not value:
        raise ValueError("no peak rate at all; give at least one dtype")
    return value


class HardwareSpec(FileSpec):
    """hardware/*.yaml. Every figure carries value, unit, source and basis."""

    DERIVED: ClassVar[tuple[str, ...]] = ("rated_power", "lineage", "price_line")
    name: OneLine
    aliases: list[OneLine] = Field(list)
    vendor: OneLine
    kind: Literal["gpu", "tpu", "cpu", "accelerator"]
    year: int | None = None
    architecture: OneLine = Field("", "generation, such as ada: engines may have constants of their own for it")
    sources: dict[str, str] = Field(dict, "short key -> citation; figures name a key")
    # fmt: off
    peak: Annotated[dict[str, FlopRate], Through(_known_dtypes)] = Field(REQUIRED, "dense matrix FLOP/s per device and dtype; never a sparse headline rate")
    memory: Memory
    on_chip: Annotated[dict[str, Figure], Through(_on_chip_units, before=True)] = Field(dict)
    units: Units | None = None
    network: list[Level] = Field(list)
    devices_per_host: Count | None = None
    slices: Slices | None = Field(None, "counts of chips that are rented; omitted: any")
    host_link: ByteRate | None = Field(None, "device to host, one way (PCIe, NVLink-C2C)")
    host_memory: ByteRate | None = Field(None, "bandwidth of the host's memory, reads and writes together, shared out to its devices")
    power: Watts | None = None
    draw: PowerDraw | None = Field(None, "power under load; omitted: that of its kind (hardware/defaults), else TDP")
    price: Price | None = None
    efficiency: dict[str, dict[str, dict[str, Efficiency]]] = Field(dict, "regime (kernel, serving, training) -> operation class -> dtype or 'any'")
    calibration: dict[Calibrated, dict[str, Calibration]] = Field(dict, "what `roofline calibrate` found: phase -> engine (serving) or software (training) -> factors")
    # fmt: on
    measured: dict[str, str | float | int] = Field(dict, "provenance of a measured profile")
    notes: list[str] = Field(list)

    def __post_init__(self) -> None:
        for regime in self.efficiency:
            if regime not in REGIMES:
                raise ValueError(f"efficiency.{regime}: unknown regime; expected one of {', '.join(REGIMES)}")
        sizes = [level.size for level in self.network if level.size]
        if sizes != sorted(sizes):
            raise ValueError("network levels must go from the inside out, each at least as large as the one before")
        if any(level.size is None for level in self.network[:-1]):
            raise ValueError("only the outermost network level may leave out its size")
        for what, figure in (
            ("memory.capacity", self.memory.capacity),
            ("memory.bandwidth", self.memory.bandwidth),
            *((f"peak.{k}", v) for k, v in self.peak.items()),
            *((f"network.{n.name}.bandwidth", n.bandwidth) for n in self.network),
        ):
            if figure.si <= 0:
                raise ValueError(f"{what} must be above zero, got {figure.value!r}")

    @cached_property
    def id(self) -> str:
        return self._document.path.stem

    @cached_property
    def lineage(self) -> list[str]:
        """The name of its file, and of those that this one extends."""
        names: list[str] = []
        document: Document | None = self._document
        while document is not None:
            names.append(document.path.stem)
            document = document.base_document
        return names

    @cached_property
    def price_line(self) -> str:
        """The line of its own price."""
        return self._document.location("price")

    @cached_property
    def rated_power(self) -> float | None:
        """Watts at which the peak rates were stated: those of the file that states the rates, which this one may extend."""
        stated = self._document
        while stated.base_document is not None and "peak" not in stated.own:
            stated = stated.base_document
        power = stated.data.get("power")
        return units.parse(power["value"], "W") if power is not None else None

    def not_rented(self, count: float) -> str:
        """Why no slice has that number of chips, with the nearest numbers that exist; '' where one has, and for a part of one host."""
        host = self.devices_per_host.si if self.devices_per_host is not None else 1
        nearest = self.slices.nearest(int(count)) if self.slices is not None and count > host else [count]
        if nearest == [count]:
            return ""
        return f"no slice of {self.name} has {count:,.0f} chips; the nearest have {' and '.join(f'{n:,}' for n in nearest)}"

    def citation(self, source: str) -> str:
        """The full citation behind a figure's source key."""
        return self.sources.get(source, source)


class Defaults(FileSpec):
    """hardware/defaults/KIND.yaml: efficiency constants for a chip without measurements."""

    sources: dict[str, str] = Field(dict, "short key -> citation")
    efficiency: dict[str, dict[str, dict[str, Efficiency]]]
    draw: PowerDraw | None = None


@lru_cache(maxsize=256)
def _load(path: str, stamp: float) -> HardwareSpec:
    return load(HardwareSpec, Path(path).resolve(), "hardware")


def hardware_from(document: Document) -> HardwareSpec:
    """A chip from a document that may stand in no file yet. Raises DataError."""
    from rooflinecli.specs.validation import validate

    return validate(HardwareSpec, document)


def load_hardware(name: str) -> HardwareSpec:
    """The chip called `name` (name, alias or YAML path). Raises UsageError or DataError."""
    path = os.path.abspath(find("hardware", name))
    return _load(path, os.stat(path).st_mtime)


@lru_cache(maxsize=8)
def load_defaults(kind: str) -> Defaults:
    path = first_file("hardware", "defaults", f"{kind}.yaml")
    if path is not None:
        return load(Defaults, path, "hardware")
    raise unknown("hardware kind", kind, ("gpu", "tpu", "cpu", "accelerator"))
