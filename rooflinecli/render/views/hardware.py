"""Chips: the list, several side by side, one with the source of every figure, offers. `?` marks what nothing confirms."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path

from rooflinecli.core.text import plural
from rooflinecli.core.units import si
from rooflinecli.questions.hardware.answer import (
    HALF,
    Chip,
    Chips,
    ChipSheet,
    OffersAnswer,
    SourcedConstants,
    SourcedFigure,
)
from rooflinecli.render.blocks import Column, Headline, Note, Page, Pairs, Prose, Table, page, records
from rooflinecli.render.numbers import NONE, binary, error, short, text
from rooflinecli.specs.efficiency import CONSTANTS
from rooflinecli.specs.hardware import DTYPES

LEGEND = "? unconfirmed   - none, or not known   FLOP/B: ridge point, peak over bandwidth"
SIDE_BY_SIDE = 3  # chips of one table: as many as 80 columns hold


def view(answer: Chips | ChipSheet | OffersAnswer) -> Page:
    """One chip, its offers, several chips side by side, or the list: a line for each."""
    if not isinstance(answer, Chips):
        return sheet(answer) if isinstance(answer, ChipSheet) else prices(answer)
    if answer.compared:
        return comparison(answer)
    if not answer.chips:
        return page([Prose("no chip passes these filters; `roofline hardware` lists all of them")])
    second = answer.dtype if answer.dtype and answer.dtype not in HALF else "fp8"
    columns = (
        Column("chip", "name", text=True),
        Column("vendor", "vendor", text=True, drop=3),
        Column("kind", "kind", text=True, drop=1),
        Column("memory", _memory),
        Column("bandwidth", _bandwidth),
        Column("16-bit", lambda chip: _peak(chip, _half(chip))),
        Column(second, lambda chip: _peak(chip, second), drop=4),
        Column("FLOP/B", lambda chip: _ridge(chip, _half(chip)), drop=5),
        Column("link", lambda chip: _link(chip, 0), drop=6),
        Column("$/h", _price, drop=7),
    )
    about = f"{len(answer.chips)} chips. 16-bit, {second}: dense FLOP/s. bandwidth, link: per second; link: innermost, one way."
    return page([records(columns, answer.chips)], [Note(about), Note(LEGEND)])


def comparison(answer: Chips) -> Page:
    """Quantities down, chips across, a few of them in each table."""
    parts = [answer.chips[i : i + SIDE_BY_SIDE] for i in range(0, len(answer.chips), SIDE_BY_SIDE)]
    fastest = max(answer.chips, key=lambda c: c.peak_flops_per_s.get(_half(c) or "", 0.0)).name
    largest = max(answer.chips, key=lambda c: c.memory.capacity_bytes).name
    widest = max(answer.chips, key=lambda c: c.memory.bandwidth_bytes_per_s or 0.0).name
    return page(
        [Headline(f"Most 16-bit FLOP/s: {fastest}; most memory: {largest}; most bandwidth: {widest}")],
        *([_across(chips, True)] for chips in parts),
        [Note(LEGEND)],
        details=[[_across(chips, False)] for chips in parts],
        about="ridge points, fp64 and vector rates, host links, price sources",
    )


def _across(chips: list[Chip], first: bool) -> Table:
    """A row for each figure that a chip has: those of the first screen, or the others."""
    dtypes = [d for d in DTYPES if any(d in chip.peak_flops_per_s for chip in chips)]
    rows: list[tuple[str, Callable[[Chip], str]]] = [
        ("vendor", lambda c: c.vendor),
        ("year", lambda c: str(c.year or NONE)),
        ("memory", _memory),
        ("bandwidth, /s", _bandwidth),
        *((f"{d} FLOP/s", lambda c, d=d: _peak(c, d)) for d in dtypes),
        *((f"{d} FLOP/B", lambda c, d=d: _ridge(c, d)) for d in dtypes),
    ]
    for n in range(max(len(chip.network) for chip in chips)):
        rows += [
            (f"network {n + 1}", lambda c, n=n: c.network[n].name if n < len(c.network) else NONE),  # type: ignore[misc]
            ("  kind, size", lambda c, n=n: _size(c, n)),  # type: ignore[misc]
            ("  one way, /s", lambda c, n=n: _link(c, n)),  # type: ignore[misc]
        ]
    rows += [
        ("host link, /s", lambda c: _marked(c, "host_link", short(c.host_link_bytes_per_s, "B"))),
        ("power", lambda c: _marked(c, "power", text(c.power_w, "power_w"))),
        ("USD/h", _price),
        ("  provider", lambda c: c.price.provider if c.price and c.price.provider else NONE),
        ("  date", lambda c: c.price.date if c.price and c.price.date else NONE),
    ]
    cells = [(label, *(cell(chip) for chip in chips)) for label, cell in rows]
    late = ("fp64", "vector", "host link", "vendor")
    kept = [
        row
        for row in cells
        if set(row[1:]) != {NONE}
        and (row[0].startswith(late) or row[0].endswith(("FLOP/B", "date", "provider"))) != first
    ]
    return Table([Column("", text=True), *(Column(chip.name) for chip in chips)], kept)


def sheet(answer: ChipSheet) -> Page:
    """One chip: what it is in a line, what it sums up to in a server or pod, every figure; details have the source of each, and constants."""
    chip = answer.chip
    also = f" (also {', '.join(chip.aliases)})" if chip.aliases else ""
    identity = (f"{chip.name}{also}", f"{chip.vendor} {chip.kind}", chip.year, chip.file)
    return page(
        [Headline(_headline(chip, answer.offer)), Prose(", ".join(str(part) for part in identity if part))],
        [records(_SYSTEMS, chip.systems)] if chip.systems else [],
        [Pairs([(_label(f.quantity), _value(chip, f)) for f in answer.figures if _first(f.quantity)])],
        [Note(LEGEND)],
        details=[
            [Pairs([(_label(f.quantity), _value(chip, f)) for f in answer.figures if not _first(f.quantity)])],
            [
                Prose("where each figure comes from"),
                Pairs(
                    [
                        (_label(f.quantity), "; ".join(filter(None, (f"{f.source}, {Path(f.at).name}", f.note))))
                        for f in answer.figures
                    ]
                ),
            ],
            [Prose("notes"), *(Prose(f"- {note}", indent=2) for note in chip.notes)] if chip.notes else [],
            [Prose("sources"), *(Prose(f"{key}: {said}", indent=2) for key, said in answer.sources.items())],
            [
                Prose("efficiency constants (what is not here comes from hardware/defaults)"),
                *(Prose(f"{row.class_}: {_constants(row)}", indent=2) for row in answer.efficiency),
            ],
        ],
        about="caches, units, vector rates, sources, notes, constants",
    )


def _first(quantity: str) -> bool:
    """Whether a figure is of the first screen: matmul peaks, memory, network bandwidths, power and price."""
    kind, _, name = quantity.partition(".")
    if kind == "peak":
        return not name.startswith(("fp64", "vector"))
    return kind in ("memory", "power", "price") or (kind == "network" and name.endswith("bandwidth"))


def _headline(chip: Chip, offer: str | None = None) -> str:
    """'H100 SXM5 80GB: 989 TFLOP/s bf16, 80 GiB at 3.35 TB/s, ridge 295 FLOP/B, 700 W, $3.00/h'."""
    half = _half(chip)
    parts = [f"{si(chip.peak_flops_per_s[half], 'FLOP/s')} {half}"] if half else []
    parts.append(f"{binary(chip.memory.capacity_bytes)} at {si(chip.memory.bandwidth_bytes_per_s, 'B/s')}")
    parts += [f"ridge {_ridge(chip, half)} FLOP/B"] if half else []
    parts += [text(chip.power_w, "power_w")] if chip.power_w else []
    parts += [f"${chip.price.usd_per_hour:.2f}/h"] if chip.price else [offer] if offer else []
    # a system's name, one device's figures
    each = "per device, " if re.search(r"\d+ (GPUs|devices|chips)|\bpod\b|one rack", chip.title) else ""
    return f"{chip.title}: {each}{', '.join(parts)}"


# totals of the devices that each network level joins
_SYSTEMS = (
    Column("all of", "level", text=True),
    Column("devices", lambda s: f"{s.devices:,}"),
    Column("hosts", lambda s: NONE if s.hosts is None else f"{s.hosts:,g}", drop=1),
    Column("peak", lambda s: text(s.peak_flops_per_s, "flops_per_s")),
    Column("memory", lambda s: binary(s.capacity_bytes)),
    Column("bandwidth", "bandwidth_bytes_per_s", drop=2),
    Column("bisection, one way", lambda s: text(s.bisection_bytes_per_s, "bandwidth_bytes_per_s")),
)
# offers of a chip, the cheapest first
_OFFERS = (
    Column("provider", "provider", text=True),
    Column("kind", "kind", text=True),
    Column("region", "region", text=True),
    Column("instance", "instance", text=True, drop=4),
    Column("devices", lambda o: str(o.devices)),
    Column("$/h", lambda o: text(o.usd_per_device_hour, "usd_per_hour")),
    Column("date", "date", text=True),
    Column("file", "file", text=True, drop=4),
)
_CHEAPEST = 15  # offers of the first screen


def prices(answer: OffersAnswer) -> Page:
    """The offers of a chip, the cheapest first."""
    offers = answer.offers
    headline = f"{plural(len(offers), 'offer')} of {answer.hardware}"
    if offers:
        ends = [text(offers[i].usd_per_device_hour, "usd_per_hour") for i in (0, -1)]
        headline += f": {ends[0]} ({offers[0].provider}) to {ends[1]} ({offers[-1].provider}) per device"
    more = [records(_OFFERS, offers[_CHEAPEST:])] if offers[_CHEAPEST:] else []
    return page(
        [Headline(headline), records(_OFFERS, offers[:_CHEAPEST])],
        details=[more],
        about=f"{len(offers) - _CHEAPEST} dearer offers" if more else "",
    )


def _half(chip: Chip) -> str | None:
    return next((d for d in HALF if d in chip.peak_flops_per_s), None)


def _marked(chip: Chip, quantity: str, said: str) -> str:
    """The text of a figure with the mark of one that nothing confirms."""
    return said + "?" if quantity in chip.unverified and said != NONE else said


def _memory(chip: Chip) -> str:
    return _marked(chip, "memory.capacity", binary(chip.memory.capacity_bytes))


def _bandwidth(chip: Chip) -> str:
    return _marked(chip, "memory.bandwidth", short(chip.memory.bandwidth_bytes_per_s, "B"))


def _peak(chip: Chip, dtype: str | None) -> str:
    return _marked(chip, f"peak.{dtype}", short(chip.peak_flops_per_s.get(dtype or ""), ""))


def _ridge(chip: Chip, dtype: str | None) -> str:
    value = chip.ridge_flop_per_byte.get(dtype or "")
    return NONE if value is None else f"{value:.0f}" if value >= 10 else f"{value:.1f}"


def _size(chip: Chip, depth: int) -> str:
    if depth >= len(chip.network):
        return NONE
    level = chip.network[depth]
    return f"{level.kind} {level.size or 'any'}"


def _link(chip: Chip, depth: int) -> str:
    """One way; a torus as links x bandwidth of one."""
    if depth >= len(chip.network):
        return NONE
    level = chip.network[depth]
    links = f"{2 * level.axes}x" if level.axes else ""
    return _marked(chip, f"network.{level.name}.bandwidth", links + short(level.bandwidth_bytes_per_s, "B"))


def _price(chip: Chip) -> str:
    return _marked(chip, "price", f"{chip.price.usd_per_hour:.2f}") if chip.price else NONE


def _label(quantity: str) -> str:
    """'NVLink 4.bandwidth' for 'network.NVLink 4.bandwidth': short, and still unique on the page."""
    for prefix in ("network.", "on_chip.", "units."):
        quantity = quantity.removeprefix(prefix)
    return quantity


def _value(chip: Chip, figure: SourcedFigure) -> str:
    """'989.4 TFLOP/s, dense; ridge 295 FLOP/B': value and basis, for a peak its ridge point, for the price who and when."""
    parts = [figure.basis or ""]
    if figure.quantity.startswith("peak."):
        parts.append(f"ridge {_ridge(chip, figure.quantity.removeprefix('peak.'))} FLOP/B")
    if figure.quantity == "price" and chip.price:
        parts.append(", ".join(p for p in (chip.price.provider, chip.price.date) if p))
    more = "; ".join(filter(None, parts))
    return f"{figure.written}{'' if figure.verified else '?'}{f', {more}' if more else ''}"


def _constants(row: SourcedConstants) -> str:
    shown = [f"{name} {_constant(name, value)}" for name, value in row.constants.items()]
    note = f" ({row.note})" if row.note else ""
    return f"{', '.join(shown)}; ±{error(row.error)}{note} [{row.source}, {Path(row.at).name}]"


def _constant(name: str, value: float) -> str:
    if name in CONSTANTS and CONSTANTS[name].unit == "s":
        return text(value, "time_s")
    return "max" if math.isinf(value) else f"{value:g}"
