"""What a search says of its layouts beside their numbers: what no published run supports, and which cannot be told apart."""

from __future__ import annotations

from typing import Any

from rooflinecli.render.formats import terminal

MARK = "*"  # beside a layout that no published run supports


def beyond(results: list[dict[str, Any]], width: int) -> list[str]:
    """A line for each layout that goes beyond published runs."""
    lines: list[str] = []
    for i, row in enumerate(results, 1):
        said = row.get("unsupported")
        lines += terminal.prose(f"{i}{MARK} {'; '.join(said)}", width, "   ") if said else []
    return lines


def within_uncertainty(result: dict[str, Any], layout: Any, width: int) -> list[str]:
    """Which layouts cannot be told apart, the simplest of them, and what would settle it; `layout` writes one."""
    found = result.get("tied")
    if not found:
        return []
    settles = found["separates"]
    said = (
        f"{found['layouts']:,} layouts, each the best of its split, cannot be told from the first; the simplest is "
        f"{layout(found['simplest'])} ({found['command']}). {settles[0].upper()}{settles[1:]}."
    )
    return ["", *terminal.prose(said, width)]
