"""The report itself."""

from __future__ import annotations

from typing import Any

from rooflinecli.render.formats.json import dumps


def render(report: dict[str, Any]) -> str:
    return dumps(report)
