"""Flags of launch tools by their role, from flags.yaml."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml


class ToolFlags(NamedTuple):
    """reasons: patterns of flags that change no cost, each with why; noted: those that may, with what is assumed; the others as in flags.yaml."""

    reasons: dict[str, str]
    noted: dict[str, str]
    switches: tuple[str, ...]
    many: tuple[str, ...]
    shaping: tuple[str, ...]
    short: dict[str, str]
    read: dict[str, tuple[str, ...]]
    write: dict[str, str]
    launchers: tuple[str, ...] = ()
    image: str = ""


@cache
def _file(name: str) -> dict[str, dict[str, Any]]:
    data: dict[str, dict[str, Any]] = yaml.safe_load(Path(__file__).with_name(name).read_text(encoding="utf-8"))
    return data


def formats() -> dict[str, dict[str, str]]:
    """Names of number formats, from formats.yaml."""
    return _file("formats.yaml")


def rl_keys(tool: str) -> dict[str, list[str]]:
    """The keys of verl or NeMo RL that set each option, from rl_keys.yaml."""
    return {option: keys.split() for option, keys in _file("rl_keys.yaml")[tool].items()}


@cache
def flags(tool: str) -> ToolFlags:
    """The flags of one tool of tools/."""
    entry = _file("flags.yaml")[tool.replace(".", "_")]
    above = flags(entry["extends"]) if "extends" in entry else ToolFlags({}, {}, (), (), (), {}, {}, {})
    by_pattern = [
        {pattern: why for why, patterns in entry.get(kind, {}).items() for pattern in patterns.split()}
        for kind in ("idle", "noted")
    ]
    switches, many, shaping = (tuple(entry.get(kind, "").split()) for kind in ("switches", "many", "shaping"))
    return ToolFlags(
        {**above.reasons, **by_pattern[0]},
        {**above.noted, **by_pattern[1]},
        switches,
        many,
        shaping,
        entry.get("short", {}),
        {option: tuple(names.split()) for option, names in entry.get("read", {}).items()},
        {flag: option or "" for flag, option in entry.get("write", {}).items()},
        tuple(entry.get("launchers", ())),
        entry.get("image", ""),
    )
