"""Published measurements: rows of published_runs/*.yaml, each with a citation."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from rooflinecli.core.record import Json
from rooflinecli.core.text import plural
from rooflinecli.specs.snapshots import table

FOLDER = Path(__file__).resolve().parent.parent / "published_runs"


@lru_cache(maxsize=8)
def published(name: str) -> Json:
    """sources, excluded and rows of published_runs/NAME.yaml."""
    found: Json = table(FOLDER / f"{name}.yaml")
    return found


def excluded(name: str) -> list[str]:
    """Return the excluded rows and the reasons, one sentence each."""
    return [f"{plural(len(e['ids']), 'row')} excluded: {e['reason']}." for e in published(name).get("excluded", [])]
