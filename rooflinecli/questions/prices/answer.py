"""Offers of a chip as a record, and a SkyPilot catalog as files of offers."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from datetime import date
from pathlib import Path

from rooflinecli.core.errors import DataError, UsageError
from rooflinecli.core.files import write
from rooflinecli.core.record import Record
from rooflinecli.specs import prices
from rooflinecli.specs.hardware import load_hardware

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
        text = yaml.safe_dump(
            {"sources": {"catalog": f"{path.name} ({day})"}, "offers": [*others, *catalog]},
            sort_keys=False,
            allow_unicode=True,
            width=10000,
        )
        write(folder / f"{chip}.yaml", text)
        made.append(f"{folder / f'{chip}.yaml'}: {len(catalog)} offers of {provider}, {day}")
    return made


def imported(rows: Iterable[dict[str, str]], provider: str, day: str, source: str) -> dict[str, list[Row]]:
    """Chip -> offers of a SkyPilot catalog (InstanceType, AcceleratorName, AcceleratorCount, Price, SpotPrice, Region); rows of
    chips that are not described here are left out. Raises DataError for a file without those columns."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        if "AcceleratorName" not in row or "Price" not in row:
            raise DataError(f"{source}: no column AcceleratorName or Price; expected a SkyPilot catalog CSV")
        try:
            count = int(float(row["AcceleratorCount"] or 0))
            chip = load_hardware(row["AcceleratorName"].removesuffix("-SXM")).id
            usd = float(row["Price"]) / count
        except (UsageError, ValueError, ZeroDivisionError):
            continue
        offer: Row = {"provider": provider, "kind": "on-demand", "devices": count, "usd": round(usd, 6)}
        if row.get("SpotPrice"):
            offer["spot"] = round(float(row["SpotPrice"]) / count, 6)
        more = {"instance": row.get("InstanceType"), "region": row.get("Region")}
        found.setdefault(chip, []).append(
            offer | {k: v for k, v in more.items() if v} | {"date": day, "source": "catalog"}
        )
    return found
