"""Published measurements: rows of data_published/*.yaml, each with a citation."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from rooflinecli.specs.load import read
from rooflinecli.text import plural

FOLDER = Path(__file__).resolve().parent.parent / "data_published"


@lru_cache(maxsize=8)
def published(name: str) -> dict[str, Any]:
    """sources, excluded and rows of data_published/NAME.yaml."""
    return read(FOLDER / f"{name}.yaml").data


def excluded(name: str) -> list[str]:
    """What was left out and why, one sentence each."""
    return [f"{plural(len(e['ids']), 'row')} excluded: {e['reason']}." for e in published(name).get("excluded", [])]
