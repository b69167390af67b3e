"""What is known about a chip: a record per chip, a row per figure with where it was written."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator
from dataclasses import field
from datetime import date
from pathlib import Path

from rooflinecli.core.errors import DataError, UsageError, unknown
from rooflinecli.core.files import write
from rooflinecli.core.record import HIDDEN, OPTIONAL, SPREAD, Record
from rooflinecli.core.text import plural
from rooflinecli.formulas.collectives import switch_bisection, torus_bisection
from rooflinecli.formulas.roofline import ridge_point
from rooflinecli.price.fabrics import DIRECTIONS, slice_shape
from rooflinecli.specs import prices
from rooflinecli.specs.efficiency import Efficiency
from rooflinecli.specs.figure import Figure
from rooflinecli.specs.hardware import DTYPES, HardwareSpec, Level, load_hardware
from rooflinecli.specs.name_lookup import load_registry, split_count
from rooflinecli.specs.prices import choose


class ChipMemory(Record):
    """Memory of a device."""

    kind: str
    capacity_bytes: float
    bandwidth_bytes_per_s: float


class NetworkLevel(Record):
    """A network level: one way, per device or per link of a torus."""

    name: str
    kind: str
    size: int | None
    per: str
    bandwidth_bytes_per_s: float
    latency_s: float | None
    axes: int | None = field(default=None, metadata=OPTIONAL)
    shape: list[int] | None = field(default=None, metadata=OPTIONAL)
    wrap: str | None = field(default=None, metadata=OPTIONAL)


class System(Record):
    """All devices that a network level joins, a server, a rack or a pod; its bisection counts one direction."""

    level: str
    devices: int
    hosts: float | None
    dtype: str
    peak_flops_per_s: float
    capacity_bytes: float
    bandwidth_bytes_per_s: float
    bisection_bytes_per_s: float


class ChipPrice(Record):
    """The price that a chip's file has."""

    usd_per_hour: float
    provider: str | None
    date: str | None
    basis: str | None


class SourcedFigure(Record):
    """A figure as it is written, where, and what it comes from."""

    quantity: str
    value: float
    unit: str
    written: str
    basis: str | None
    note: str | None
    verified: bool
    source: str
    citation: str
    at: str


class SourcedConstants(Record):
    """Efficiency constants of a class of operations, their error, and where they are from."""

    class_: str
    constants: dict[str, float]
    error: float
    source: str
    note: str | None
    citation: str
    at: str


class Chip(Record):
    """A chip as the list and the comparison show it; `unverified` names the figures that nothing confirms."""

    schema: str
    name: str
    title: str
    aliases: list[str]
    vendor: str
    kind: str
    year: int | None
    file: str
    memory: ChipMemory
    peak_flops_per_s: dict[str, float]
    ridge_flop_per_byte: dict[str, float]
    network: list[NetworkLevel]
    systems: list[System]
    devices_per_host: int | None
    host_link_bytes_per_s: float | None
    power_w: float | None
    price: ChipPrice | None
    unverified: list[str]
    notes: list[str]


class Chips(Record):
    """Chips that were listed, or named and compared; `dtype` is the one that the list was filtered by."""

    chips: list[Chip]
    dtype: str | None = None
    compared: bool = field(default=False, metadata=HIDDEN)


class ChipSheet(Record):
    """A chip with every figure, where it was written and what it comes from, the efficiency constants of each operation class that were written down, and its sources."""

    chip: Chip = field(metadata=SPREAD)
    figures: list[SourcedFigure]
    efficiency: list[SourcedConstants]
    offer: str | None = field(default=None, metadata=OPTIONAL)
    sources: dict[str, str]


SCHEMA = "roofline/hardware/1"
HALF = ("bf16", "fp16")


def chips(
    vendor: str | None = None, min_memory: float | None = None, dtype: str | None = None
) -> tuple[Chips, list[DataError]]:
    """Every chip of the registry that passes the filters, and what is wrong with files that cannot be read.

    Raises UsageError for an unknown vendor or dtype.
    """
    if dtype is not None and dtype not in DTYPES:
        raise unknown("dtype", dtype, DTYPES)
    specs, broken = load_registry("hardware", load_hardware)
    vendors = {spec.vendor for spec in specs}
    if vendor is not None and vendor.lower() not in vendors:
        raise unknown("vendor", vendor, vendors)
    kept = [
        spec
        for spec in specs
        if (vendor is None or spec.vendor == vendor.lower())
        and (min_memory is None or spec.memory.capacity.si >= min_memory)
        and (dtype is None or dtype in spec.peak)
    ]
    listed = sorted(kept, key=lambda s: (s.kind, s.vendor, s.year or 0, s.id))
    return Chips(chips=[record(spec) for spec in listed], dtype=dtype), broken


def named(names: list[str]) -> Chips:
    """The chips asked for, in that order. Raises UsageError for a name given twice."""
    specs = [load_hardware(name) for name in names]
    for spec in specs:
        if sum(other.id == spec.id for other in specs) > 1:
            raise UsageError(f"{spec.id} is named twice; give each chip once")
    return Chips(chips=[record(spec) for spec in specs], compared=True)


def sheet(name: str) -> ChipSheet:
    """One chip with every figure's basis, citation and file:line, and its efficiency constants; of 'v5p-4096' or '16xH100' the totals of so many.
    Raises UsageError for a slice that is not offered."""
    count, chip = split_count("hardware", name)
    spec = load_hardware(chip)
    if count and (why := spec.not_rented(count)):
        raise UsageError(f"{name}: {why}")
    chosen = None if spec.price is not None else choose(spec)  # what an estimate's dollars come from
    return ChipSheet(
        chip=record(spec, count),
        figures=[
            SourcedFigure.like(
                figure,
                quantity=quantity,
                value=figure.si,
                unit=figure.dimension,
                written=figure.value if isinstance(figure.value, str) else f"{figure.value:g}",
                citation=spec.citation(figure.source),
                at=spec.document.location(*path),
            )
            for quantity, path, figure in _figures(spec)
        ],
        efficiency=list(_constants(spec)),
        sources=dict(spec.sources),
        offer=None if chosen is None else f"${chosen.offer.usd:.2f}/h ({chosen.offer.kind})",
    )


def record(spec: HardwareSpec, count: int | None = None) -> Chip:
    """One chip as numbers: what the list and the comparison show. Its systems are those of its network, or the one of `count` devices."""
    bandwidth, price = spec.memory.bandwidth.si, spec.price
    joined = [(level, math.prod(level.shape or [level.size])) for level in spec.network if level.size is not None]
    if count:
        joined = [(level, count) for level in spec.network if level.size is None or level.size >= count][:1]
    return Chip.like(
        spec,
        schema=SCHEMA,
        name=spec.id,
        title=spec.name,
        aliases=list(spec.aliases),
        file=spec.document.location().rpartition(":")[0],
        memory=ChipMemory(
            kind=spec.memory.kind, capacity_bytes=spec.memory.capacity.si, bandwidth_bytes_per_s=bandwidth
        ),
        peak_flops_per_s={dtype: spec.peak[dtype].si for dtype in DTYPES if dtype in spec.peak},
        ridge_flop_per_byte={d: float(ridge_point(spec.peak[d].si, bandwidth)) for d in DTYPES if d in spec.peak},
        network=[
            NetworkLevel.like(
                level,
                per="link" if level.kind == "torus" else "device",
                bandwidth_bytes_per_s=level.bandwidth.si,
                latency_s=level.latency.si if level.latency else None,
                wrap=level.wrap if level.kind == "torus" else None,
            )
            for level in spec.network
        ],
        systems=[_totals(spec, level, devices) for level, devices in joined],
        devices_per_host=int(spec.devices_per_host.si) if spec.devices_per_host else None,
        host_link_bytes_per_s=spec.host_link.si if spec.host_link else None,
        power_w=spec.power.si if spec.power else None,
        price=price and ChipPrice.like(price, usd_per_hour=price.si),
        unverified=[quantity for quantity, _, figure in _figures(spec) if not figure.verified],
        notes=list(spec.notes),
    )


def _totals(spec: HardwareSpec, level: Level, devices: int) -> System:
    """Devices that a level joins: all of them, or a slice, whose longest axis closes into a ring where its chips do that."""
    dtype = next((d for d in HALF if d in spec.peak), next(iter(spec.peak)))
    link, shape = level.bandwidth.si, level.shape
    if shape and math.prod(shape) != devices:
        shape = list(slice_shape(devices, level.axes or len(shape)) or (devices,))
    rings = DIRECTIONS[level.wrap](max(shape), 1, max(shape), devices) > 1 if shape else False
    bisection = torus_bisection(tuple(shape), link, rings) if shape else switch_bisection(devices, link)
    return System(
        level=level.name, devices=devices, hosts=math.ceil(devices / spec.devices_per_host.si) if spec.devices_per_host else None, dtype=dtype,
        peak_flops_per_s=devices * spec.peak[dtype].si, capacity_bytes=devices * spec.memory.capacity.si,
        bandwidth_bytes_per_s=devices * spec.memory.bandwidth.si, bisection_bytes_per_s=float(bisection),
    )  # fmt: skip


def _figures(spec: HardwareSpec) -> Iterator[tuple[str, tuple[str | int, ...], Figure]]:
    """(name, key path in the file, figure) for everything that has a value and a source."""
    for dtype, rate in spec.peak.items():
        yield f"peak.{dtype}", ("peak", dtype), rate
    yield "memory.capacity", ("memory", "capacity"), spec.memory.capacity
    yield "memory.bandwidth", ("memory", "bandwidth"), spec.memory.bandwidth
    for key, figure in spec.on_chip.items():
        yield f"on_chip.{key}", ("on_chip", key), figure
    if spec.units:
        yield "units.count", ("units", "count"), spec.units.count
        yield "units.clock", ("units", "clock"), spec.units.clock
        for dtype, count in spec.units.flops_per_clock.items():
            yield f"units.flops_per_clock.{dtype}", ("units", "flops_per_clock", dtype), count
    for i, level in enumerate(spec.network):
        yield f"network.{level.name}.bandwidth", ("network", i, "bandwidth"), level.bandwidth
        if level.latency:
            yield f"network.{level.name}.latency", ("network", i, "latency"), level.latency
    for key in ("devices_per_host", "host_link", "host_memory", "power", "price"):
        figure = getattr(spec, key)
        if figure is not None:
            yield key, (key,), figure


def _constants(spec: HardwareSpec) -> Iterator[SourcedConstants]:
    """Efficiency constants that the chip's own file gives, those left at their default aside; hardware/defaults has what is missing here."""
    found: list[tuple[str, Efficiency, tuple[str | int, ...]]] = [
        (f"{level.name}, {name}", item, ("network", i, "efficiency", name))
        for i, level in enumerate(spec.network)
        for name, item in level.efficiency.items()
    ]
    found += [
        (f"{regime} {cls} {dtype}", item, ("efficiency", regime, cls, dtype))
        for regime, classes in spec.efficiency.items()
        for cls, dtypes in classes.items()
        for dtype, item in dtypes.items()
    ]
    for name, item, path in found:
        yield SourcedConstants.like(
            item,
            class_=name,
            constants={k: v for k, v in item.given.items() if k not in ("source", "note", "error")},
            citation=spec.citation(item.source),
            at=spec.document.location(*path),
        )


Row = dict[str, str | float]  # an offer as its file has it


class Offer(Record):
    """An offer; age_s is its age today, file its line."""

    provider: str
    kind: str
    region: str
    instance: str
    devices: int
    usd_per_device_hour: float
    date: str
    age_s: float | None
    source: str
    file: str


class OffersAnswer(Record):
    """The offers of a chip, the cheapest first."""

    schema: str = "roofline/prices/1"
    hardware: str
    offers: list[Offer]


def offers(chip: str) -> OffersAnswer:
    """Every offer of a chip. Raises UsageError for an unknown one."""
    spec = load_hardware(chip)
    rows = [
        Offer.like(
            o, usd_per_device_hour=o.usd, age_s=None if o.age_days is None else o.age_days * 86400.0, file=o.where
        )
        for o in sorted(prices.offers(spec), key=lambda o: o.usd)
    ]
    return OffersAnswer(hardware=spec.name, offers=rows)


def import_catalog(path: Path, provider: str, folder: Path) -> list[str]:
    """Write the offers of a catalog into `folder`/CHIP.yaml, next to the shipped offers of other providers, and name the files; their day
    is that of the catalog. Raises DataError for a file that is no such catalog."""
    import yaml

    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        day = date.fromtimestamp(path.stat().st_mtime).isoformat()
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path}: cannot be read ({error}); give a SkyPilot catalog CSV") from None
    made = []
    for chip, catalog in sorted(imported(rows, provider, day, str(path)).items()):
        others = [
            {"provider": o.provider, "kind": o.kind, "devices": o.devices, "usd": o.usd, "instance": o.instance, "region": o.region, "date": o.date, "source": o.source}
            for o in prices.offers(load_hardware(chip))
            if o.provider != provider and "prices/" in o.where
        ]  # fmt: skip
        folder.mkdir(parents=True, exist_ok=True)
        table = {"sources": {"catalog": f"{path.name} ({day})"}, "offers": [*others, *catalog]}
        write(folder / f"{chip}.yaml", yaml.safe_dump(table, sort_keys=False, allow_unicode=True, width=10000))
        made.append(f"{folder / f'{chip}.yaml'}: {plural(len(catalog), 'offer')} of {provider}, {day}")
    names = {row["AcceleratorName"] for row in rows if row["AcceleratorName"]}
    if unknown := {name for name in names if _of_catalog(name) is None}:
        made.append(f"left out, chips that no file describes: {', '.join(sorted(unknown))}")
    return made


def _of_catalog(name: str) -> str | None:
    """The chip that a catalog calls so, None where no file describes it."""
    try:
        return load_hardware(name.removesuffix("-SXM")).id
    except UsageError:
        return None


def imported(rows: Iterable[dict[str, str]], provider: str, day: str, source: str) -> dict[str, list[Row]]:
    """Chip -> offers of a SkyPilot catalog (InstanceType, AcceleratorName, AcceleratorCount, Price, SpotPrice, Region); rows of
    chips that are not described here are left out. Raises DataError for a file without those columns."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        if "AcceleratorName" not in row or "Price" not in row:
            raise DataError(f"{source}: no column AcceleratorName or Price; expected a SkyPilot catalog CSV")
        try:
            count = int(float(row["AcceleratorCount"] or 0))
            chip, usd = _of_catalog(row["AcceleratorName"]), float(row["Price"]) / count
        except (ValueError, ZeroDivisionError):
            continue
        if chip is None:
            continue
        offer: Row = {"provider": provider, "kind": "on-demand", "devices": count, "usd": round(usd, 6)}
        if row.get("SpotPrice"):
            offer["spot"] = round(float(row["SpotPrice"]) / count, 6)
        more = {"instance": row.get("InstanceType"), "region": row.get("Region"), "date": day, "source": "catalog"}
        found.setdefault(chip, []).append(offer | {k: v for k, v in more.items() if v})
    return found
