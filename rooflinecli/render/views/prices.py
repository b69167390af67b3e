"""The offers of a chip as a table."""

from __future__ import annotations

from rooflinecli.questions.prices.answer import OffersAnswer
from rooflinecli.render.blocks import Column, Headline, Page, Table, page
from rooflinecli.render.numbers import text

_COLUMNS = ("provider", "kind", "region", "instance", "devices", "usd_per_device_hour", "date", "file")


def view(answer: OffersAnswer) -> Page:
    """One line per offer, the cheapest first."""
    columns = [Column(name.replace("usd_per_device_hour", "$/h").replace("_", " "), text=name != "devices", drop=4 if name in ("instance", "file") else 0) for name in _COLUMNS]  # fmt: skip
    rows = [[text(row[name], name) if name == "usd_per_device_hour" else str(row[name]) for name in _COLUMNS] for row in answer.offers]  # fmt: skip
    return page(
        [Headline(f"{len(answer.offers)} offers of {answer.hardware}", (answer.hardware,))], [Table(columns, rows)]
    )
