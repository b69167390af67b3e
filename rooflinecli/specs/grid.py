"""Carbon and water of electricity by region or country, and carbon of making devices (hardware/grid/intensity.yaml)."""

from __future__ import annotations

from functools import lru_cache

from rooflinecli.core.errors import unknown
from rooflinecli.core.fast_dataclass import dataclass
from rooflinecli.specs.document import Document
from rooflinecli.specs.name_lookup import first_file

HOURS_PER_YEAR = 8766.0


@dataclass(frozen=True)
class Grid:
    """Electricity of a place: g CO2e/kWh, liters/kWh where known, and where the figures stand."""

    grams_per_kwh: float
    liters_per_kwh: float | None
    source: str


@lru_cache(maxsize=1)
def _table() -> Document:
    from rooflinecli.specs.yaml_loader import read

    path = first_file("hardware", "grid", "intensity.yaml")
    assert path is not None  # the package has one
    return read(path, first="sources")


def grid(region: str) -> Grid:
    """The electricity of a cloud region, or of a country by its three letters. Raises UsageError."""
    document = _table()
    rows = {str(name).lower(): (name, row) for name, row in document.data["rows"].items()}
    within = {str(name).lower(): str(country).lower() for name, country in document.data["within"].items()}
    known = within.get(region.lower(), region.lower())
    if known not in rows:
        raise unknown("region", region, (*rows, *within), "countries have three letters", option="region")
    name, row = rows[known]
    water = row.get("liters")
    if water is None and "country" in row and row["country"].lower() in rows:
        water = rows[row["country"].lower()][1].get("liters")
    where = f"{document.location('rows', name)}; {name}, {row['date']}, {document.data['sources'][row['source']]}"
    return Grid(float(row["g"]), None if water is None else float(water), where)


def embodied_grams_per_device_hour() -> tuple[float, str]:
    """Carbon of making a device and its part of a server over the hours of its life, and the source."""
    document = _table()
    row = document.data["embodied"]
    kg = row["kg_per_device"] + row["kg_per_server"] / row["devices_per_server"]
    where = f"{document.location('embodied')}; {document.data['sources'][row['source']]}, {row['years']} years"
    return 1000.0 * kg / (row["years"] * HOURS_PER_YEAR), where
