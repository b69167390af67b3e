"""Dated offers of chips (hardware/prices/CHIP.yaml): which one a price in words means, and how far those of a chip and kind spread."""

from __future__ import annotations

import os
import re
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import Any

from rooflinecli.core.errors import DataError, UsageError
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.core.num import quantile
from rooflinecli.specs.hardware import HardwareSpec
from rooflinecli.specs.name_lookup import first_file, search_path
from rooflinecli.specs.snapshots import table

KINDS = ("on-demand", "marketplace", "reserved-1y", "reserved-3y", "spot", "ownership")  # the first of a chip is meant
TERMS = {"reserved-1y": 365 * 86400.0, "reserved-3y": 3 * 365 * 86400.0}  # s that are paid for in any case
STALE_DAYS = 90


@dataclass(frozen=True)
class Offer:
    """A row that somebody offered: USD per device-hour at a provider, of a kind, on a day. `kw` is the power it was planned for."""

    provider: str
    kind: str
    usd: float
    devices: int
    instance: str
    region: str
    date: str
    source: str
    where: str
    kw: float | None = None

    @property
    def age_days(self) -> int | None:
        """Days since the offer; a date without a day is the first of its year or month."""
        parts = [int(part) for part in re.findall(r"\d+", self.date)[:3]]
        return (date.today() - date(*[*parts, 1, 1][:3])).days if parts else None


@dataclass(frozen=True)
class ChosenPrice:
    """An offer, and without a named provider 10 to 90% of the rows of that chip and kind, of which there are `count`."""

    offer: Offer
    low: float
    high: float
    count: int


def parse(text: str) -> str:
    """A price in words (`aws`, `spot`, `aws spot`, `reserved-3y`), normalized; empty for what is not made of kinds and providers."""
    words = re.split(r"[\s+:]+", text.strip().lower())
    known = {*KINDS, *providers()}
    return " ".join(words) if all(word in known for word in words) else ""


def providers() -> set[str]:
    """Everybody who offers a chip."""
    files = (path for folder in search_path("hardware") for path in (folder / "prices").glob("*.yaml"))
    return {
        name for path in files for name in re.findall(r"\bprovider: ([a-z0-9.-]+)", path.read_text(encoding="utf-8"))
    }


def offers(spec: HardwareSpec) -> tuple[Offer, ...]:
    """Every offer of a chip, those of the files that it extends included, and the price of its own file."""
    found: list[Offer] = []
    for name in spec.lineage:
        path = first_file("hardware", "prices", f"{name}.yaml")
        if path is not None:
            found += _offers(path, os.stat(path).st_mtime)
            break
    own = spec.price
    if own is not None:
        found.append(Offer((own.provider or "").lower(), "on-demand", own.si, 1, own.basis, "", own.date or "", spec.citation(own.source), spec.price_line))  # fmt: skip
    return tuple(found)


@lru_cache(maxsize=64)
def _offers(path: Path, stamp: float) -> tuple[Offer, ...]:
    return tuple(Offer(**row) for row in table(path, _rows))


def _rows(path: Path) -> list[dict[str, Any]]:
    """The offers of a file as plain data. Raises DataError."""
    from rooflinecli.specs.yaml_loader import read

    document = read(path, first="sources")
    found: list[dict[str, Any]] = []
    sources = document.data.get("sources", {})
    for i, row in enumerate(document.data.get("offers", ())):
        where = document.location("offers", i)
        try:
            # A row as an offer; one with a spot price as well is two
            kind, usd = str(row["kind"]), float(row["usd"])
            if kind not in KINDS or usd < 0:
                raise ValueError(f"kind {kind}, usd {usd:g}")
            about = (int(row["devices"]), str(row.get("instance", "")), str(row.get("region", "")), str(row["date"]), sources.get(row["source"], row["source"]), where)  # fmt: skip
            one = [Offer(str(row["provider"]), kind, usd, *about, row.get("kw"))]
            if row.get("spot") is not None:
                one.append(Offer(str(row["provider"]), "spot", float(row["spot"]), *about))
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(
                f"{where}: an offer needs provider, kind, usd, devices, date and source ({error!r})"
            ) from None
        found += map(vars, one)
    return found


def choose(spec: HardwareSpec, words: str = "", region: str = "") -> ChosenPrice | None:
    """The offer that words and a region mean: the cheapest of a provider's newest rows, else the middle one of the kind's, of an even number the cheaper.

    A row without a region stands for all of its provider's. None for a chip without offers; raises UsageError where none fits the words.
    """
    rows, asked = offers(spec), words.split()
    kind = next((word for word in asked if word in KINDS), "")
    providers = [word for word in asked if word not in KINDS]
    places = ("", region.lower()) if region else tuple({o.region.lower() for o in rows})
    matching = [
        o
        for o in rows
        if (not kind or o.kind == kind) and (not providers or o.provider in providers) and o.region.lower() in places
    ]
    if region and not matching:  # no row knows the region
        return choose(spec, words)
    if not matching:
        if not words:
            return None
        known = ", ".join(sorted({f"{o.provider} {o.kind}".strip() for o in rows})) or "none"
        raise UsageError(
            f"--price {words}: no such offer of {spec.name}; known are {known}; or give USD per device-hour", "price"
        )
    kind = kind or next(k for k in KINDS if any(o.kind == k for o in matching))
    matching = sorted((o for o in matching if o.kind == kind), key=lambda o: o.usd)
    if providers:
        newest = max(o.date for o in matching)
        best = next(o for o in matching if o.date == newest)
        return ChosenPrice(best, best.usd, best.usd, 1)
    low, high = (quantile([o.usd for o in matching], q) for q in (0.1, 0.9))
    own = next((o for o in matching if spec.price is not None and o.where == spec.price_line), None)
    middle = own if own is not None and not words else matching[(len(matching) - 1) // 2]
    return ChosenPrice(middle, min(low, middle.usd), max(high, middle.usd), len(matching))


def spread(spec: HardwareSpec, kind: str) -> tuple[float, ...]:
    """10 and 90% of the offers of a chip and kind; nothing without any."""
    rising = sorted(o.usd for o in offers(spec) if o.kind == kind)
    return (quantile(rising, 0.1), quantile(rising, 0.9)) if rising else ()


def hourly(spec: HardwareSpec, words: str = "", region: str = "") -> float | None:
    """USD per device-hour that words mean; the price of the chip's own file without any. Raises UsageError."""
    if not words and spec.price is not None:
        return float(spec.price.si)
    chosen = choose(spec, words, region)
    return None if chosen is None else chosen.offer.usd
