"""Shared code of training logs: the steady-state step time, after warm-up."""

from __future__ import annotations

import re
from collections.abc import Callable
from statistics import median

from rooflinecli.core.errors import DataError
from rooflinecli.importers.source import MeasuredRow, Options, Source, positive

WARM_UP = 2  # steps in which kernels are compiled, or that return before they ran
SPREAD = 0.15  # of the median: a larger spread is noted


def settled(
    source: Source,
    tool: str,
    steps: list[tuple[int, float]],
    unit: str = "s",
    options: Options | None = None,
    probe: Options | None = None,
) -> list[MeasuredRow]:
    """One reading for (line, value) of a run's steps: their median after warm-up, cited at the line that states it."""
    if not steps:
        return []
    kept = steps[WARM_UP:] if len(steps) > 2 * WARM_UP else steps[-1:] if len(steps) == 2 else steps
    middle = median(value for _, value in kept)
    line, value = min(kept, key=lambda step: abs(step[1] - middle))
    quarter = sorted(v for _, v in kept)
    apart = (quarter[3 * len(kept) // 4] - quarter[len(kept) // 4]) / middle
    notes = [f"median of {len(kept)} steps"] if len(kept) > 1 else ["a single step; warm-up may be in it"]
    if apart > SPREAD:
        notes.append(f"half of the steps lie {apart:.0%} apart")
    given = {key: v for key, v in (options or {}).items() if v is not None}
    return [MeasuredRow(source.at(line), tool, "train", value, unit, given, probe or {}, tuple(notes))]


def matches(
    source: Source, pattern: re.Pattern[str], begins: str, read: Callable[[re.Match[str]], float | None]
) -> list[tuple[int, float]]:
    """(line, value) of every line that matches. Raises DataError where the last line begins as one and is cut short."""
    found = []
    for line, text in enumerate(source.lines, start=1):
        match = pattern.search(text)
        value = read(match) if match else None
        if value is not None and value > 0:
            found.append((line, value))
    last = source.lines[-1]
    if last and begins in last and not pattern.search(last):
        raise DataError(f"{source.at(len(source.lines))}: a step's line ends before its time; was the file cut short?")
    return found


def dotted(source: Source, *names: str) -> dict[str, str]:
    """Arguments printed as `name ..... value` (Megatron) or `name: value` / `name = value` (YAML dumps), the first of each."""
    found = {}
    for name in names:
        match = re.search(
            rf"^(?:\[?\w+\]?:?\s|\S+:\s|.*\bConfig param\s)?\s*{name}\s*(?:\.{{3,}}|:|=)\s*([^\s,#]+)",
            source.plain,
            re.MULTILINE,
        )
        if match and match[1] not in ("None", "null"):
            found[name] = match[1]
    return found


def whole(text: str | None) -> int | None:
    """A count from text."""
    found = positive(text)
    return int(found) if found is not None and found == int(found) else None
