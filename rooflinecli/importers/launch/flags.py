"""Flags of launch tools by their role, from flags.yaml."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import NamedTuple

import yaml


class ToolFlags(NamedTuple):
    """idle: patterns of flags that change no cost; the others as in flags.yaml."""

    idle: tuple[str, ...]
    switches: tuple[str, ...]
    many: tuple[str, ...]
    shaping: tuple[str, ...]
    short: dict[str, str]


@cache
def _file() -> dict[str, dict[str, str | dict[str, str]]]:
    data: dict[str, dict[str, str | dict[str, str]]] = yaml.safe_load(
        Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")
    )
    return data


def flags(tool: str) -> ToolFlags:
    """The flags of one tool of tools/."""
    entry = _file()[tool]
    idle, switches, many, shaping = (
        tuple(str(entry.get(n, "")).split()) for n in ("idle", "switches", "many", "shaping")
    )
    above = flags(str(entry["extends"])).idle if "extends" in entry else ()
    short = entry.get("short", {})
    return ToolFlags((*above, *idle), switches, many, shaping, short if isinstance(short, dict) else {})
